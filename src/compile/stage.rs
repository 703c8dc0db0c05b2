//! Keys dealt out to stages, in memory as long as it lasts, then in a spill file.
//!
//! Each worker fills small chunks of its own, one for each stage, and hands over the
//! full ones. When the chunks handed over reach the memory bound, all of them are
//! written to the spill file, stage after stage:
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
//! One address repeated without end would make one stage as large as the input. A
//! stage of more than twice the common size has its doubles joined chunk by chunk
//! before it is spilled or sorted, which bounds it again.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::mem;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Error;
use super::item::{Item, STAGES};
use super::sort;

/// Items of a chunk when memory is plenty: 4 KiB of [`Narrow`](super::item::Narrow).
const CHUNK_ITEMS: usize = 512;
/// Below this a chunk is handed over too often.
const MIN_CHUNK_ITEMS: usize = 32;
/// Spilled bytes written with one call.
const WRITE_BYTES: usize = 1 << 20;

/// All stages while they are being filled.
#[derive(Debug)]
pub(crate) struct Store<I> {
    pool: Mutex<Pool<I>>,
    chunk_items: usize,
    /// Chunks held when all are spilled.
    max_chunks: usize,
    /// Where the spill file is made.
    spill_path: PathBuf,
}

#[derive(Debug)]
struct Pool<I> {
    stages: Vec<Stage<I>>,
    chunks: usize,
    /// Empty chunks, used again so that memory stays at its bound.
    free: Vec<Vec<I>>,
    spill: Option<Spill>,
}

/// One stage: pieces on disk, then pieces in memory.
#[derive(Debug)]
struct Stage<I> {
    runs: Vec<Run>,
    chunks: Vec<Vec<I>>,
}

/// A piece of a stage in the spill file.
#[derive(Clone, Copy, Debug)]
struct Run {
    offset_bytes: u64,
    items: usize,
}

#[derive(Debug)]
struct Spill {
    file: File,
    path: PathBuf,
    length_bytes: u64,
}

impl<I: Item> Store<I> {
    /// Stages that hold at most `memory_bytes`, for `threads` workers. What does not
    /// fit goes beside `output`, which the caller has locked.
    pub(crate) fn new(output: &Path, memory_bytes: usize, threads: usize) -> Self {
        // A quarter for the chunks that the workers are filling, the rest for full ones.
        let filling = memory_bytes / 4 / (threads.max(1) * STAGES * I::BYTES);
        let chunk_items = filling.clamp(MIN_CHUNK_ITEMS, CHUNK_ITEMS);
        let filling_bytes = threads * STAGES * chunk_items * I::BYTES;
        let max_chunks = memory_bytes.saturating_sub(filling_bytes) / (chunk_items * I::BYTES);
        let stages = (0..STAGES)
            .map(|_| Stage {
                runs: Vec::new(),
                chunks: Vec::new(),
            })
            .collect();
        let pool = Pool {
            stages,
            chunks: 0,
            free: Vec::new(),
            spill: None,
        };
        Self {
            pool: Mutex::new(pool),
            chunk_items,
            max_chunks: max_chunks.max(STAGES / 4),
            spill_path: beside(output),
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
        pool.join_outliers(self.chunk_items);
        let stages = pool.stages.into_iter().map(Mutex::new).collect();
        Sealed {
            stages,
            spill: pool.spill,
        }
    }

    fn hand_over(&self, stage: usize, full: &mut Vec<I>) -> Result<(), Error> {
        let mut pool = held(&self.pool);
        let empty = pool.free.pop();
        let chunk = mem::replace(
            full,
            empty.unwrap_or_else(|| Vec::with_capacity(self.chunk_items)),
        );
        pool.stages[stage].chunks.push(chunk);
        pool.chunks += 1;
        if pool.chunks >= self.max_chunks {
            pool.spill(&self.spill_path, self.chunk_items)
        } else {
            Ok(())
        }
    }
}

/// Items gathered for a stage before they go into its chunk.
const GATHERED: usize = 8;

/// A worker's chunks, one for each stage.
///
/// The chunks of 4096 stages lie on as many memory pages, far more than the processor
/// remembers the places of. So a few items of each stage are gathered first, all
/// stages side by side, and moved together.
#[derive(Debug)]
pub(crate) struct Stager<'s, I> {
    store: &'s Store<I>,
    gathered: Box<[[I; GATHERED]; STAGES]>,
    counts: Box<[u8; STAGES]>,
    filling: Vec<Vec<I>>,
}

