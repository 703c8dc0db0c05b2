//! Text lists -> staged keys.

mod block;
mod counts;
mod feed;
mod found;
mod input;
mod open;
mod usual;
mod worker;

pub use block::{Block, Line};
pub(super) use counts::{InputCounts, NotListed};
pub(crate) use feed::{Begun, Feed, Opened, ReadOptions, begin, digest_of_all};
pub(crate) use found::{Found, base_name, find, find_or_typed};
pub use found::{build_settings, inputs, is_fetched};
pub(crate) use found::{in_its_folder, is_whitelist, may_be_list};
pub use input::Input;
pub(super) use input::{cut, name_of, text, total_bytes};
pub(crate) use open::open;
pub(crate) use worker::NO_PLACE_FOR_END;
pub(super) use worker::{Read, read};
