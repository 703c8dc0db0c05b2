//! The words that lists use to say what happens to a sender.
//!
//! Any word that allows a sender must be known in every format: a line of an unexpected format
//! must never turn an allowed sender into a listed one.

/// What a word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sense {
    /// The sender is refused.
    Block,
    /// The sender passes.
    Allow,
    /// Something else happens to the sender.
    Other,
    /// The address is that of a recipient.
    Recipient,
    /// The address is named for another reason.
    Mention,
    /// A word in names of lists of senders.
    Sender,
    /// A word that other headings contain, too.
    Filling,
}

/// Where a word is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Beside an entry, as the action.
    Action,
    /// In a label, a heading, the name of a column.
    Label,
    /// Before a display name, as a command to leave somebody out.
    Command,
    /// In the name of a file.
    FileName,
    /// In the name of a file, as a part of a word or as several words.
    InFileName,
}

use Place::{Action, Command, FileName, InFileName, Label};
use Sense::{Allow, Block, Filling, Mention, Other, Recipient, Sender};

/// Each word with its sense, and the places where it has this sense.
#[rustfmt::skip]
const WORDS: &[(Sense, &[Place], &[&str])] = &[
    (Block, &[Action, Label, FileName], &["blacklist", "block", "blocked", "blocklist", "deny"]),
    (Block, &[Action, Label], &[
        "ban", "banned", "blacklisted", "blocklisted", "denied", "denylist", "discard", "drop",
        "refuse", "refused", "reject", "rejected",
    ]),
    (Block, &[Label, FileName], &["bad", "black", "spam"]),
    (Block, &[Label], &[
        "abuser", "abusers", "badmailfrom", "disposable", "junk", "malicious", "phisher",
        "phishers", "phishing", "scam", "scammer", "scammers", "spammer", "spammers", "unwanted",
    ]),
    (Allow, &[Action, Label, Command, FileName], &["allow"]),
    (Allow, &[Action, Label, Command, InFileName], &["welcomelist", "whitelist"]),
    (Allow, &[Action, Label, Command], &["unblock"]),
    (Allow, &[Action, Label, FileName], &[
        "allowed", "allowlisted", "exempt", "permitted", "trusted", "whitelisted",
    ]),
    (Allow, &[Action, Label, InFileName], &["allowlist", "safelist"]),
    (Allow, &[Action, Label], &[
        "accept", "accepted", "exempted", "ok", "permit", "relay", "safelisted", "unblocked",
        "welcomelisted",
    ]),
    (Allow, &[Label, Command], &["delist", "except", "exclude", "ignore", "unban", "unlist"]),
    (Allow, &[Label, FileName], &["approved", "exceptions", "friends", "ham", "welcome", "white"]),
    (Allow, &[InFileName], &["goodlist", "knowngood", "safesender"]),
    (Allow, &[Label], &[
        "allows", "delisted", "exception", "excluded", "excludes", "exclusion", "exclusions",
        "exemption", "exemptions", "good", "ignored", "ignores", "safe", "unbanned", "unless",
    ]),
    (Other, &[Action, Label], &[
        "defer", "defer_if_permit", "defer_if_reject", "delay", "dunno", "filter", "flag",
        "greylist", "hold", "log", "monitor", "none", "prepend", "quarantine", "redirect",
        "replace", "skip", "strip", "tag", "tempfail", "warn",
    ]),
    (Other, &[Action], &["bcc", "ignore", "info", "junk"]),
    (Recipient, &[Label], &[
        "bcc", "cc", "connect", "rcpt", "recipient", "recipients", "target", "targets", "to",
        "victim", "victims",
    ]),
    (Mention, &[Label, Command], &["alias"]),
    (Mention, &[Label], &[
        "about", "admin", "admins", "author", "authors", "by", "contact", "contacts", "creator",
        "curator", "info", "licence", "license", "maintainer", "maintainers", "meta", "metadata",
        "operator", "org", "orgc", "owner", "owners", "provider", "publisher", "reporter",
        "reporters", "submitter", "support",
    ]),
    (Sender, &[Label], &[
        "address", "addresses", "domain", "domains", "e", "email", "emails", "entries", "entry",
        "envelope", "from", "host", "hosts", "items", "list", "mail", "mailbox", "mailboxes",
        "mailfrom", "mails", "path", "resent", "return", "sender", "senders", "smtp", "value",
        "values", "x",
    ]),
    (Filling, &[Label], &["and", "begin", "of", "only", "our", "section", "start", "the", "these"]),
];

/// Length in bytes of the longest word above.
const LONGEST_BYTES: usize = 15;

/// Returns what a word, in any case, says in this place; `None` if it is unknown there.
pub(crate) fn sense(word: &[u8], place: Place) -> Option<Sense> {
    // Most words asked for are addresses and numbers.
    if word.len() > LONGEST_BYTES || !word.first().is_some_and(u8::is_ascii_alphabetic) {
        return None;
    }
    let is_word = |known: &&str| known.as_bytes().eq_ignore_ascii_case(word);
    WORDS
        .iter()
        .find(|(_, places, words)| places.contains(&place) && words.iter().any(is_word))
        .map(|(sense, ..)| *sense)
}

/// Returns the words with this sense in this place, in lower case.
pub(crate) fn words(sense: Sense, place: Place) -> impl Iterator<Item = &'static str> {
    WORDS
        .iter()
        .filter(move |(other, places, _)| *other == sense && places.contains(&place))
        .flat_map(|(.., words)| *words)
        .copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_found_and_says_one_thing_in_a_place() {
        for (said, places, words) in WORDS {
            for (place, word) in places
                .iter()
                .flat_map(|place| words.iter().map(move |word| (place, word)))
            {
                assert_eq!(sense(word.as_bytes(), *place), Some(*said), "{word}");
                let same = WORDS
                    .iter()
                    .filter(|(_, places, words)| places.contains(place) && words.contains(word));
                assert_eq!(same.count(), 1, "{word}");
            }
        }
    }
}
