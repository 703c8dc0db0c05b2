//! Keys distributed to stages, in memory while there is room, then in a spill file.
//!
//! Each `bins::Stager` fills small chunks of its own, one per stage, and hands over the full ones.
//! When these reach the memory limit, all of them are written to the spill file, stage by stage:
//!
//! ```text
//! spill    | stage 0 | stage 1 | ... | stage 4095 | stage 0 | stage 1 | ...
//!            first time memory was full             second time
//! ```
//!
//! so that a stage is read back with one read for each time memory was full. A stage is sorted once
//! and put back in its place, without its duplicates; the filter is then written from the stages in
//! order. A chunk holds its staged keys in the same bytes as the spill file.
//!
//! One address repeated endlessly would make one stage as large as the input. If a stage has more
//! than twice the usual size, its duplicates are merged before it is spilled or sorted: a few chunks
//! at a time, and repeatedly as long as that helps. This bounds the stage again.
//!
//! A list that names its addresses many times each (a log, for example) would fill the disk with
//! duplicates. So when memory is full, the duplicates in a sample of the stages are merged. If that
//! frees half of the sample, the other stages follow, and if half of the memory is then free,
//! nothing is spilled. The work stays linear.

use std::marker::PhantomData;
use std::mem;
use std::path::Path;
use std::slice::ChunksExactMut;
use std::sync::{Mutex, PoisonError};

use super::arena::{Arena, Chunk, Spill};
use super::sort;
use super::staged_key::{Narrow, STAGES, StagedKey, Wide};
use crate::compile::error::Error;
use blocklist_filter::base::lock::lock;
use blocklist_filter::filter::Dates;

const WRITE_BYTES: usize = 1 << 20;
/// One of this many stages is in the sample that shows whether there are many duplicates.
const SAMPLE_STEP: usize = 64;
/// Number of chunks whose duplicates are merged together. They are copied for that.
const CHUNKS_AT_ONCE: usize = 256;

#[derive(Debug)]
pub(crate) struct Store<'m, I>(Mutex<Pool<'m, I>>);

#[derive(Debug)]
struct Pool<'m, I> {
    stages: Vec<Stage<'m>>,
    /// Number of chunks in them, and the number at which all are spilled.
    chunks: usize,
    max_chunks: usize,
    chunk_bytes: usize,
    /// Number of chunks of the arena, and the memory of those that were never used.
    all_chunks: usize,
    fresh: ChunksExactMut<'m, u8>,
    free: Vec<Chunk<'m>>,
    spill: Spill,
    held: PhantomData<I>,
}

/// One stage: pieces on disk, then pieces in memory.
#[derive(Debug, Default)]
struct Stage<'m> {
    runs: Vec<Run>,
    chunks: Vec<Chunk<'m>>,
}

impl Stage<'_> {
    fn bytes_in_memory(&self) -> usize {
        self.chunks.iter().map(Chunk::len).sum()
    }
}

#[derive(Clone, Copy, Debug)]
struct Run {
    offset_bytes: u64,
    length_bytes: usize,
}

impl<'m, I: StagedKey> Store<'m, I> {
    pub(crate) fn new(output: &Path, arena: &'m mut Arena) -> Self {
        let (max_chunks, chunk_bytes) = (arena.held, arena.chunk_bytes);
        let fresh = arena.chunks();
        Self(Mutex::new(Pool {
            stages: (0..STAGES).map(|_| Stage::default()).collect(),
            chunks: 0,
            max_chunks,
            chunk_bytes,
            all_chunks: fresh.len(),
            fresh,
            free: Vec::new(),
            spill: Spill::beside(output),
            held: PhantomData,
        }))
    }

