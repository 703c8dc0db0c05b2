//! The last day in minutes, from counters that only rise.
//!
//! The counters do not store times. The totals are read every few seconds, and the increase counts
//! for the minute of the reading. If the clock was set back, earlier counts are shifted with it;
//! otherwise nothing would be added to new minutes until the clock reaches the old time again.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::counts::Counts;

/// Minutes in a day.
const MINUTES: u64 = 24 * 60;
const HOURS: u64 = 24;

/// The messages of one minute.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Minute {
    /// Its start, in seconds since 1970.
    pub time_s: u64,
    /// Messages by action; actions with count 0 are omitted.
    pub verdicts: Counts,
}

/// The readings so far.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    minutes: VecDeque<Minute>,
    verdicts: Counts,
    /// For each list its total, and the increase in each hour. Includes disabled lists, because
    /// their counters continue when they are enabled again.
    lists: BTreeMap<String, (u64, VecDeque<(u64, u64)>)>,
}

impl History {
    /// Adds a reading of the totals of messages, and of the hits of each list, at this time.
    pub(super) fn sample(&mut self, time_s: u64, verdicts: Counts, lists: &Counts) {
        let minute_s = time_s - time_s % 60;
        if let Some(ahead_s) = self
            .minutes
            .back()
            .map(|last| last.time_s.saturating_sub(minute_s))
            && ahead_s > 60
        {
            for minute in &mut self.minutes {
                minute.time_s = minute.time_s.saturating_sub(ahead_s);
            }
        }
        let mut added = Counts::new();
        for (name, total) in &verdicts {
            let before = self.verdicts.get(name).copied().unwrap_or_default();
            if *total > before {
                added.insert(name.clone(), total - before);
            }
        }
        self.verdicts = verdicts;
        if !added.is_empty() {
            match self.minutes.back_mut() {
                // Also if the clock was set back by a minute.
                Some(last) if last.time_s >= minute_s => {
                    for (name, count) in added {
                        *last.verdicts.entry(name).or_default() += count;
                    }
                }
                Some(_) | None => self.minutes.push_back(Minute {
                    time_s: minute_s,
                    verdicts: added,
                }),
            }
        }
        let oldest_s = (minute_s + 60).saturating_sub(MINUTES * 60);
        while self
            .minutes
            .front()
            .is_some_and(|minute| minute.time_s < oldest_s)
            || self.minutes.len() as u64 > MINUTES
        {
            self.minutes.pop_front();
        }
        self.sample_lists(time_s / 3600, lists);
    }

    fn sample_lists(&mut self, hour: u64, lists: &Counts) {
        for (name, &total) in lists {
            let (before, hours) = self.lists.entry(name.clone()).or_default();
            let added = total.saturating_sub(*before);
            *before = total;
            if let Some(ahead) = hours.back().map(|&(last, _)| last.saturating_sub(hour))
                && ahead > 1
            {
                for (at, _) in hours.iter_mut() {
                    *at = at.saturating_sub(ahead);
                }
            }
            match hours.back_mut() {
                Some((last, count)) if *last >= hour => *count += added,
                Some(_) | None => hours.push_back((hour, added)),
            }
            while hours
                .front()
                .is_some_and(|(first, _)| first + HOURS <= hour)
            {
                hours.pop_front();
            }
        }
    }

    /// Returns the minutes of the last day with messages, the oldest first.
    pub(super) fn minutes(&mut self) -> Vec<Minute> {
        self.minutes.make_contiguous().to_vec()
    }

    /// Returns the hits of a list in this hour and the 23 hours before.
    pub(super) fn hits_24h(&self, list: &str) -> u64 {
        let hours = self.lists.get(list).map(|(_, hours)| hours);
        hours.into_iter().flatten().map(|(_, count)| count).sum()
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
            history.sample(1_800_000_000 + time_s, Counts::new(), &counts(lists));
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
            history.sample(T + at, verdicts, &counts(&[("spam", total)]));
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
            history.sample(T + at, verdicts, &counts(&[("spam", spam)]));
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
