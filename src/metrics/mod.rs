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

mod histogram;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub use histogram::{Buckets, Histogram};

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
