//! The words in names of columns and keys, for names that are in no list of known names.
//!
//! ```text
//!   isWhitelisted, Is Whitelisted, sender_is_whitelisted     one word that decides
//!   blocked_until, Gültig bis, date d'expiration             the day it ends
//!   deleted_at, removed on                                   taken off on that day
//!   reported_by, contact e-mail                              somebody else
//! ```

use super::column_name::{NEGATIONS, Name, is_date_word, is_filling};
use super::flag::Flag;
use super::headings::{ENTRY_BY_WORDS, Heading, SENDER_BY_WORDS, SENDING};
use super::label::Meaning;
use crate::list::row::Skip;

impl Heading {
    /// Returns what the column `name` is for; `None` if unknown.
    pub(crate) fn of(name: &[u8]) -> Option<Self> {
        // Keys of maps may be entries.
        if name.contains(&b'@') {
            return None;
        }
        let may_be_domain = name.contains(&b'.');
        let name = Name::of(without_remark(name))?;
        let by_words = || ByWords(&name).meaning().filter(|_| !may_be_domain);
        Self::listed(&name).or_else(by_words)
    }
}

/// Removes a remark: `Policy (block, exempt)` -> `Policy`.
fn without_remark(name: &[u8]) -> &[u8] {
    let end = memchr::memchr(b'(', name).unwrap_or(name.len());
    name.get(..end).unwrap_or(name).trim_ascii()
}

/// The meaning of a name by its words.
struct ByWords<'n>(&'n Name);

impl ByWords<'_> {
    fn meaning(&self) -> Option<Heading> {
        if let Some(heading) = self.end() {
            return Some(heading);
        }
        if let Some(flag) = Flag::of(self.0) {
            return Some(Heading::Flag(flag));
        }
        if self.0.words().all(is_filling) && self.0.has(&["status", "state"]) {
            return Some(Heading::Status);
        }
        if self.is_score() {
            return Some(Heading::Score);
        }
        if self.0.has(&[
            "probability",
            "likelihood",
            "probabilite",
            "wahrscheinlichkeit",
        ]) {
            return Some(Heading::Probability);
        }
        if self.is_of_sender() {
            let is_sender = self.0.has(SENDING);
            return Some(Heading::Entry(if is_sender {
                SENDER_BY_WORDS
            } else {
                ENTRY_BY_WORDS
            }));
        }
        if matches!(
            Meaning::of(self.0.as_bytes()),
            Meaning::Skipped(Skip::Mention | Skip::NotSender)
        ) || self.0.has(OTHERS)
        {
            return Some(Heading::Mention);
        }
        self.0.has(DATED).then_some(Heading::Dated)
    }

    /// Recognizes a name for the day on which an entry ends.
    fn end(&self) -> Option<Heading> {
        if self.0.has(NEGATIONS) {
            return None;
        }
        if self.0.has(&["expired"])
            && self
                .0
                .words()
                .all(|word| word == "expired" || is_filling(word))
        {
            return Some(Heading::Expired);
        }
        let is_plan = self.0.has(UNDOING) && self.has_date_word();
        let has_end = self.0.has(&["end", "ends", "ending", "fin", "ende"])
            && self
                .0
                .words()
                .all(|word| END_WORDS.contains(&word) || is_date_word(word) || is_filling(word));
        let is_valid_to = self.0.has(&["valid", "good", "effective"])
            && self.0.has(&["to", "thru", "through", "till"]);
        // `blocked to`, `to date`
        let is_to = self.0.words().any(|word| word == "to")
            && self.0.words().count() > 1
            && self.0.words().all(|word| {
                word == "to"
                    || is_date_word(word)
                    || matches!(word, "banned" | "blocked" | "listed")
            });
        (self.0.has(ENDS) || self.0.is("geldig tot") || is_plan || has_end || is_valid_to || is_to)
            .then_some(Heading::Expires)
    }

    fn has_date_word(&self) -> bool {
        self.0
            .words()
            .any(|word| is_date_word(word) || word == "on")
    }

    /// Recognizes a score that grows with how bad the sender is. That of a reputation falls.
    fn is_score(&self) -> bool {
        self.0.words().last() == Some("score")
            && !self
                .0
                .has(&["good", "quality", "reputation", "sender", "trust"])
    }

    /// Returns whether all words are about senders, one of them a noun for what the column holds.
    fn is_of_sender(&self) -> bool {
        self.0.has(SENDER_NOUNS)
            && self
                .0
                .words()
                .all(|word| SENDER_NOUNS.contains(&word) || SENDER_WORDS.contains(&word))
    }
}

/// Each of these names the day of an end.
const ENDS: &[&str] = &[
    "ablauf",
    "ablaufdatum",
    "ablaufzeit",
    "bis",
    "caducidad",
    "exp",
    "expdate",
    "expira",
    "expiracion",
    "expiration",
    "expirationdate",
    "expirationtime",
    "expire",
    "expiredate",
    "expires",
    "expiresat",
    "expireson",
    "expiring",
    "expiry",
    "expirydate",
    "expirytime",
    "hasta",
    "jusqu",
    "scade",
    "scadenza",
    "till",
    "until",
    "validade",
    "vencimiento",
    "verfall",
    "verfallsdatum",
    "verloopdatum",
    "verloopt",
    "vervaldatum",
];

/// Words that may be beside `end`.
const END_WORDS: &[&str] = &[
    "ban",
    "block",
    "blocked",
    "de",
    "effective",
    "end",
    "ende",
    "ending",
    "ends",
    "fin",
    "listing",
    "of",
    "period",
    "the",
    "validity",
];

/// Returns whether a name is a command to remove an entry, which a day may follow: `delist`.
pub(super) fn names_undoing(name: &Name) -> bool {
    let mut words = name.words();
    let is_command = words.next().is_some_and(|word| UNDOING.contains(&word));
    is_command && words.all(is_filling)
}

/// With a day beside them: what is to happen then.
const UNDOING: &[&str] = &[
    "delete",
    "delist",
    "delisting",
    "lift",
    "purge",
    "release",
    "removal",
    "remove",
    "unban",
    "unblock",
    "unlist",
];

/// Nouns for a sender or its address.
const SENDER_NOUNS: &[&str] = &[
    "absenderadresse",
    "addr",
    "address",
    "addresses",
    "domain",
    "domains",
    "email",
    "emails",
    "from",
    "host",
    "hostname",
    "ioc",
    "iocs",
    "mail",
    "mailadresse",
    "mailaddress",
    "mailfrom",
    "mails",
    "observable",
    "observables",
    "indicators",
    "sender",
    "senders",
    "spammer",
    "spammers",
];

/// Words that may be beside them.
const SENDER_WORDS: &[&str] = &[
    "e", "entries", "entry", "envelope", "fqdn", "header", "mailbox", "or", "path", "return",
    "smtp", "value", "values",
];

/// Words for somebody else, besides those of all lists.
const OTHERS: &[&str] = &[
    "account",
    "complainant",
    "empfanger",
    "melder",
    "registrant",
    "requester",
];

/// Words for a day that ends nothing.
const DATED: &[&str] = &[
    "added",
    "begin",
    "begins",
    "changed",
    "checked",
    "collected",
    "created",
    "creation",
    "detected",
    "discovered",
    "first",
    "imported",
    "last",
    "modified",
    "observed",
    "publish",
    "published",
    "received",
    "registered",
    "registration",
    "reported",
    "seen",
    "sent",
    "since",
    "start",
    "started",
    "starts",
    "submitted",
    "synced",
    "updated",
];
