//! Whether lists are out of date (`max_age`, `max_unchanged`).

use serde::{Deserialize, Serialize};

use super::Snapshot;
use crate::base::clock::minute;
use crate::config::age_text;

/// The age of a list, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Freshness {
    /// Since the filter was built.
    pub age_s: u64,
    /// Since it was first built with its current entries, as far as this process knows.
    pub unchanged_s: u64,
    /// Whether its age is more than `max_age`.
    pub too_old: bool,
    /// Whether its entries have been the same for longer than `max_unchanged`.
    pub unchanged_too_long: bool,
    /// The limit of that.
    #[serde(skip)]
    max_unchanged_s: Option<u64>,
}

impl Snapshot {
    /// The age of each list, in the order of the policy's lists; `None` without a filter.
    pub fn freshness(&self, now_s: u64) -> impl Iterator<Item = Option<Freshness>> + '_ {
        let lists = self.config.enabled_lists().zip(&self.filters);
        lists.map(move |(settings, choice)| {
            let file = choice.file.as_ref()?;
            let age_s = now_s.saturating_sub(file.filter.spec().built);
            let unchanged_s = now_s.saturating_sub(file.unchanged_since_s);
            let limit_s = settings.max_unchanged.limit_s(file.is_feed);
            Some(Freshness {
                age_s,
                unchanged_s,
                too_old: settings.max_age_s.is_some_and(|max| age_s > max),
                unchanged_too_long: limit_s.is_some_and(|max| unchanged_s > max),
                max_unchanged_s: limit_s,
            })
        })
    }

    /// The lists that are out of date, one line each.
    pub(super) fn stale(&self, now_s: u64) -> impl Iterator<Item = String> + '_ {
        let lists = self.config.enabled_lists().zip(self.freshness(now_s));
        lists.filter_map(move |(settings, freshness)| {
            let name = &settings.terms.name;
            let fresh = freshness?;
            let limit = |max: Option<u64>| max.map_or(String::new(), age_text);
            // The text does not change with the time, so that it is logged once.
            if fresh.too_old {
                Some(format!(
                    "list {name}: too old: built {}, max_age is {}; is it still downloaded and compiled? (systemctl list-timers 'blocklist-*')",
                    minute(now_s.saturating_sub(fresh.age_s)),
                    limit(settings.max_age_s)
                ))
            } else if fresh.unchanged_too_long {
                Some(format!(
                    "list {name}: the same entries since {}, max_unchanged is {}; is its feed still updated?",
                    minute(now_s.saturating_sub(fresh.unchanged_s)),
                    limit(fresh.max_unchanged_s)
                ))
            } else {
                None
            }
        })
    }
}

/// A time in two units at most, such as `2 d 4 h`.
pub fn approximate(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {} min", minutes % 60),
        (1..=9, hours, _) => format!("{days} d {} h", hours % 24),
        (days, _, _) => format!("{days} d"),
    }
}
