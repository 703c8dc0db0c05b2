//! Counts the distinct entries of all parts, which determines the size of the filter.
//!
//! The workers read the parts in batches, sort each batch and join its duplicates. The results are kept in memory as
//! far as possible, and the pages are later made from them. The other batches are read from the parts again: sorting
//! a batch again costs less than writing it to a temporary file and reading it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::ranges::{Ranges, last_before};
use super::read::{Reader, Reading, Tally};
use crate::base::parallel::on_threads;
use crate::compile::Error;
use crate::compile::partition::StagedKey;
use crate::compile::write::EntryCounts;
use crate::filter::Key;

/// All entries, each counted once.
#[derive(Debug)]
pub(super) struct Counted<'m> {
    pub(super) counts: EntryCounts,
    /// Entries left out because they have expired since, by source.
    pub(super) expired: Vec<u64>,
    /// Records of each part, duplicates and expired ones included.
    pub(super) records: Vec<u64>,
    pub(super) kept: Kept<'m>,
}

/// Counts the entries of all parts whose keys are from the first key to before the second one (`None`: to the last).
/// `None` if a record has dates that `I` cannot store.
///
/// # Errors
/// When a part is damaged or cannot be read, and on an interrupt.
pub(super) fn count<'m, I: StagedKey>(
    reading: &Reading<'_>,
    ranges: Ranges,
    keys: (Key, Option<Key>),
    memory: &'m mut [u8],
) -> Result<Option<Counted<'m>>, Error> {
    let next = AtomicU64::new(ranges.batch_of(ranges.range_of(keys.0)));
    let kept = Kept::new(ranges, memory);
    let worker = || {
        let done = work::<I>(reading, ranges, keys, &next, &kept);
        if !matches!(done, Ok(Some(_))) {
            // The other workers take no further batch.
            next.store(u64::MAX / 2, Ordering::Relaxed);
        }
        done
    };
    let (mut counts, mut tally) = (EntryCounts::default(), Tally::of(reading));
    let mut dated = false;
    for done in on_threads(0..ranges.workers, |_| worker()) {
        match done? {
            Some((here, read)) => {
                counts.add(&here);
                tally.add(&read);
            }
            None => dated = true,
        }
    }
    if dated {
        return Ok(None);
    }
    Ok(Some(Counted {
        counts,
        expired: tally.expired,
        records: tally.records,
        kept,
    }))
}

/// One worker.
fn work<'m, I: StagedKey>(
    reading: &Reading<'_>,
    ranges: Ranges,
    keys: (Key, Option<Key>),
    next: &AtomicU64,
    kept: &Kept<'m>,
) -> Result<Option<(EntryCounts, Tally)>, Error> {
    let mut reader = Reader::<I>::new(reading, ranges);
    let mut counts = EntryCounts::default();
    let last_batch = ranges.batch_of(ranges.range_of(last_before(keys.1)));
    loop {
        let batch = next.fetch_add(1, Ordering::Relaxed);
        if batch > last_batch {
            return Ok(Some((counts, reader.tally)));
        }
        let (first, end) = (ranges.first_range(batch), ranges.first_range(batch + 1));
        let from = ranges.first_key(first).unwrap_or_default().max(keys.0);
        let end = match batch == last_batch {
            true => keys.1,
            false => ranges.first_key(end),
        };
        let mut keeping = Some(Vec::new());
        let records = reader.read(from, end, |range, keys| {
            counts.count_staged(keys);
            keeping = keeping.take().and_then(|mut batch: Vec<&'m [u8]>| {
                // A range visited in several pieces is not kept: it is read again.
                (first + batch.len() as u64 == range).then_some(())?;
                let bytes = kept.take(keys.len() * I::BYTES)?;
                I::store(keys.iter().copied(), bytes);
                batch.push(bytes);
                Some(batch)
            });
            Ok(())
        })?;
        let Some(records) = records else {
            return Ok(None);
        };
        if let Some(keeping) = keeping
            && first + keeping.len() as u64 == ranges.first_range(batch + 1)
        {
            kept.put(batch, keeping);
        }
        reading.progress.add(records);
        reading.progress.add_entries(records);
    }
}

/// Sorted keys in memory, as the bytes of staged keys.
#[derive(Debug)]
pub(super) struct Kept<'m> {
    ranges: Ranges,
    free: Mutex<&'m mut [u8]>,
    /// The ranges of each batch that is in memory.
    batches: Vec<OnceLock<Vec<&'m [u8]>>>,
}

impl<'m> Kept<'m> {
    pub(super) fn new(ranges: Ranges, memory: &'m mut [u8]) -> Self {
        Self {
            ranges,
            free: Mutex::new(memory),
            batches: (0..ranges.batches()).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Allocates this much memory; `None` if less is left.
    fn take(&self, length_bytes: usize) -> Option<&'m mut [u8]> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let (taken, rest) = std::mem::take(&mut *free).split_at_mut_checked(length_bytes)?;
        *free = rest;
        Some(taken)
    }

    fn put(&self, batch: u64, ranges: Vec<&'m [u8]>) {
        if let Some(place) = usize::try_from(batch)
            .ok()
            .and_then(|batch| self.batches.get(batch))
        {
            // Each batch is stored only once.
            let _ = place.set(ranges);
        }
    }

    /// The ranges of a batch, if it is in memory.
    pub(super) fn batch(&self, batch: u64) -> Option<&[&'m [u8]]> {
        let batch = self.batches.get(usize::try_from(batch).ok()?)?;
        batch.get().map(Vec::as_slice)
    }

    /// Whether all batches are in memory.
    pub(super) fn is_all(&self) -> bool {
        self.batches.iter().all(|batch| batch.get().is_some())
    }

    /// Appends the keys of a stored range from `from` to before `end`.
    pub(super) fn load<I: StagedKey>(
        &self,
        range: u64,
        bytes: &[u8],
        (from, end): (Key, Option<Key>),
        into: &mut Vec<I>,
    ) {
        let stage = self.ranges.stage_of(range);
        let mut one = Vec::with_capacity(1);
        let mut before = |key: Key| {
            let (mut low, mut high) = (0, bytes.len() / I::BYTES);
            while low < high {
                let middle = low.midpoint(high);
                one.clear();
                I::load(&bytes[middle * I::BYTES..][..I::BYTES], &mut one);
                match one.first().is_some_and(|found: &I| found.key(stage) < key) {
                    true => low = middle + 1,
                    false => high = middle,
                }
            }
            low * I::BYTES
        };
        let is_first = self
            .ranges
            .first_key(range)
            .is_none_or(|first| first < from);
        let start = if is_first { before(from) } else { 0 };
        let next = self.ranges.first_key(range + 1);
        let stop = match end {
            Some(end) if next.is_none_or(|next| end < next) => before(end),
            _ => bytes.len(),
        };
        I::load(&bytes[start..stop.max(start)], into);
    }
}
