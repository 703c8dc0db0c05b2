//! Counts by name, for reports.

use std::collections::BTreeMap;

use crate::metrics::Each;
use crate::policy::Action;

/// Counts by name.
pub type Counts = BTreeMap<String, u64>;

/// Returns the count for each key, by its name.
pub(super) fn counts<K: Copy + PartialEq>(
    each: &Each<K>,
    name: impl Fn(K) -> &'static str,
) -> Counts {
    each.iter()
        .map(|(key, count)| (name(key).to_owned(), count))
        .collect()
}

/// Returns the name of the action on a message.
pub(super) fn verdict_name(verdict: Option<Action>) -> &'static str {
    verdict.map_or("accept", Action::name)
}
