//! Keys dealt out to stages, in memory as long as it lasts, then in a spill file.
//!
//! Each [`Stager`] fills small chunks of its own, one for each stage, and
//! hands over the full ones. When the chunks handed over reach the memory bound, all of them
//! are written to the spill file, stage after stage:
//!
//! ```text
//! spill    | stage 0 | stage 1 | ... | stage 4095 | stage 0 | stage 1 | ...
//!            first time memory was full             second time
//! ```
//!
//! so that a stage is read back with one read for each time memory was full. A stage
//! is sorted once and put back where it came from, shorter by its doubles; writing
//! the filter then reads it in order. No disk is needed beyond what was spilled, and
//! nothing is sorted twice.
//!
//! A chunk holds its items as the bytes that the spill file has, and is cut out of a slab of a
//! megabyte: taking four kilobytes at a time from the allocator costs a system call for each,
//! as glibc lets the heap of a thread grow by the page.
//!
//! One address repeated without end would make one stage as large as the input. A
//! stage of more than twice the common size has its doubles joined chunk by chunk
//! before it is spilled or sorted, which bounds it again.

use std::marker::PhantomData;
use std::mem;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;

use super::Error;
use super::bins::Stager;
use super::item::{Item, STAGES};
use super::sort;
use super::spill::Spill;

/// Bytes of a chunk when memory is plenty.
const CHUNK_BYTES: usize = 4096;
/// Below this a chunk is handed over too often.
const MIN_CHUNK_BYTES: usize = 256;
/// Memory taken at once.
const SLAB_BYTES: usize = 1 << 20;
/// Spilled bytes written with one call.
const WRITE_BYTES: usize = 1 << 20;

/// All stages while they are being filled.
#[derive(Debug)]
pub(crate) struct Store<I> {
    pool: Mutex<Pool<I>>,
    /// Chunks held when all are spilled.
    max_chunks: usize,
}

#[derive(Debug)]
struct Pool<I> {
    stages: Vec<Stage>,
    chunks: usize,
    chunk_bytes: usize,
    /// Empty chunks, used again so that memory stays at its bound.
    free: Vec<BytesMut>,
    /// What chunks are cut from.
    slab: BytesMut,
    spill: Spill,
    items: PhantomData<I>,
}

/// One stage: pieces on disk, then pieces in memory.
#[derive(Debug, Default)]
struct Stage {
    runs: Vec<Run>,
    chunks: Vec<BytesMut>,
}

impl Stage {
    fn bytes_in_memory(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.len()).sum()
    }
}

/// A piece of a stage in the spill file.
#[derive(Clone, Copy, Debug)]
struct Run {
    offset_bytes: u64,
    length_bytes: usize,
}

impl<I: Item> Store<I> {
    /// Stages that hold at most `memory_bytes`, for `threads` workers. What does not
    /// fit goes beside `output`, which the caller has locked.
    pub(crate) fn new(output: &Path, memory_bytes: usize, threads: usize) -> Self {
        // A quarter for the chunks that the workers are filling, the rest for full ones.
        let chunks_filling = threads.max(1) * STAGES;
        let chunk_bytes = (memory_bytes / 4 / chunks_filling).clamp(MIN_CHUNK_BYTES, CHUNK_BYTES);
        let chunk_bytes = chunk_bytes / I::BYTES * I::BYTES;
        let max_chunks = (memory_bytes / chunk_bytes).saturating_sub(chunks_filling);
        let pool = Pool {
            stages: (0..STAGES).map(|_| Stage::default()).collect(),
            chunks: 0,
            chunk_bytes,
            free: Vec::new(),
            slab: BytesMut::new(),
            spill: Spill::beside(output),
            items: PhantomData,
        };
        Self {
            pool: Mutex::new(pool),
            max_chunks: max_chunks.max(STAGES / 4),
        }
    }

