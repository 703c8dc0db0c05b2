//! The negotiation: what the mail server offers, and what we accept.
//!
//! Both sides name a version, actions (changes that the milter may make) and steps (events that it
//! does not need, or does not answer). The answer never exceeds the offer: a server would reject
//! that, and then its default action applies to all mail. So the agreement is `wanted & offered`,
//! computed once, and nothing else is used later.

use super::macros::MacroLists;
use super::protocol::{
    Command, SMFI_PROT_VERSION, SMFI_PROT_VERSION_MIN, SMFI_V1_ACTS, SMFI_V1_PROT, SMFIF_ADDHDRS,
    SMFIF_CHGHDRS, SMFIF_QUARANTINE, SMFIF_SETSYMLIST, SMFIP_NOBODY, SMFIP_NODATA, SMFIP_NOHELO,
    SMFIP_NOUNKNOWN, SMFIP_NR_CONN, SMFIP_NR_HDR, SMFIP_NR_MAIL, SMFIP_SKIP,
};

/// What a handler may do.
const ACTIONS: u32 = SMFIF_ADDHDRS | SMFIF_CHGHDRS | SMFIF_QUARANTINE | SMFIF_SETSYMLIST;
/// What a handler does not see, and what it sees without an answer.
const STEPS: u32 = SMFIP_NOHELO
    | SMFIP_NODATA
    | SMFIP_NOBODY
    | SMFIP_NOUNKNOWN
    | SMFIP_NR_CONN
    | SMFIP_NR_MAIL
    | SMFIP_NR_HDR;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Agreed {
    pub(super) version: u32,
    pub(super) actions: u32,
    pub(super) steps: u32,
}

impl Agreed {
    /// Accepts the wanted part of an offer; `None` if it is too short or its version too old.
    pub(super) fn on(offer: &[u8]) -> Option<Self> {
        let (offered, _) = Self::of_numbers(offer)?;
        if offered.version < SMFI_PROT_VERSION_MIN {
            return None;
        }
        let or = |number, default| if number == 0 { default } else { number };
        let offered_steps = or(offered.steps, SMFI_V1_PROT);
        // A server that insists on sending the body can at least be stopped after the first chunk.
        let skip = match offered_steps & SMFIP_NOBODY {
            0 => SMFIP_SKIP,
            _ => 0,
        };
        Some(Self {
            version: offered.version.min(SMFI_PROT_VERSION),
            actions: ACTIONS & or(offered.actions, SMFI_V1_ACTS),
            steps: (STEPS | skip) & offered_steps,
        })
    }

    /// Reads what [`numbers`](Self::numbers) wrote. Returns it and the rest of the bytes.
    pub(super) fn of_numbers(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (numbers, rest) = bytes.split_first_chunk::<12>()?;
        let (numbers, _) = numbers.as_chunks();
        let [version, actions, steps] = numbers.try_into().ok()?;
        let agreed = Self {
            version: u32::from_be_bytes(version),
            actions: u32::from_be_bytes(actions),
            steps: u32::from_be_bytes(steps),
        };
        Some((agreed, rest))
    }

    pub(super) fn numbers(self) -> impl Iterator<Item = u8> {
        [self.version, self.actions, self.steps]
            .into_iter()
            .flat_map(u32::to_be_bytes)
    }

    /// Returns whether the server waits for an answer to this command.
    pub(super) fn is_awaited(self, command: Command) -> bool {
        let unanswered = match command {
            Command::Abort | Command::Macro | Command::QuitNewConnection | Command::Quit => {
                return false;
            }
            Command::Connect => SMFIP_NR_CONN,
            Command::Mail => SMFIP_NR_MAIL,
            Command::Header => SMFIP_NR_HDR,
            Command::Negotiate
            | Command::Helo
            | Command::Rcpt
            | Command::Data
            | Command::EndOfHeaders
            | Command::Body
            | Command::EndOfMessage
            | Command::Unknown => 0,
        };
        self.steps & unanswered == 0
    }

    pub(super) fn allows(self, action: u32) -> bool {
        self.actions & action == action
    }

    pub(super) fn skips(self) -> bool {
        self.steps & SMFIP_SKIP != 0
    }

    /// Writes the payload of our answer: the three numbers, then the macro lists.
    pub(super) fn write(self, macros: MacroLists, out: &mut Vec<u8>) {
        out.extend(self.numbers());
        for (stage, names) in macros.iter().filter(|_| self.allows(SMFIF_SETSYMLIST)) {
            out.extend((*stage as u32).to_be_bytes());
            for (n, name) in names.iter().enumerate() {
                let blank = if n > 0 { " " } else { "" };
                // A name of one letter has no braces.
                let (open, close) = if name.len() > 1 { ("{", "}") } else { ("", "") };
                for part in [blank, open, name, close] {
                    out.extend_from_slice(part.as_bytes());
                }
            }
            out.push(0);
        }
    }
}
