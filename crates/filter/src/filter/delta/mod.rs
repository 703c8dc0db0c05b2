//! The changes that make one filter from another: a file with the records that were added, removed
//! and changed.
//!
//! Keys are hashes, so they cannot be compressed. But they are sorted, and the gaps between them
//! take about 1.5 bits more than log2 of their mean. For 100 million entries, a removed entry takes
//! 11.5 bits if one in a thousand is removed, and an added one 49. Pages are not in a delta: they
//! follow from the keys.
//!
//! ```text
//!   8    magic            u32 version          u32 bytes of the head
//!        head             see `head`: OLD, NEW, classes
//!        segments         edits in the order of their keys, at most 4096 per segment
//!   u64  XXH3-64 of all bytes before
//!
//!   segment, in bits:
//!   13 touched   13 added   6, 6, 6, 6 parameters of the Rice codes of:
//!     touched:  gap between indexes of records of OLD, number of the class + 1, 0: removed
//!     added:    gap between keys, number of the class
//!   then zeros to the next byte
//! ```
//!
//! Index i is the i-th record of OLD that has not expired (see `head`). A gap is the distance from
//! the previous edit in any segment, or from the beginning. A number takes no bits if there is only
//! one choice.
//!
//! Segments hold the edits in the order of keys, so that both sides read OLD, NEW and the delta
//! once from front to back. Nothing in a delta is trusted. All memory is bounded: by the length of
//! the file, by the segment, by the limits in [`format`](super::format) and `head`.

mod head;
mod read;
mod rice;
mod write;

use super::record::Class;

pub use head::{Head, MAX_CLASSES, is_derived};
pub use read::Delta;
pub use write::DeltaWriter;

pub(crate) const MAGIC: [u8; 8] = *b"\x89bld\r\n\x1a\n";

const VERSION: u32 = 1;

/// Size of the part before the head, and of the checksum after the segments.
const PRELUDE_BYTES: u64 = 16;
const SUM_BYTES: u64 = 8;

/// Maximum number of edits in a segment, and the bits of a number up to that.
const SEGMENT_EDITS: usize = 4096;
const COUNT_BITS: u8 = 13;
const PARAMETER_BITS: u8 = 6;

/// What happens to a record of OLD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    Removed,
    Changed(Class),
}