    /// A worker's end of the store.
    pub(crate) fn stager(&self) -> Stager<'_, I> {
        Stager::new(self)
    }

    /// No more will come. Every [`Stager`] has been finished.
    pub(crate) fn seal(self) -> Sealed<I> {
        let mut pool = self
            .pool
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        pool.join_outliers();
        Sealed {
            stages: pool.stages.into_iter().map(Mutex::new).collect(),
            spill: pool.spill,
            items: PhantomData,
        }
    }

    /// Takes a full chunk, or one that never was any, and gives an empty one.
    ///
    /// # Errors
    /// When memory is full and the spill file cannot be written.
    pub(crate) fn exchange(&self, stage: usize, chunk: &mut BytesMut) -> Result<(), Error> {
        self.hand_over(stage, mem::take(chunk))?;
        *chunk = held(&self.pool).empty_chunk();
        Ok(())
    }

    /// Takes a chunk.
    ///
    /// # Errors
    /// When memory is full and the spill file cannot be written.
    pub(crate) fn hand_over(&self, stage: usize, chunk: BytesMut) -> Result<(), Error> {
        if chunk.is_empty() {
            return Ok(());
        }
        let mut pool = held(&self.pool);
        pool.stages[stage].chunks.push(chunk);
        pool.chunks += 1;
        if pool.chunks >= self.max_chunks {
            pool.spill()?;
        }
        Ok(())
    }
}

impl<I: Item> Pool<I> {
    fn empty_chunk(&mut self) -> BytesMut {
        if let Some(chunk) = self.free.pop() {
            return chunk;
        }
        if self.slab.capacity() < self.chunk_bytes {
            self.slab = BytesMut::with_capacity(SLAB_BYTES);
        }
        // The front is given away, the rest kept.
        let rest = self.slab.split_off(self.chunk_bytes);
        mem::replace(&mut self.slab, rest)
    }

    /// Writes every chunk to the spill file.
    fn spill(&mut self) -> Result<(), Error> {
        self.join_outliers();
        let mut bytes = Vec::with_capacity(WRITE_BYTES + self.chunk_bytes);
        let mut offset_bytes = self.spill.length_bytes();
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
            for mut chunk in stage.chunks.drain(..) {
                bytes.extend_from_slice(&chunk);
                chunk.clear();
                self.free.push(chunk);
                if bytes.len() >= WRITE_BYTES {
                    self.spill.append(&mut bytes)?;
                }
            }
        }
        self.chunks = 0;
        self.spill.append(&mut bytes)
    }

    /// Joins the doubles of stages that are far larger than the others.
    fn join_outliers(&mut self) {
        let total: usize = self.stages.iter().map(Stage::bytes_in_memory).sum();
        let common = total / STAGES + self.chunk_bytes;
        let mut items = Vec::new();
        for stage in &mut self.stages {
            if stage.bytes_in_memory() <= 2 * common {
                continue;
            }
            let mut kept: Vec<BytesMut> = Vec::new();
            for mut chunk in stage.chunks.drain(..) {
                items.clear();
                I::load(&chunk, &mut items);
                items.sort_unstable_by_key(|item: &I| item.order());
                sort::join_doubles(&mut items);
                chunk.clear();
                let length_bytes = items.len() * I::BYTES;
                let to = match kept.last_mut() {
                    Some(last) if last.len() + length_bytes <= self.chunk_bytes => {
                        self.free.push(chunk);
                        last
                    }
                    _ => {
                        kept.push(chunk);
                        kept.last_mut().expect("it was just put there")
                    }
                };
                I::store(&items, to);
            }
            stage.chunks = kept;
        }
    }
}

/// All stages, filled: to be sorted each on its own, then read in order.
#[derive(Debug)]
pub(crate) struct Sealed<I> {
    stages: Vec<Mutex<Stage>>,
    spill: Spill,
    items: PhantomData<I>,
}

