//! A share of a merge: the part of it that one of several machines does.
//!
//! For more than about ten billion entries, merging the parts of a list takes one machine too long.
//! So the keys are divided into shares, and any machine can do any share:
//!
//! ```text
//!   parts --> counts of 1/3, 2/3, 3/3      the number of entries, hence the size of the filter
//!   parts, all counts --> pages of 1/3, 2/3, 3/3
//!   all pages --> the filter
//! ```
//!
//! Counts and pages are files of their own kinds, so that neither is taken for a filter:
//!
//! ```text
//!   head       see `head`; it contains its length, and ends with its checksum
//!              the following only in a share of the pages, as in a filter, for these pages only:
//!   pages      pages * 4096
//!   sums       pages * 8
//!   directory  pages * 16: ends are counted from the first record of the share
//!   records    as it is
//! ```
//!
//! | file | about |
//! |---|---|
//! | `number` | the number of a share, and of how many: its keys and its pages |
//! | `head` | the head of a share, encoded and decoded |
//! | `read` | reading and checking shares |
//! | `write` | writing shares, and joining them to a filter |
//!
//! A share follows completely from the parts, the day, the rate and its number, so two attempts at
//! one share give equal bytes. Nothing in a share is trusted: lengths are checked against the file
//! before memory is allocated, and the size of the filter is checked against its entries and rate.

mod head;
mod number;
mod read;
mod write;

pub(crate) use head::{Basis, Counts, MAX_PARTS, PagesHead, SourceCounts};
pub use number::{MAX_SHARES, Share, ShareKind};
pub(crate) use read::{SharedPages, kind_at, verify};
