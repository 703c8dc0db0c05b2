//! Answers to questions about filters: who is listed by them, what is in them, which entries they share,
//! which known good senders they would refuse; and what would come of a list.

mod info;
mod known_good;
mod overlap;
pub(crate) mod preview;
mod query;

pub(crate) use info::{Info, Made, PartInfo, SourceInfo, info, part_info};
pub(crate) use known_good::false_positives;
pub(crate) use overlap::overlap;
pub use overlap::{Comparison, compare};
pub use query::{Finding, Match, Query};
