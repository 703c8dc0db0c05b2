//! What can go wrong with a filter file: reading, verifying, writing.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::base::replacement;

/// Why a filter could not be read or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system reported an error.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was being done, in words that follow "cannot".
        action: &'static str,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The file fails its checks.
    #[error("{}: {problem}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: Problem,
    },
    /// The pages do not fit into memory.
    #[error("{}: not enough memory for {bytes} bytes of pages; load = \"disk\" needs none", path.display())]
    Memory {
        /// The file.
        path: PathBuf,
        /// Number of bytes needed.
        bytes: u64,
    },
    /// The records of a filter that has none were needed.
    #[error("{}: the filter has no records; build it without --no-records", path.display())]
    NoRecords {
        /// The file.
        path: PathBuf,
    },
    /// The file to read is not a regular file.
    #[error("{}: not a regular file", path.display())]
    NotAFile {
        /// The file.
        path: PathBuf,
    },
    /// The output cannot be claimed or replaced.
    #[error(transparent)]
    Replacement(#[from] replacement::Error),
    /// The output would break a limit of the format, and could not be read again.
    #[error("{}: {what}", path.display())]
    Unwritable {
        /// The output.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
}

impl Error {
    /// Returns a function for `map_err` that adds what was being done, and with which path.
    pub(super) fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            path: path.to_owned(),
            action,
            source,
        }
    }

    pub(super) fn invalid(path: &Path, problem: Problem) -> Self {
        Self::Invalid {
            path: path.to_owned(),
            problem,
        }
    }
}

/// What is wrong with a filter file.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum Problem {
    /// The magic is missing.
    #[error("not a filter file; build one with blocklist-compile build")]
    NotAFilter,
    /// A part of a list in place of a filter.
    #[error("one part of a list, not a filter; merge all its parts with blocklist-compile merge")]
    Part,
    /// A filter in place of a part.
    #[error("not a part of a list; make one with blocklist-compile build --part")]
    NotAPart,
    /// A part of a list in the layout of earlier builds of this program.
    #[error(
        "one part of a list, made by an earlier version of blocklist-compile: build it again with this one"
    )]
    OldPart,
    /// A version of the layout that this program does not know.
    #[error(
        "format version {found}, but this program reads {known}: build the filter again, or update the program"
    )]
    Version {
        /// The version found.
        found: u32,
        /// The version that this program reads.
        known: u32,
    },
    /// The file is shorter or longer than its header says.
    #[error(
        "the file has {got} bytes, its header says {expected}: it is truncated or still being copied; copy it again, or build it again"
    )]
    Size {
        /// Number of bytes according to the header.
        expected: u64,
        /// Number of bytes found.
        got: u64,
    },
    /// A checksum does not match, numbers contradict each other, or a field has a form that no writer
    /// writes.
    #[error("{0}: the file is damaged; build it again")]
    Damaged(Cow<'static, str>),
    /// Records have a form that no writer writes.
    #[error("records of page {page}: {what}: the file is damaged; build it again")]
    Records {
        /// Number of the page.
        page: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// The fill of the pages does not match the number of entries.
    #[error(
        "the pages hold about {estimated:.0} entries, but the header says {declared}: build the filter again"
    )]
    Entries {
        /// Number of entries according to the header.
        declared: u64,
        /// Number of entries estimated from the fill of the pages.
        estimated: f64,
    },
    /// The false-positive rate of the pages is far above the declared one.
    #[error(
        "the pages match {rate:.2e} of unlisted senders, but the header declares {fpr:.2e}: build the filter again"
    )]
    Rate {
        /// Rate of the pages.
        rate: f64,
        /// Declared rate.
        fpr: f64,
    },
    /// The magic of a delta is missing.
    #[error("not a delta; make one with blocklist-compile delta")]
    NotADelta,
    /// A version of the layout of deltas that this program does not know.
    #[error(
        "delta version {found}, but this program reads {known}: use the whole filter, or update the program"
    )]
    DeltaVersion {
        /// The version found.
        found: u32,
        /// The version that this program reads.
        known: u32,
    },
    /// A delta has a form that no writer writes.
    #[error("{what}: the delta is damaged; copy it again, or use the whole filter")]
    Delta {
        /// What is wrong.
        what: &'static str,
    },
}

impl Problem {
    /// Says that a file is damaged, and what shows it.
    pub(super) fn damaged(what: impl Into<Cow<'static, str>>) -> Self {
        Self::Damaged(what.into())
    }

    /// Says that something in a file does not match its checksum.
    pub(super) fn sum(of: &str) -> Self {
        Self::damaged(format!("the {of} do not match their checksum"))
    }

    /// Says that a file has another number of records than its header says.
    pub(super) fn count(declared: u64, counted: u64) -> Self {
        Self::damaged(format!(
            "{counted} records, but the header says {declared} entries"
        ))
    }
}
