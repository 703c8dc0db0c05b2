//! Staged keys -> each key once, counted, in order.
//!
//! The stages are sorted on all threads; what is left after joining doubles is counted
//! by kind and source, so that the size of the filter is known before its first page
//! is written.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::item::{Dates, Item, STAGES};
use super::sorted::Sorted;
use super::stage::Sealed;
use super::{Error, Plan, Progress, sort};
use crate::filter::Record;
use crate::parallel::on_threads;

/// Entries left, each counted once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Census {
    /// By source, then kind.
    by_source: BTreeMap<u32, [u64; 4]>,
}

impl Census {
    /// Counts entries, runs of one source and kind at once: most lists are of one kind.
    pub(crate) fn count(&mut self, records: &[Record]) {
        for run in records.chunk_by(|a, b| (a.source, a.kind) == (b.source, b.kind)) {
            self.count_run(run[0].kind, run[0].source, run.len());
        }
    }

    fn count_items<I: Item>(&mut self, items: &[I]) {
        for run in items.chunk_by(|a, b| a.origin() == b.origin()) {
            let (kind, source) = run[0].origin();
            self.count_run(kind, source, run.len());
        }
    }

    fn count_run(&mut self, kind: u8, source: u32, length: usize) {
        self.by_source.entry(source).or_default()[usize::from(kind & 3)] += length as u64;
    }

    /// Adds what another worker counted.
    pub(crate) fn add(&mut self, other: &Self) {
        for (source, kinds) in &other.by_source {
            let sums = self.by_source.entry(*source).or_default();
            for (sum, count) in sums.iter_mut().zip(kinds) {
                *sum += count;
            }
        }
    }

    /// All entries.
    pub(crate) fn entries(&self) -> u64 {
        self.kinds().iter().sum()
    }

    /// Entries by kind.
    pub(crate) fn kinds(&self) -> [u64; 4] {
        let mut sums = [0; 4];
        for kinds in self.by_source.values() {
            for (sum, count) in sums.iter_mut().zip(kinds) {
                *sum += count;
            }
        }
        sums
    }

    /// Entries whose record names this source.
    pub(crate) fn of_source(&self, source: u32) -> u64 {
        self.by_source
            .get(&source)
            .map_or(0, |kinds| kinds.iter().sum())
    }

    /// Kinds present, as the header has them.
    pub(crate) fn kind_bits(&self) -> u8 {
        (0_u8..)
            .zip(self.kinds())
            .filter(|(_, count)| *count > 0)
            .fold(0, |bits, (kind, _)| bits | 1 << kind)
    }
}

/// Sorts every stage and joins its doubles.
///
/// # Errors
/// When the spill file fails, and when a person interrupts.
pub(crate) fn sort_all<I: Item>(
    keys: &Sealed<'_, I>,
    plan: &Plan,
    progress: &Progress,
) -> Result<Census, Error> {
    let threads = plan.sorters(keys.used_bytes(), keys.largest_bytes());
    let next = AtomicUsize::new(0);
    let worker = || {
        let (mut items, mut scratch, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        let mut census = Census::default();
        loop {
            let stage = next.fetch_add(1, Ordering::Relaxed);
            if stage >= STAGES {
                return Ok(census);
            }
            progress.go_on()?;
            keys.gather(stage, &mut items, &mut bytes)?;
            let before = items.len() as u64;
            sort::sort(&mut items, &mut scratch);
            sort::join_doubles(&mut items);
            keys.put_back(stage, &items, &mut bytes)?;
            census.count_items(&items);
            progress.add(before);
        }
    };
    let done: Vec<Result<Census, Error>> = on_threads(0..threads, |_| worker());
    let mut all = Census::default();
    for census in done {
        all.add(&census?);
    }
    Ok(all)
}

/// The sorted stages as records, one after the other.
pub(crate) struct InOrder<'a, 'm, I> {
    keys: &'a Sealed<'m, I>,
    /// Of items that keep no dates.
    dates: Dates,
    /// The stage after the one in `items`.
    next_stage: usize,
    items: Vec<I>,
    /// The first item not taken.
    at: usize,
    bytes: Vec<u8>,
}

impl<'a, 'm, I: Item> InOrder<'a, 'm, I> {
    /// From the lowest key on.
    pub(crate) fn new(keys: &'a Sealed<'m, I>, dates: Dates) -> Self {
        Self {
            keys,
            dates,
            next_stage: 0,
            items: Vec::new(),
            at: 0,
            bytes: Vec::new(),
        }
    }
}

impl<I: Item> Sorted for InOrder<'_, '_, I> {
    fn take_before(&mut self, end: Option<u64>, into: &mut Vec<Record>) -> Result<(), Error> {
        loop {
            let stage = self.next_stage.wrapping_sub(1);
            let left = &self.items[self.at..];
            let record = |item: &I| item.record(stage, self.dates);
            let count = match end {
                Some(end) => left.partition_point(|item| record(item).key < end),
                None => left.len(),
            };
            into.extend(left[..count].iter().map(record));
            self.at += count;
            if self.at < self.items.len() || self.next_stage == STAGES {
                return Ok(());
            }
            self.keys
                .gather(self.next_stage, &mut self.items, &mut self.bytes)?;
            self.next_stage += 1;
            self.at = 0;
        }
    }
}
