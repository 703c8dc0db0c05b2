//! What people ask of filters.
//!
//! | file | about |
//! |---|---|
//! | `query` | who is listed, by which entry, from which list, since when |
//! | `info`, `part`, `share` | a filter at a glance; a part of a list; a share of a merge |
//! | `shared` | entries that several filters share, counted or estimated |
//! | `compare`, `overlap`, `picture` | two filters; several, each with each; the same as a picture |
//! | `known_good` | senders known to be good, held against a filter |

mod compare;
mod info;
mod known_good;
mod overlap;
mod part;
mod picture;
mod query;
mod share;
mod shared;

pub use compare::{Comparison, compare};
pub use info::{Info, SourceInfo, info};
pub use known_good::{KnownGood, false_positives};
pub use overlap::{Overlap, overlap};
pub use part::{PartInfo, part_info};
pub use query::{Finding, Match, Query};
pub use share::{ShareInfo, SharedFilter, check_share, share_info};
