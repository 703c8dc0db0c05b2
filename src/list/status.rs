//! What columns and phrases say about an entry, besides the words for actions.

use super::action::Action;
use super::label::Meaning;
use super::row::Skip;

impl Action {
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

/// Of a status these may say that the entry, not the sender, was found good.
const AMBIGUOUS_STATUS: &[&[u8]] = &[b"approved", b"good", b"okay", b"pass", b"passed"];

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

/// The longest phrase that is looked at.
const LONGEST_PHRASE: usize = 64;
