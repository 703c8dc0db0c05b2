//! Text lists -> staged keys.
//!
//! | file | about |
//! |---|---|
//! | `input` | which files are read |
//! | `feed` | blocks of whole lines for all workers |
//! | `block` | the plain addresses of a block, found together |
//! | `worker` | lines to keys |
//! | `counts`, `rejects` | what became of the lines, counted and written down |

mod block;
mod counts;
mod feed;
mod input;
mod rejects;
mod worker;

pub use block::{Block, Line};
pub(super) use counts::{Counts, Example};
pub(crate) use feed::open;
pub(super) use feed::{Feed, Opened};
pub(super) use input::{Found, find_all, find_or_typed, is_allowlist, name_of, text, total_bytes};
pub use input::{Input, inputs};
pub(super) use rejects::RejectsFile;
pub(super) use worker::{Read, ReadOptions, read};