impl<'s, I: Item> Stager<'s, I> {
    fn new(store: &'s Store<I>) -> Self {
        Self {
            store,
            gathered: per_stage([I::default(); GATHERED]),
            counts: per_stage(0),
            filling: (0..STAGES).map(|_| Vec::new()).collect(),
        }
    }

    /// Adds an item to a stage.
    ///
    /// # Errors
    /// When memory is full and the spill file cannot be written.
    #[inline]
    pub(crate) fn push(&mut self, stage: usize, item: I) -> Result<(), Error> {
        let count = self.counts[stage];
        self.gathered[stage][usize::from(count) % GATHERED] = item;
        if usize::from(count) + 1 < GATHERED {
            self.counts[stage] = count + 1;
            return Ok(());
        }
        self.counts[stage] = 0;
        self.move_on(stage, GATHERED)
    }

    /// Puts the gathered items of a stage into its chunk.
    fn move_on(&mut self, stage: usize, count: usize) -> Result<(), Error> {
        let chunk = &mut self.filling[stage];
        chunk.extend_from_slice(&self.gathered[stage][..count]);
        if chunk.len() + GATHERED <= self.store.chunk_items {
            return Ok(());
        }
        self.store.hand_over(stage, chunk)
    }

    /// Hands over what is left.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        for stage in 0..STAGES {
            self.move_on(stage, usize::from(self.counts[stage]))?;
            let mut chunk = mem::take(&mut self.filling[stage]);
            if !chunk.is_empty() {
                self.store.hand_over(stage, &mut chunk)?;
            }
        }
        Ok(())
    }
}

/// `value` for each stage, without a stop on the stack.
fn per_stage<T: Clone>(value: T) -> Box<[T; STAGES]> {
    let all = vec![value; STAGES].into_boxed_slice();
    all.try_into()
        .unwrap_or_else(|_| unreachable!("as many as the array has"))
}

impl<I: Item> Pool<I> {
    /// Writes every chunk to the spill file.
    fn spill(&mut self, path: &Path, chunk_items: usize) -> Result<(), Error> {
        self.join_outliers(chunk_items);
        let spill = match &mut self.spill {
            Some(spill) => spill,
            none => none.insert(Spill::create(path)?),
        };
        let mut bytes = Vec::with_capacity(WRITE_BYTES + chunk_items * I::BYTES);
        let mut offset_bytes = spill.length_bytes;
        for stage in &mut self.stages {
            let items = stage.chunks.iter().map(Vec::len).sum();
            if items == 0 {
                continue;
            }
            stage.runs.push(Run {
                offset_bytes,
                items,
            });
            offset_bytes += (items * I::BYTES) as u64;
            for mut chunk in stage.chunks.drain(..) {
                I::store(&chunk, &mut bytes);
                chunk.clear();
                self.free.push(chunk);
                if bytes.len() >= WRITE_BYTES {
                    spill.append(&mut bytes)?;
                }
            }
        }
        self.chunks = 0;
        spill.append(&mut bytes)
    }

    /// Joins the doubles of stages that are far larger than the others.
    fn join_outliers(&mut self, chunk_items: usize) {
        let items = |stage: &Stage<I>| stage.chunks.iter().map(Vec::len).sum::<usize>();
        let total: usize = self.stages.iter().map(items).sum();
        let common = total / STAGES + chunk_items;
        for stage in self
            .stages
            .iter_mut()
            .filter(|stage| items(stage) > 2 * common)
        {
            let mut kept: Vec<Vec<I>> = Vec::new();
            for mut chunk in stage.chunks.drain(..) {
                chunk.sort_unstable_by_key(|item| item.order());
                sort::join_doubles(&mut chunk);
                match kept.last_mut() {
                    Some(last) if last.len() + chunk.len() <= chunk_items => {
                        last.append(&mut chunk);
                    }
                    _ => kept.push(chunk),
                }
            }
            stage.chunks = kept;
        }
    }
}

