//! What a policy is made of: lists in effect, and who is never refused.

use std::sync::Arc;

use thiserror::Error;

use super::action::Action;
use super::exempt::Entries;
use super::list::{List, Terms};
use super::mixed_recipients::MixedRecipients;
use crate::address::{Canonical, Rules};
use crate::filter::Filter;
use crate::lookup::{self, Lookup};
use crate::sender::Identity;

/// Most lists of a configuration: a set of lists is the bits of a `u64`.
pub const LISTS_MAX: usize = 64;

/// Why a list cannot be put into effect.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// Its filter cannot be asked.
    #[error(transparent)]
    Lookup(#[from] lookup::Error),
    /// More than [`LISTS_MAX`] lists.
    #[error("there are more than {LISTS_MAX} lists; merge some with blocklist-compile merge")]
    TooManyLists,
}

/// All lists in effect and the whitelist above them.
#[derive(Debug, Default)]
pub struct Policy {
    pub(super) lists: Vec<List>,
    /// The distinct rules among the lists: an address is brought to canonical form once for each.
    pub(super) rules: Vec<Rules>,
    /// Addresses that are never refused.
    pub whitelist: Entries,
    /// Whether parts of the whitelist could not be read: then nobody is refused whom they may clear.
    pub whitelist_is_incomplete: bool,
    /// Whether a whitelisted address in a header counts only with an aligned DKIM signature.
    pub whitelist_wants_dkim: bool,
    /// Addresses that our users write to: never refused either.
    pub correspondents: Entries,
    /// The same for these.
    pub correspondents_want_dkim: bool,
    /// Recipients that no list affects.
    pub exempt_recipients: Entries,
    /// What is done with recipients that other lists affect than those before them.
    pub mixed_recipients: MixedRecipients,
    /// What an address gets whose look-up failed: `Tempfail` or `Log`.
    pub undecided: Option<Action>,
}

impl Policy {
    /// No lists yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts one more list into effect.
    ///
    /// # Errors
    /// Its keys were made by rules this program does not have, or there are too many lists.
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

    /// Adds a list whose filter cannot be read, and why: every sender that it would check is undecided.
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

    /// From now on each hit of the list is undecided.
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

    /// Whether any list looks the senders of this field up.
    pub fn checks(&self, identity: Identity) -> bool {
        let checks = |list: &List| list.terms.check.contains(&identity);
        self.lists.iter().any(checks)
    }

    /// The entry that clears this address, where DKIM is not needed or passes.
    pub fn clearing_entry(&self, address: &Canonical) -> Option<&[u8]> {
        let correspondent = || self.correspondents.find(address);
        self.whitelist.find(address).or_else(correspondent)
    }

    /// Whether the domains that DKIM confirms matter.
    pub fn wants_dkim(&self) -> bool {
        self.whitelist_wants_dkim
            || self.correspondents_want_dkim && !self.correspondents.is_empty()
    }

    /// The lists, in the order of the configuration.
    pub fn lists(&self) -> &[List] {
        &self.lists
    }

    /// Whether mail can be tagged: by a list's own action, or in place of one that would go too far.
    pub fn may_tag(&self) -> bool {
        self.lists
            .iter()
            .any(|list| !list.terms.dry_run && list.terms.action > Action::Log)
    }
}
