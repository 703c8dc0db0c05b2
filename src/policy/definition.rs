//! The parts of a policy: the lists in effect, and who is never refused.

use std::sync::Arc;

use super::action::Action;
use super::exempt::Entries;
use super::list::{List, Terms};
use crate::address::{Canonical, Rules};
use crate::base::named::named;
use crate::filter::Filter;
use crate::lookup::{self, Lookup};
use crate::sender::Identity;

/// Most lists in a configuration, because a `u64` represents a set of lists.
pub const LISTS_MAX: usize = 64;

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
    /// Whether parts of the whitelist could not be read. Then no sender is refused who might be on
    /// it.
    pub whitelist_is_incomplete: bool,
    /// Whether a whitelisted address in a header counts only with an aligned DKIM signature.
    pub whitelist_wants_dkim: bool,
    /// Addresses to which local users write: never refused either.
    pub correspondents: Arc<Entries>,
    /// Whether a correspondent in a header counts only with an aligned DKIM signature.
    pub correspondents_want_dkim: bool,
    /// Recipients whose mail no list affects.
    pub exempt_recipients: Entries,
    /// What happens to recipients that are affected by other lists than the recipients before them.
    pub mixed_recipients: MixedRecipients,
    /// The action for an address whose look-up failed: `Tempfail` or `Log`.
    pub undecided: Option<Action>,
}

impl Policy {
    /// Creates a policy without lists.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a list.
    ///
    /// # Errors
    /// Its keys were made with rules that this program does not have.
    pub fn add_list(
        &mut self,
        terms: Arc<Terms>,
        filter: Arc<Filter>,
    ) -> Result<(), lookup::Error> {
        let lookup = Lookup::new(filter)?;
        let rules = self.number_of(lookup.rules());
        self.push(List {
            terms,
            lookup: Some(lookup),
            doubt: None,
            rules,
        });
        Ok(())
    }

    /// Adds a list whose filter cannot be read, and the reason: every sender that it checks is
    /// undecided.
    pub fn add_unavailable(&mut self, terms: Arc<Terms>, doubt: Arc<str>) {
        let rules = self.number_of(Entries::rules());
        self.push(List {
            terms,
            lookup: None,
            doubt: Some(doubt),
            rules,
        });
    }

    /// Makes every hit of the list undecided from now on.
    pub fn doubt(&mut self, list: usize, why: Arc<str>) {
        if let Some(list) = self.lists.get_mut(list) {
            list.doubt = Some(why);
        }
    }

    fn push(&mut self, list: List) {
        debug_assert!(
            self.lists.len() < LISTS_MAX,
            "the configuration has no more"
        );
        self.lists.push(list);
    }

    fn number_of(&mut self, rules: Rules) -> usize {
        let known = self.rules.iter().position(|&known| known == rules);
        known.unwrap_or_else(|| {
            self.rules.push(rules);
            self.rules.len() - 1
        })
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

    /// Returns whether mail can be tagged: by the action of a list, or instead of a stronger one.
    pub fn may_tag(&self) -> bool {
        self.lists
            .iter()
            .any(|list| !list.terms.dry_run && list.terms.action > Action::Log)
    }
}
