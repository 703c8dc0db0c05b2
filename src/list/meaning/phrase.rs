//! What a few words say about an entry: `not spam`, `Block sender`, `no longer listed`,
//! `kein Spam`.
//!
//! ```text
//!   Block and delete           blocks: the first word that decides counts
//!   do not block!              allows: a negation reverses the next word
//!   is whitelisted, ticket 5   allows, whatever follows
//!   Block unless trusted       unclear: a later word says the contrary
//!   safe harbor                nothing: `safe` does not count beside an unknown word
//! ```

use super::action::Action;
use super::column_name::Name;
use super::phrase_words::{Word, is_mistake};

/// Maximum length of a phrase that is read, in bytes.
const MAX_BYTES: usize = 64;

/// What a few words say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Phrase {
    /// What the first deciding word says about the entry: [`Action::Other`] if the entry has ended.
    first: Option<Action>,
    /// The first deciding word also decides beside unknown words, and comes before them.
    is_strong: bool,
    /// A later word says the contrary.
    is_contradicted: bool,
    /// A later word says that what the first one says is over.
    has_ended: bool,
    /// A word is unknown.
    has_unknown: bool,
    /// `do not block`, `listed by mistake`, anywhere in the text.
    is_refuted: bool,
    /// It says that something else happens to the sender.
    is_other: bool,
    /// It says that the entry is active.
    is_active: bool,
}

impl Phrase {
    /// Reads the words of a text of at most [`MAX_BYTES`] bytes.
    pub(crate) fn of(text: &[u8]) -> Self {
        let mut phrase = Self::default();
        // Most texts are numbers and addresses.
        let has_letters = text.iter().any(|b| b.is_ascii_alphabetic() || *b >= 0x80);
        if !has_letters || text.contains(&b'@') {
            phrase.has_unknown = true;
            return phrase;
        }
        let Some(name) = Name::of(text) else {
            phrase.has_unknown = true;
            return phrase;
        };
        let words: Vec<&str> = name.words().collect();
        let mut is_negated = false;
        let mut before = None;
        let mut rest = words.as_slice();
        while let [word, after @ ..] = rest {
            rest = after;
            if is_mistake(word, before.replace(word)) {
                phrase.is_refuted = true;
                phrase.is_contradicted = true;
                continue;
            }
            if let Some(action) = pair(word, after) {
                rest = after.get(1..).unwrap_or_default();
                phrase.says(action, true);
                is_negated = false;
                continue;
            }
            let (said, is_strong) = Word::of(word);
            let (action, is_strong) = match (said, is_negated) {
                (Word::Not, _) => {
                    is_negated = true;
                    continue;
                }
                (Word::Filling, _) => continue,
                (Word::Unknown, _) => {
                    phrase.has_unknown |= !word.bytes().all(|b| b.is_ascii_digit());
                    is_negated = false;
                    continue;
                }
                (Word::Blocks, false) | (Word::Allows, true) => (Action::Block, is_strong),
                (Word::Blocks, true) => {
                    phrase.is_refuted = true;
                    (Action::Allow, true)
                }
                (Word::Allows, false) => (Action::Allow, is_strong),
                (Word::Ends, false) => (Action::Other, is_strong),
                (Word::Lasts, true) => (Action::Other, true),
                (Word::Other, false) => {
                    phrase.is_other = true;
                    continue;
                }
                (Word::Lasts, false) | (Word::Ends, true) => {
                    phrase.is_active = true;
                    is_negated = false;
                    continue;
                }
                // `not quarantined`
                (Word::Other, true) => {
                    phrase.has_unknown = true;
                    is_negated = false;
                    continue;
                }
            };
            phrase.says(action, is_strong);
            is_negated = false;
        }
        phrase
    }

    /// Reads the words at the start of a text, up to [`MAX_BYTES`].
    pub(crate) fn beginning(text: &[u8]) -> Self {
        let Some(most) = text.get(..MAX_BYTES) else {
            return Self::of(text);
        };
        let end = memchr::memrchr(b' ', most).unwrap_or_default();
        let mut phrase = Self::of(text.get(..end).unwrap_or_default());
        phrase.has_unknown = true;
        phrase
    }

    fn says(&mut self, action: Action, is_strong: bool) {
        match self.first {
            None => {
                self.first = Some(action);
                self.is_strong = is_strong && !self.has_unknown;
            }
            // `Block and delete`, but `Sperre aufgehoben`
            Some(Action::Block) => {
                self.is_contradicted |= action == Action::Allow;
                self.has_ended |= action == Action::Other;
            }
            Some(first) => self.is_contradicted |= first != action,
        }
    }

    /// Returns what a phrase says if all of its words are known and agree.
    pub(crate) fn whole(self) -> Option<Action> {
        self.first
            .filter(|_| !self.has_unknown && !self.is_contradicted && !self.is_other)
    }

    /// Returns whether all of it says that the entry is not listed, or should not be.
    pub(crate) fn is_off(self) -> bool {
        self.is_refuted || matches!(self.whole(), Some(Action::Allow | Action::Other))
    }

    /// Returns what a phrase says in place of an action. A refusal counts with any other words, if
    /// none of them allows. `Delete` may be about a message or about an entry.
    pub(super) fn in_place_of_action(self) -> Option<Action> {
        match self.first {
            Some(Action::Block) if !self.is_contradicted && !self.is_other => Some(Action::Block),
            Some(_) => self.whole().filter(|action| *action == Action::Allow),
            None => self.is_other.then_some(Action::Other),
        }
    }

