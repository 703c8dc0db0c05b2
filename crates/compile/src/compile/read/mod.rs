//! Text lists -> staged keys.

mod block;
mod counts;
mod feed;
mod found;
mod input;
mod open;
mod worker;

pub use block::{Block, Line};
pub(super) use counts::{InputCounts, NotListed};
pub(crate) use feed::{Begun, Ends, Feed, Opened, ReadOptions, begin, digest_of_all};
pub use found::inputs;
pub use found::may_be_list;
pub(crate) use found::{Found, base_name, find, find_or_typed};
pub(crate) use found::{build_settings, in_its_folder, is_fetched, is_whitelist};
pub use input::Input;
pub(super) use input::{cut, name_of, path_named, text, total_bytes};
pub(crate) use open::open;
pub(super) use worker::{AnyRead, Read, read, read_any};
