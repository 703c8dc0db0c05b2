//! The formats of lists, their names, and how a list's format is told from its content.

use std::fmt;
use std::str::FromStr;

/// How a list is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// An entry a line; comments.
    Plain,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain => f.write_str("plain"),
        }
    }
}

/// A name that is no format's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown list format {name:?}; known are plain")]
pub struct UnknownFormat {
    name: String,
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        match name {
            "plain" => Ok(Self::Plain),
            _ => Err(UnknownFormat {
                name: name.to_owned(),
            }),
        }
    }
}

/// The format of a list that begins with `head` (some kilobytes will do).
/// `file_name` is a hint for what the content leaves open.
#[must_use]
pub fn guess(_head: &[u8], _file_name: &str) -> Format {
    Format::Plain
}
