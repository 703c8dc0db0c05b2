//! Errors of both programs.

use std::io;
use std::path::Path;

use blocklist_compile::compile;
use blocklist_filter::base::replacement;
use blocklist_filter::filter;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read from or written to the store.
    #[error("{name}: {why}")]
    Store {
        /// The file, with the address of the store.
        name: String,
        /// The answer of the store, or the problem.
        why: String,
    },
    /// The data from the store cannot be trusted, or must not be used.
    #[error("{0}")]
    Refused(String),
    /// The manifest has expired: somebody may be withholding newer ones.
    #[error("{0}")]
    Frozen(String),
    /// A file of this host could not be read or replaced.
    #[error(transparent)]
    Replacement(#[from] replacement::Error),
    /// A filter or a delta fails its checks, or cannot be written.
    #[error(transparent)]
    Filter(#[from] filter::Error),
    /// A delta cannot be made or applied.
    #[error(transparent)]
    Compile(#[from] compile::Error),
    /// The command line, or a file that it names, cannot be used.
    #[error("{0}")]
    Settings(String),
}

impl Error {
    /// The exit code: 1 is an alarm, 2 is a fault.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            Self::Refused(_) | Self::Frozen(_) => 1,
            _ => 2,
        }
    }

    /// For `map_err`: the file, and the action as it follows "cannot".
    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Replacement(replacement::Error::io(path, action)(source))
    }
}
