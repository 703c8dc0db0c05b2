//! What people say about a list: its format, and for a table which column or key names the sender
//! and which rows count.

mod build;
mod declared;
mod list_toml;
mod profiles;
mod resolve;

pub use build::{BuildSettings, Expires, FeedSettings, MaxRejects};
pub use declared::Declared;
pub(crate) use declared::{all_rows, separator};
pub use list_toml::{LIST_TOML, ListToml};
pub use resolve::{Reading, Why, reading};
pub(crate) use resolve::{format, separator_of};
