//! The lists in effect, the configured treatment of their hits, and who is never refused.

use std::borrow::Cow;
use std::sync::Arc;

use super::action::Action;
use super::exempt::Entries;
use super::reply::Template;
use crate::sender::Identity;
use blocklist_filter::address::{Canonical, Rules};
use blocklist_filter::base::named::named;
use blocklist_filter::filter::Filter;
use blocklist_filter::lookup::Lookup;

/// Most lists in a configuration, because a `u64` represents a set of lists.
pub(crate) const LISTS_MAX: usize = 64;

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
    pub action: Action,
    /// The action for a hit in a header if the message came through a mailing list.
    pub mailing_list: Option<Action>,
    pub weak: Weak,
    /// The reply of `reject` or `tempfail`.
    pub reply: Option<Template>,
    /// If not empty, the list affects only mail to these recipients.
    pub recipients: Entries,
    /// The list does not affect mail to these recipients.
    pub except_recipients: Entries,
    /// Whether its hits on correspondents are cleared.
    pub exempts_correspondents: bool,
    /// Decide, log and count, but change nothing.
    pub dry_run: bool,
}

impl Terms {
    /// Returns the reply for a refusing action: the list's own if its class fits, else the default.
    pub fn reply(&self, action: Action) -> Option<Cow<'_, Template>> {
        let (class, reply) = action.reply()?;
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
    pub terms: Arc<Terms>,
    /// `None` if its entries cannot be read.
    pub(super) lookup: Option<Lookup>,
    /// Why its hits are undecided, if they are.
    pub doubt: Option<Arc<str>>,
    /// The rules for the canonical form of its keys: an index into the rules of [`Policy`].
    pub(super) rules: usize,
}

impl List {
    pub fn name(&self) -> &str {
        &self.terms.name
    }

    /// Returns its compiled entries, if they can be read.
    pub fn filter(&self) -> Option<&Arc<Filter>> {
        self.lookup.as_ref().map(Lookup::filter)
    }
}

named! {
    /// What happens to recipients that are affected by other lists than the recipients before them.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum MixedRecipients {
        /// They are deferred, so that they get a transaction of their own.
        #[default]
        Defer = "defer",
        /// They are accepted, and a hit in a header at most tags the message.
        Tag = "tag",
    }
}

/// All lists in effect, and the whitelist, which overrides them.
#[derive(Debug, Default)]
pub struct Policy {
    pub(super) lists: Vec<List>,
    /// The different rules of the lists. An address is converted to canonical form once for each.
    pub(super) rules: Vec<Rules>,
    /// Addresses that are never refused.
    pub whitelist: Arc<Entries>,
    /// Whether parts of the whitelist could not be read: then nobody is refused who might be on it.
    pub whitelist_is_incomplete: bool,
    /// Whether a whitelisted address in a header counts only with an aligned DKIM signature.
    pub whitelist_wants_dkim: bool,
    /// Addresses to which local users write: never refused either.
    pub correspondents: Arc<Entries>,
    /// Whether a correspondent in a header counts only with an aligned DKIM signature.
    pub correspondents_want_dkim: bool,
    /// Recipients whose mail no list affects.
    pub exempt_recipients: Entries,
    pub mixed_recipients: MixedRecipients,
    /// The action for an address whose look-up failed: `Tempfail` or `Log`.
    pub undecided: Option<Action>,
}

impl Policy {
    /// Adds a list. Without a look-up, every sender that it checks is undecided; with a doubt, every
    /// hit.
    pub fn add(&mut self, terms: Arc<Terms>, lookup: Option<Lookup>, doubt: Option<Arc<str>>) {
        debug_assert!(
            self.lists.len() < LISTS_MAX,
            "the configuration has no more"
        );
        let rules = lookup.as_ref().map_or_else(Entries::rules, Lookup::rules);
        let known = self.rules.iter().position(|&known| known == rules);
        let rules = known.unwrap_or_else(|| {
            self.rules.push(rules);
            self.rules.len() - 1
        });
        self.lists.push(List {
            terms,
            lookup,
            doubt,
            rules,
        });
    }

    /// Returns whether any list checks the senders in this field.
    pub fn checks(&self, identity: Identity) -> bool {
        let checks = |list: &List| list.terms.check.contains(&identity);
        self.lists.iter().any(checks)
    }

    /// Returns the entry that clears this address on a day, if DKIM is not required or passes.
    pub fn clearing_entry(&self, address: &Canonical, today: u16) -> Option<&[u8]> {
        let correspondent = || self.correspondents.find(address, today);
        self.whitelist.find(address, today).or_else(correspondent)
    }

    /// Returns whether the domains that DKIM confirms matter.
    pub fn wants_dkim(&self) -> bool {
        self.whitelist_wants_dkim
            || self.correspondents_want_dkim && !self.correspondents.is_empty()
    }

    /// Returns the lists, in the order of the configuration.
    pub fn lists(&self) -> &[List] {
        &self.lists
    }

    /// Returns the name of the list with this index; empty if there is none.
    pub fn list_name(&self, index: usize) -> &str {
        self.lists.get(index).map_or("", List::name)
    }

    /// Returns whether mail can be tagged: by the action of a list, or instead of a stronger one.
    pub fn may_tag(&self) -> bool {
        self.lists
            .iter()
            .any(|list| !list.terms.dry_run && list.terms.action > Action::Log)
    }
}
