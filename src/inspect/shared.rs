//! The number of entries that filters share.
//!
//! With records, the number is exact, and is found by reading all files once. The keys of all
//! filters are walked side by side, on all processors. Without records, pairs are estimated from the fill of the pages
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
use crate::compile::{Error, FileRecords, Held, Progress, STEPS, Walk, union_of_page};
use crate::filter::page::{Page, count_set, first_key};
use crate::filter::{Filter, sizing};

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
        let first = first_key(steps.start, STEPS);
        let streams = filters.iter().map(|filter| FileRecords::of(filter, first));
        let streams: Vec<_> = streams.collect::<Result<_, _>>()?;
        let mut counts = Self::zero(filters.len());
        let mut walk = Walk::new(streams.into_iter().map(|stream| Box::new(stream) as _));
        walk.steps(steps, &Progress::new(), |held| {
            counts.count(held);
            Ok(())
        })?;
        Ok(counts)
    }

    /// Counts one key, given with the filters that have it, in their order.
    fn count(&mut self, held: &[Held]) {
        if let [(filter, _)] = held {
            self.alone[*filter] += 1;
            return;
        }
        for (at, (i, _)) in held.iter().enumerate() {
            for (j, _) in &held[at + 1..] {
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
