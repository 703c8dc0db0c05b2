//! What people say about a list: its format, and for a table which column or key names the sender
//! and which rows count.
//!
//! | module | about |
//! |---|---|
//! | `declared` | what is declared for one file, with the precedence of options over `list.toml` |
//! | `list_toml`, `build` | the file `list.toml` of a folder |
//! | `profiles` | exports whose vendors publish their form, so that nothing need be declared |
//! | `reading` | how a file is read, and what decided it |
//! | `resolve` | the columns and paths of a declaration, found in the file |

mod build;
mod declared;
mod list_toml;
mod profiles;
mod reading;
mod resolve;

pub use build::{BuildSettings, Expires, FeedSettings, MaxRejects};
pub use declared::Declared;
pub(crate) use declared::{all_rows, separator};
pub use list_toml::{LIST_TOML, ListToml};
pub(crate) use reading::Usual;
pub use reading::{Reading, Why};
pub use resolve::reading;
