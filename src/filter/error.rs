//! What can go wrong with a filter file: reading, verifying, writing.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::key::Key;
use crate::replacement;

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
    /// The file fails its checks.
    #[error("{}: {fault}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: Fault,
    },
    /// The pages do not fit into memory.
    #[error("{}: not enough memory for {bytes} bytes of pages; load = \"disk\" needs none", path.display())]
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
    /// What was to be read is not a regular file.
    #[error("{}: not a regular file", path.display())]
    NotAFile {
        /// The output.
        path: PathBuf,
    },
    /// The output cannot be claimed or replaced.
    #[error(transparent)]
    Replacement(#[from] replacement::Error),
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

/// What is wrong with a filter file.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum Fault {
    /// The magic is missing.
    #[error("not a filter file; build one with blocklist-compile build")]
    NotAFilter,
    /// A part of a list in the place of a filter.
    #[error("one part of a list, not a filter; join all its parts with blocklist-compile merge")]
    Part,
    /// A filter in the place of a part.
    #[error("not a part of a list; make one with blocklist-compile build --part")]
    NotAPart,
    /// A share of a merge in the place of a filter.
    #[error(
        "one share of a merge, not a filter; join the pages of all shares with blocklist-compile merge"
    )]
    Share,
    /// A layout this program does not know.
    #[error(
        "format version {found}, but this program reads {known}: build the filter again, or update the program"
    )]
    Version {
        /// The version found.
        found: u32,
        /// The version that this program reads.
        known: u32,
    },
    /// A field of the header holds what no writer writes.
    #[error(
        "the header's field {field} has the invalid value {value}: the file is damaged; build it again"
    )]
    Field {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// The file is shorter or longer than its header says.
    #[error(
        "the file has {got} bytes, its header says {expected}: it is truncated or still being copied; copy it again, or build it again"
    )]
    Size {
        /// Bytes the header accounts for.
        expected: u64,
        /// Bytes found.
        got: u64,
    },
    /// A checksum does not match.
    #[error("the {part} do not match their checksum: the file is damaged; build it again")]
    Sum {
        /// Which part: "header bytes", "sums", ...
        part: &'static str,
    },
    /// A page does not match its checksum.
    #[error("page {page} does not match its checksum: the file is damaged; build it again")]
    PageSum {
        /// Number of the page.
        page: u64,
    },
    /// Records cannot be what a writer wrote.
    #[error("records of page {page}: {what}: the file is damaged; build it again")]
    Records {
        /// Number of the page.
        page: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// The directory or the sources cannot be what a writer wrote.
    #[error("the {part} are malformed: build the filter again")]
    Malformed {
        /// "directory" or "sources".
        part: &'static str,
    },
    /// Not as many bits set as declared.
    #[error(
        "{counted} bits are set, but the header says {declared}: the file is damaged; build it again"
    )]
    Fill {
        /// Bits set by the header.
        declared: u64,
        /// Bits set in the pages.
        counted: u64,
    },
    /// The pages are not as full as so many entries make them.
    #[error(
        "the pages hold about {estimated:.0} entries, but the header says {declared}: build the filter again"
    )]
    Entries {
        /// Entries by the header.
        declared: u64,
        /// Entries by the fill of the pages.
        estimated: f64,
    },
    /// Not as many records as entries declared.
    #[error(
        "{counted} records, but the header says {declared} entries: the file is damaged; build it again"
    )]
    Count {
        /// Entries by the header.
        declared: u64,
        /// Records found.
        counted: u64,
    },
    /// More entries declared than records have room.
    #[error(
        "room for at most {most} records, but the header says {declared} entries: the file is damaged; build it again"
    )]
    Room {
        /// Entries by the header.
        declared: u64,
        /// Records that the file has room for.
        most: u64,
    },
    /// The pages would answer wrongly far more often than declared.
    #[error(
        "the pages match {rate:.2e} of unlisted senders, but the header declares {fpr:.2e}: build the filter again"
    )]
    Rate {
        /// Rate of the pages.
        rate: f64,
        /// Declared rate.
        fpr: f64,
    },
    /// A record whose key the pages deny: a listed sender would be missed.
    #[error(
        "the record {:016x} is not in page {page}: the file is damaged, and a listed sender would be missed; build it again",
        key.0
    )]
    Lost {
        /// Number of the page.
        page: u64,
        /// The key.
        key: Key,
    },
    /// The magic of a delta is missing.
    #[error("not a delta; make one with blocklist-compile delta")]
    NotADelta,
    /// A layout of deltas that this program does not know.
    #[error(
        "delta version {found}, but this program reads {known}: use the whole filter, or update the program"
    )]
    DeltaVersion {
        /// The version found.
        found: u32,
        /// The version that this program reads.
        known: u32,
    },
    /// Another file in the place of the counts of a share of a merge.
    #[error("not the counts of a share; make them with blocklist-compile merge --count")]
    NotCounts,
    /// Another file in the place of the pages of a share of a merge.
    #[error("not the pages of a share; make them with blocklist-compile merge --pages")]
    NotPages,
    /// A layout of shares that this program does not know.
    #[error(
        "share version {found}, but this program reads {known}: make all shares with the same version of the program"
    )]
    ShareVersion {
        /// The version found.
        found: u32,
        /// The version that this program reads.
        known: u32,
    },
    /// A share cannot be what a writer wrote.
    #[error("{what}: the share is damaged; copy it again, or make it again")]
    DamagedShare {
        /// What is wrong.
        what: &'static str,
    },
    /// A delta cannot be what a writer wrote.
    #[error("{what}: the delta is damaged; copy it again, or use the whole filter")]
    Delta {
        /// What is wrong.
        what: &'static str,
    },
}