impl<I: Item> Sealed<I> {
    /// Replaces `items` by the content of a stage. `bytes` is memory to use.
    pub(crate) fn gather(
        &self,
        stage: usize,
        items: &mut Vec<I>,
        bytes: &mut Vec<u8>,
    ) -> Result<(), Error> {
        items.clear();
        let stage = held(&self.stages[stage]);
        for run in &stage.runs {
            bytes.resize(run.length_bytes, 0);
            self.spill.read_at(bytes, run.offset_bytes)?;
            I::load(bytes, items);
        }
        for chunk in &stage.chunks {
            I::load(chunk, items);
        }
        Ok(())
    }

    /// Puts `items`, which are not more than there were, in place of what
    /// [`gather`](Self::gather) took out.
    pub(crate) fn put_back(
        &self,
        stage: usize,
        mut items: &[I],
        bytes: &mut BytesMut,
    ) -> Result<(), Error> {
        let mut take = |length_bytes: usize| {
            let (here, rest) = items.split_at(items.len().min(length_bytes / I::BYTES));
            items = rest;
            here
        };
        let mut stage = held(&self.stages[stage]);
        for run in &mut stage.runs {
            bytes.clear();
            I::store(take(run.length_bytes), bytes);
            run.length_bytes = bytes.len();
            self.spill.write_at(bytes, run.offset_bytes)?;
        }
        for chunk in &mut stage.chunks {
            let here = take(chunk.len());
            chunk.clear();
            I::store(here, chunk);
        }
        debug_assert!(items.is_empty(), "a stage grew while it was sorted");
        Ok(())
    }

    /// Bytes that did not fit into memory.
    pub(crate) fn spilled_bytes(&self) -> u64 {
        self.spill.length_bytes()
    }
}

/// A worker that panicked has ended the compile; what it held is not looked at again.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::item::{Dates, Narrow, Tag, Wide};
    use super::*;
    use std::fs;

    const TAG: Tag = Tag {
        kind: 0,
        source: 0,
        dates: Dates {
            added: 1,
            expires: None,
        },
    };

    fn sorted_keys<I: Item>(keys: &[u64], memory_bytes: usize) -> (Vec<u64>, u64) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::<I>::new(&dir.path().join("x.blf"), memory_bytes, 1);
        let mut stager = store.stager();
        stager.label(TAG);
        for key in keys {
            stager.push(*key);
        }
        stager.finish().unwrap();
        let sealed = store.seal();
        let (mut items, mut scratch, mut found) = (vec![], vec![], vec![]);
        let (mut read, mut written) = (vec![], BytesMut::new());
        for stage in 0..STAGES {
            sealed.gather(stage, &mut items, &mut read).unwrap();
            sort::sort(&mut items, &mut scratch);
            sort::join_doubles(&mut items);
            sealed.put_back(stage, &items, &mut written).unwrap();
        }
        for stage in 0..STAGES {
            sealed.gather(stage, &mut items, &mut read).unwrap();
            found.extend(items.iter().map(|item| item.record(stage, TAG.dates).key));
        }
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            0,
            "the spill file has no name"
        );
        (found, sealed.spilled_bytes())
    }

    #[test]
    fn all_keys_come_back_in_order_with_and_without_spilling() {
        let keys: Vec<u64> = (0..400_000_u64)
            .map(|n| (n % 300_000).wrapping_mul(0x9E37_79B9_7F4A_7C15))
            .collect();
        let mut expected = keys.clone();
        expected.sort_unstable();
        expected.dedup();
        let (found, spilled) = sorted_keys::<Narrow>(&keys, 1 << 30);
        assert!(spilled == 0 && found == expected);
        let (found, spilled) = sorted_keys::<Narrow>(&keys, 1 << 20);
        assert!(spilled > 0 && found == expected);
        let (found, spilled) = sorted_keys::<Wide>(&keys, 1 << 20);
        assert!(spilled > 0 && found == expected);
    }

    #[test]
    fn one_key_without_end_takes_no_room() {
        let (found, spilled) = sorted_keys::<Narrow>(&vec![7; 2_000_000], 1 << 20);
        assert_eq!(found, [7]);
        assert!(spilled < 1_000_000, "{spilled} of 16,000,000 bytes spilled");
    }
}
