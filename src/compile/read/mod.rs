//! Text lists -> staged keys.
//!
//! | file | about |
//! |---|---|
//! | `file_name`, `found`, `input` | which files are read |
//! | `open` | their text, unpacked and counted |
//! | `feed`, `digest` | blocks of whole lines for all workers; the digest of the text |
//! | `block` | the plain addresses of a block, found together |
//! | `usual` | the usual lines of hosts files and access tables, found as those of plain lists |
//! | `worker` | lines to keys |
//! | `counts` | what became of the lines |

mod block;
mod counts;
mod digest;
mod feed;
mod file_name;
mod found;
mod input;
mod open;
mod usual;
mod worker;

pub use block::{Block, Line};
pub(super) use counts::{Counts, InputCounts, NotListed};
pub(super) use digest::digest_of_all;
pub(crate) use feed::{Begun, begin};
pub(super) use feed::{Feed, Opened};
pub(super) use file_name::is_whitelist;
pub(crate) use file_name::may_be_list;
pub(crate) use found::{Found, base_name, in_its_folder};
pub(super) use found::{Wanted, find_or_typed};
pub use found::{build_settings, inputs, is_fetched};
pub use input::Input;
pub(super) use input::{cut, name_of, text, total_bytes};
pub(crate) use open::open;
pub(super) use worker::{Read, ReadOptions, read};