    /// Ends the filling. Every `Stager` must be finished before. `dates` are those of the keys, if they
    /// keep none.
    pub(crate) fn seal(self, dates: Dates) -> Sealed<'m, I> {
        let pool = self.0.into_inner();
        let mut pool = pool.unwrap_or_else(PoisonError::into_inner);
        pool.merge_outliers();
        Sealed {
            used_bytes: ((pool.all_chunks - pool.fresh.len()) * pool.chunk_bytes) as u64,
            stages: pool.stages.into_iter().map(Mutex::new).collect(),
            spill: pool.spill,
            dates,
            held: PhantomData,
        }
    }

    /// Takes a chunk that is full or has no memory, and gives an empty one.
    pub(crate) fn exchange(&self, stage: usize, chunk: &mut Chunk<'m>) -> Result<(), Error> {
        self.hand_over(stage, mem::take(chunk))?;
        let mut pool = lock(&self.0);
        let empty = pool.free.pop();
        let empty = empty.or_else(|| pool.fresh.next().map(Chunk::new));
        *chunk = empty.expect("a chunk for each stage of each worker, beside those held");
        Ok(())
    }

    pub(crate) fn hand_over(&self, stage: usize, chunk: Chunk<'m>) -> Result<(), Error> {
        if chunk.len() == 0 {
            return Ok(());
        }
        let mut pool = lock(&self.0);
        pool.stages[stage].chunks.push(chunk);
        pool.chunks += 1;
        if pool.chunks < pool.max_chunks {
            return Ok(());
        }
        pool.make_room()
    }
}

impl<'m> Store<'m, Narrow> {
    /// Makes its keys wide: each gets `dates`. Every `Stager` must be finished before.
    pub(crate) fn widen(self, dates: Dates) -> Result<Store<'m, Wide>, Error> {
        let pool = self.0.into_inner();
        let mut pool = pool.unwrap_or_else(PoisonError::into_inner);
        pool.merge_outliers();
        // They take twice the chunks, beside these.
        if pool.chunks > pool.max_chunks / 3 {
            pool.spill()?;
        }
        let store = Store(Mutex::new(Pool {
            stages: (0..STAGES).map(|_| Stage::default()).collect(),
            chunks: 0,
            max_chunks: pool.max_chunks,
            chunk_bytes: pool.chunk_bytes,
            all_chunks: pool.all_chunks,
            fresh: pool.fresh,
            free: pool.free,
            spill: pool.spill,
            held: PhantomData,
        }));
        let (mut keys, mut bytes) = (Vec::new(), Vec::new());
        for (number, stage) in pool.stages.into_iter().enumerate() {
            keys.clear();
            for run in stage.runs {
                bytes.resize(run.length_bytes, 0);
                let pool = lock(&store.0);
                pool.spill.read_at(&mut bytes, run.offset_bytes)?;
                Narrow::load(&bytes, &mut keys);
            }
            for mut chunk in stage.chunks {
                Narrow::load(chunk.bytes(), &mut keys);
                chunk.resize(0);
                lock(&store.0).free.push(chunk);
            }
            let mut chunk = Chunk::default();
            for key in &keys {
                let wide = Wide::new(key.key(number), key.class(dates));
                while !chunk.push(&wide.bytes()) {
                    store.exchange(number, &mut chunk)?;
                }
            }
            store.hand_over(number, chunk)?;
        }
        Ok(store)
    }
}

