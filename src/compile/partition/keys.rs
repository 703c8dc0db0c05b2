//! Staged keys -> distinct keys, counted, in order.
//!
//! The keys that remain after merging duplicates are counted by kind and source, so that the size of
//! the filter is known before its first page is written.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::sort;
use super::stage::Sealed;
use super::staged_key::{STAGES, StagedKey, are_alike};
use crate::base::parallel::on_threads;
use crate::compile::error::Error;
use crate::compile::progress::Progress;
use crate::compile::write::{EntryCounts, Gathered, Sorted};
use crate::filter::{Dates, Key, Record};

/// Sorts every stage and merges its duplicates, on `threads` threads.
pub(crate) fn sort_all<I: StagedKey>(
    keys: &Sealed<'_, I>,
    threads: usize,
    progress: &Progress,
) -> Result<EntryCounts, Error> {
    let next = AtomicUsize::new(0);
    let done: Vec<Result<_, Error>> = on_threads(0..threads, |_| {
        let (mut staged, mut scratch, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        let mut counts = EntryCounts::default();
        loop {
            let stage = next.fetch_add(1, Ordering::Relaxed);
            if stage >= STAGES {
                return Ok(counts);
            }
            progress.go_on()?;
            keys.gather(stage, &mut staged, &mut bytes)?;
            let before = staged.len() as u64;
            sort::sort_and_merge(&mut staged, &mut scratch);
            keys.put_back(stage, &staged, &mut bytes)?;
            counts.count_staged(&staged);
            progress.add(before);
        }
    });
    let mut all = EntryCounts::default();
    for counts in done {
        all.add(&counts?);
    }
    Ok(all)
}

impl EntryCounts {
    /// Counts staged keys. Counts a run of one source and kind at once: most lists are of one kind.
    pub(crate) fn count_staged<I: StagedKey>(&mut self, staged: &[I]) {
        if let Some(first) = staged.first()
            && are_alike(staged)
        {
            return self.count_run(first.class(Dates::default()), staged.len());
        }
        for run in staged.chunk_by(|a, b| a.difference(*b) == 0) {
            self.count_run(run[0].class(Dates::default()), run.len());
        }
    }
}

pub(crate) struct InOrder<'a, 'm, I> {
    keys: &'a Sealed<'m, I>,
    dates: Dates,
    next_stage: usize,
    staged: Vec<I>,
    at: usize,
    bytes: Vec<u8>,
}

impl<'a, 'm, I: StagedKey> InOrder<'a, 'm, I> {
    pub(crate) fn new(keys: &'a Sealed<'m, I>, dates: Dates) -> Self {
        Self {
            keys,
            dates,
            next_stage: 0,
            staged: Vec::new(),
            at: 0,
            bytes: Vec::new(),
        }
    }

    /// Visits the staged keys before `end` that were not taken yet, with their stage.
    fn take(&mut self, end: Option<Key>, mut visit: impl FnMut(usize, &[I])) -> Result<(), Error> {
        loop {
            let stage = self.next_stage.wrapping_sub(1);
            let left = &self.staged[self.at..];
            let count = match end {
                Some(end) => left.partition_point(|key| key.key(stage) < end),
                None => left.len(),
            };
            visit(stage, &left[..count]);
            self.at += count;
            if self.at < self.staged.len() || self.next_stage == STAGES {
                return Ok(());
            }
            self.keys
                .gather(self.next_stage, &mut self.staged, &mut self.bytes)?;
            self.next_stage += 1;
            self.at = 0;
        }
    }
}

impl<I: StagedKey> Sorted for InOrder<'_, '_, I> {
    fn take_before(&mut self, end: Option<Key>, into: &mut Vec<Record>) -> Result<(), Error> {
        let dates = self.dates;
        self.take(end, |stage, keys| into.extend(records(stage, keys, dates)))
    }

    fn gather_before(&mut self, end: Option<Key>, into: &mut Gathered) -> Result<(), Error> {
        let dates = self.dates;
        self.take(end, |stage, keys| {
            if let Some(first) = keys.first()
                && are_alike(keys)
            {
                let alike = keys.iter().map(|key| key.key(stage));
                into.add_alike(first.class(dates), alike);
            } else {
                into.records().extend(records(stage, keys, dates));
            }
        })
    }
}

fn records<I: StagedKey>(stage: usize, keys: &[I], dates: Dates) -> impl Iterator<Item = Record> {
    keys.iter()
        .map(move |key| key.class(dates).record(key.key(stage)))
}
