//! A filter file, and the configured treatment of its hits.

use std::borrow::Cow;
use std::sync::Arc;

use super::action::{Action, Effect};
use super::exempt::Entries;
use super::reply::Template;
use crate::base::named::named;
use crate::filter::Filter;
use crate::lookup::Lookup;
use crate::sender::Identity;

named! {
    /// How much an address counts that is only in a place where no address belongs: in a quoted name, a
    /// comment or an encoded word, without a proper address beside it. One that only some mail programs
    /// show ([`crate::sender::Strength::Doubtful`]) at most tags the message, independent of this.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Weak {
        /// As much as any other.
        Full = "full",
        /// At most tags the message.
        Tag = "tag",
        /// Not at all.
        Ignore = "ignore",
    }
}

/// The configuration of one list.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    /// Its name in the log, in replies and in the header: letters, digits, `.`, `_`, `-`.
    pub name: String,
    /// The identities whose addresses are looked up.
    pub check: Vec<Identity>,
    /// The action for a hit.
    pub action: Action,
    /// The action for a hit in a header if the message came through a mailing list.
    pub mailing_list: Option<Action>,
    /// How much a weak address counts.
    pub weak: Weak,
    /// The reply of `reject` or `tempfail`.
    pub reply: Option<Template>,
    /// If not empty, the list affects only mail to these recipients.
    pub recipients: Entries,
    /// The list does not affect mail to these recipients.
    pub except_recipients: Entries,
    /// Decide, log and count, but change nothing.
    pub dry_run: bool,
}

impl Terms {
    /// Returns the reply for an action, if it refuses: the list's own reply if its class fits, else
    /// the default.
    pub fn reply(&self, action: Action) -> Option<Cow<'_, Template>> {
        let Effect::Refuse { class, reply } = action.effect() else {
            return None;
        };
        let own = self.reply.as_ref();
        Some(match own.filter(|own| own.code() / 100 == class) {
            Some(own) => Cow::Borrowed(own),
            None => Cow::Owned(Template::parse(reply).expect("a default reply is a template")),
        })
    }
}

/// A list in effect.
#[derive(Clone, Debug)]
pub struct List {
    /// Its configuration.
    pub terms: Arc<Terms>,
    /// Its compiled entries; `None` if they cannot be read, and then every sender is undecided.
    pub(super) lookup: Option<Lookup>,
    /// Why its hits are undecided, if they are.
    pub doubt: Option<Arc<str>>,
    /// The rules for the canonical form of its keys: an index into the rules of [`super::Policy`].
    pub(super) rules: usize,
}

impl List {
    /// Returns its name in the log, in replies and in the header.
    pub fn name(&self) -> &str {
        &self.terms.name
    }

    /// Returns its compiled entries, if they can be read.
    pub fn filter(&self) -> Option<&Arc<Filter>> {
        self.lookup.as_ref().map(Lookup::filter)
    }
}
