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
    /// The file cannot be read, or the output cannot be claimed or replaced: [`io_kind`](Self::io_kind) says why.
    #[error(transparent)]
    File(#[from] replacement::Error),
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
    #[error("{}: the filter has no records; build it without --no-records", .0.display())]
    NoRecords(PathBuf),
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
    pub(super) fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        let failed = replacement::Error::io(path, action);
        move |error| failed(error).into()
    }

    /// Returns why the system did not read or write the file; `None` for any other error.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        match self {
            Self::File(replacement::Error::Io { source, .. }) => Some(source.kind()),
            _ => None,
        }
    }

    /// Returns the error of a file that fails a check.
    #[doc(hidden)]
    pub fn invalid(path: &Path, problem: Problem) -> Self {
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
    /// Not the file that is needed, or not all of it; the text says what to do.
    #[error("{0}")]
    Unfit(Cow<'static, str>),
    /// A checksum does not match, numbers contradict each other, or a field has a form that no writer
    /// writes.
    #[error("{0}: the file is damaged; build it again")]
    Damaged(Cow<'static, str>),
    /// A delta has a form that no writer writes.
    #[error("{0}: the delta is damaged; copy it again, or use the whole filter")]
    Delta(&'static str),
}

impl Problem {
    pub(super) fn unfit(what: impl Into<Cow<'static, str>>) -> Self {
        Self::Unfit(what.into())
    }

    pub(super) fn damaged(what: impl Into<Cow<'static, str>>) -> Self {
        Self::Damaged(what.into())
    }

    pub(super) fn size(expected: u64, got: u64) -> Self {
        Self::unfit(format!(
            "the file has {got} bytes, its header says {expected}: it is truncated or still being copied; \
             copy it again, or build it again"
        ))
    }

    pub(super) fn sum(of: &str) -> Self {
        Self::damaged(format!("the {of} do not match their checksum"))
    }

    pub(super) fn records(page: u64, what: &str) -> Self {
        Self::damaged(format!("records of page {page}: {what}"))
    }

    /// Returns the problem of a file with other records than it declares.
    #[doc(hidden)]
    pub fn count(declared: u64, counted: u64) -> Self {
        Self::damaged(format!(
            "{counted} records, but the header says {declared} entries"
        ))
    }
}
