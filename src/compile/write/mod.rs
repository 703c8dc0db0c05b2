//! Sorted records -> a filter file.
//!
//! | file | about |
//! |---|---|
//! | `sorted`, `walk` | records in the order of their keys; several streams of them side by side |
//! | `gathered` | the records of a few pages |
//! | `entry_counts` | the number of entries, by source and kind |
//! | `sources` | the lists and filters that they come from |
//! | `assemble` | pages and records in file order, on all threads |

mod assemble;
mod entry_counts;
mod gathered;
mod sorted;
mod sources;
mod walk;

pub(super) use assemble::{assemble, fill};
pub(crate) use entry_counts::EntryCounts;
pub(super) use entry_counts::count_entries;
pub(super) use gathered::Gathered;
#[cfg(test)]
pub(super) use sorted::Given;
pub(crate) use sorted::STEPS;
pub(super) use sorted::Sorted;
pub(super) use sources::{Sources, add_counts};
pub(super) use walk::Held;
pub(crate) use walk::Walk;
