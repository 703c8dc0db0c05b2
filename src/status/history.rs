//! The last day in minutes, from counters that only rise.
//!
//! The counters do not store times. The totals are read every few seconds, and the increase counts
//! for the minute of the reading. If the clock was set back, earlier counts are shifted with it;
//! otherwise nothing would be added to new minutes until the clock reaches the old time again.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::counts::Counts;

const DAY_S: u64 = 24 * 3600;

/// The messages of one minute.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Minute {
    /// Its start, in seconds since 1970.
    pub time_s: u64,
    /// Messages by action; actions with count 0 are omitted.
    pub verdicts: Counts,
}

/// What was added to totals in the last day.
#[derive(Clone, Debug, Default)]
struct Added {
    /// The last reading. Includes what later readings do not name: disabled lists, whose counters
    /// continue when they are enabled again.
    totals: Counts,
    /// By the start of each minute or hour, the oldest first.
    steps: VecDeque<Minute>,
}

impl Added {
    /// Adds a reading. A step of this many seconds began at `time_s`.
    fn sample(&mut self, time_s: u64, step_s: u64, totals: &Counts) {
        let last_s = self.steps.back().map_or(0, |last| last.time_s);
        let ahead_s = last_s.saturating_sub(time_s);
        if ahead_s > step_s {
            for step in &mut self.steps {
                step.time_s = step.time_s.saturating_sub(ahead_s);
            }
        }
        for (name, &total) in totals {
            let before = self.totals.insert(name.clone(), total).unwrap_or_default();
            if total > before {
                // Also if the clock was set back by a step.
                if self.steps.back().is_none_or(|last| last.time_s < time_s) {
                    let verdicts = Counts::new();
                    self.steps.push_back(Minute { time_s, verdicts });
                }
                if let Some(last) = self.steps.back_mut() {
                    *last.verdicts.entry(name.clone()).or_default() += total - before;
                }
            }
        }
        let oldest_s = (time_s + step_s).saturating_sub(DAY_S);
        self.steps.retain(|step| step.time_s >= oldest_s);
    }
}

/// The readings so far: messages by minute, hits of lists by hour.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    verdicts: Added,
    lists: Added,
}

impl History {
    /// Adds a reading of the totals of messages, and of the hits of each list, at this time.
    pub(super) fn sample(&mut self, time_s: u64, verdicts: &Counts, lists: &Counts) {
        self.verdicts.sample(time_s - time_s % 60, 60, verdicts);
        self.lists.sample(time_s - time_s % 3600, 3600, lists);
    }

    /// Returns the minutes of the last day with messages, the oldest first.
    pub(super) fn minutes(&self) -> Vec<Minute> {
        self.verdicts.steps.iter().cloned().collect()
    }

    /// Returns the hits of a list in this hour and the 23 hours before.
    pub(super) fn hits_24h(&self, list: &str) -> u64 {
        let hours = self.lists.steps.iter();
        hours.filter_map(|hour| hour.verdicts.get(list)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pairs: &[(&str, u64)]) -> Counts {
        let pairs = pairs.iter().map(|&(name, count)| (name.to_owned(), count));
        pairs.collect()
    }

    /// A list is disabled, and enabled again two days later; its counter has continued.
    #[test]
    fn a_list_that_comes_back_has_the_hits_of_the_day_alone() {
        const DAY: u64 = 24 * 3600;
        let mut history = History::default();
        let mut sample = |time_s: u64, lists: &[(&str, u64)]| {
            history.sample(1_800_000_000 + time_s, &Counts::new(), &counts(lists));
            history.hits_24h("spam")
        };
        assert_eq!(sample(0, &[("spam", 1_000)]), 1_000);
        sample(5, &[]);
        sample(2 * DAY, &[]);
        assert_eq!(sample(2 * DAY + 5, &[("spam", 1_000)]), 0);
        assert_eq!(sample(2 * DAY + 10, &[("spam", 1_003)]), 3);
    }

    /// The clock is set back by three hours. The next day is counted normally.
    #[test]
    fn a_clock_that_is_put_back_takes_what_was_counted_along() {
        const T: u64 = 1_800_000_000;
        let mut history = History::default();
        let mut sample = |at: u64, total: u64| {
            let verdicts = counts(&[("accept", total)]);
            history.sample(T + at, &verdicts, &counts(&[("spam", total)]));
            let minutes = history.minutes();
            let minutes: Vec<(u64, u64)> = minutes
                .iter()
                .map(|minute| (minute.time_s - T, minute.verdicts["accept"]))
                .collect();
            (minutes, history.hits_24h("spam"))
        };
        const BACK: u64 = 3 * 3600;
        sample(BACK, 1);
        sample(BACK + 600, 3);
        assert_eq!(sample(1_200, 7), (vec![(600, 1), (1_200, 6)], 7));
        assert_eq!(sample(1_260, 8).0, [(600, 1), (1_200, 6), (1_260, 1)]);
        assert_eq!(sample(24 * 3600 + 3_000, 10).1, 2);
    }

    #[test]
    fn what_was_added_belongs_to_the_minute_of_the_reading() {
        const T: u64 = 1_800_000_000;
        let mut history = History::default();
        let mut sample = |at: u64, accept: u64, reject: u64, spam: u64| {
            let verdicts = counts(&[("accept", accept), ("reject", reject)]);
            history.sample(T + at, &verdicts, &counts(&[("spam", spam)]));
            (history.minutes(), history.hits_24h("spam"))
        };
        assert_eq!(sample(0, 0, 0, 0), (vec![], 0));
        sample(5, 3, 0, 0);
        sample(59, 4, 1, 1);
        sample(60, 4, 1, 1);
        // The clock is set back.
        sample(20, 4, 2, 2);
        let (minutes, hits) = sample(130, 5, 2, 2);
        let minute = |at: u64, pairs| Minute {
            time_s: T + at,
            verdicts: counts(pairs),
        };
        assert_eq!(
            minutes,
            [
                minute(0, &[("accept", 4), ("reject", 2)]),
                minute(120, &[("accept", 1)])
            ]
        );
        assert_eq!(hits, 2);
        // A day later the first minute is gone, and so is the hour of its hits.
        let (minutes, hits) = sample(24 * 3600, 5, 3, 5);
        assert_eq!(minutes.len(), 2);
        assert_eq!(minutes[0].time_s, T + 120);
        assert_eq!(hits, 3);
    }
}
