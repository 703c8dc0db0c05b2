//! A worker's side of the stages: where it puts a key first.
//!
//! ```text
//!   key -> bin of its upper 6 bits --full--> chunks of the bin's 64 stages --full--> store
//! ```
//!
//! The chunks of 4096 stages are on as many memory pages: far more than the processor's TLB
//! has entries for, and on more lines than its first-level cache has. So keys are first put
//! into 64 bins, and a full bin is distributed to its 64 stages at once. In both steps, the
//! first-level cache has room for all places that are written to.

use std::mem;

use super::arena::Chunk;
use super::stage::Store;
use super::staged_key::{STAGES, StagedKey, stage_of};
use crate::compile::error::Error;
use crate::filter::{Class, Key};

/// Number of stages that share a bin.
const STAGES_OF_BIN: usize = 64;
/// Number of bins of a worker.
const BINS: usize = STAGES / STAGES_OF_BIN;
/// Number of keys in a full bin: 16 for each of its stages. All bins together have 512 KiB,
/// which stay in the second-level cache.
const BIN_KEYS: usize = 16 * STAGES_OF_BIN;
/// Number of keys with one class after which the bins are emptied for them. It is so large that
/// emptying all bins costs little per key.
const MANY: u32 = 256;

/// A worker's bins, and its chunks, one per stage.
#[derive(Debug)]
pub(crate) struct Stager<'s, 'm, I> {
    store: &'s Store<'m, I>,
    /// The class of all keys in the bins.
    usual: Class,
    /// The last class that differed, and the number of keys that had it.
    other: Class,
    others: u32,
    failed: Option<Error>,
    bins: Box<[[Key; BIN_KEYS]; BINS]>,
    counts: [usize; BINS],
    chunks: Vec<Chunk<'m>>,
}

impl<'s, 'm, I: StagedKey> Stager<'s, 'm, I> {
    /// Returns an empty stager.
    pub(crate) fn new(store: &'s Store<'m, I>) -> Self {
        let bins = vec![[Key::default(); BIN_KEYS]; BINS].into_boxed_slice();
        Self {
            store,
            usual: Class::default(),
            other: Class::default(),
            others: 0,
            failed: None,
            bins: bins
                .try_into()
                .unwrap_or_else(|_| unreachable!("as many as the array has")),
            counts: [0; BINS],
            chunks: (0..STAGES).map(|_| Chunk::default()).collect(),
        }
    }

    /// Returns the class of the keys in the bins.
    pub(crate) fn usual(&self) -> Class {
        self.usual
    }

    /// Adds a key to its stage.
    #[inline(always)]
    pub(crate) fn add(&mut self, key: Key, class: Class) {
        match class == self.usual {
            true => self.push(key),
            false => self.add_other(key, class),
        }
    }

    /// Adds a key without the usual class, which bypasses the bins; after many such keys, their
    /// class becomes the usual one.
    #[inline(never)]
    fn add_other(&mut self, key: Key, class: Class) {
        if class != self.other {
            (self.other, self.others) = (class, 0);
        }
        self.others += 1;
        if self.others == MANY {
            self.empty_all();
            (self.usual, self.others) = (class, 0);
        }
        let bin = stage_of(key) / STAGES_OF_BIN;
        let chunks = &mut self.chunks[bin * STAGES_OF_BIN..][..STAGES_OF_BIN];
        if let Err(error) = deal_out(self.store, chunks, &[key], class) {
            self.failed = Some(error);
        }
    }

    /// Adds a key that has the usual class.
    #[inline]
    pub(crate) fn push(&mut self, key: Key) {
        let bin = stage_of(key) / STAGES_OF_BIN;
        let count = self.counts[bin];
        self.bins[bin][count] = key;
        self.counts[bin] = count + 1;
        if count + 1 == BIN_KEYS {
            self.empty(bin);
        }
    }

    /// Adds sorted keys of one class. They need no bins: those of a stage are next to each other.
    pub(crate) fn add_sorted(&mut self, keys: &[Key], class: Class) -> Result<(), Error> {
        let mut left = keys;
        while let (Some(first), Some(last)) = (left.first(), left.last()) {
            let stage = stage_of(*first);
            let count = match stage_of(*last) == stage {
                true => left.len(),
                false => left.partition_point(|key| stage_of(*key) == stage),
            };
            let (mut here, others) = left.split_at(count);
            left = others;
            let chunk = &mut self.chunks[stage];
            while !here.is_empty() {
                let (fits, rest) = here.split_at(here.len().min(chunk.room() / I::BYTES));
                let staged = fits.iter().map(|key| I::new(*key, class));
                I::store(staged, chunk.grow(fits.len() * I::BYTES));
                here = rest;
                if !here.is_empty() {
                    self.store.exchange(stage, chunk)?;
                }
            }
        }
        Ok(())
    }

    /// Checks that no key failed so far.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Distributes the keys of a bin.
    fn empty(&mut self, bin: usize) {
        let count = mem::take(&mut self.counts[bin]);
        let keys = &self.bins[bin][..count];
        let chunks = &mut self.chunks[bin * STAGES_OF_BIN..][..STAGES_OF_BIN];
        if let Err(error) = deal_out(self.store, chunks, keys, self.usual) {
            self.failed = Some(error);
        }
    }

    fn empty_all(&mut self) {
        (0..BINS).for_each(|bin| self.empty(bin));
    }

    /// Hands over the remaining keys.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        self.empty_all();
        self.check()?;
        for (stage, chunk) in self.chunks.into_iter().enumerate() {
            self.store.hand_over(stage, chunk)?;
        }
        Ok(())
    }
}

/// Puts keys of one bin into the chunks of its stages. Full chunks go to the store.
fn deal_out<'m, I: StagedKey>(
    store: &Store<'m, I>,
    chunks: &mut [Chunk<'m>],
    keys: &[Key],
    class: Class,
) -> Result<(), Error> {
    for &key in keys {
        let stage = stage_of(key);
        let chunk = &mut chunks[stage % STAGES_OF_BIN];
        let staged = I::new(key, class).bytes();
        while !chunk.push(staged.as_ref()) {
            store.exchange(stage, chunk)?;
        }
    }
    Ok(())
}
