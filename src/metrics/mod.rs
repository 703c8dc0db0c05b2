//! Numbers that the running program counts: plain atomics, so that counting takes no lock and no memory.
//!
//! | type | counts |
//! |---|---|
//! | [`Counter`] | one thing |
//! | [`Each`] | one thing for each of a closed set of keys: verdicts, identities, kinds of fault |
//! | [`Histogram`] | durations, by size |
//!
//! Nothing depends on the order in which two counters change, so all accesses are relaxed: a thread that reads
//! several of them may see one message in the first and not yet in the second.

mod histogram;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub use histogram::{Buckets, Histogram};

/// A number that only rises.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub fn increment(&self) {
        self.add(1);
    }

    /// So many more.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }

    /// How many there were since the start.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A counter for each of a few keys, found by looking through all of them.
#[derive(Debug)]
pub struct Each<K>(Box<[(K, Counter)]>);

impl<K: Copy + PartialEq> Each<K> {
    /// All at zero.
    pub fn new(keys: impl IntoIterator<Item = K>) -> Self {
        Self(
            keys.into_iter()
                .map(|key| (key, Counter::default()))
                .collect(),
        )
    }

    /// One more of this key; a key that [`new`](Self::new) was not given is not counted.
    pub fn increment(&self, key: K) {
        if let Some((_, counter)) = self.0.iter().find(|(known, _)| *known == key) {
            counter.increment();
        }
    }

    /// How many there were of this key.
    pub fn get(&self, key: K) -> u64 {
        let found = self.0.iter().find(|(known, _)| *known == key);
        found.map_or(0, |(_, counter)| counter.get())
    }

    /// Every key with its count, in the order of [`new`](Self::new).
    pub fn iter(&self) -> impl Iterator<Item = (K, u64)> {
        self.0.iter().map(|(key, counter)| (*key, counter.get()))
    }

    /// Of all keys together.
    pub fn sum(&self) -> u64 {
        self.iter().map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_its_own_count() {
        let counts = Each::new(["a", "b"]);
        counts.increment("b");
        counts.increment("b");
        counts.increment("unknown");
        assert_eq!(counts.iter().collect::<Vec<_>>(), [("a", 0), ("b", 2)]);
        assert_eq!((counts.get("b"), counts.sum()), (2, 2));
    }
}
