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
use std::sync::atomic::AtomicBool;

use super::arena::Chunk;
use super::stage::Store;
use super::staged_key::{STAGES, StagedKey, Tag, stage_of};
use crate::compile::Error;
use crate::filter::Key;

/// Number of stages that share a bin.
const STAGES_OF_BIN: usize = 64;
/// Number of bins of a worker.
const BINS: usize = STAGES / STAGES_OF_BIN;
/// Number of keys in a full bin: 16 for each of its stages. All bins together have 512 KiB,
/// which stay in the second-level cache.
const BIN_KEYS: usize = 16 * STAGES_OF_BIN;
/// Number of keys with one tag after which the bins are emptied for them. It is so large that
/// emptying all bins costs little per key.
const MANY: u32 = 256;

/// A worker's bins, and its chunks, one per stage.
#[derive(Debug)]
pub(crate) struct Stager<'s, 'm, I> {
    store: &'s Store<'m, I>,
    /// The tag of all keys in the bins.
    usual: Tag,
    /// The last tag that differed, and the number of keys that had it.
    other: Tag,
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
            usual: Tag::default(),
            other: Tag::default(),
            others: 0,
            failed: None,
            bins: bins
                .try_into()
                .unwrap_or_else(|_| unreachable!("as many as the array has")),
            counts: [0; BINS],
            chunks: (0..STAGES).map(|_| Chunk::default()).collect(),
        }
    }

    /// Returns the tag of the keys in the bins.
    pub(crate) fn usual(&self) -> Tag {
        self.usual
    }

    /// Adds a key to its stage. A key without the usual tag bypasses the bins; after many
    /// such keys, their tag becomes the usual one.
    #[inline]
    pub(crate) fn add(&mut self, key: Key, tag: Tag) {
        if tag == self.usual {
            return self.push(key);
        }
        if tag != self.other {
            (self.other, self.others) = (tag, 0);
        }
        self.others += 1;
        if self.others == MANY {
            self.empty_all();
            (self.usual, self.others) = (tag, 0);
        }
        let bin = stage_of(key) / STAGES_OF_BIN;
        let chunks = &mut self.chunks[bin * STAGES_OF_BIN..][..STAGES_OF_BIN];
        if let Err(error) = deal_out(self.store, chunks, &[key], tag) {
            self.failed = Some(error);
        }
    }

    /// Adds a key that has the usual tag.
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

    /// Checks that no key failed so far.
    ///
    /// # Errors
    /// When memory was full and the spill file could not be written.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Returns the flag that is set when a worker could not stage a key: then the others can stop.
    pub(crate) fn failed_flag(&self) -> &'s AtomicBool {
        self.store.failed_flag()
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
    ///
    /// # Errors
    /// When memory is full and the spill file cannot be written.
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
    tag: Tag,
) -> Result<(), Error> {
    for &key in keys {
        let stage = stage_of(key);
        let chunk = &mut chunks[stage % STAGES_OF_BIN];
        let staged = I::new(key, tag).bytes();
        while !chunk.push(staged.as_ref()) {
            store.exchange(stage, chunk)?;
        }
    }
    Ok(())
}
