//! A filter file with what the configuration makes of its hits.

use std::borrow::Cow;
use std::sync::Arc;

use super::action::{Action, Effect};
use super::exempt::Entries;
use super::reply::Template;
use crate::filter::{Filter, Source};
use crate::lookup::Lookup;
use crate::sender::Identity;

/// What an address counts for that is only where no address belongs: in a quoted name, a
/// comment or an encoded word, without a proper address next to it. One that only some mail programs
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
#[derive(Clone, Debug, PartialEq)]
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

impl Terms {
    /// The reply that goes with an action, if it refuses: the list's own if its class fits.
    pub fn reply(&self, action: Action) -> Option<Cow<'_, Template>> {
        let Effect::Refuse { class, reply } = action.effect() else {
            return None;
        };
        let own = self.reply.as_ref();
        Some(match own.filter(|own| own.code() / 100 == class) {
            Some(own) => Cow::Borrowed(own),
            None => Cow::Owned(Template::parse(reply).expect("a test parses every default reply")),
        })
    }
}

/// A list in effect.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_reply_is_of_the_class_of_its_action() {
        for (name, action) in Action::NAMES {
            if let Effect::Refuse { class, reply } = action.effect() {
                let reply = Template::parse(reply).unwrap();
                assert_eq!(reply.code() / 100, class, "{name}");
            }
        }
    }
}
