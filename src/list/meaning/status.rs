//! What columns and phrases say about an entry, besides the words for actions.

use super::action::Action;
use super::answer::{Answer, is_blank, is_word, number};
use super::label::Meaning;
use super::phrase::Phrase;
use super::phrase_words::PAST;
use crate::list::row::Skip;
use crate::list::row::reject_reason::RejectReason;

impl Action {
    /// Returns what `word` says where an action is expected.
    pub(crate) fn in_column(word: &[u8]) -> Option<Self> {
        let by_column = || {
            if is_word(word, ALLOW_IN_COLUMN) || is_phrase_of_allowance(word) {
                Some(Self::Allow)
            } else if is_word(word, BLOCK_IN_COLUMN) {
                Some(Self::Block)
            } else {
                Phrase::of(word)
                    .whole()
                    .filter(|action| *action != Self::Other)
            }
        };
        Self::of(word).or_else(by_column)
    }
}

/// Returns what the value of a column or key for an action says; `None` if it says nothing.
///
/// # Errors
/// When the value is unknown.
pub(super) fn read_action(value: &[u8]) -> Result<Option<Action>, RejectReason> {
    if is_blank(value) {
        return Ok(Some(Action::Other));
    }
    // The code of a reply, perhaps with its text.
    let by_code = || match value {
        [b'5', b'0'..=b'9', b'0'..=b'9'] => Some(Action::Block),
        [b'4', b'0'..=b'9', b'0'..=b'9'] => Some(Action::Other),
        _ => None,
    };
    let action = Action::in_column(value)
        .or_else(by_code)
        .or_else(|| Phrase::of(value).in_place_of_action())
        .or_else(|| has_gone(value).then_some(Action::Other));
    match action {
        // A record of changes.
        None if is_word(value, ADDING) => Ok(None),
        None => Err(RejectReason::UnclearWord),
        action => Ok(action),
    }
}

/// Returns whether an action lists a sender, in a log of changes.
pub(crate) fn is_addition(value: &[u8]) -> bool {
    is_word(value, ADDING) || Action::in_column(value) == Some(Action::Block)
}

/// Returns whether an action takes back that a sender was listed, in a log of changes. It is not
/// about a message, as `released` and `deleted` may be.
pub(crate) fn is_withdrawal(value: &[u8]) -> bool {
    is_word(value, WITHDRAWING)
}

/// Returns whether a word says that the entry is gone. `deleted` may be about a message.
fn has_gone(value: &[u8]) -> bool {
    is_past(value) && !is_word(value, &["deleted", "geloescht", "geloscht", "supprime"])
}

