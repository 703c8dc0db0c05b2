//! Answers to questions about filters.
//!
//! | file | about |
//! |---|---|
//! | `query` | who is listed, by which entry, from which list, since when |
//! | `info` | an overview of a filter, or of a part of a list |
//! | `overlap` | the number of entries that several filters share, counted or estimated; two filters |
//! | `preview` | what a list is read as, and what would come of it |
//! | `known_good` | looks up senders that are known to be good |

mod info;
mod known_good;
mod overlap;
pub mod preview;
mod query;

pub use info::{Info, Made, PartInfo, SourceInfo, info, part_info};
pub use known_good::{KnownGood, false_positives};
pub use overlap::{Comparison, Overlap, compare, overlap};
pub use query::{Finding, Match, Query};