    /// Returns what it says as a heading. Good and safe can mean anything.
    pub(crate) fn heads(self) -> Option<Action> {
        self.whole()
            .filter(|action| self.is_strong || *action == Action::Other)
    }

    /// Returns whether it begins with words that take an entry off the list, or consists of some.
    pub(crate) fn takes_off(self) -> bool {
        let is_off = matches!(self.first, Some(Action::Allow | Action::Other));
        self.is_refuted
            || self.has_ended
            || is_off && self.is_strong
            || matches!(self.whole(), Some(Action::Allow | Action::Other))
    }

    /// Returns whether it says that the sender is, or should be, allowed. What has ended can be
    /// anything, in a remark that is not about the entry: `removed from our newsletter`.
    pub(crate) fn pardons(self) -> bool {
        let allows = self.first == Some(Action::Allow) && self.is_strong;
        self.is_refuted || allows || self.whole() == Some(Action::Allow)
    }

    /// Returns whether it says, in known words alone, that a sender should not be blocked, or is
    /// blocked no longer.
    pub(super) fn is_known_refutal(self) -> bool {
        self.is_refuted && !self.has_unknown
    }

    /// Returns whether the first deciding word blocks.
    pub(crate) fn blocks(self) -> bool {
        self.first == Some(Action::Block)
    }

    /// Returns whether it says that a sender should not be blocked, and nothing to the contrary.
    pub(crate) fn is_plea(self) -> bool {
        self.is_refuted && self.first == Some(Action::Allow) && !self.is_contradicted
    }

    /// Returns whether it says that the entry is active, and nothing else.
    pub(super) fn is_active(self) -> bool {
        self.is_active && self.first.is_none() && !self.has_unknown
    }
}

/// Returns what a word says only together with the next one: `false positive`, `no action`.
fn pair(word: &str, after: &[&str]) -> Option<Action> {
    let next = *after.first()?;
    let is_false = matches!(
        word,
        "false" | "faux" | "falso" | "falsch" | "falscher" | "vals" | "falsk"
    );
    // `known good`, but not `known bad`.
    if is_false && next.starts_with("positi") || (word, next) == ("known", "good") {
        return Some(Action::Allow);
    }
    let is_true = matches!(
        word,
        "true" | "confirmed" | "vrai" | "vero" | "echt" | "echter"
    );
    if is_true && next.starts_with("positi") {
        return Some(Action::Block);
    }
    let is_nothing = matches!(
        (word, next),
        (
            "no" | "keine" | "aucune" | "nessuna" | "geen",
            "action" | "aktion" | "azione" | "actie"
        ) | ("do", "nothing")
    );
    is_nothing.then_some(Action::Other)
}

#[cfg(test)]
mod tests {
    use super::Phrase;
    use crate::list::meaning::action::Action;

    #[test]
    fn what_a_phrase_says_as_a_whole_and_as_an_action() {
        let [allow, block, other] = [Action::Allow, Action::Block, Action::Other].map(Some);
        for (text, whole, action) in [
            ("not spam", allow, allow),
            ("do not block!", allow, allow),
            ("Don't block", allow, allow),
            ("(allow)", allow, allow),
            ("kein Spam", allow, allow),
            ("nicht gesperrt", allow, allow),
            ("entsperrt", allow, allow),
            ("Ne pas bloquer", allow, allow),
            ("d\u{e9}bloqu\u{e9}", allow, allow),
            ("false positives", allow, allow),
            ("Разрешить", allow, allow),
            ("no longer active", other, None),
            ("was removed", other, None),
            ("move to quarantine", None, other),
            ("tag and block", None, None),
            ("not allowed", block, block),
            ("Block Sender", block, block),
            ("Block and delete", block, block),
            ("TRUE POSITIVE", block, block),
            ("REJECT listed sender", block, block),
            ("550 reject", block, block),
            ("Reject: bulk of offers", None, block),
            ("Block unless trusted", None, None),
            ("safe harbor", None, None),
            ("spam@bad.example", None, None),
            ("", None, None),
        ] {
            let phrase = Phrase::of(text.as_bytes());
            assert_eq!(phrase.whole(), whole, "{text}");
            assert_eq!(phrase.in_place_of_action(), action, "{text}");
        }
    }

    #[test]
    fn what_takes_an_entry_off_in_a_remark() {
        for text in [
            "whitelisted 2026-02-02",
            "no longer spam",
            "[removed]",
            "FP",
            "now allowed",
            "is whitelisted, ticket 5",
            "customer, do not block",
            "safe",
            "legit",
            "nicht sperren",
            "added by mistake",
            "listed in error",
            "Sperre aufgehoben",
            "no action",
        ] {
            assert!(Phrase::of(text.as_bytes()).takes_off(), "{text}");
        }
        for text in [
            "old spammer",
            "expired domain, bought by spammers",
            "relay of spam",
            "not a day without spam",
            "no reply to abuse reports",
            "safe harbor scheme",
            "legit looking phishing",
            "reported by ham operators",
            "spam",
            "blocked, was never allowed",
        ] {
            assert!(!Phrase::of(text.as_bytes()).takes_off(), "{text}");
        }
    }
}
