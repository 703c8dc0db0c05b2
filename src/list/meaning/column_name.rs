//! Names of columns and keys, cut into words: `isWhitelisted`, `Is Whitelisted`, `is_whitelisted`.

use super::answer::fold;
use crate::list::row::charset;

/// Maximum length of a name in bytes; the first row of some tables has whole sentences.
const MAX_BYTES: usize = 64;

/// A name in lower case and without accents, with one space between its words.
pub(crate) struct Name(String);

impl Name {
    /// Cuts a name into words. A capital letter also begins a word: `ExpirationDate`.
    pub(crate) fn of(name: &[u8]) -> Option<Self> {
        if name.len() > MAX_BYTES {
            return None;
        }
        let decoded = match std::str::from_utf8(name) {
            Ok(name) => name.to_owned(),
            Err(_) => charset::windows_1252(name),
        };
        let mut folded = String::with_capacity(decoded.len() + 8);
        let mut was_lower = false;
        for char in decoded.chars() {
            if !char.is_alphanumeric() {
                was_lower = false;
                if !folded.ends_with(' ') {
                    folded.push(' ');
                }
                continue;
            }
            if was_lower && char.is_uppercase() {
                folded.push(' ');
            }
            was_lower = char.is_lowercase();
            fold(char, &mut folded);
        }
        let trimmed = folded.trim();
        (!trimmed.is_empty()).then(|| Self(trimmed.to_owned()))
    }

    pub(crate) fn words(&self) -> impl Iterator<Item = &str> + Clone {
        self.0.split(' ')
    }

    /// Returns whether it is `known`, ignoring the separators between words.
    pub(crate) fn is(&self, known: &str) -> bool {
        let is_letter = |byte: &u8| !matches!(byte, b' ' | b'-' | b'/');
        let written = self.0.bytes().filter(is_letter);
        written.eq(known.bytes().filter(is_letter))
    }

    /// Returns whether one of its words is among `words`.
    pub(crate) fn has(&self, words: &[&str]) -> bool {
        self.words().any(|word| words.contains(&word))
    }

    /// Returns whether it is `known`, perhaps after words that do not matter.
    pub(crate) fn ends_with(&self, known: &str) -> bool {
        let rest = self.0.strip_suffix(known);
        self.is(known) || rest.is_some_and(|rest| rest.split_whitespace().all(is_filling))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// Returns whether a word does not matter beside the word that decides.
pub(super) fn is_filling(word: &str) -> bool {
    is_date_word(word) || FILLING.contains(&word)
}

/// Returns whether a word says that a column holds a day.
pub(super) fn is_date_word(word: &str) -> bool {
    [
        "at",
        "date",
        "datetime",
        "day",
        "since",
        "time",
        "timestamp",
        "ts",
        "utc",
        "when",
    ]
    .contains(&word)
}

const FILLING: &[&str] = &[
    "absender",
    "adresse",
    "adressen",
    "afzender",
    "eintrag",
    "expediteur",
    "mittente",
    "remitente",
    "address",
    "addresses",
    "and",
    "are",
    "as",
    "ban",
    "be",
    "been",
    "by",
    "currently",
    "domain",
    "domains",
    "e",
    "email",
    "emails",
    "entry",
    "flag",
    "flagged",
    "has",
    "host",
    "in",
    "is",
    "mail",
    "marked",
    "on",
    "our",
    "sender",
    "senders",
    "state",
    "status",
    "the",
    "this",
    "was",
];

/// Words that turn what follows into its opposite.
pub(super) const NEGATIONS: &[&str] = &["not", "no", "non", "never", "nicht", "kein"];
