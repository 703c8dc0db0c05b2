//! Reads the daemon's log: reports about a day or a week, and explains single decisions.
//!
//! | file | about |
//! |---|---|
//! | `line` | one line of the log, in every form |
//! | `count` | counts over many lines |
//! | `history` | the data kept from one report to the next |
//! | `text` | the report as a mail |
//! | `case` | the decision that a reply names |
//!
//! The daemon is not involved: the commands read its log from files or standard input.

mod case;
mod count;
mod history;
mod line;
mod text;

use std::io;
use std::path::{Path, PathBuf};

pub use case::{Case, find_case, shown_time};
pub use count::{Digest, Idle, Options, digest};
pub use history::History;

/// Why a log cannot be read, or the history cannot be stored.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct Error {
    path: PathBuf,
    source: io::Error,
}

impl Error {
    pub(crate) fn of<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        path: &Path,
    ) -> impl Fn(E) -> Self {
        let path = path.to_owned();
        move |source| Self {
            path: path.clone(),
            source: io::Error::other(source),
        }
    }
}
