//! Text blocklists, read row by row.
//!
//! Lists come in the formats of a dozen programs. Each has a file of its own here
//! that turns its lines into [`Row`]s; what a row's text means (mailbox, domain,
//! subtree, local part) is for `address` to say. A row is never taken from a line
//! that *allows* a sender, and nothing is lost in silence: a line gives items, or
//! is [`Row::Skipped`] and counted, or is [`Row::Rejected`] with its number and a
//! reason.
//!
//! ```text
//!   open -> bytes -> guess -> Format -> Reader::read -> Row, Row, Row ...
//! ```
//!
//! Everything is linear in the input and bounded: a line (for CSV a record, for
//! JSON an object) of more than [`MAX_LINE`] bytes is rejected without being kept.

mod action;
mod day;
mod format;
mod input;
mod lines;
mod plain;
mod vet;

pub use day::Day;
pub use format::{Format, UnknownFormat, guess};
pub use input::{open, unpack};
pub use lines::{Lines, lines};

use std::fmt;
use std::io::{self, Read};

/// The longest line that is read, in bytes. The longest address is 320; this
/// leaves room for a hundred of them in one line with names and comments.
pub const MAX_LINE: usize = 64 << 10;

/// The bytes of a rejected line that are handed out for a message.
const SHOWN: usize = 120;

/// What one list says about one sender, domain, subtree or local part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// The entry as `address::Entry::read` takes it.
    pub text: &'a [u8],
    /// The day the list added it, where the list says so.
    pub added: Option<Day>,
    /// The first day it is no longer listed, where the list says so.
    pub expires: Option<Day>,
}

impl<'a> Item<'a> {
    /// An item without dates.
    #[must_use]
    pub fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            added: None,
            expires: None,
        }
    }
}

/// What a line of a list holds. One line may give several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row<'a> {
    /// Somebody is listed.
    Item(Item<'a>),
    /// Nobody is listed, and that is as it should be.
    Skipped(Skip),
    /// Perhaps somebody should be listed, but this text cannot say whom.
    Rejected {
        /// Why.
        reason: Reason,
        /// The text, or its beginning.
        text: &'a [u8],
    },
}

impl<'a> Row<'a> {
    fn rejected(reason: Reason, text: &'a [u8]) -> Self {
        Self::Rejected {
            reason,
            text: text.get(..SHOWN).unwrap_or(text),
        }
    }
}

/// Why a line lists nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Skip {
    /// Nothing on it.
    Blank,
    /// A comment, or text that continues the line before.
    Comment,
    /// It lets a sender pass: OK, allow, an exception, a negative score.
    Allow,
    /// Its action is something else than refusing: DUNNO, HOLD, FILTER, quarantine.
    OtherAction,
    /// It is about clients or recipients, not about senders.
    NotSender,
    /// A column heading, an option, or a directive of the format.
    Setting,
}

impl Skip {
    /// All of them, in the order of a report.
    pub const ALL: [Self; 6] = [
        Self::Blank,
        Self::Comment,
        Self::Allow,
        Self::OtherAction,
        Self::NotSender,
        Self::Setting,
    ];
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Blank => "blank",
            Self::Comment => "comment",
            Self::Allow => "allows a sender (if you want that, put it in the whitelist)",
            Self::OtherAction => "action is not a refusal",
            Self::NotSender => "is not about senders",
            Self::Setting => "heading or setting",
        })
    }
}

/// Why a text cannot be taken as an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// A regular expression.
    Pattern,
    /// A wild card where no entry can have one.
    Wildcard,
    /// A hash in place of an address; the name of the hash.
    Hash(&'static str),
    /// More than [`MAX_LINE`] bytes.
    TooLong,
    /// A NUL byte.
    Nul,
    /// A web address.
    Url,
    /// An IP address or network.
    IpAddress,
    /// Words after the entry that are neither a comment nor an action.
    Trailing,
    /// Either a comment or a second address after a semicolon.
    Semicolon,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pattern => f.write_str(
                "a regular expression cannot be looked up; list the addresses or domains it stands for",
            ),
            Self::Wildcard => f.write_str(
                "a wild card is possible only as *@domain, *.domain or local@*; \
                 if the sign is part of the address, put the local part in double quotes",
            ),
            Self::Hash(name) => write!(
                f,
                "a {name} hash instead of an address; the address cannot be got back from it"
            ),
            Self::TooLong => write!(f, "longer than {MAX_LINE} bytes"),
            Self::Nul => f.write_str("a NUL byte; is this a text file in UTF-8?"),
            Self::Url => f.write_str("a web address; list its domain"),
            Self::IpAddress => f.write_str("an IP address, not a sender's address or domain"),
            Self::Trailing => {
                f.write_str("words after the entry; put # before a comment")
            }
            Self::Semicolon => f.write_str(
                "after a semicolon, either a comment or another address; \
                 put # before a comment, or one address on a line",
            ),
        }
    }
}