/// All stages, filled: to be sorted each on its own, then read in order.
#[derive(Debug)]
pub(crate) struct Sealed<I> {
    stages: Vec<Mutex<Stage<I>>>,
    spill: Option<Spill>,
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
            bytes.resize(run.items * I::BYTES, 0);
            if let Some(spill) = &self.spill {
                spill
                    .file
                    .read_exact_at(bytes, run.offset_bytes)
                    .map_err(Error::io(&spill.path, "read"))?;
            }
            I::load(bytes, items);
        }
        for chunk in &stage.chunks {
            items.extend_from_slice(chunk);
        }
        Ok(())
    }

    /// Puts `items`, which are not more than there were, in place of what
    /// [`gather`](Self::gather) took out.
    pub(crate) fn put_back(
        &self,
        stage: usize,
        mut items: &[I],
        bytes: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let mut stage = held(&self.stages[stage]);
        for run in &mut stage.runs {
            let (here, rest) = items.split_at(run.items.min(items.len()));
            run.items = here.len();
            bytes.clear();
            I::store(here, bytes);
            if let Some(spill) = &self.spill {
                spill
                    .file
                    .write_all_at(bytes, run.offset_bytes)
                    .map_err(Error::io(&spill.path, "write"))?;
            }
            items = rest;
        }
        for chunk in &mut stage.chunks {
            let (here, rest) = items.split_at(chunk.len().min(items.len()));
            chunk.clear();
            chunk.extend_from_slice(here);
            items = rest;
        }
        debug_assert!(items.is_empty(), "a stage grew while it was sorted");
        Ok(())
    }

    /// Bytes that did not fit into memory.
    pub(crate) fn spilled_bytes(&self) -> u64 {
        self.spill.as_ref().map_or(0, |spill| spill.length_bytes)
    }
}

impl Spill {
    /// The file loses its name as soon as it is open, so that the system frees it
    /// however this process ends. A kill between the two calls leaves an empty file,
    /// which the next compile of the output takes over.
    fn create(path: &Path) -> Result<Self, Error> {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600);
        let file = options.open(path).map_err(Error::io(path, "create"))?;
        fs::remove_file(path).map_err(Error::io(path, "remove"))?;
        Ok(Self {
            file,
            path: path.to_path_buf(),
            length_bytes: 0,
        })
    }

    /// Writes `bytes` at the end and empties them.
    fn append(&mut self, bytes: &mut Vec<u8>) -> Result<(), Error> {
        self.file
            .write_all_at(bytes, self.length_bytes)
            .map_err(Error::io(&self.path, "write"))?;
        self.length_bytes += bytes.len() as u64;
        bytes.clear();
        Ok(())
    }
}

/// `/dir/spammers.blf` -> `/dir/.spammers.blf.spill`.
fn beside(output: &Path) -> PathBuf {
    let mut hidden = OsString::from(".");
    hidden.push(output.file_name().unwrap_or_default());
    hidden.push(".spill");
    output.with_file_name(hidden)
}

/// A worker that panicked has ended the compile; what it held is not looked at again.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::item::{Dates, Narrow, Tag, Wide, stage_of};
    use super::*;

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
        for key in keys {
            stager.push(stage_of(*key), I::new(*key, TAG)).unwrap();
        }
        stager.finish().unwrap();
        let sealed = store.seal();
        let (mut items, mut scratch, mut bytes, mut found) = (vec![], vec![], vec![], vec![]);
        for stage in 0..STAGES {
            sealed.gather(stage, &mut items, &mut bytes).unwrap();
            sort::sort(&mut items, &mut scratch);
            sort::join_doubles(&mut items);
            sealed.put_back(stage, &items, &mut bytes).unwrap();
        }
        for stage in 0..STAGES {
            sealed.gather(stage, &mut items, &mut bytes).unwrap();
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
