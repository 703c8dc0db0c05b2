//! The spill file: what does not fit into memory goes to a file without a name, in the folder of
//! the output. The system frees it however this process ends.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::base::path::{beside, folder_of};
use crate::compile::error::Error;

/// A file that is created when the first byte is written.
#[derive(Debug)]
pub(crate) struct Spill {
    path: PathBuf,
    file: Option<File>,
    length_bytes: u64,
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

    /// Returns its length.
    pub(crate) fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    /// Appends `bytes` to the file, and clears them.
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

    /// Overwrites a part of the file.
    pub(crate) fn write_at(&self, bytes: &[u8], offset_bytes: u64) -> Result<(), Error> {
        self.file.iter().try_for_each(|file| {
            file.write_all_at(bytes, offset_bytes)
                .map_err(Error::io(&self.path, "write"))
        })
    }

    /// Fills `bytes` from the file.
    pub(crate) fn read_at(&self, bytes: &mut [u8], offset_bytes: u64) -> Result<(), Error> {
        self.file.iter().try_for_each(|file| {
            file.read_exact_at(bytes, offset_bytes)
                .map_err(Error::io(&self.path, "read"))
        })
    }
}
