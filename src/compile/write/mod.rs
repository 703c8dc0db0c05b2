//! Sorted records -> a filter file.
//!
//! | file | about |
//! |---|---|
//! | `records` | records in the order of their keys, from filters and staged keys, joined |
//! | `entry_counts` | how many there are, by source and kind |
//! | `sources` | the lists and filters that they come from |
//! | `assemble` | pages and records in file order, on all threads |

mod assemble;
mod entry_counts;
mod records;
mod sources;

pub(super) use assemble::{assemble, fill};
pub(crate) use entry_counts::EntryCounts;
pub(super) use entry_counts::count_entries;
pub use records::Changed;
pub(super) use records::{FileRecords, Joined, Sorted};
pub(super) use sources::Sources;
