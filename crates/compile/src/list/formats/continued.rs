//! Tables in which a line that begins with white space continues the line before: access(5),
//! Exim's `lsearch`. Blank lines and comments may come between.

use super::{LineFormat, Out, ReadLine};
use crate::list::row::{RejectReason, Skip, looks_like_entry};
use crate::list::text::{MAX_LINE, blank_words};

#[derive(Debug)]
pub(crate) struct Continued {
    /// Reads a line with its continuations; their white space is one blank.
    read: ReadLine,
    /// The line that the next one may continue.
    text: Vec<u8>,
    line: u64,
}

impl Continued {
    pub(crate) fn new(read: ReadLine) -> Self {
        Self {
            read,
            text: Vec::new(),
            line: 0,
        }
    }
}

impl LineFormat for Continued {
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) {
        let text = line.trim_ascii();
        if matches!(text, [] | [b'#', ..]) {
            return out.nothing();
        }
        if line.first().is_some_and(u8::is_ascii_whitespace) {
            if self.text.is_empty() {
                return out.reject(RejectReason::Indented, text);
            }
            // Perhaps it is meant as a line of its own.
            let mut words = blank_words(text);
            let is_entry = words.next().is_some_and(looks_like_entry);
            let is_action = |word: &[u8]| word.iter().all(u8::is_ascii_uppercase);
            if is_entry && words.next().is_none_or(is_action) {
                return out.reject(RejectReason::Indented, text);
            }
            // What the line says is in its first words.
            if self.text.len() + text.len() < MAX_LINE {
                self.text.push(b' ');
                self.text.extend_from_slice(text);
            }
            return out.skip(Skip::Continuation);
        }
        self.finish(out);
        self.text.extend_from_slice(text);
        self.line = out.line;
    }

    fn finish(&mut self, out: &mut Out<'_>) {
        if !self.text.is_empty() {
            let mut out = Out::new(self.line, &self.text, &mut *out.sink);
            (self.read)(&self.text, &mut out);
            self.text.clear();
        }
    }
}

/// Returns where the last line of a block begins that continues no other, if that is not its start:
/// the next lines may continue it.
pub(crate) fn cut(block: &[u8]) -> Option<usize> {
    let mut end = block.len();
    loop {
        let newline = memchr::memrchr(b'\n', block.get(..end)?)?;
        // A byte order mark is not part of the line.
        let begins = |first: &u8| !first.is_ascii_whitespace() && !matches!(first, b'#' | 0xef);
        if block.get(newline + 1).is_some_and(begins) {
            return Some(newline + 1);
        }
        end = newline;
    }
}
