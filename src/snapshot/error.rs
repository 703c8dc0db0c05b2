//! Why a file cannot be put into effect.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::config;
use blocklist_filter::lookup;

/// Why a file is not in effect as it is.
#[derive(Debug, Error)]
pub enum Error {
    #[error(transparent)]
    Config(#[from] config::Error),
    /// A configuration without any list, in place of one with lists.
    #[error("{}: names no list: a file that is being written looks the same; if it is intended, run blocklist-milter reload", .0.display())]
    NoList(PathBuf),
    /// A filter cannot be read, is damaged, or does not fit this program.
    #[error("list {list}: {source}")]
    Filter { list: String, source: lookup::Error },
    /// A valid filter that must not be used.
    #[error("list {list}: {}: {reason}", path.display())]
    Unfit {
        list: String,
        path: PathBuf,
        reason: String,
    },
    /// An address that must never be listed is.
    #[error("list {list}: {}: lists or matches {address}, which must_miss protects; remove the entry (\"blocklist-compile query {} {address}\" shows it)", path.display(), path.display())]
    MustMiss {
        list: String,
        path: PathBuf,
        /// The address, as configured.
        address: String,
    },
    /// A whitelist cannot be read, or has invalid lines: without them, the senders that they should protect would be
    /// refused.
    #[error("{text}")]
    Whitelist {
        path: PathBuf,
        /// Why, or the first such lines, as `file:line: reason`.
        text: String,
    },
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Several(Vec<Self>),
}

/// A file that is not in effect as it is.
#[derive(Debug)]
pub struct FileProblem {
    pub error: Error,
    /// What is in effect instead, as a clause; `None`: nothing is, and `on_error` applies.
    pub instead: Option<String>,
}

impl Error {
    /// One error for all of these, if there are any.
    pub(super) fn of(mut errors: Vec<Self>) -> Result<(), Self> {
        match errors.len() {
            0 | 1 => errors.pop().map_or(Ok(()), Err),
            _ => Err(Self::Several(errors)),
        }
    }

    /// Whether the filter file of a list does not exist.
    pub fn is_missing_filter(&self) -> bool {
        matches!(self, Self::Filter { source: lookup::Error::Filter(error), .. }
            if error.io_kind() == Some(io::ErrorKind::NotFound))
    }

    pub fn list(&self) -> Option<&str> {
        match self {
            Self::Filter { list, .. } | Self::Unfit { list, .. } | Self::MustMiss { list, .. } => {
                Some(list)
            }
            Self::Config(_) | Self::NoList(_) | Self::Whitelist { .. } | Self::Several(_) => None,
        }
    }
}
