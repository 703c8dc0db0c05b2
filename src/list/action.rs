//! The words by which lists say what happens to a sender.
//!
//! Anything that lets a sender pass must be known here whatever the format: a line
//! of an unexpected format must never turn an allowed sender into a listed one.

use super::row::Skip;

/// What a word beside an entry says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The sender is refused.
    Block,
    /// The sender passes.
    Allow,
    /// Something else.
    Other,
}

impl Action {
    /// What `word` says, in any case; nothing when it is no word for an action.
    pub(super) fn of(word: &[u8]) -> Option<Self> {
        // Most of what is asked are addresses and numbers.
        if word.len() > LONGEST || !word.first().is_some_and(u8::is_ascii_alphabetic) {
            return None;
        }
        let is = |words: &[&str]| {
            words
                .iter()
                .any(|known| known.as_bytes().eq_ignore_ascii_case(word))
        };
        if is(BLOCK) {
            Some(Self::Block)
        } else if is(ALLOW) {
            Some(Self::Allow)
        } else if is(OTHER) {
            Some(Self::Other)
        } else {
            None
        }
    }

    /// What a score says: positive is bad, as in rspamd and amavis.
    pub(super) fn of_score(word: &[u8]) -> Option<Self> {
        // `f64` also reads `inf`, `nan` and `1e5`, which no list means.
        if !word
            .iter()
            .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'+'))
        {
            return None;
        }
        let score: f64 = std::str::from_utf8(word).ok()?.parse().ok()?;
        Some(if score > 0.0 {
            Self::Block
        } else if score < 0.0 {
            Self::Allow
        } else {
            Self::Other
        })
    }

    /// Why a line with this action lists nobody; nothing when it does.
    pub(super) fn skip(self) -> Option<Skip> {
        match self {
            Self::Block => None,
            Self::Allow => Some(Skip::Allow),
            Self::Other => Some(Skip::OtherAction),
        }
    }
}

/// What a column or key named after an action says by yes and no: `"whitelisted": true`,
/// `"blocked": false`, `"enabled": false`. Yes to a block, and no to an allowance, say
/// nothing: the row is in a blocklist already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flag {
    /// The answer that takes the sender off the list.
    answer: bool,
    means: Action,
}

impl Flag {
    /// The flag that is called `name`, perhaps with `is` before it, or `ban` as phpBB has it.
    pub(super) fn of(name: &[u8]) -> Option<Self> {
        let prefix = [&b"is_"[..], b"ban_"].into_iter().find(|prefix| {
            name.get(..prefix.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        });
        let name = prefix
            .and_then(|prefix| name.get(prefix.len()..))
            .unwrap_or(name);
        let is = |words: &[&str]| {
            words
                .iter()
                .any(|known| known.as_bytes().eq_ignore_ascii_case(name))
        };
        let (answer, means) = match Action::of(name) {
            Some(Action::Allow) => (true, Action::Allow),
            _ if is(&["exclude", "excluded", "false_positive", "trust"]) => (true, Action::Allow),
            Some(Action::Block) => (false, Action::Other),
            // MISP: not meant for detection, so only mentioned.
            _ if is(&["active", "enabled", "to_ids"]) => (false, Action::Other),
            _ if is(&["deleted", "disabled", "inactive", "removed"]) => (true, Action::Other),
            _ => return None,
        };
        Some(Self { answer, means })
    }

    /// What `value` makes of the row, when that is no refusal.
    pub(super) fn read(self, value: &[u8]) -> Option<Action> {
        let is = |words: &[&[u8]]| words.iter().any(|word| word.eq_ignore_ascii_case(value));
        let answer = match () {
            () if is(&[b"true", b"yes", b"1"]) => true,
            () if is(&[b"false", b"no", b"0"]) => false,
            () => return None,
        };
        (answer == self.answer).then_some(self.means)
    }
}

/// No word below is longer.
const LONGEST: usize = 15;

const BLOCK: &[&str] = &[
    "ban",
    "banned",
    "blacklist",
    "blacklisted",
    "block",
    "blocked",
    "blocklist",
    "blocklisted",
    "deny",
    "denied",
    "denylist",
    "discard",
    "drop",
    "refuse",
    "refused",
    "reject",
    "rejected",
];

const ALLOW: &[&str] = &[
    "accept",
    "accepted",
    "allow",
    "allowed",
    "allowlist",
    "allowlisted",
    "exempt",
    "exempted",
    "ok",
    "permit",
    "permitted",
    "relay",
    "safelist",
    "safelisted",
    "trusted",
    "unblock",
    "unblocked",
    "welcomelist",
    "welcomelisted",
    "whitelist",
    "whitelisted",
];

const OTHER: &[&str] = &[
    "bcc",
    "defer",
    "defer_if_permit",
    "defer_if_reject",
    "delay",
    "dunno",
    "filter",
    "flag",
    "greylist",
    "hold",
    "ignore",
    "info",
    "junk",
    "log",
    "monitor",
    "none",
    "prepend",
    "quarantine",
    "redirect",
    "replace",
    "skip",
    "strip",
    "tag",
    "tempfail",
    "warn",
];
