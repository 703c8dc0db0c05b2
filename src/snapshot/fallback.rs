//! A snapshot with the last good copies of filters in place of files that are damaged or gone.

use super::Snapshot;
use super::stand_in::StandIn;
use crate::config::Config;

impl Snapshot {
    /// The same with the last good copy of each of these lists, as far as there is one that is better than what
    /// is in effect. `None`: there is none. Each list comes with what is wrong with its file.
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

    /// With copies in place of what a start finds damaged or gone.
    pub(super) fn or_copies(self) -> Self {
        let bad = self.faults.iter().filter_map(|fault| {
            let list = fault.list()?.to_owned();
            Some((list, fault.to_string()))
        });
        self.with_copies(bad).unwrap_or(self)
    }

    /// The copy that a start would use for this list, in words.
    pub(super) fn copy_for(config: &Config, list: &str) -> Option<String> {
        StandIn::open(config, list, String::new()).map(|one| one.filter())
    }

    /// The lists that are listed by an older copy, as their file is bad; a line each.
    pub fn stand_ins(&self) -> impl Iterator<Item = String> + '_ {
        self.stand_ins.iter().map(ToString::to_string)
    }

    /// Whether this list is listed by an older copy.
    pub fn has_stand_in(&self, list: &str) -> bool {
        self.stand_ins.iter().any(|one| one.list == list)
    }
}
