//! A reader for lists of any format, which come in pieces.

use std::io::{self, Read};

use super::formats::{LineFormat, Out, read_line, read_lines};
use super::mapping::Reading;
use super::registry::Format;
use super::row::{RawEntry, RejectReason, Row};
use super::table::csv::Csv;
use super::table::json::{Document, JsonLines};
use super::text::MAX_LINE;
use blocklist_filter::address::plain::PlainEntry;

/// Reads the rows of a list, in pieces of any size.
#[derive(Debug)]
pub struct Reader {
    parser: Parser,
    lines: u64,
    /// Whether the input is inside a line that was rejected as too long.
    in_long_line: bool,
    subdomains: bool,
}

#[derive(Debug)]
enum Parser {
    Lines(Box<dyn LineFormat>),
    Csv(Box<Csv>),
    Json(Document),
}

impl Reader {
    /// Returns a reader at the start of a list.
    #[must_use]
    pub fn new(reading: &Reading) -> Self {
        Self::part(reading, true)
    }

    /// Returns a reader for a part of a list that begins where [`Reading::cut`] allows it, perhaps
    /// at its start.
    #[must_use]
    pub fn part(reading: &Reading, at_start: bool) -> Self {
        let table = || reading.table.clone().unwrap_or_default();
        let lines = (reading.format.registered()).lines(reading.why.is_explicit(), reading.purpose);
        let parser = match (lines, reading.format) {
            (Some(lines), _) => Parser::Lines(lines),
            (None, Format::Json) => Parser::Json(Document::new(table())),
            (None, Format::JsonLines) => Parser::Lines(Box::new(JsonLines::new(table()))),
            (None, _) => Parser::Csv(Box::new(Csv::new(table(), at_start))),
        };
        Self {
            parser,
            lines: 0,
            in_long_line: false,
            subdomains: reading.subdomains,
        }
    }

    /// Returns the number of lines read to their end so far.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Reads `block`, the next bytes of the list, and returns how many of them were
    /// used. The rest (an unfinished line or record, never more than [`MAX_LINE`] bytes)
    /// must be at the start of the next block. With `last`, all bytes are used.
    pub fn read<F>(&mut self, block: &[u8], last: bool, sink: &mut F) -> usize
    where
        F: FnMut(u64, Row<'_>),
    {
        if !self.subdomains {
            return self.read_rows(block, last, sink);
        }
        let mut below = Vec::new();
        self.read_rows(block, last, &mut |line, row| {
            if let Row::Entry(raw) = &row
                && let Some(domain) = domain_of(raw.text)
            {
                below.clear();
                below.push(b'.');
                below.extend_from_slice(domain);
                let (text, plain) = (&*below, raw.plain.and_then(PlainEntry::below));
                sink(
                    line,
                    Row::Entry(RawEntry {
                        text,
                        plain,
                        ..*raw
                    }),
                );
            }
            sink(line, row);
        })
    }

    fn read_rows<F>(&mut self, block: &[u8], last: bool, sink: &mut F) -> usize
    where
        F: FnMut(u64, Row<'_>),
    {
        let mut done = 0;
        loop {
            if self.in_long_line {
                done += self.leave_long_line(block.get(done..).unwrap_or_default(), last);
            }
            let rest = block.get(done..).unwrap_or_default();
            let count = match &mut self.parser {
                Parser::Json(document) => {
                    document.read(rest, last, &mut self.lines, sink);
                    return block.len();
                }
                Parser::Csv(csv) => csv.read(rest, last, &mut self.lines, sink),
                Parser::Lines(format) => {
                    read_lines(format.as_mut(), rest, last, &mut self.lines, sink)
                }
            };
            done += count;
            let unfinished = block.get(done..).unwrap_or_default();
            if unfinished.len() <= MAX_LINE {
                break;
            }
            Out::new(self.lines + 1, b"", sink).reject(RejectReason::TooLong, unfinished);
            self.in_long_line = true;
        }
        if last && let Parser::Lines(format) = &mut self.parser {
            let end = memchr::memrchr(b'\n', block).map_or(0, |newline| newline + 1);
            let unfinished = block.get(end..).unwrap_or_default();
            format.finish(&mut Out::new(self.lines, unfinished, sink));
        }
        done
    }

    /// Reads one line, without its end, of a format in which each line stands alone.
    pub(crate) fn line(&mut self, line: &[u8], sink: &mut dyn FnMut(u64, Row<'_>)) {
        match &mut self.parser {
            Parser::Lines(format) => read_line(format.as_mut(), line, &mut self.lines, sink),
            Parser::Csv(_) | Parser::Json(_) => {}
        }
    }

    fn leave_long_line(&mut self, block: &[u8], last: bool) -> usize {
        let newline = memchr::memchr(b'\n', block);
        if newline.is_some() || last {
            self.lines += 1;
            self.in_long_line = false;
        }
        newline.map_or(block.len(), |newline| newline + 1)
    }

    /// Reads a list to its end. Returns whether the last line has no end.
    ///
    /// # Errors
    /// An error of reading `input`. The rows before the error were passed on.
    pub fn read_all<F>(&mut self, mut input: impl Read, sink: &mut F) -> io::Result<bool>
    where
        F: FnMut(u64, Row<'_>),
    {
        let mut buffer = Vec::with_capacity(BUFFER_BYTES);
        loop {
            let free = BUFFER_BYTES - buffer.len();
            // Until the buffer is full: input that comes byte by byte is not parsed again with each.
            let count = (&mut input).take(free as u64).read_to_end(&mut buffer);
            let at_end = count.as_ref().is_ok_and(|count| *count < free);
            let done = self.read(&buffer, at_end, sink);
            count?;
            if at_end {
                return Ok(!buffer.is_empty() && !buffer.ends_with(b"\n"));
            }
            buffer.drain(..done);
        }
    }
}

const BUFFER_BYTES: usize = 4 * MAX_LINE;

/// Returns the domain of an entry that is nothing but a domain.
fn domain_of(entry: &[u8]) -> Option<&[u8]> {
    let name = match entry {
        [b'*', b'@', name @ ..] | [b'@', name @ ..] | name => name,
    };
    let is_domain =
        memchr::memchr(b'@', name).is_none() && !matches!(name, [] | [b'.' | b'*' | b'[', ..]);
    is_domain.then_some(name)
}
