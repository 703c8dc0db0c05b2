//! Text lists -> staged keys.
//!
//! | file | about |
//! |---|---|
//! | `input` | which files are read |
//! | `feed` | blocks of whole lines for all workers |
//! | `worker` | lines to keys |
//! | `tally`, `rejects` | what became of the lines, counted and written down |

mod feed;
mod input;
mod rejects;
mod tally;
mod worker;

pub(crate) use feed::open;
pub(super) use feed::{Feed, Opened};
pub(super) use input::{Found, find_all, find_or_typed, is_allowlist, name_of, text, total_bytes};
pub use input::{Input, inputs};
pub(super) use rejects::RejectsFile;
pub(super) use tally::{Example, Tally};
pub(super) use worker::{Read, Terms, read};
