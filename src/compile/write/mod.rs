//! Sorted records -> a filter file.
//!
//! | file | about |
//! |---|---|
//! | `sorted` | records in the order of their keys; several streams of them side by side |
//! | `sources` | the lists and filters that they come from, and the number of entries of each |
//! | `assemble` | pages and records in file order, on all threads |

mod assemble;
mod sorted;
mod sources;

pub(super) use assemble::{assemble, fill};
#[cfg(test)]
pub(super) use sorted::Given;
pub(super) use sorted::{Gathered, Held, Sorted};
pub(crate) use sorted::{STEPS, Walk};
pub(crate) use sources::EntryCounts;
pub(super) use sources::{Sources, add_counts, count_entries};
