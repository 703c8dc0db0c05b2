//! Counts by name, as a report shows them.

use std::collections::BTreeMap;

use crate::metrics::Each;
use crate::policy::Action;

/// Counts by name.
pub type Counts = BTreeMap<String, u64>;

/// The counts of each, by its name.
pub(super) fn counts<K: Copy + PartialEq>(
    each: &Each<K>,
    name: impl Fn(K) -> &'static str,
) -> Counts {
    each.iter()
        .map(|(key, count)| (name(key).to_owned(), count))
        .collect()
}

/// The name of what is done with a message.
pub(super) fn verdict_name(verdict: Option<Action>) -> &'static str {
    verdict.map_or("accept", Action::name)
}
