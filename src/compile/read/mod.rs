//! Text lists -> staged keys.
//!
//! | file | about |
//! |---|---|
//! | `found`, `input` | which files are read |
//! | `open` | their text, unpacked and counted |
//! | `feed` | blocks of whole lines for all workers; the digest of the text |
//! | `block` | the plain addresses of a block, found together |
//! | `usual` | the usual lines of hosts files and access tables, found as those of plain lists |
//! | `worker` | lines to keys |
//! | `counts` | what became of the lines |

mod block;
mod counts;
mod feed;
mod found;
mod input;
mod open;
mod usual;
mod worker;

pub use block::{Block, Line};
pub(super) use counts::{Counts, InputCounts, NotListed};
pub(crate) use feed::{Begun, begin};
pub(super) use feed::{Feed, Opened, digest_of_all};
pub(crate) use found::{Found, base_name, in_its_folder, may_be_list};
pub(super) use found::{Wanted, find_or_typed, is_whitelist};
pub use found::{build_settings, inputs, is_fetched};
pub use input::Input;
pub(super) use input::{cut, name_of, text, total_bytes};
pub(crate) use open::open;
pub(super) use worker::{Read, ReadOptions, read};
