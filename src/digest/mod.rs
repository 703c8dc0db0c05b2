//! What the daemon's log says, read again: a digest of a day or a week, and one decision explained.
//!
//! | file | about |
//! |---|---|
//! | `line` | one line of the log, in every form |
//! | `count` | what is counted of many lines |
//! | `history` | what is remembered from one digest to the next |
//! | `text` | the digest as a mail |
//! | `case` | the decision that a reply names |
//!
//! The daemon has no part in this: the commands read what it wrote, from files or standard input.

mod case;
mod count;
mod history;
pub(crate) mod line;
mod text;

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

pub use case::{Case, find_case, shown_time};
pub use count::{Digest, Idle, Options, digest};
pub use history::History;

use crate::list;

/// A longer line is none of the daemon's, and is left out.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// Why a log cannot be read, or the history not be kept.
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

/// Hands over every line of a log: a file, also a compressed one, or `-` for standard input. Bytes
/// that are not UTF-8 become U+FFFD: the daemon writes none. Longer lines than any program writes are left out.
///
/// # Errors
/// It cannot be opened or read.
pub fn each_line(path: &Path, mut each: impl FnMut(&str)) -> Result<(), Error> {
    let input = list::open(path).map_err(Error::of(path))?;
    let mut input = BufReader::with_capacity(256 << 10, input);
    let mut line = Vec::new();
    loop {
        line.clear();
        let limited = input.by_ref().take(LINE_BYTES_MAX);
        let read = { limited }
            .read_until(b'\n', &mut line)
            .map_err(Error::of(path))?;
        if read == 0 {
            return Ok(());
        }
        if read as u64 == LINE_BYTES_MAX && !line.ends_with(b"\n") {
            skip_line(&mut input).map_err(Error::of(path))?;
            continue;
        }
        match std::str::from_utf8(&line) {
            Ok(line) => each(line),
            Err(_) => each(&String::from_utf8_lossy(&line)),
        }
    }
}

fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        let (length, ends) = match memchr::memchr(b'\n', buffer) {
            Some(at) => (at + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        input.consume(length);
        if ends {
            return Ok(());
        }
    }
}
