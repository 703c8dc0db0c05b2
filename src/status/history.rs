//! What was counted, by time: minutes of the last day, hours of the last 30 days.
//!
//! The counters do not store times. The totals are read every few seconds, and the increase counts
//! for the minute of the reading. If the clock was set back, earlier counts are shifted with it;
//! otherwise nothing would be added to new minutes until the clock reaches the old time again.
//!
//! The history is kept over a restart, but the totals are not: the counters begin at zero again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::metrics::Each;

const MINUTE_S: u64 = 60;
const HOUR_S: u64 = 3600;
pub(super) const DAY_S: u64 = 24 * HOUR_S;
pub(super) const MONTH_S: u64 = 30 * DAY_S;
/// Readings further apart than this leave a time without data.
const GAP_S: u64 = 120;
/// Most such times.
const PERIODS_MAX: usize = 1_000;

pub(super) type Counts = BTreeMap<String, u64>;

pub(super) fn counts<K: Copy + PartialEq>(
    each: &Each<K>,
    name: impl Fn(K) -> &'static str,
) -> Counts {
    let counts = each.iter();
    let counts = counts.map(|(key, count)| (name(key).to_owned(), count));
    counts.collect()
}

/// What was counted in one minute or hour.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Minute {
    /// Its start, in seconds since 1970.
    pub time_s: u64,
    /// Messages by action; actions with count 0 are omitted.
    pub verdicts: Counts,
}

/// What was added to totals.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Added {
    /// The last reading. Includes what later readings do not name: disabled lists, whose counters
    /// continue when they are enabled again.
    #[serde(skip)]
    totals: Counts,
    /// By the start of each minute or hour, the oldest first.
    pub(super) steps: Vec<Minute>,
}

impl Added {
    /// Adds a reading at `now_s`, in steps of this length, of which those of `kept_s` are kept.
    fn sample(&mut self, now_s: u64, step_s: u64, kept_s: u64, totals: &Counts) {
        let time_s = now_s - now_s % step_s;
        let last_s = self.steps.last().map_or(0, |last| last.time_s);
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
                if self.steps.last().is_none_or(|last| last.time_s < time_s) {
                    let verdicts = Counts::new();
                    self.steps.push(Minute { time_s, verdicts });
                }
                if let Some(last) = self.steps.last_mut() {
                    *last.verdicts.entry(name.clone()).or_default() += total - before;
                }
            }
        }
        let oldest_s = (time_s + step_s).saturating_sub(kept_s);
        self.steps.retain(|step| step.time_s >= oldest_s);
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct History {
    /// Messages of the last day, by minute.
    pub(super) minutes: Added,
    /// Messages of the last 30 days, by hour.
    pub(super) hours: Added,
    /// Hits by hour: those of each list by its name, and the messages as the decisions name their hits.
    hits: Added,
    /// From when to when there were readings, in seconds since 1970, the oldest first.
    pub(super) periods: Vec<(u64, u64)>,
}

impl History {
    pub(super) fn sample(&mut self, time_s: u64, verdicts: &Counts, hits: &Counts) {
        self.minutes.sample(time_s, MINUTE_S, DAY_S, verdicts);
        self.hours.sample(time_s, HOUR_S, MONTH_S, verdicts);
        self.hits.sample(time_s, HOUR_S, DAY_S, hits);
        match self.periods.last_mut() {
            Some((_, last)) if time_s.abs_diff(*last) <= GAP_S => *last = time_s.max(*last),
            _ => self.periods.push((time_s, time_s)),
        }
        let oldest_s = time_s.saturating_sub(MONTH_S);
        self.periods.retain(|(_, last)| *last >= oldest_s);
        let more = self.periods.len().saturating_sub(PERIODS_MAX);
        self.periods.drain(..more);
    }

    /// Returns the hits in this hour and the 23 hours before.
    pub(super) fn hits_24h(&self) -> Counts {
        let mut sums = Counts::new();
        for (name, count) in self.hits.steps.iter().flat_map(|hour| &hour.verdicts) {
            *sums.entry(name.clone()).or_default() += count;
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: u64 = 1_800_000_000;

    /// Adds a reading after [`T`]. Returns the minutes with accepted messages after it, and the hits of the day.
    fn read(
        history: &mut History,
        at: u64,
        accept: u64,
        spam: Option<u64>,
    ) -> (Vec<(u64, u64)>, u64) {
        let spam = spam.map(|count| ("spam".to_owned(), count));
        let verdicts = Counts::from([("accept".to_owned(), accept)]);
        history.sample(T + at, &verdicts, &spam.into_iter().collect());
        let minutes = history.minutes.steps.iter();
        let minutes = minutes.map(|minute| (minute.time_s - T, minute.verdicts["accept"]));
        (minutes.collect(), history.hits_24h().values().sum())
    }

    #[test]
    fn what_was_added_belongs_to_the_minute_of_the_reading() {
        type Row<'a> = (u64, u64, Option<u64>, &'a [(u64, u64)], u64);
        let accepted: [Row<'_>; 7] = [
            (0, 0, Some(0), &[], 0),
            (5, 3, Some(0), &[(0, 3)], 0),
            (59, 4, Some(1), &[(0, 4)], 1),
            (60, 4, Some(1), &[(0, 4)], 1),
            // The clock is set back.
            (20, 5, Some(2), &[(0, 5)], 2),
            (130, 6, Some(2), &[(0, 5), (120, 1)], 2),
            // A day later the first minute is gone, and so is the hour of its hits.
            (DAY_S, 7, Some(5), &[(120, 1), (DAY_S, 1)], 3),
        ];
        // The clock is set back by three hours. The next day is counted normally.
        let set_back: [Row<'_>; 5] = [
            (10_800, 1, Some(1), &[(10_800, 1)], 1),
            (11_400, 3, Some(3), &[(10_800, 1), (11_400, 2)], 3),
            (1_200, 7, Some(7), &[(600, 1), (1_200, 6)], 7),
            (1_260, 8, Some(8), &[(600, 1), (1_200, 6), (1_260, 1)], 8),
            (DAY_S + 3_000, 10, Some(10), &[(DAY_S + 3_000, 2)], 2),
        ];
        // A list is disabled, and enabled again two days later; its counter has continued.
        let comes_back: [Row<'_>; 5] = [
            (0, 0, Some(1_000), &[], 1_000),
            (5, 0, None, &[], 1_000),
            (2 * DAY_S, 0, None, &[], 0),
            (2 * DAY_S + 5, 0, Some(1_000), &[], 0),
            (2 * DAY_S + 10, 0, Some(1_003), &[], 3),
        ];
        for rows in [&accepted[..], &set_back, &comes_back] {
            let mut history = History::default();
            for &(at, accept, spam, minutes, hits) in rows {
                let found = read(&mut history, at, accept, spam);
                assert_eq!(found, (minutes.to_vec(), hits), "at {at}");
            }
        }
    }

    #[test]
    fn a_restart_continues_the_history_and_leaves_a_gap() {
        let mut history = History::default();
        read(&mut history, 0, 5, None);
        read(&mut history, 60, 7, None);
        let kept = serde_json::to_string(&history).unwrap();
        let mut after: History = serde_json::from_str(&kept).unwrap();
        // The counters begin at zero.
        let (minutes, _) = read(&mut after, 1_000, 1, None);
        assert_eq!(minutes, [(0, 5), (60, 2), (960, 1)]);
        assert_eq!(after.hours.steps.len(), 1);
        assert_eq!(after.hours.steps[0].verdicts["accept"], 8);
        assert_eq!(after.periods, [(T, T + 60), (T + 1_000, T + 1_000)]);
    }
}
