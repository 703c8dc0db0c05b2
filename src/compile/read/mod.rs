//! Text lists -> staged keys.
//!
//! | file | about |
//! |---|---|
//! | `file_name`, `input` | which files are read |
//! | `open` | their text, unpacked and counted |
//! | `feed`, `digest` | blocks of whole lines for all workers; the digest of the text |
//! | `block` | the plain addresses of a block, found together |
//! | `worker` | lines to keys |
//! | `counts`, `rejects` | what became of the lines, counted and written down |

mod block;
mod counts;
mod digest;
mod feed;
mod file_name;
mod input;
mod open;
mod rejects;
mod worker;

pub use block::{Block, Line};
pub(super) use counts::{Counts, Example};
pub(super) use digest::joined as joined_digest;
pub(super) use feed::{Feed, Opened};
pub(super) use file_name::is_allowlist;
pub(super) use input::{Found, cut, find_all, find_or_typed, name_of, text, total_bytes};
pub use input::{Input, inputs};
pub(crate) use open::open;
pub(super) use rejects::RejectsFile;
pub(super) use worker::{Read, ReadOptions, read};
