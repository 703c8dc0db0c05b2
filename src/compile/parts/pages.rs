//! Makes pages and records in file order from the sorted keys of all parts, on all threads.
//!
//! A worker takes the next pages and gets their keys by itself: from memory, or by reading the parts again. So reading
//! and sorting also run on all threads; only the finished pages are appended one after the other.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::count::Kept;
use super::ranges::Ranges;
use super::read::{Reader, Reading};
use crate::base::parallel::on_threads;
use crate::compile::partition::{Dates, Gathered, StagedKey};
use crate::compile::write::{PAGES_AT_ONCE, Turns};
use crate::compile::{Error, Progress};
use crate::filter::page::first_key;
use crate::filter::{EncodedPage, Key, Shape, Writer};

/// The data that the workers share.
pub(super) struct Paging<'a, 'm> {
    pub(super) reading: &'a Reading<'a>,
    pub(super) ranges: Ranges,
    pub(super) kept: &'a Kept<'m>,
}

impl Paging<'_, '_> {
    /// Writes the records of all parts to `writer`, which the caller must finish.
    ///
    /// # Errors
    /// A part has changed or cannot be read, the disk fails, or the user interrupts.
    pub(super) fn fill<I: StagedKey>(&self, writer: Writer, entries: u64) -> Result<Writer, Error> {
        let shape = writer.shape();
        // All of a filter, or those of a share.
        let pages = writer.pages_left();
        let turns = Turns::new(writer);
        let at_once = match self.kept.is_all() {
            true => PAGES_AT_ONCE,
            // As many pages as fill a batch, because each batch is read from all parts.
            false => {
                let keys_of_page = (entries / shape.pages).max(1);
                (self.ranges.batch_keys / keys_of_page).max(PAGES_AT_ONCE)
            }
        };
        let next = AtomicU64::new(0);
        let stop = || next.store(u64::MAX / 2, Ordering::Relaxed);
        let work = || self.work::<I>(&turns, shape, &pages, &next, at_once);
        let done = on_threads(0..self.ranges.workers, |_| turns.run(stop, work));
        done.into_iter().collect::<Result<(), Error>>()?;
        Ok(turns.into_writer())
    }

    /// One worker.
    fn work<I: StagedKey>(
        &self,
        turns: &Turns,
        shape: Shape,
        pages_left: &Range<u64>,
        next: &AtomicU64,
        at_once: u64,
    ) -> Result<(), Error> {
        let mut reader = Reader::<I>::new(self.reading, self.ranges);
        let mut taken = Taken::default();
        let mut records = Gathered::default();
        let mut pages: Vec<EncodedPage> = Vec::new();
        let progress: &Progress = self.reading.progress;
        loop {
            progress.go_on()?;
            let turn = next.fetch_add(1, Ordering::Relaxed);
            let first = pages_left
                .start
                .saturating_add(turn.saturating_mul(at_once));
            let end = first.saturating_add(at_once).min(pages_left.end);
            if first >= end {
                return Ok(());
            }
            let end_key = |end| (end < shape.pages).then(|| first_key(end, shape.pages));
            let from = first_key(first, shape.pages);
            self.take(&mut reader, from, end_key(end), &mut taken)?;
            let count = usize::try_from(end - first).unwrap_or(0);
            pages.resize_with(count, EncodedPage::new);
            for (number, page) in (first..end).zip(&mut pages) {
                records.clear();
                taken.before(end_key(number + 1), self.reading.dates, &mut records);
                records.encode_page(shape, page);
            }
            turns.append(turn, &pages)?;
            progress.add(taken.keys.len() as u64);
        }
    }

    /// Takes the keys from `from` to before `end`.
    fn take<I: StagedKey>(
        &self,
        reader: &mut Reader<'_, I>,
        from: Key,
        end: Option<Key>,
        taken: &mut Taken<I>,
    ) -> Result<(), Error> {
        let Self { ranges, kept, .. } = self;
        taken.clear();
        let batch_of = |key| ranges.batch_of(ranges.range_of(key));
        let last = end.map_or(u64::MAX, |Key(end)| end.saturating_sub(1));
        let last_batch = batch_of(Key(last));
        let mut at = Some(from);
        while let Some(from) = at
            && batch_of(from) <= last_batch
        {
            let mut batch = batch_of(from);
            if let Some(here) = kept.batch(batch) {
                let first = ranges.first_range(batch);
                let (start, needed) = ranges.between(from, end);
                let skipped = usize::try_from(start - first).unwrap_or(usize::MAX);
                for (range, bytes) in (start..=needed).zip(here.iter().skip(skipped)) {
                    kept.load(range, bytes, (from, end), &mut taken.keys);
                    taken.ends.push((ranges.stage_of(range), taken.keys.len()));
                }
                batch += 1;
            } else {
                while batch <= last_batch && kept.batch(batch).is_none() {
                    batch += 1;
                }
                let end = match batch > last_batch {
                    true => end,
                    false => ranges.first_key(ranges.first_range(batch)),
                };
                let read = reader.read(from, end, |range, keys| {
                    taken.keys.extend_from_slice(keys);
                    taken.ends.push((ranges.stage_of(range), taken.keys.len()));
                    Ok(())
                })?;
                if read.is_none() {
                    return Err(Error::Unlike(
                        "a part changed while the parts were read".to_owned(),
                    ));
                }
            }
            at = ranges.first_key(ranges.first_range(batch));
        }
        Ok(())
    }
}

/// Sorted keys, and how many of them are already records.
#[derive(Debug)]
struct Taken<I> {
    keys: Vec<I>,
    /// The stage of each range, and its end in `keys`.
    ends: Vec<(usize, usize)>,
    range: usize,
    at: usize,
}

impl<I> Default for Taken<I> {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            ends: Vec::new(),
            range: 0,
            at: 0,
        }
    }
}

impl<I: StagedKey> Taken<I> {
    fn clear(&mut self) {
        self.keys.clear();
        self.ends.clear();
        (self.range, self.at) = (0, 0);
    }

    /// Appends the next records, up to before `end` (`None`: all that are left).
    fn before(&mut self, end: Option<Key>, dates: Dates, into: &mut Gathered) {
        while let Some(&(stage, stop)) = self.ends.get(self.range) {
            let left = &self.keys[self.at..stop];
            let count = match end {
                Some(end) => left.partition_point(|key| key.key(stage) < end),
                None => left.len(),
            };
            into.add(stage, &left[..count], dates);
            self.at += count;
            if self.at < stop {
                return;
            }
            self.range += 1;
        }
    }
}
