//! A worker's side of the stages: where it puts a key first.
//!
//! ```text
//!   key -> bin of its upper 6 bits --full--> chunks of the bin's 64 stages --full--> store
//! ```
//!
//! The chunks of 4096 stages are on more memory pages than the processor's TLB has entries for, and on
//! more lines than its first-level cache has. So keys are first put into 64 bins, and a full bin is
//! distributed to its 64 stages at once: the cache has room for all places that are written to.

use std::mem;

use super::arena::Chunk;
use super::stage::Store;
use super::staged_key::{STAGES, StagedKey, stage_of};
use crate::compile::error::Error;
use blocklist_filter::filter::{Class, Key};

const STAGES_OF_BIN: usize = 64;
const BINS: usize = STAGES / STAGES_OF_BIN;
/// Number of keys in a full bin. All bins have 512 KiB, which stay in the second-level cache.
const BIN_KEYS: usize = 16 * STAGES_OF_BIN;
/// Number of keys with one class after which the bins are emptied for them; it costs little per key.
const MANY: u32 = 256;

#[derive(Debug)]
pub(crate) struct Stager<'s, 'm, I> {
    store: &'s Store<'m, I>,
    usual: Class,
    /// The last class that differed, and the number of keys that had it.
    other: Class,
    others: u32,
    failed: Option<Error>,
    bins: Box<[[Key; BIN_KEYS]; BINS]>,
    counts: [usize; BINS],
    chunks: Box<[Chunk<'m>; STAGES]>,
}

impl<'s, 'm, I: StagedKey> Stager<'s, 'm, I> {
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
            chunks: Box::new(std::array::from_fn(|_| Chunk::default())),
        }
    }

    pub(crate) fn usual(&self) -> Class {
        self.usual
    }

    #[inline(always)]
    pub(crate) fn add(&mut self, key: Key, class: Class) {
        match class == self.usual {
            true => self.push(key),
            false => self.add_other(key, class),
        }
    }

    /// Adds a key that bypasses the bins; after many keys of its class, this becomes the usual one.
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
        if let Err(error) = deal_out(self.store, &mut self.chunks, &[key], class) {
            self.failed = Some(error);
        }
    }

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

    pub(crate) fn check(&mut self) -> Result<(), Error> {
        self.failed.take().map_or(Ok(()), Err)
    }

    fn empty(&mut self, bin: usize) {
        let count = mem::take(&mut self.counts[bin]);
        let keys = &self.bins[bin][..count];
        if let Err(error) = deal_out(self.store, &mut self.chunks, keys, self.usual) {
            self.failed = Some(error);
        }
    }

    fn empty_all(&mut self) {
        (0..BINS).for_each(|bin| self.empty(bin));
    }

    pub(crate) fn finish(mut self) -> Result<(), Error> {
        self.empty_all();
        self.check()?;
        for (stage, chunk) in (*self.chunks).into_iter().enumerate() {
            self.store.hand_over(stage, chunk)?;
        }
        Ok(())
    }
}

#[inline(always)]
fn deal_out<'m, I: StagedKey>(
    store: &Store<'m, I>,
    chunks: &mut [Chunk<'m>; STAGES],
    keys: &[Key],
    class: Class,
) -> Result<(), Error> {
    for &key in keys {
        let stage = stage_of(key);
        let chunk = &mut chunks[stage];
        let staged = I::new(key, class).bytes();
        while !chunk.push(staged.as_ref()) {
            store.exchange(stage, chunk)?;
        }
    }
    Ok(())
}
