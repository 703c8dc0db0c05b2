//! The words by which lists say what happens to a sender.
//!
//! Anything that lets a sender pass must be known here whatever the format: a line
//! of an unexpected format must never turn an allowed sender into a listed one.

use super::Skip;
use super::label::Meaning;

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

    /// What `word` says where an action is expected.
    pub(super) fn in_column(word: &[u8]) -> Option<Self> {
        let is = |words: &[&str]| {
            words
                .iter()
                .any(|known| known.as_bytes().eq_ignore_ascii_case(word))
        };
        let by_column = || {
            if is(ALLOW_IN_COLUMN) || is_phrase_of_allowance(word) {
                Some(Self::Allow)
            } else if is(BLOCK_IN_COLUMN) {
                Some(Self::Block)
            } else {
                None
            }
        };
        Self::of(word).or_else(by_column)
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

/// Whether several words say that somebody is allowed: `Safe senders`, `not spam`. A name, which
/// a sender chooses, has other words in it.
pub(super) fn is_phrase_of_allowance(text: &[u8]) -> bool {
    let is_phrase = text.len() <= LONGEST_PHRASE
        && text.first().is_some_and(|&b| b.is_ascii_alphabetic())
        && text.iter().any(|&b| matches!(b, b' ' | b'_' | b'-'))
        && text
            .iter()
            .all(|&b| b.is_ascii_alphabetic() || matches!(b, b' ' | b'_' | b'-'));
    if !is_phrase {
        return false;
    }
    let words = || text.split(|&b| matches!(b, b' ' | b'_' | b'-'));
    let is_one_of = |phrases: &[&str]| {
        phrases.iter().any(|phrase| {
            phrase
                .split(' ')
                .map(str::as_bytes)
                .eq(words().map(<[u8]>::to_ascii_lowercase))
        })
    };
    is_one_of(ALLOWING_PHRASES)
        || Meaning::all_known(text) && Meaning::of(text) == Meaning::Skipped(Skip::Allow)
}

/// What a word says in a column or key for the status of a sender, where most words say
/// nothing of the kind: `active`, `new`, `Sender`.
pub(super) fn status(word: &[u8]) -> Option<Action> {
    let is_past = [
        "delisted", "deleted", "disabled", "expired", "inactive", "removed", "resolved",
    ]
    .iter()
    .any(|known| known.as_bytes().eq_ignore_ascii_case(word));
    let is_passed = || {
        ALLOW_IN_COLUMN
            .iter()
            .any(|known| known.as_bytes().eq_ignore_ascii_case(word))
            && !AMBIGUOUS_STATUS
                .iter()
                .any(|known| known.eq_ignore_ascii_case(word))
    };
    match Action::of(word) {
        // `"status": "ok"` is that of an answer.
        Some(Action::Allow) if !word.eq_ignore_ascii_case(b"ok") => Some(Action::Allow),
        _ if is_phrase_of_allowance(word) => Some(Action::Allow),
        None if is_passed() => Some(Action::Allow),
        _ => is_past.then_some(Action::Other),
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

/// Of a status these may say that the entry, not the sender, was found good.
const AMBIGUOUS_STATUS: &[&[u8]] = &[b"approved", b"good", b"okay", b"pass", b"passed"];

/// The longest phrase that is looked at.
const LONGEST_PHRASE: usize = 64;

/// Two words that mean the opposite of one of them.
const ALLOWING_PHRASES: &[&str] = &[
    "do not block",
    "false positive",
    "known good",
    "never block",
    "no spam",
    "non spam",
    "not a spammer",
    "not block",
    "not blocked",
    "not listed",
    "not spam",
    "lista blanca",
    "lista bianca",
    "liste blanche",
];

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

/// Words that allow where an action is expected. Anywhere else they may be a name, which the
/// sender chooses.
const ALLOW_IN_COLUMN: &[&str] = &[
    "approved",
    "autoriser",
    "autoris\u{e9}",
    "clean",
    "consentito",
    "delivered",
    "erlauben",
    "erlaubt",
    "exception",
    "excluded",
    "freigegeben",
    "friend",
    "friendly",
    "good",
    "ham",
    "legit",
    "legitimate",
    "nonspam",
    "notspam",
    "okay",
    "pass",
    "passed",
    "permitido",
    "permitir",
    "positivliste",
    "safe",
    "sent",
    "toegestaan",
    "toestaan",
    "trust",
    "unban",
    "unbanned",
    "unlisted",
    "white",
    "zugelassen",
    "zulassen",
];

/// Words that refuse where an action is expected.
const BLOCK_IN_COLUMN: &[&str] = &[
    "ablehnen",
    "bad",
    "black",
    "blockieren",
    "blockiert",
    "blokkeren",
    "bloccare",
    "bloquear",
    "bloqueado",
    "bloquer",
    "bloqu\u{e9}",
    "gesperrt",
    "listed",
    "malicious",
    "phishing",
    "scam",
    "spam",
    "sperren",
    "sperrliste",
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
