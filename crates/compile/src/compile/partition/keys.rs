//! Staged keys -> distinct keys, counted, in order.
//!
//! The keys that remain after merging duplicates are counted by kind and source, so that the size of
//! the filter is known before its first page is written.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::sort;
use super::stage::Sealed;
use super::staged_key::{STAGES, StagedKey};
use crate::compile::error::Error;
use crate::compile::progress::Progress;
use crate::compile::write::{EntryCounts, Sorted};
use blocklist_filter::base::parallel::on_threads;
use blocklist_filter::filter::{Batch, Dates, Key};

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
            count(&staged, &mut counts);
            progress.add(before);
        }
    });
    let mut all = EntryCounts::default();
    for counts in done {
        all.add(&counts?);
    }
    Ok(all)
}

/// Counts staged keys. Counts a run of one class at once: most lists are of one.
fn count<I: StagedKey>(staged: &[I], counts: &mut EntryCounts) {
    let mut count = |run: &[I]| counts.count_run(run[0].class(Dates::default()), run.len());
    match are_alike(staged) {
        true if staged.is_empty() => {}
        true => count(staged),
        false => (staged.chunk_by(|a, b| a.difference(*b) == 0)).for_each(count),
    }
}

/// Returns whether staged keys differ only in their keys, without a branch for each.
fn are_alike<I: StagedKey>(keys: &[I]) -> bool {
    keys.first().is_none_or(|first| {
        let difference = |all, key: &I| all | key.difference(*first);
        keys.iter().fold(0, difference) == 0
    })
}

pub(crate) struct InOrder<'a, 'm, I> {
    keys: &'a Sealed<'m, I>,
    next_stage: usize,
    staged: Vec<I>,
    at: usize,
    bytes: Vec<u8>,
}

impl<'a, 'm, I: StagedKey> InOrder<'a, 'm, I> {
    pub(crate) fn new(keys: &'a Sealed<'m, I>) -> Self {
        Self {
            keys,
            next_stage: 0,
            staged: Vec::new(),
            at: 0,
            bytes: Vec::new(),
        }
    }
}

impl<I: StagedKey> Sorted for InOrder<'_, '_, I> {
    fn take_before(&mut self, end: Option<Key>, into: &mut Batch) -> Result<(), Error> {
        loop {
            let stage = self.next_stage.wrapping_sub(1);
            let left = &self.staged[self.at..];
            let count = match end {
                Some(end) => left.partition_point(|key| key.key(stage) < end),
                None => left.len(),
            };
            let here = &left[..count];
            match here.first().filter(|_| are_alike(here)) {
                Some(first) => {
                    let keys = here.iter().map(|key| key.key(stage));
                    into.extend(first.class(self.keys.dates), keys);
                }
                None => {
                    for key in here {
                        into.push(key.key(stage), key.class(self.keys.dates));
                    }
                }
            }
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
