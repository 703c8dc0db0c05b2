//! Answers to questions about filters: who is listed by them, what is in them, which entries they share,
//! which known good senders they would refuse; and what would come of a list.

mod info;
mod known_good;
mod overlap;
pub mod preview;
mod query;

pub use info::{Info, Made, PartInfo, SourceInfo, info, part_info};
pub use known_good::{KnownGood, false_positives};
pub use overlap::{Comparison, Overlap, compare, overlap};
pub use query::{Finding, Match, Query};
