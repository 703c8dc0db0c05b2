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
