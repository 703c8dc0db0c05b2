//! Staged keys -> each key once, counted, in order.
//!
//! The stages are sorted on all threads; what is left after joining doubles is counted
//! by kind and source, so that the size of the filter is known before its first page
//! is written.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::item::{Dates, Item, STAGES};
use super::sort;
use super::stage::Sealed;
use crate::compile::write::{Census, Sorted};
use crate::compile::{Error, Progress};
use crate::filter::Record;
use crate::parallel::on_threads;

/// Sorts every stage and joins its doubles, on `threads` threads.
///
/// # Errors
/// When the spill file fails, and when a person interrupts.
pub(crate) fn sort_all<I: Item>(
    keys: &Sealed<'_, I>,
    threads: usize,
    progress: &Progress,
) -> Result<Census, Error> {
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
            for run in items.chunk_by(|a, b| a.origin() == b.origin()) {
                let (kind, source) = run[0].origin();
                census.count_run(kind, source, run.len());
            }
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
