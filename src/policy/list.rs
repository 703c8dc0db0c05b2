//! A filter file with what the configuration makes of its hits, and the actions there are.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use crate::filter::{Filter, Source};
use crate::lookup::Lookup;
use crate::policy::exempt::Entries;
use crate::policy::reply::Template;
use crate::sender::Identity;

/// What happens to a message, weakest first: of several hits the strongest decides.
///
/// An answer that the sending side hears is stronger than one it does not, so that no message is
/// lost in silence while another list would have said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Nothing; the hit is logged and counted.
    Log,
    /// Delivered with a header `X-Sender-Blocklist`.
    Tag,
    /// Accepted and held: Postfix's hold queue, Sendmail's quarantine.
    Quarantine,
    /// Accepted and thrown away; nobody is told.
    Discard,
    /// Refused for now, 4xx.
    Tempfail,
    /// Refused, 5xx.
    Reject,
}

impl Action {
    /// All, with the names the configuration uses.
    pub const NAMES: [(&'static str, Self); 6] = [
        ("reject", Self::Reject),
        ("tempfail", Self::Tempfail),
        ("quarantine", Self::Quarantine),
        ("tag", Self::Tag),
        ("discard", Self::Discard),
        ("log", Self::Log),
    ];

    /// Its name in the configuration, the log and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Tag => "tag",
            Self::Quarantine => "quarantine",
            Self::Discard => "discard",
            Self::Tempfail => "tempfail",
            Self::Reject => "reject",
        }
    }

    /// Whether the sending side is told and keeps the message.
    pub fn refuses(self) -> bool {
        matches!(self, Self::Reject | Self::Tempfail)
    }
}

impl FromStr for Action {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::NAMES
            .iter()
            .find(|row| row.0 == name)
            .map(|row| row.1)
            .ok_or(())
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What an address counts for that stands only where no address belongs: in a quoted name, a
/// comment or an encoded word, and no proper address beside it. One that only some mail programs
/// show ([`crate::sender::Strength::Doubtful`]) tags at most, whatever this says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weak {
    /// As much as any other.
    Full,
    /// The message is tagged at most.
    Tag,
    /// Nothing.
    Ignore,
}

impl Weak {
    /// All, with the names the configuration uses.
    pub const NAMES: [(&'static str, Self); 3] = [
        ("full", Self::Full),
        ("tag", Self::Tag),
        ("ignore", Self::Ignore),
    ];

    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Tag => "tag",
            Self::Ignore => "ignore",
        }
    }
}

/// The policy of one list, as configured.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Name in log, reply and header: letters, digits, `.`, `_`, `-`.
    pub name: String,
    /// The identities whose addresses are looked up.
    pub check: Vec<Identity>,
    /// What a hit does.
    pub action: Action,
    /// What a hit in a header does when the message came through a mailing list.
    pub mailing_list: Option<Action>,
    /// What a weak address counts for.
    pub weak: Weak,
    /// Reply of `reject` or `tempfail`.
    pub reply: Option<Template>,
    /// If not empty, only mail to these recipients is affected.
    pub recipients: Entries,
    /// Mail to these recipients is not affected.
    pub except_recipients: Entries,
    /// Decide, log and count, but change nothing.
    pub dry_run: bool,
}

/// The reply of a list that has none of its own.
pub(super) const DEFAULT_REJECT: &str =
    "550 5.7.1 {address} is on the sender blocklist {list} (case {case})";
/// The same for `tempfail`.
pub(super) const DEFAULT_TEMPFAIL: &str =
    "451 4.7.1 {address} is on the sender blocklist {list}, try again later (case {case})";

impl Terms {
    /// The reply that goes with a refusing action: the list's own if its class fits.
    pub fn reply(&self, action: Action) -> &Template {
        static REJECT: LazyLock<Template> =
            LazyLock::new(|| Template::parse(DEFAULT_REJECT).expect("a test parses it"));
        static TEMPFAIL: LazyLock<Template> =
            LazyLock::new(|| Template::parse(DEFAULT_TEMPFAIL).expect("a test parses it"));
        let (class, default) = if action == Action::Tempfail {
            (4, &TEMPFAIL)
        } else {
            (5, &REJECT)
        };
        self.reply
            .as_ref()
            .filter(|own| own.code() / 100 == class)
            .unwrap_or(default)
    }
}

/// A list in force.
#[derive(Clone, Debug)]
pub struct List {
    /// Its policy.
    pub terms: Arc<Terms>,
    /// Its compiled entries; `None` while they cannot be read, and every sender is undecided.
    pub(super) lookup: Option<Lookup>,
    /// Why its hits are undecided, if they are.
    pub doubt: Option<Arc<str>>,
    /// Which canonical form its keys were made from: index into [`super::Policy`]'s rules.
    pub(super) rules: usize,
}

impl List {
    /// Name in log, reply and header.
    pub fn name(&self) -> &str {
        &self.terms.name
    }

    /// Its compiled entries, if they can be read.
    pub fn filter(&self) -> Option<&Arc<Filter>> {
        self.lookup.as_ref().map(Lookup::filter)
    }

    /// The source that a record names.
    pub fn source(&self, number: u32) -> Option<&Source> {
        self.filter()?.source(number)
    }
}
