//! Where staged keys are: in memory, one anonymous mapping that is cut into chunks, then on disk.
//!
//! The system allocates the memory when it is touched, in pages of 2 MiB if possible. Pages of 4 KiB
//! cause one page fault each (22,000 instead of 1,800 for ten million addresses), and need more
//! entries than the processor's translation lookaside buffer (TLB) has. The mapping has no file
//! behind it, so no truncation can take it away.
//!
//! What does not fit goes to a file without a name, in the folder of the output. The system frees it
//! however this process ends.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::slice::ChunksExactMut;

use memmap2::{Advice, MmapMut, MmapOptions};

use super::staged_key::STAGES;
use crate::compile::error::Error;
use blocklist_filter::base::path::{beside, folder_of};

const CHUNK_BYTES: usize = 4096;
/// Minimum size of a chunk: smaller ones would be handed over too often.
const MIN_CHUNK_BYTES: usize = 256;
/// Chunks are a multiple of this size, so that staged keys of all sizes fill them.
const ITEM_BYTES: usize = 16;

#[derive(Debug)]
pub(crate) struct Arena {
    memory: MmapMut,
    pub(super) chunk_bytes: usize,
    /// Number of chunks in addition to those that the workers fill, one per stage.
    pub(super) held: usize,
}

impl Arena {
    /// Maps about `memory_bytes`, without touching them, for `threads` workers.
    pub(crate) fn new(memory_bytes: usize, threads: usize) -> Result<Self, Error> {
        // A quarter is for the chunks that the workers fill, the rest for full ones.
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

    pub(crate) fn chunks(&mut self) -> ChunksExactMut<'_, u8> {
        self.memory.chunks_exact_mut(self.chunk_bytes)
    }
}

fn map(length: usize) -> Result<MmapMut, Error> {
    let mut options = MmapOptions::new();
    let memory = options.len(length).no_reserve_swap().map_anon();
    let memory = memory.map_err(|cause| Error::Memory {
        bytes: length,
        cause,
    })?;
    // Without such pages it is only slower.
    let _ = memory.advise(Advice::HugePage);
    Ok(memory)
}

#[derive(Debug, Default)]
pub(crate) struct Chunk<'m> {
    memory: &'m mut [u8],
    length: usize,
}

impl<'m> Chunk<'m> {
    pub(crate) fn new(memory: &'m mut [u8]) -> Self {
        Self { memory, length: 0 }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[..self.length]
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

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

    /// Sets its length, and returns its content; the caller must write the new bytes.
    pub(crate) fn resize(&mut self, length: usize) -> &mut [u8] {
        self.length = length;
        &mut self.memory[..length]
    }
}

/// A file that is created when the first byte is written.
#[derive(Debug)]
pub(crate) struct Spill {
    path: PathBuf,
    file: Option<File>,
    pub(super) length_bytes: u64,
}

impl Spill {
    /// Returns the spill file of `/dir/spammers.blf`, which messages call `/dir/.spammers.blf.spill`.
    pub(crate) fn beside(output: &Path) -> Self {
        Self {
            path: beside(output, ".spill"),
            file: None,
            length_bytes: 0,
        }
    }

    pub(crate) fn append(&mut self, bytes: &mut Vec<u8>) -> Result<(), Error> {
        let file = match &self.file {
            Some(file) => file,
            None => {
                let created = tempfile::tempfile_in(folder_of(&self.path));
                (self.file).insert(created.map_err(Error::io(&self.path, "create"))?)
            }
        };
        file.write_all_at(bytes, self.length_bytes)
            .map_err(Error::io(&self.path, "write"))?;
        self.length_bytes += bytes.len() as u64;
        bytes.clear();
        Ok(())
    }

    pub(crate) fn write_at(&self, bytes: &[u8], offset_bytes: u64) -> Result<(), Error> {
        self.file.iter().try_for_each(|file| {
            file.write_all_at(bytes, offset_bytes)
                .map_err(Error::io(&self.path, "write"))
        })
    }

    pub(crate) fn read_at(&self, bytes: &mut [u8], offset_bytes: u64) -> Result<(), Error> {
        self.file.iter().try_for_each(|file| {
            file.read_exact_at(bytes, offset_bytes)
                .map_err(Error::io(&self.path, "read"))
        })
    }
}
