//! A worker's end of the stages: where a key goes first.
//!
//! ```text
//!   key -> bin of its upper 6 bits --full--> chunks of the bin's 64 stages --full--> store
//! ```
//!
//! The chunks of 4096 stages lie on as many memory pages, far more than the processor
//! remembers the places of, and on more lines than its first cache has. So keys are first put
//! into 64 bins, and a full bin is dealt out to its 64 stages at once: in both steps
//! there are only as many places to write to as the first cache has room for.

use std::mem;

use super::Error;
use super::arena::Chunk;
use super::item::{Item, STAGES, Tag, stage_of};
use super::stage::Store;

/// Stages that share a bin.
const STAGES_OF_BIN: usize = 64;
/// Bins of a worker.
const BINS: usize = STAGES / STAGES_OF_BIN;
/// Keys of a full bin: 16 for each of its stages. All bins together are 512 KiB, which stay
/// in the second cache.
const BIN_KEYS: usize = 16 * STAGES_OF_BIN;

/// A worker's bins, and its chunks, one for each stage.
#[derive(Debug)]
pub(crate) struct Stager<'s, 'm, I> {
    store: &'s Store<'m, I>,
    /// Of all keys in the bins.
    tag: Tag,
    failed: Option<Error>,
    bins: Box<[[u64; BIN_KEYS]; BINS]>,
    counts: [usize; BINS],
    chunks: Vec<Chunk<'m>>,
}

impl<'s, 'm, I: Item> Stager<'s, 'm, I> {
    /// With nothing in it.
    pub(crate) fn new(store: &'s Store<'m, I>) -> Self {
        let bins = vec![[0; BIN_KEYS]; BINS].into_boxed_slice();
        Self {
            store,
            tag: Tag::default(),
            failed: None,
            bins: bins
                .try_into()
                .unwrap_or_else(|_| unreachable!("as many as the array has")),
            counts: [0; BINS],
            chunks: (0..STAGES).map(|_| Chunk::default()).collect(),
        }
    }

    /// The keys that come now have this tag. To change it often is slow.
    #[inline]
    pub(crate) fn label(&mut self, tag: Tag) {
        if tag != self.tag {
            self.empty_all();
            self.tag = tag;
        }
    }

    /// Adds a key to its stage.
    #[inline]
    pub(crate) fn push(&mut self, key: u64) {
        let bin = stage_of(key) / STAGES_OF_BIN;
        let count = self.counts[bin];
        self.bins[bin][count] = key;
        self.counts[bin] = count + 1;
        if count + 1 == BIN_KEYS {
            self.empty(bin);
        }
    }

    /// Whether all is well so far.
    ///
    /// # Errors
    /// When memory was full and the spill file could not be written.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Deals out the keys of a bin.
    fn empty(&mut self, bin: usize) {
        let count = mem::take(&mut self.counts[bin]);
        let chunks = &mut self.chunks[bin * STAGES_OF_BIN..][..STAGES_OF_BIN];
        for &key in &self.bins[bin][..count] {
            let stage = stage_of(key);
            let chunk = &mut chunks[stage % STAGES_OF_BIN];
            let item = I::new(key, self.tag).bytes();
            while !chunk.push(item.as_ref()) {
                if let Err(error) = self.store.exchange(stage, chunk) {
                    self.failed = Some(error);
                    return;
                }
            }
        }
    }

    fn empty_all(&mut self) {
        (0..BINS).for_each(|bin| self.empty(bin));
    }

    /// Hands over what is left.
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