impl<I: StagedKey> Pool<'_, I> {
    fn make_room(&mut self) -> Result<(), Error> {
        self.merge_outliers();
        let sample = (0..STAGES).step_by(SAMPLE_STEP);
        let bytes = |pool: &Self| -> usize {
            let stages = pool.stages.iter().step_by(SAMPLE_STEP);
            stages.map(Stage::bytes_in_memory).sum()
        };
        let before = bytes(self);
        sample.for_each(|stage| self.merge_stage(stage));
        if bytes(self) <= before / 2 {
            (0..STAGES).for_each(|stage| self.merge_stage(stage));
        }
        match self.chunks <= self.max_chunks / 2 {
            true => Ok(()),
            false => self.spill(),
        }
    }

    fn merge_outliers(&mut self) {
        let total: usize = self.stages.iter().map(Stage::bytes_in_memory).sum();
        let common = total / STAGES + self.chunk_bytes;
        for number in 0..STAGES {
            // One address leaves one staged key per group of chunks: what remains of it must not
            // grow with the list.
            loop {
                let before = self.stages[number].bytes_in_memory();
                if before <= 2 * common {
                    break;
                }
                self.merge_stage(number);
                if self.stages[number].bytes_in_memory() > before / 2 {
                    break;
                }
            }
        }
    }

    fn merge_stage(&mut self, number: usize) {
        let stage = &mut self.stages[number];
        let (mut keys, mut scratch) = (Vec::new(), Vec::new());
        for group in stage.chunks.chunks_mut(CHUNKS_AT_ONCE) {
            keys.clear();
            for chunk in &*group {
                I::load(chunk.bytes(), &mut keys);
            }
            sort::sort_and_merge(&mut keys, &mut scratch);
            let mut left = keys.as_slice();
            for chunk in group {
                let (here, others) = left.split_at(left.len().min(self.chunk_bytes / I::BYTES));
                I::store(here.iter().copied(), chunk.resize(here.len() * I::BYTES));
                left = others;
            }
        }
        let free = self.free.len();
        let emptied = stage.chunks.extract_if(.., |chunk| chunk.len() == 0);
        self.free.extend(emptied);
        self.chunks -= self.free.len() - free;
    }

    fn spill(&mut self) -> Result<(), Error> {
        let mut bytes = Vec::with_capacity(WRITE_BYTES + self.chunk_bytes);
        let mut offset_bytes = self.spill.length_bytes;
        for stage in &mut self.stages {
            let length_bytes = stage.bytes_in_memory();
            if length_bytes == 0 {
                continue;
            }
            stage.runs.push(Run {
                offset_bytes,
                length_bytes,
            });
            offset_bytes += length_bytes as u64;
            // No chunk may be lost when the disk is full: other workers wait for one.
            let mut written = Ok(());
            for mut chunk in stage.chunks.drain(..) {
                bytes.extend_from_slice(chunk.bytes());
                chunk.resize(0);
                self.free.push(chunk);
                if bytes.len() >= WRITE_BYTES && written.is_ok() {
                    written = self.spill.append(&mut bytes);
                }
            }
            written?;
        }
        self.chunks = 0;
        self.spill.append(&mut bytes)
    }
}

/// All stages, filled: each is sorted separately, then they are read in order.
#[derive(Debug)]
pub(crate) struct Sealed<'m, I> {
    stages: Vec<Mutex<Stage<'m>>>,
    /// Memory that was used for keys; this process still occupies it.
    pub(crate) used_bytes: u64,
    spill: Spill,
    pub(super) dates: Dates,
    held: PhantomData<I>,
}

