//! What can stop a compilation. A line that cannot be a key does not: the
//! [report](super::Report) counts it.

use std::io;
use std::path::{Path, PathBuf};

use super::verdict::Refused;
use crate::settings;
use blocklist_filter::base::replacement;
use blocklist_filter::filter;
use blocklist_filter::lookup;

/// Why nothing was written. In all cases, the old file stays.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be read, written, locked, replaced or removed.
    #[error(transparent)]
    File(#[from] replacement::Error),
    /// The filter file could not be read or written, or fails its checks.
    #[error("{0}")]
    Filter(#[from] filter::Error),
    /// A filter does not answer, or was made with other address rules.
    #[error(transparent)]
    Lookup(#[from] lookup::Error),
    /// The output is an input, or exists and is of another kind, so it is not replaced.
    #[error("{}: {why}", path.display())]
    NotReplaced {
        /// The output.
        path: PathBuf,
        /// Why, and what to do.
        why: String,
    },
    /// The `list.toml` of a folder cannot be read, or has faults.
    #[error(transparent)]
    ListToml(#[from] settings::Error),
    /// The settings contradict each other or cannot be met; files do not belong together.
    #[error("{0}")]
    Plan(String),
    /// A list without an entry would replace one that had some.
    #[error(transparent)]
    Refused(Refused),
    /// SIGINT or SIGTERM was received; all unfinished files were removed.
    #[error("interrupted; nothing was written")]
    Interrupted,
}

impl Error {
    pub(crate) fn io(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        let failed = replacement::Error::io(path, doing);
        move |error| failed(error).into()
    }
}
