//! What can go wrong with a filter file: reading, vouching, writing.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::format::Fault;

/// Why a filter could not be read or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The file cannot be vouched for.
    #[error("{}: {fault}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: Fault,
    },
    /// The pages do not fit into memory.
    #[error("{}: no memory for {bytes} bytes of pages; load = \"disk\" needs none", path.display())]
    Memory {
        /// The file.
        path: PathBuf,
        /// Bytes that were asked for.
        bytes: u64,
    },
    /// Records were asked of a filter that has none.
    #[error("{}: the filter has no records; build it without --no-records", path.display())]
    NoRecords {
        /// The file.
        path: PathBuf,
    },
    /// Another process writes the same output.
    #[error("{}: another process is writing it; wait for that to end", path.display())]
    Busy {
        /// The output.
        path: PathBuf,
    },
    /// The output is something else than a file.
    #[error("{}: is no regular file; name a file", path.display())]
    NotAFile {
        /// The output.
        path: PathBuf,
    },
    /// What was to be written cannot be written so that it could be read.
    #[error("{}: {what}", path.display())]
    Unwritable {
        /// The output.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
}

impl Error {
    /// For `map_err`: what was tried on which path.
    pub(super) fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            path: path.to_owned(),
            action,
            source,
        }
    }

    pub(super) fn invalid(path: &Path, fault: Fault) -> Self {
        Self::Invalid {
            path: path.to_owned(),
            fault,
        }
    }
}