/// Returns whether several words say that a sender is allowed: `Safe senders`, `not spam`. A
/// display name, which the sender chooses, has other words in it.
pub(crate) fn is_phrase_of_allowance(text: &[u8]) -> bool {
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

/// Returns what a word says in a column or key for the status of a sender, where most words do
/// not say whether it is listed: `active`, `new`, `Sender`.
pub(crate) fn status(word: &[u8]) -> Option<Action> {
    let is_passed = || is_word(word, ALLOW_IN_COLUMN) && !is_word(word, AMBIGUOUS_STATUS);
    match Action::of(word) {
        // `"status": "ok"` is that of a program's answer.
        Some(Action::Allow) if !word.eq_ignore_ascii_case(b"ok") => Some(Action::Allow),
        _ if is_phrase_of_allowance(word) => Some(Action::Allow),
        None if is_passed() => Some(Action::Allow),
        _ if is_past(word) => Some(Action::Other),
        _ if is_word(word, AMBIGUOUS_STATUS) => None,
        None => Phrase::of(word)
            .whole()
            .filter(|action| *action != Action::Block),
        _ => None,
    }
}

/// Returns whether a word, or a few, say that an entry is no longer on the list.
pub(crate) fn is_past(text: &[u8]) -> bool {
    if is_word(text, PAST) {
        return true;
    }
    let mut words = text
        .split(|byte| !byte.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .skip_while(|word| is_word(word, &["no", "not", "longer", "never"]));
    // `not active`, `no longer listed`
    let is_negated = text.get(..3).is_some_and(|start| {
        [&b"no "[..], b"not", b"no_", b"no-"].contains(&&*start.to_ascii_lowercase())
    });
    is_negated
        && text.len() <= LONGEST_PHRASE
        && words.next().is_some_and(|word| is_word(word, IN_FORCE))
        && words.next().is_none()
}

/// Returns what the value of a column or key for the status says.
///
/// # Errors
/// When the value may mean that the sender is not listed and, with `is_sure`, when it
/// is unknown.
pub(super) fn read_status(value: &[u8], is_sure: bool) -> Result<Option<Action>, RejectReason> {
    if is_blank(value) || value.eq_ignore_ascii_case(b"ok") {
        return Ok(None);
    }
    if let Some(action) = status(value) {
        return Ok(Some(action));
    }
    if is_word(value, AMBIGUOUS_STATUS) {
        return Err(RejectReason::UnclearWord);
    }
    if !is_sure {
        // Such as `class` 0, and `on the list` no.
        return match Answer::of(value) {
            Some(Answer::No) => Err(RejectReason::UnclearAnswer),
            _ => Ok(None),
        };
    }
    match Answer::of(value) {
        Some(Answer::No) => Ok(Some(Action::Other)),
        Some(Answer::Yes | Answer::Many) => Ok(None),
        None if Action::in_column(value) == Some(Action::Block) => Ok(Some(Action::Block)),
        None if is_word(value, IN_FORCE) || is_word(value, ADDING) => Ok(None),
        None if Phrase::of(value).is_active() => Ok(None),
        None => Err(RejectReason::UnclearWord),
    }
}

/// Returns what the value of a column or key for a score says: positive is bad.
///
/// # Errors
/// When it is neither a number nor a known word, and for a probability below one half.
pub(super) fn read_score(
    value: &[u8],
    is_probability: bool,
) -> Result<Option<Action>, RejectReason> {
    if is_blank(value) {
        return Ok(None);
    }
    let Some(score) = number(value) else {
        return match Action::in_column(value) {
            Some(action) => Ok(Some(action)),
            None if is_word(value, LEVELS) => Ok(None),
            None if value.first().is_some_and(|b| matches!(b, b'1'..=b'9')) => Ok(None),
            None => Err(RejectReason::UnclearWord),
        };
    };
    let share = if value.ends_with(b"%") || score > 1.0 {
        score / 100.0
    } else {
        score
    };
    if score < 0.0 {
        Ok(Some(Action::Allow))
    } else if score == 0.0 {
        Ok(Some(Action::Other))
    } else if is_probability && share < 0.5 {
        Err(RejectReason::UnclearWord)
    } else {
        Ok(None)
    }
}

/// Returns what a white-or-black column of amavis says: `W`, `B`, blank, or a score.
///
/// # Errors
/// When it says something else.
pub(super) fn read_white_or_black(value: &[u8]) -> Result<Option<Action>, RejectReason> {
    match value {
        b"" => Ok(Some(Action::Other)),
        b"W" | b"w" | b"Y" | b"y" => Ok(Some(Action::Allow)),
        b"B" | b"b" | b"N" | b"n" => Ok(Some(Action::Block)),
        _ if number(value).is_some() => read_score(value, false),
        _ => Action::in_column(value)
            .map(Some)
            .ok_or(RejectReason::UnclearAnswer),
    }
}

/// Words for an entry that is added or changed.
const ADDING: &[&str] = &[
    "+", "add", "create", "created", "insert", "inserted", "modified", "modify", "update",
    "updated", "upsert",
];

/// Words for an entry that is taken off.
const WITHDRAWING: &[&str] = &[
    "-",
    "del",
    "delete",
    "delist",
    "delisted",
    "remove",
    "removed",
    "unban",
    "unbanned",
    "unblock",
    "unblocked",
    "unlist",
    "unlisted",
];

/// Words for an active entry.
const IN_FORCE: &[&str] = &[
    "actief",
    "actif",
    "active",
    "activo",
    "added",
    "aktiv",
    "attivo",
    "confirmed",
    "current",
    "detected",
    "enabled",
    "known",
    "listed",
    "live",
    "new",
    "online",
    "open",
    "permanent",
    "published",
    "reported",
    "temporary",
    "valid",
    "verified",
];

/// Words for scores; all of them are bad.
const LEVELS: &[&str] = &[
    "low",
    "medium",
    "moderate",
    "high",
    "very high",
    "severe",
    "critical",
    "max",
];

/// As a status, these may say that the entry, not the sender, was found good.
const AMBIGUOUS_STATUS: &[&str] = &["approved", "good", "okay", "pass", "passed"];

/// Phrases that mean the opposite of one of their words.
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

/// Words that allow where an action is expected. Elsewhere they may be a display name, which the
/// sender chooses.
const ALLOW_IN_COLUMN: &[&str] = &[
    "approved",
    "autoriser",
    "autorise",
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
    "bloque",
    "gesperrt",
    "listed",
    "malicious",
    "phishing",
    "scam",
    "spam",
    "sperren",
    "sperrliste",
];

/// Maximum length of a phrase in bytes.
const LONGEST_PHRASE: usize = 64;
