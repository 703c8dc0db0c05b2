//! The codes of the protocol, with their names in libmilter's `mfdef.h` and `mfapi.h`. No other
//! code in the program writes them as numbers.

use blocklist_filter::base::named::named;

named! {
    /// A packet from the mail server: its code, and its name in libmilter.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(u8)]
    pub enum Command {
        /// The message is abandoned.
        Abort(b'A') = "SMFIC_ABORT",
        /// A part of the body.
        Body(b'B') = "SMFIC_BODY",
        /// A client has connected to the mail server.
        Connect(b'C') = "SMFIC_CONNECT",
        /// Macros for the next command.
        Macro(b'D') = "SMFIC_MACRO",
        /// The end of the message.
        EndOfMessage(b'E') = "SMFIC_BODYEOB",
        /// HELO or EHLO.
        Helo(b'H') = "SMFIC_HELO",
        /// The client has disconnected, another one follows.
        QuitNewConnection(b'K') = "SMFIC_QUIT_NC",
        /// One header.
        Header(b'L') = "SMFIC_HEADER",
        /// MAIL.
        Mail(b'M') = "SMFIC_MAIL",
        /// The end of the headers.
        EndOfHeaders(b'N') = "SMFIC_EOH",
        /// The negotiation.
        Negotiate(b'O') = "SMFIC_OPTNEG",
        /// The mail server ends the connection.
        Quit(b'Q') = "SMFIC_QUIT",
        /// RCPT.
        Rcpt(b'R') = "SMFIC_RCPT",
        /// DATA.
        Data(b'T') = "SMFIC_DATA",
        /// An SMTP command that the mail server does not know.
        Unknown(b'U') = "SMFIC_UNKNOWN",
    }
}

impl Command {
    /// Returns the command with this code, if there is one.
    #[expect(
        clippy::indexing_slicing,
        reason = "the table has a place for each byte"
    )]
    pub(super) fn of_code(code: u8) -> Option<Self> {
        const BY_CODE: [Option<Command>; 256] = {
            let mut table = [None; 256];
            let mut at = 0;
            while at < Command::ALL.len() {
                let command = Command::ALL[at];
                table[command.code() as usize] = Some(command);
                at += 1;
            }
            table
        };
        BY_CODE[usize::from(code)]
    }

    /// Returns its code in a packet.
    pub(super) const fn code(self) -> u8 {
        self as u8
    }
}

/// The steps whose macros can be requested (`SMFIM_*`). Their numbers in the negotiation are not in
/// the order of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum MacroStage {
    /// `SMFIM_CONNECT`
    Connect = 0,
    /// `SMFIM_HELO`
    Helo = 1,
    /// `SMFIM_ENVFROM`
    Mail = 2,
    /// `SMFIM_ENVRCPT`
    Rcpt = 3,
    /// `SMFIM_DATA`
    Data = 4,
    /// `SMFIM_EOM`
    EndOfMessage = 5,
    /// `SMFIM_EOH`
    EndOfHeaders = 6,
}

pub(super) const SMFI_PROT_VERSION: u32 = 6;
/// The oldest version that mail servers still speak.
pub(super) const SMFI_PROT_VERSION_MIN: u32 = 2;
// The meaning of an offer without actions or steps: those of version 1.
pub(super) const SMFI_V1_ACTS: u32 = 0x0f;
pub(super) const SMFI_V1_PROT: u32 = 0x3f;

// Families of the client's address in SMFIC_CONNECT; SMFIA_UNKNOWN is 'U'.
pub(super) const SMFIA_UNIX: u8 = b'L';
pub(super) const SMFIA_INET: u8 = b'4';
pub(super) const SMFIA_INET6: u8 = b'6';

// Answers to a command.
pub(super) const SMFIR_CONTINUE: u8 = b'c';
pub(super) const SMFIR_ACCEPT: u8 = b'a';
pub(super) const SMFIR_REJECT: u8 = b'r';
pub(super) const SMFIR_TEMPFAIL: u8 = b't';
pub(super) const SMFIR_DISCARD: u8 = b'd';
pub(super) const SMFIR_REPLYCODE: u8 = b'y';
/// Skip the rest of the body.
pub(super) const SMFIR_SKIP: u8 = b's';

// Changes to a message, before the answer to its end.
pub(super) const SMFIR_ADDHEADER: u8 = b'h';
pub(super) const SMFIR_CHGHEADER: u8 = b'm';
pub(super) const SMFIR_QUARANTINE: u8 = b'q';

// Changes that a milter may make, if both sides agree.
pub(super) const SMFIF_ADDHDRS: u32 = 0x1;
pub(super) const SMFIF_CHGHDRS: u32 = 0x10;
pub(super) const SMFIF_QUARANTINE: u32 = 0x20;
/// Requesting macros.
pub(super) const SMFIF_SETSYMLIST: u32 = 0x100;

// Steps that are omitted (NO), or that get no reply (NR), if both sides agree.
pub(super) const SMFIP_NOHELO: u32 = 0x2;
pub(super) const SMFIP_NOBODY: u32 = 0x10;
pub(super) const SMFIP_NR_HDR: u32 = 0x80;
pub(super) const SMFIP_NOUNKNOWN: u32 = 0x100;
pub(super) const SMFIP_NODATA: u32 = 0x200;
/// `SMFIR_SKIP` is a possible answer.
pub(super) const SMFIP_SKIP: u32 = 0x400;
pub(super) const SMFIP_NR_CONN: u32 = 0x1000;
pub(super) const SMFIP_NR_MAIL: u32 = 0x4000;
