//! Files of settings in TOML, checked completely before they are used: the configuration, and the
//! `list.toml` of a list.
//!
//! `read` reads the text and collects all errors with line and column, `values` reads values. What the
//! settings are called and what they mean is not known here.

mod read;
mod values;

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;

use thiserror::Error;

use blocklist_filter::base::access;

pub use read::{Section, checked};
pub use values::{
    Invalid, Percent, boolean, choice, nearest, number, parsed_text, percent_of_a_whole, text,
};
pub(crate) use values::{Value, parsed, percent, wrong_type};

/// Largest configuration file that is read: a wrong path must not fill the memory.
const FILE_MAX_BYTES: u64 = 4 << 20;

/// Why there is no configuration.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("{}: cannot read {}: {source}", path.display(), name_of(path))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file has errors: all of them, in the order of the file.
    #[error("{}", lines(path, problems))]
    Faulty {
        /// The file.
        path: PathBuf,
        /// The errors.
        problems: Vec<Problem>,
    },
}

/// Returns what a file of settings is called: the configuration can have any name.
fn name_of(path: &Path) -> &'static str {
    match path.ends_with("list.toml") {
        true => "how the list is read",
        false => "the configuration",
    }
}

fn lines(path: &Path, problems: &[Problem]) -> String {
    let lines = problems
        .iter()
        .map(|one| format!("{}:{one}", path.display()));
    lines.collect::<Vec<_>>().join("\n")
}

/// One error in a configuration file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl Problem {
    fn not_utf8(error: &FromUtf8Error) -> Self {
        let bytes = error.as_bytes();
        let good = error.utf8_error().valid_up_to();
        let before = String::from_utf8_lossy(&bytes[..good]);
        let byte = bytes.get(good).copied().unwrap_or_default();
        let message = format!("not UTF-8: byte {byte:#04x}; save the file as UTF-8");
        Self::at(&before, good, message)
    }

    fn at(text: &str, at: usize, message: String) -> Self {
        let before = text.get(..at).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            line: before.bytes().filter(|&b| b == b'\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message,
        }
    }
}

pub fn text_of(path: &Path) -> Result<String, Error> {
    let unreadable = |source| Error::Unreadable {
        path: path.to_owned(),
        source: access::explained(path, source),
    };
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(FILE_MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(unreadable)?;
    if bytes.len() as u64 > FILE_MAX_BYTES {
        let why = format!("larger than {FILE_MAX_BYTES} bytes; not a configuration file");
        let kind = std::io::ErrorKind::FileTooLarge;
        return Err(unreadable(std::io::Error::new(kind, why)));
    }
    String::from_utf8(bytes).map_err(|error| Error::Faulty {
        path: path.to_owned(),
        problems: vec![Problem::not_utf8(&error)],
    })
}