/// Reads a list in pieces of any size and gives its rows.
#[derive(Debug)]
pub struct Reader {
    format: Format,
    /// Lines done so far.
    lines: u64,
    /// Inside a line that was rejected as too long.
    in_long_line: bool,
}

impl Reader {
    /// A reader at the start of a list.
    #[must_use]
    pub fn new(format: Format) -> Self {
        Self {
            format,
            lines: 0,
            in_long_line: false,
        }
    }

    /// Whether each line stands for itself, so that blocks of whole lines can be
    /// read by several readers at once.
    #[must_use]
    pub fn at_lines(&self) -> bool {
        match self.format {
            Format::Plain => true,
        }
    }

    /// Lines read to their end so far.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Reads `block`, the next bytes of the list, and returns how many of them are
    /// done with; the rest (an unfinished line, never more than [`MAX_LINE`] bytes)
    /// must stand at the start of the next block. With `last` everything is done.
    pub fn read<F>(&mut self, block: &[u8], last: bool, sink: &mut F) -> usize
    where
        F: FnMut(u64, Row<'_>),
    {
        let mut done = 0;
        if self.in_long_line {
            done = self.leave_long_line(block, last);
        }
        let rest = block.get(done..).unwrap_or_default();
        let whole = match memchr::memrchr(b'\n', rest) {
            _ if last => rest.len(),
            Some(newline) => newline + 1,
            None => 0,
        };
        let (now, unfinished) = rest.split_at(whole);
        for line in lines(now) {
            self.lines += 1;
            if line.len() > MAX_LINE {
                sink(self.lines, Row::rejected(Reason::TooLong, line));
            } else {
                match self.format {
                    Format::Plain => plain::read(line, self.lines, sink),
                }
            }
        }
        done += whole;
        if unfinished.len() > MAX_LINE {
            sink(self.lines + 1, Row::rejected(Reason::TooLong, unfinished));
            self.in_long_line = true;
            done = block.len();
        }
        done
    }

    /// Goes to the end of a line that is not wanted.
    fn leave_long_line(&mut self, block: &[u8], last: bool) -> usize {
        let newline = memchr::memchr(b'\n', block);
        if newline.is_some() || last {
            self.lines += 1;
            self.in_long_line = false;
        }
        newline.map_or(block.len(), |newline| newline + 1)
    }

    /// Reads a list to its end: [`Reader::read`] with a buffer of its own.
    ///
    /// # Errors
    ///
    /// What reading `input` gave. The rows before the error have been handed out.
    pub fn read_all<F>(&mut self, mut input: impl Read, sink: &mut F) -> io::Result<()>
    where
        F: FnMut(u64, Row<'_>),
    {
        let mut buffer = vec![0; 4 * MAX_LINE];
        let mut filled = 0;
        loop {
            let free = buffer.get_mut(filled..).unwrap_or_default();
            let count = match input.read(free) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            filled += count;
            let block = buffer.get(..filled).unwrap_or_default();
            let done = self.read(block, count == 0, sink);
            if count == 0 {
                return Ok(());
            }
            buffer.copy_within(done..filled, 0);
            filled -= done;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(list: &[u8]) -> Vec<String> {
        let mut rows = Vec::new();
        Reader::new(Format::Plain).read(list, true, &mut |line, row| {
            rows.push(match row {
                Row::Item(item) => format!("{line} {}", String::from_utf8_lossy(item.text)),
                Row::Skipped(skip) => format!("{line} {skip:?}"),
                Row::Rejected { reason, .. } => format!("{line} {reason:?}"),
            });
        });
        rows
    }

    #[test]
    fn an_endless_line_is_rejected_once_and_not_kept() {
        let mut list = vec![b'a'; 10 * MAX_LINE];
        list.extend_from_slice(b"\nb@bad.example");
        let mut seen = Vec::new();
        Reader::new(Format::Plain)
            .read_all(&list[..], &mut |line, row| {
                seen.push((line, matches!(row, Row::Item(_))));
            })
            .unwrap();
        assert_eq!(seen, [(1, false), (2, true)]);
    }

    #[test]
    fn a_line_that_allows_lists_nobody() {
        assert_eq!(
            rows(
                b"a@good.example OK\na@good.example, allow\n!a@good.example\nb@bad.example REJECT"
            ),
            ["1 Allow", "2 Allow", "3 Allow", "4 b@bad.example"]
        );
    }
}
