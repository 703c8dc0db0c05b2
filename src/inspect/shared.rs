//! The number of entries that filters share.
//!
//! With records, the number is exact, and is found by reading all files once. The keys of all
//! filters are walked side by side, on all processors. Without records, pairs are estimated from the
//! fill of the pages and of their union:
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

/// What several filters have.
#[derive(Debug)]
pub(super) struct Shared {
    /// Number of keys of filter i.
    pub(super) entries: Vec<u64>,
    /// Number of keys that only filter i has; 0 if they are estimated.
    pub(super) alone: Vec<u64>,
    /// Number of keys that filter i and filter j share, at `[i * filters + j]` with i < j.
    shared: Vec<u64>,
    /// Two standard deviations of the estimate of the last pair.
    pub(super) error: u64,
}

impl Shared {
    /// Reads the records of `filters`, which must have the same seed; without records, estimates.
    pub(super) fn of(filters: &[Arc<Filter>], has_records: bool) -> Result<Self, Error> {
        let mut all = Self::zero(filters.len());
        if !has_records {
            all.entries = filters.iter().map(|filter| filter.entries()).collect();
            for i in 0..filters.len() {
                for j in i + 1..filters.len() {
                    let pair = [&filters[i], &filters[j]].map(Arc::clone);
                    (all.shared[i * filters.len() + j], all.error) = estimate(&pair)?;
                }
            }
            return Ok(all);
        }
        let workers = processors() as u64;
        let parts = (0..workers).map(|n| STEPS * n / workers..STEPS * (n + 1) / workers);
        for counts in on_threads(parts, |steps| Self::of_steps(filters, steps)) {
            let mut counts = counts?;
            for (sums, counts) in all.fields().into_iter().zip(counts.fields()) {
                for (sum, count) in sums.iter_mut().zip(counts) {
                    *sum += *count;
                }
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
            entries: vec![0; filters],
            alone: vec![0; filters],
            shared: vec![0; filters * filters],
            error: 0,
        }
    }

    fn fields(&mut self) -> [&mut Vec<u64>; 3] {
        [&mut self.entries, &mut self.alone, &mut self.shared]
    }

    fn of_steps(filters: &[Arc<Filter>], steps: Range<u64>) -> Result<Self, Error> {
        let first = first_key(steps.start, STEPS);
        let streams = filters
            .iter()
            .map(|filter| FileRecords::new(filter, first, Vec::new()));
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
        }
        for (at, (i, _)) in held.iter().enumerate() {
            self.entries[*i] += 1;
            for (j, _) in &held[at + 1..] {
                self.shared[i * self.alone.len() + j] += 1;
            }
        }
    }
}

/// Estimates the entries that two filters of one size and rate share, and two standard deviations
/// of that number.
///
/// # Errors
/// When they differ in size or rate, or a file cannot be read.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "estimates not below 0, and far below 2^64"
)]
fn estimate(filters: &[Arc<Filter>; 2]) -> Result<(u64, u64), Error> {
    let [a, b] = filters;
    if a.shape() != b.shape() {
        return Err(Error::Unlike(format!(
            "{}: differs in size or rate from {}, and one of them has no records; build it again with records",
            b.path().display(),
            a.path().display()
        )));
    }
    let shape = a.shape();
    let entries = |page: &Page| sizing::entries_of_fill(count_set(page), shape.probes);
    let mut sums = [0.0; 3];
    for number in 0..shape.pages {
        let pages = [
            a.page(number)?,
            b.page(number)?,
            union_of_page(filters, number)?,
        ];
        for (sum, page) in sums.iter_mut().zip(&pages) {
            *sum += entries(page);
        }
    }
    let deviations = sums.map(|sum| sizing::estimate_deviation(sum, shape).powi(2));
    let error = 2.0 * deviations.iter().sum::<f64>().sqrt();
    let (a, b) = (a.entries(), b.entries());
    let either = (sums[2].round() as u64).clamp(a.max(b), a.saturating_add(b));
    Ok((a.saturating_add(b) - either, error.ceil() as u64))
}