impl<I: StagedKey> Sealed<'_, I> {
    /// Replaces `keys` by the content of a stage. `bytes` is working memory.
    pub(crate) fn gather(
        &self,
        stage: usize,
        keys: &mut Vec<I>,
        bytes: &mut Vec<u8>,
    ) -> Result<(), Error> {
        keys.clear();
        let stage = lock(&self.stages[stage]);
        for run in &stage.runs {
            bytes.resize(run.length_bytes, 0);
            self.spill.read_at(bytes, run.offset_bytes)?;
            I::load(bytes, keys);
        }
        for chunk in &stage.chunks {
            I::load(chunk.bytes(), keys);
        }
        Ok(())
    }

    /// Puts `keys` in place of what [`gather`](Self::gather) read; there must not be more of them.
    pub(crate) fn put_back(
        &self,
        stage: usize,
        mut keys: &[I],
        bytes: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let mut take = |length_bytes: usize| {
            let (here, rest) = keys.split_at(keys.len().min(length_bytes / I::BYTES));
            keys = rest;
            here
        };
        let mut stage = lock(&self.stages[stage]);
        for run in &mut stage.runs {
            let here = take(run.length_bytes);
            run.length_bytes = here.len() * I::BYTES;
            bytes.resize(run.length_bytes, 0);
            I::store(here.iter().copied(), bytes);
            self.spill.write_at(bytes, run.offset_bytes)?;
        }
        for chunk in &mut stage.chunks {
            let here = take(chunk.len());
            I::store(here.iter().copied(), chunk.resize(here.len() * I::BYTES));
        }
        debug_assert!(keys.is_empty(), "a stage grew while it was sorted");
        Ok(())
    }

    pub(crate) fn largest_bytes(&self) -> u64 {
        let sizes = self.stages.iter().map(|stage| {
            let stage = lock(stage);
            let spilled: usize = stage.runs.iter().map(|run| run.length_bytes).sum();
            (stage.bytes_in_memory() + spilled) as u64
        });
        sizes.max().unwrap_or(0)
    }

    pub(crate) fn spilled_bytes(&self) -> u64 {
        self.spill.length_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::super::bins::Stager;
    use super::super::keys::{InOrder, sort_all};
    use super::*;
    use crate::compile::progress::Progress;
    use crate::compile::write::Sorted;
    use blocklist_filter::filter::{Batch, Class, Key};
    use std::fs;

    const CLASS: Class = Class {
        kind: 0,
        source: 0,
        dates: Dates {
            added: 1,
            expires: None,
        },
    };

    fn sorted_keys<I: StagedKey>(keys: &[u64], memory_bytes: usize) -> (Vec<u64>, u64) {
        let dir = tempfile::tempdir().unwrap();
        let mut arena = Arena::new(memory_bytes, 1).unwrap();
        let store = Store::<I>::new(&dir.path().join("x.blf"), &mut arena);
        let mut stager = Stager::new(&store);
        for key in keys {
            stager.add(Key(*key), CLASS);
        }
        stager.finish().unwrap();
        let sealed = store.seal(CLASS.dates);
        sort_all(&sealed, 1, &Progress::new()).unwrap();
        let mut found = Batch::default();
        let mut in_order = InOrder::new(&sealed);
        in_order.take_before(None, &mut found).unwrap();
        let found = found.records().map(|record| record.key.0).collect();
        let files = fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(files, 0, "the spill file has no name");
        (found, sealed.spilled_bytes())
    }

    fn keys(count: u64, distinct: u64) -> (Vec<u64>, Vec<u64>) {
        let key = |n: u64| (n % distinct).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut sorted: Vec<u64> = (0..distinct).map(key).collect();
        sorted.sort_unstable();
        ((0..count).map(key).collect(), sorted)
    }

    #[test]
    fn all_keys_come_back_in_order_with_and_without_spilling() {
        let (many, expected) = keys(400_000, 300_000);
        let (found, spilled) = sorted_keys::<Narrow>(&many, 1 << 30);
        assert!(spilled == 0 && found == expected);
        let (found, spilled) = sorted_keys::<Narrow>(&many, 1 << 20);
        assert!(spilled > 0 && found == expected);
        let (found, spilled) = sorted_keys::<Wide>(&many, 1 << 20);
        assert!(spilled > 0 && found == expected);
    }

    #[test]
    fn wide_keys_are_what_narrow_ones_were() {
        let (many, expected) = keys(400_000, 300_000);
        let (narrow, wide) = many.split_at(250_000);
        for memory_bytes in [1 << 30, 16 << 20, 1 << 20] {
            let dir = tempfile::tempdir().unwrap();
            let mut arena = Arena::new(memory_bytes, 1).unwrap();
            let store = Store::<Narrow>::new(&dir.path().join("x.blf"), &mut arena);
            let mut stager = Stager::new(&store);
            narrow.iter().for_each(|key| stager.add(Key(*key), CLASS));
            stager.finish().unwrap();
            let store = store.widen(CLASS.dates).unwrap();
            let mut stager = Stager::new(&store);
            wide.iter().for_each(|key| stager.add(Key(*key), CLASS));
            stager.finish().unwrap();
            let sealed = store.seal(Dates::default());
            sort_all(&sealed, 1, &Progress::new()).unwrap();
            let mut found = Batch::default();
            InOrder::new(&sealed).take_before(None, &mut found).unwrap();
            let of_class = |record: &blocklist_filter::filter::Record| {
                record.added == 1 && record.expires.is_none()
            };
            assert!(found.records().all(|record| of_class(&record)));
            assert!(
                found
                    .records()
                    .map(|record| record.key.0)
                    .eq(expected.iter().copied())
            );
        }
    }

    #[test]
    fn keys_many_times_each_are_not_spilled() {
        let (found, spilled) = sorted_keys::<Narrow>(&vec![7; 2_000_000], 1 << 20);
        assert_eq!(found, [7]);
        assert!(spilled < 10_000, "{spilled} of 16,000,000 bytes spilled");
        let (many, expected) = keys(600_000, 20_000);
        assert!(sorted_keys::<Narrow>(&many, 4 << 20) == (expected.clone(), 0));
        assert!(sorted_keys::<Wide>(&many, 4 << 20) == (expected, 0));
    }
}
