//! Sorted records -> a filter file.
//!
//! | file | about |
//! |---|---|
//! | `records` | records in the order of their keys, from filters and staged keys, joined |
//! | `census` | how many there are, by source and kind |
//! | `sources` | the lists and filters that they come from |
//! | `assemble` | pages and records in file order, on all threads |

mod assemble;
mod census;
mod records;
mod sources;

pub(super) use assemble::assemble;
pub(crate) use census::Census;
pub(super) use census::census;
pub use records::Changed;
pub(super) use records::{FileRecords, Joined, Sorted};
pub(super) use sources::Sources;
