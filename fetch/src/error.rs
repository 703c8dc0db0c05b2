//! Why nothing was changed.

use std::io;
use std::path::Path;

use blocklist_milter::{compile, filter, replacement};

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store did not give or take a file.
    #[error("{name}: {why}")]
    Store {
        /// The file in the store, with where that is.
        name: String,
        /// What it said, or what was wrong.
        why: String,
    },
    /// What the store gave is not to be believed, or not to be used.
    #[error("{0}")]
    Refused(String),
    /// The manifest is too old: somebody may be holding back newer ones.
    #[error("{0}")]
    Frozen(String),
    /// A file of this host could not be read or replaced.
    #[error(transparent)]
    Replacement(#[from] replacement::Error),
    /// A filter or a delta fails its checks, or cannot be written.
    #[error(transparent)]
    Filter(#[from] filter::Error),
    /// A delta could not be made or applied.
    #[error(transparent)]
    Compile(#[from] compile::Error),
    /// The command line, or a file that it names, cannot be used.
    #[error("{0}")]
    Settings(String),
}

impl Error {
    /// For `map_err`: what was tried on which file, as it follows "cannot".
    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| {
            Self::Replacement(replacement::Error::Io {
                path: path.to_owned(),
                action,
                source,
            })
        }
    }
}
