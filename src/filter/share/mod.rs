//! A share of a merge: what one of several machines does of it.
//!
//! Above some ten thousand million entries, to merge the parts of a list takes one machine too long. So the keys are
//! divided into shares, and any machine can do any share:
//!
//! ```text
//!   parts --> counts of 1/3, 2/3, 3/3      how many entries there are: the size of the filter
//!   parts, all counts --> pages of 1/3, 2/3, 3/3
//!   all pages --> the filter
//! ```
//!
//! Both are files of their own kind, so that neither is ever taken for a filter:
//!
//! ```text
//!   head       see `head`; its length is in it, its checksum at its end
//!              the rest in a share of the pages alone, as in a filter, of these pages only:
//!   pages      pages * 4096
//!   sums       pages * 8
//!   directory  pages * 16: ends are counted from the first record of the share
//!   records    as it is
//! ```
//!
//! | file | about |
//! |---|---|
//! | `number` | which share, of how many: its keys and its pages |
//! | `head` | what a share says of itself, to bytes and back |
//! | `read` | shares read and checked |
//! | `write` | shares written, and joined to a filter |
//!
//! All of a share follows from the parts, the day, the rate and its number, so that two attempts at one
//! share are equal to the last byte. Nothing in a share is believed: lengths are checked against the file's
//! before memory is taken, and the sizes of the filter against its entries and rate.

mod head;
mod number;
mod read;
mod write;

pub(crate) use head::{Basis, Counts, MAX_PARTS, PagesHead, SourceCounts};
pub use number::{MAX_SHARES, Share, ShareKind};
pub(crate) use read::{SharedPages, kind_at, verify};
