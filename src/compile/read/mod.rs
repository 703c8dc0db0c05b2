//! Text lists -> staged keys.
//!
//! | file | about |
//! |---|---|
//! | `input` | which files are read |
//! | `feed`, `digest` | blocks of whole lines for all workers; the digest of the text |
//! | `block` | the plain addresses of a block, found together |
//! | `worker` | lines to keys |
//! | `counts`, `rejects` | what became of the lines, counted and written down |

mod block;
mod counts;
mod digest;
mod feed;
mod input;
mod rejects;
mod worker;

pub use block::{Block, Line};
pub(super) use counts::{Counts, Example};
pub(super) use digest::joined as joined_digest;
pub(crate) use feed::open;
pub(super) use feed::{Feed, Opened};
pub(super) use input::{
    Found, cut, find_all, find_or_typed, is_allowlist, name_of, text, total_bytes,
};
pub use input::{Input, inputs};
pub(super) use rejects::RejectsFile;
pub(super) use worker::{Read, ReadOptions, read};
