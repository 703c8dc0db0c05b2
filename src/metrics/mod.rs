//! Counters of the running program: plain atomics, so that counting needs no lock and no memory.
//!
//! | type | counts |
//! |---|---|
//! | [`Counter`] | one thing |
//! | [`Each`] | one thing for each of a closed set of keys: verdicts, identities, kinds of error |
//! | [`Histogram`] | durations, by size |
//!
//! Nothing depends on the order in which two counters change, so all accesses are relaxed: a thread
//! that reads several of them may see a message in the first and not yet in the second.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A number that rises.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `count`.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }

    /// Sets it to zero; returns what it was.
    fn take(&self) -> u64 {
        self.0.swap(0, Relaxed)
    }

    /// Returns the count since the start.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A counter for each of a few keys, found by a linear search.
#[derive(Debug)]
pub struct Each<K>(Box<[(K, Counter)]>);

impl<K: Copy + PartialEq> Each<K> {
    /// Sets all counters to zero.
    pub fn new(keys: impl IntoIterator<Item = K>) -> Self {
        Self(
            keys.into_iter()
                .map(|key| (key, Counter::default()))
                .collect(),
        )
    }

    /// Adds one to this key; does nothing for a key that [`new`](Self::new) did not get.
    pub fn increment(&self, key: K) {
        if let Some((_, counter)) = self.0.iter().find(|(known, _)| *known == key) {
            counter.increment();
        }
    }

    /// Returns the count of this key.
    pub fn get(&self, key: K) -> u64 {
        let found = self.0.iter().find(|(known, _)| *known == key);
        found.map_or(0, |(_, counter)| counter.get())
    }

    /// Iterates over every key with its count, in the order of [`new`](Self::new).
    pub fn iter(&self) -> impl Iterator<Item = (K, u64)> {
        self.0.iter().map(|(key, counter)| (*key, counter.get()))
    }

    /// Sets all counters to zero; returns every key that had a count.
    pub fn take(&self) -> impl Iterator<Item = (K, u64)> {
        let counts = self.0.iter().map(|(key, counter)| (*key, counter.take()));
        counts.filter(|(_, count)| *count > 0)
    }

    /// Returns the sum of all keys.
    pub fn sum(&self) -> u64 {
        self.iter().map(|(_, count)| count).sum()
    }
}

/// Upper bounds of the buckets, in microseconds. A message takes tens of microseconds; one that
/// waits for a disk, milliseconds; one that waits without success, two seconds.
const BOUNDS_US: [u64; 16] = [
    25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000,
];

/// Counts durations in buckets.
#[derive(Debug, Default)]
pub struct Histogram {
    /// The last counter is for durations above all bounds.
    counts: [Counter; BOUNDS_US.len() + 1],
    sum_ns: Counter,
}

/// The durations at one moment, in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Durations {
    /// How many there were.
    pub count: u64,
    /// Their sum.
    pub sum_s: f64,
    /// Upper bounds, each with the number of durations up to that bound.
    pub at_most: Vec<(f64, u64)>,
    /// The bound that half of the durations do not exceed; `None` without any, or above all bounds.
    pub median_s: Option<f64>,
    /// The same of 99 in a hundred.
    pub p99_s: Option<f64>,
}

impl Histogram {
    /// Counts a duration.
    pub fn observe(&self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_US.partition_point(|&bound| bound * 1000 < ns);
        if let Some(counter) = self.counts.get(bucket) {
            counter.increment();
        }
        self.sum_ns.add(ns);
    }

    /// Returns the current values. The counts are consistent, because each counter is read once.
    #[allow(
        clippy::cast_precision_loss,
        reason = "2^53 ns are 104 days, and counts are far below it"
    )]
    pub fn read(&self) -> Durations {
        let mut count = 0;
        let mut at_most = Vec::with_capacity(BOUNDS_US.len());
        for (&bound, counter) in BOUNDS_US.iter().zip(&self.counts) {
            count += counter.get();
            at_most.push((bound as f64 / 1e6, count));
        }
        count += self.counts.last().map_or(0, Counter::get);
        let not_exceeded_by = |share| {
            let mut reached = at_most.iter().filter(|_| count > 0);
            let found = reached.find(|(_, up_to)| *up_to as f64 >= count as f64 * share);
            found.map(|(bound, _)| *bound)
        };
        Durations {
            median_s: not_exceeded_by(0.5),
            p99_s: not_exceeded_by(0.99),
            count,
            sum_s: self.sum_ns.get() as f64 / 1e9,
            at_most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_every_bucket_that_it_fits_in() {
        let histogram = Histogram::default();
        assert_eq!(histogram.read().median_s, None);
        for us in [25, 26, 3_000_000] {
            histogram.observe(Duration::from_micros(us));
        }
        let durations = histogram.read();
        assert_eq!(durations.at_most[..2], [(25e-6, 1), (50e-6, 2)]);
        assert_eq!(durations.at_most.last(), Some(&(2.5, 2)));
        assert_eq!(durations.count, 3);
        assert!((durations.sum_s - 3.000_051).abs() < 1e-9);
        assert_eq!((durations.median_s, durations.p99_s), (Some(50e-6), None));
    }
}
