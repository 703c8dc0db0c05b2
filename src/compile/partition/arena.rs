//! Memory for staged keys: one mapping without a file, cut into chunks.
//!
//! The system gives it out as it is touched, in pages of 2 MiB where it has them. In pages of
//! 4 KiB there is a page fault for each, 22,000 against 1,800 for ten million addresses, and
//! more places than the processor remembers. No file stands behind this mapping, so nothing can be
//! cut off under us.

use std::slice::ChunksExactMut;

use memmap2::{Advice, MmapMut, MmapOptions};

use super::staged_key::STAGES;
use crate::compile::Error;

/// Bytes of a chunk when memory is plenty.
const CHUNK_BYTES: usize = 4096;
/// Below this a chunk is handed over too often.
const MIN_CHUNK_BYTES: usize = 256;
/// Keys of all sizes fill a chunk.
const ITEM_BYTES: usize = 16;

/// The mapping.
#[derive(Debug)]
pub(crate) struct Arena {
    memory: MmapMut,
    chunk_bytes: usize,
    held: usize,
}

impl Arena {
    /// About `memory_bytes`, none of them touched yet, for as many workers as `threads`.
    ///
    /// # Errors
    /// When the system has not that much to give.
    pub(crate) fn new(memory_bytes: usize, threads: usize) -> Result<Self, Error> {
        // A quarter for the chunks that the workers are filling, the rest for full ones.
        let filling = threads.max(1) * STAGES;
        let chunk_bytes = (memory_bytes / 4 / filling).clamp(MIN_CHUNK_BYTES, CHUNK_BYTES);
        let chunk_bytes = chunk_bytes / ITEM_BYTES * ITEM_BYTES;
        let held = (memory_bytes / chunk_bytes).saturating_sub(filling);
        let held = held.max(STAGES / 4);
        let length = (filling + held) * chunk_bytes;
        let memory = map(length)?;
        Ok(Self {
            memory,
            chunk_bytes,
            held,
        })
    }

    /// About `memory_bytes` in one piece, none of them touched yet.
    ///
    /// # Errors
    /// When the system has not that much to give.
    pub(crate) fn in_one_piece(memory_bytes: usize) -> Result<Self, Error> {
        let length = memory_bytes.max(MIN_CHUNK_BYTES);
        Ok(Self {
            memory: map(length)?,
            chunk_bytes: length,
            held: 1,
        })
    }

    /// All of its memory.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory
    }

    /// Bytes of a chunk.
    pub(crate) fn chunk_bytes(&self) -> usize {
        self.chunk_bytes
    }

    /// Chunks there are beside those that the workers are filling, one for each stage.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// The chunks, in the order of their memory.
    pub(crate) fn chunks(&mut self) -> Chunks<'_> {
        Chunks {
            chunks: self.memory.chunks_exact_mut(self.chunk_bytes),
            chunk_bytes: self.chunk_bytes,
        }
    }
}

/// Memory without a file behind it, in pages of 2 MiB where the system has them.
fn map(length: usize) -> Result<MmapMut, Error> {
    let mut options = MmapOptions::new();
    let memory = options.len(length).no_reserve_swap().map_anon();
    let memory = memory.map_err(|error| {
        let mebibytes = length >> 20;
        Error::Plan(format!(
            "cannot allocate {mebibytes} MiB of memory ({error}); lower --memory"
        ))
    })?;
    // Without such pages it is slower, and nothing else.
    let _ = memory.advise(Advice::HugePage);
    Ok(memory)
}

/// Chunks never used.
#[derive(Debug)]
pub(crate) struct Chunks<'m> {
    chunks: ChunksExactMut<'m, u8>,
    chunk_bytes: usize,
}

impl Chunks<'_> {
    /// Bytes of memory in them.
    pub(crate) fn bytes(&self) -> usize {
        self.chunks.len() * self.chunk_bytes
    }
}

impl<'m> Iterator for Chunks<'m> {
    type Item = Chunk<'m>;

    fn next(&mut self) -> Option<Chunk<'m>> {
        let memory = self.chunks.next()?;
        Some(Chunk { memory, length: 0 })
    }
}

/// A piece of the arena, and the bytes in it.
#[derive(Debug, Default)]
pub(crate) struct Chunk<'m> {
    memory: &'m mut [u8],
    length: usize,
}

impl Chunk<'_> {
    /// What is in it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[..self.length]
    }

    /// How many bytes are in it.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Appends bytes; false if there is no room for them.
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) -> bool {
        let end = self.length + bytes.len();
        match self.memory.get_mut(self.length..end) {
            Some(free) => {
                free.copy_from_slice(bytes);
                self.length = end;
                true
            }
            None => false,
        }
    }

    /// Makes it hold `length` bytes, no more than it has room for; the new ones are yet to be written.
    pub(crate) fn resize(&mut self, length: usize) -> &mut [u8] {
        self.length = length;
        &mut self.memory[..length]
    }
}
