//! The parts of a policy: the lists in effect, and who is never refused.

use std::sync::Arc;

use thiserror::Error;

use super::action::Action;
use super::exempt::Entries;
use super::list::{List, Terms};
use super::recipients::MixedRecipients;
use crate::address::{Canonical, Rules};
use crate::filter::Filter;
use crate::lookup::{self, Lookup};
use crate::sender::Identity;

/// Most lists in a configuration, because a `u64` represents a set of lists.
pub const LISTS_MAX: usize = 64;

/// Why a list cannot take effect.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// Its filter cannot be queried.
    #[error(transparent)]
    Lookup(#[from] lookup::Error),
    /// More than [`LISTS_MAX`] lists.
    #[error("there are more than {LISTS_MAX} lists; merge some with blocklist-compile merge")]
    TooManyLists,
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
    /// Its keys were made with rules that this program does not have, or there are too many lists.
    pub fn add_list(&mut self, terms: Arc<Terms>, filter: Arc<Filter>) -> Result<(), Error> {
        let lookup = Lookup::new(filter)?;
        let rules = self.number_of(lookup.rules());
        self.push(List {
            terms,
            lookup: Some(lookup),
            doubt: None,
            rules,
        })
    }

    /// Adds a list whose filter cannot be read, and the reason: every sender that it checks is
    /// undecided.
    ///
    /// # Errors
    /// There are too many lists.
    pub fn add_unavailable(&mut self, terms: Arc<Terms>, doubt: Arc<str>) -> Result<(), Error> {
        let rules = self.number_of(Entries::rules());
        self.push(List {
            terms,
            lookup: None,
            doubt: Some(doubt),
            rules,
        })
    }

    /// Makes every hit of the list undecided from now on.
    pub fn doubt(&mut self, list: usize, why: Arc<str>) {
        if let Some(list) = self.lists.get_mut(list) {
            list.doubt = Some(why);
        }
    }

    fn push(&mut self, list: List) -> Result<(), Error> {
        if self.lists.len() == LISTS_MAX {
            return Err(Error::TooManyLists);
        }
        self.lists.push(list);
        Ok(())
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
