//! A snapshot that uses the last good copies of filters instead of damaged or missing files.

use super::Snapshot;
use super::stand_in::StandIn;
use crate::config::Config;

impl Snapshot {
    /// The same snapshot with the last good copies of these lists, if they are better than the filters in effect.
    /// `None`: there is no such copy. `bad` has each list with the error of its file.
    pub(super) fn with_copies(&self, bad: impl Iterator<Item = (String, String)>) -> Option<Self> {
        let opened = bad.filter_map(|(list, fault)| StandIn::open(&self.config, &list, fault));
        let mut stand_ins: Vec<StandIn> = opened.collect();
        while !stand_ins.is_empty() {
            let all = self.stand_ins.iter().chain(&stand_ins).cloned().collect();
            let new = Self::assemble(self.config.clone(), Some(self), None, all);
            let is_bad = |one: &StandIn| {
                let mut faults = new.faults.iter();
                faults.any(|fault| fault.list() == Some(&one.list))
            };
            if !stand_ins.iter().any(is_bad) {
                return Some(new);
            }
            stand_ins.retain(|one| !is_bad(one));
        }
        None
    }

    /// The snapshot of a start, with copies instead of damaged or missing files.
    pub(super) fn or_copies(self) -> Self {
        let bad = self.faults.iter().filter_map(|fault| {
            let list = fault.list()?.to_owned();
            Some((list, fault.to_string()))
        });
        self.with_copies(bad).unwrap_or(self)
    }

    /// A description of the copy that a start would use for this list.
    pub(super) fn copy_for(config: &Config, list: &str) -> Option<String> {
        StandIn::open(config, list, String::new()).map(|one| one.filter())
    }

    /// The lists for which an older copy is in use, because their file is bad; one line each.
    pub fn stand_ins(&self) -> impl Iterator<Item = String> + '_ {
        self.stand_ins.iter().map(ToString::to_string)
    }

    /// Whether an older copy of this list is in use.
    pub fn has_stand_in(&self, list: &str) -> bool {
        self.stand_ins.iter().any(|one| one.list == list)
    }
}
