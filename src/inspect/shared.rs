//! The number of entries that filters share.
//!
//! With records, the number is exact, and is found by reading all files once. The keys of all
//! filters are taken range by range and sorted together, so that equal keys are next to each other:
//!
//! ```text
//!   key      3  3  4  7  7  7        3 is in A and B, 4 in B and nowhere else,
//!   filter   A  B  B  A  B  C        7 in all three
//! ```
//!
//! All processors count ranges. Without records, pairs are estimated from the fill of the pages
//! and of their union:
//!
//! ```text
//! n = -(m/k) ln(1 - X/m)   for each page (X of m bits set), summed
//! both = |A| + |B| - |A u B|
//! ```
//!
//! The error of the difference is that of three estimates. It is given as two standard
//! deviations, so the true value is within it in 19 of 20 cases.

use std::ops::Range;
use std::sync::Arc;

use crate::base::parallel::{on_threads, processors};
use crate::compile::{Error, union_of_page};
use crate::filter::page::{Page, count_set, first_key};
use crate::filter::{Filter, Key, sizing};

/// Number of ranges in which keys are counted.
const STEPS: u64 = 4096;

/// The counts from reading the records of several filters.
#[derive(Debug)]
pub(super) struct Shared {
    /// Number of keys that only filter i has.
    pub(super) alone: Vec<u64>,
    /// Number of keys that filter i and filter j share, at `[i * filters + j]` with i < j.
    shared: Vec<u64>,
}

impl Shared {
    /// Reads the records of `filters`, which must have the same seed.
    pub(super) fn of(filters: &[Arc<Filter>]) -> Result<Self, Error> {
        let workers = processors() as u64;
        let parts = (0..workers).map(|n| STEPS * n / workers..STEPS * (n + 1) / workers);
        let counted = on_threads(parts, |steps| Self::of_steps(filters, steps));
        let mut all = Self::zero(filters.len());
        for counts in counted {
            let counts = counts?;
            let sums = all.alone.iter_mut().chain(&mut all.shared);
            for (sum, count) in sums.zip(counts.alone.iter().chain(&counts.shared)) {
                *sum += count;
            }
        }
        Ok(all)
    }

    /// Returns the number of keys that two different filters share.
    pub(super) fn shared(&self, i: usize, j: usize) -> u64 {
        self.shared[i.min(j) * self.alone.len() + i.max(j)]
    }

    fn zero(filters: usize) -> Self {
        Self {
            alone: vec![0; filters],
            shared: vec![0; filters * filters],
        }
    }

    fn of_steps(filters: &[Arc<Filter>], steps: Range<u64>) -> Result<Self, Error> {
        let mut counts = Self::zero(filters.len());
        let first = first_key(steps.start, STEPS);
        let mut streams: Vec<_> = filters
            .iter()
            .map(|filter| filter.records_from(first))
            .collect::<Result<_, _>>()?;
        let mut records = Vec::new();
        let mut keys = Vec::new();
        for step in steps {
            let end = (step + 1 < STEPS).then(|| first_key(step + 1, STEPS));
            keys.clear();
            for (filter, stream) in streams.iter_mut().enumerate() {
                records.clear();
                stream.take_before(end, &mut records)?;
                let ours = records.iter().filter(|record| record.key >= first);
                keys.extend(ours.map(|record| (record.key, filter)));
            }
            // The stable sort of the standard library finds the sorted runs and merges them.
            keys.sort_by_key(|(key, _)| *key);
            for holders in keys.chunk_by(|a, b| a.0 == b.0) {
                counts.count(holders);
            }
        }
        Ok(counts)
    }

    /// Counts one key, given with the filters that have it, in their order.
    fn count(&mut self, holders: &[(Key, usize)]) {
        if let [(_, filter)] = holders {
            self.alone[*filter] += 1;
            return;
        }
        for (at, (_, i)) in holders.iter().enumerate() {
            for (_, j) in &holders[at + 1..] {
                self.shared[i * self.alone.len() + j] += 1;
            }
        }
    }
}

/// The numbers of entries of two filters, estimated from their pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimate {
    /// Number of entries of each filter.
    pub(super) entries: [u64; 2],
    /// Number of entries of at least one of the filters.
    pub(super) either: u64,
    /// Two standard deviations of `either`.
    pub(super) error: u64,
}

impl Estimate {
    /// Returns the number of entries of both filters.
    pub(super) fn both(&self) -> u64 {
        let [a, b] = self.entries;
        a.saturating_add(b) - self.either
    }
}

/// Estimates the entries that two filters of one size and rate share.
///
/// # Errors
/// When they differ in size or rate, or a file cannot be read.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "counts far below 2^53, estimates not below 0"
)]
pub(super) fn estimate(filters: &[Arc<Filter>; 2]) -> Result<Estimate, Error> {
    if filters[0].shape() != filters[1].shape() {
        return Err(Error::Unlike(format!(
            "{}: differs in size or rate from {}, and one of them has no records; build it again with records",
            filters[1].path().display(),
            filters[0].path().display()
        )));
    }
    let shape = filters[0].shape();
    let entries = |page: &Page| sizing::entries_of_fill(count_set(page), shape.probes);
    let mut sums = [0.0; 3];
    for number in 0..shape.pages {
        let pages = [
            filters[0].page(number)?,
            filters[1].page(number)?,
            union_of_page(filters, number)?,
        ];
        for (sum, page) in sums.iter_mut().zip(&pages) {
            *sum += entries(page);
        }
    }
    let deviations = sums.map(|sum| sizing::estimate_deviation(sum, shape).powi(2));
    // The number of entries is known if they were counted.
    let known = |filter: &Filter, sum: f64| {
        if filter.header().estimated {
            sum.round() as u64
        } else {
            filter.entries()
        }
    };
    let (a, b) = (known(&filters[0], sums[0]), known(&filters[1], sums[1]));
    let either = (sums[2].round() as u64).clamp(a.max(b), a.saturating_add(b));
    let error = 2.0 * deviations.iter().sum::<f64>().sqrt();
    Ok(Estimate {
        entries: [a, b],
        either,
        error: error.ceil() as u64,
    })
}
