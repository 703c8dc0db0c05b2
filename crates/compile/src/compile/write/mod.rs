//! Sorted records -> a filter file.

mod assemble;
mod sorted;
mod sources;

pub(super) use assemble::assemble;
pub(crate) use sorted::{Held, STEPS, Sorted, Walk};
pub(crate) use sources::{EntryCounts, Sources, add_counts, count_entries};
