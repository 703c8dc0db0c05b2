//! Sorted records -> a filter file.
//!
//! | file | about |
//! |---|---|
//! | `records` | records in the order of their keys, from filters and staged keys, joined |
//! | `entry_counts` | the number of entries, by source and kind |
//! | `sources` | the lists and filters that they come from |
//! | `turns` | pages of several workers, appended in order |
//! | `assemble` | pages and records in file order, on all threads |

mod assemble;
mod entry_counts;
mod records;
mod sources;
mod turns;

pub(super) use assemble::{PAGES_AT_ONCE, assemble, fill};
pub(crate) use entry_counts::EntryCounts;
pub(super) use entry_counts::count_entries;
pub use records::Changed;
pub(super) use records::{FileRecords, Joined, Sorted};
pub(super) use sources::Sources;
pub(super) use turns::Turns;
