//! A reader for lists of any format, which come in pieces.

use std::io::{self, Read};

use crate::list::format::Format;
use crate::list::formats::access::{self, AccessTable};
use crate::list::formats::adblock::Adblock;
use crate::list::formats::conflict::{self, Conflict};
use crate::list::formats::csv::Csv;
use crate::list::formats::exim::Exim;
use crate::list::formats::json::Json;
use crate::list::formats::out::Out;
use crate::list::formats::rpz::Rpz;
use crate::list::formats::sections::Sections;
use crate::list::formats::spamassassin::SpamAssassin;
use crate::list::formats::{dnsmasq, hosts, patterns, plain, rbldnsd, score};
use crate::list::names;
use crate::list::row::reject_reason::RejectReason;
use crate::list::row::{Row, Skip};
use crate::list::text::lines::{MAX_LINE, lines};

/// Reads a list in pieces of any size, and passes on its rows.
#[derive(Debug)]
pub struct Reader {
    parser: Parser,
    /// Number of lines read to their end.
    lines: u64,
    conflict: Conflict,
    /// Whether the input is inside a line that was rejected as too long.
    in_long_line: bool,
}

/// How a format is read, with its state between lines if it has one.
#[derive(Debug)]
enum Parser {
    Plain,
    /// Each line is read alone.
    AtLines(fn(&[u8], &mut Out<'_>)),
    Access(AccessTable),
    Adblock(Adblock),
    Exim(Exim),
    Rpz(Rpz),
    Sections(Sections),
    SpamAssassin(SpamAssassin),
    Csv(Box<Csv>),
    Json(Box<Json>),
}

impl Parser {
    fn of(format: Format) -> Self {
        match format {
            Format::Plain => Self::Plain,
            Format::Hosts => Self::AtLines(hosts::read),
            Format::Csv { column } => Self::Csv(Box::new(Csv::new(column))),
            Format::PostfixAccess => Self::Access(AccessTable::new(access::Program::Postfix)),
            Format::SendmailAccess => Self::Access(AccessTable::new(access::Program::Sendmail)),
            Format::SpamAssassin => Self::SpamAssassin(SpamAssassin::default()),
            Format::Rspamd => {
                Self::AtLines(|line, out| score::read(score::Program::Rspamd, line, out))
            }
            Format::Amavis => {
                Self::AtLines(|line, out| score::read(score::Program::Amavis, line, out))
            }
            Format::Exim => Self::Exim(Exim::default()),
            Format::Json => Self::Json(Box::new(Json::new(false))),
            Format::JsonLines => Self::Json(Box::new(Json::new(true))),
            Format::Rpz => Self::Rpz(Rpz::default()),
            Format::Sections => Self::Sections(Sections::default()),
            Format::Rbldnsd => Self::AtLines(rbldnsd::read),
            Format::Dnsmasq => Self::AtLines(dnsmasq::read),
            Format::Adblock => Self::Adblock(Adblock::default()),
            Format::Patterns => Self::AtLines(patterns::read),
            Format::Whitelist => Self::AtLines(names::allowed),
            Format::Removals { trees: false } => Self::AtLines(names::removed),
            Format::Removals { trees: true } => Self::AtLines(names::removed_trees),
            Format::Html => Self::AtLines(|line, out| no_list(RejectReason::WebPage, line, out)),
            Format::Mail => {
                Self::AtLines(|line, out| no_list(RejectReason::MailMessage, line, out))
            }
            Format::Diff => Self::AtLines(|line, out| no_list(RejectReason::Diff, line, out)),
        }
    }
}

impl Parser {
    /// Returns whether each line is read alone.
    fn at_lines(&self) -> bool {
        match self {
            Self::Plain | Self::AtLines(_) => true,
            Self::Access(_)
            | Self::Adblock(_)
            | Self::Exim(_)
            | Self::Rpz(_)
            | Self::Sections(_)
            | Self::SpamAssassin(_)
            | Self::Csv(_)
            | Self::Json(_) => false,
        }
    }
}

/// Reads a line of a text that is not a list.
fn no_list(reason: RejectReason, line: &[u8], out: &mut Out<'_>) {
    match line.trim_ascii() {
        b"" => out.skip(Skip::Blank),
        line => out.reject(reason, line),
    }
}

impl Reader {
    /// Returns a reader at the start of a list.
    #[must_use]
    pub fn new(format: Format) -> Self {
        Self {
            parser: Parser::of(format),
            lines: 0,
            conflict: Conflict::default(),
            in_long_line: false,
        }
    }

    /// Returns whether each line is read alone, so that several readers can read blocks of
    /// whole lines at once.
    #[must_use]
    pub fn at_lines(&self) -> bool {
        self.parser.at_lines()
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
        let mut done = 0;
        loop {
            if self.in_long_line {
                done += self.leave_long_line(block.get(done..).unwrap_or_default(), last);
            }
            let rest = block.get(done..).unwrap_or_default();
            let count = match &mut self.parser {
                Parser::Json(json) => {
                    json.read(rest, last, &mut self.lines, sink);
                    return block.len();
                }
                Parser::Csv(csv) => csv.read(rest, last, &mut self.lines, sink),
                _ => self.read_lines(rest, last, sink),
            };
            done += count;
            let unfinished = block.get(done..).unwrap_or_default();
            if unfinished.len() <= MAX_LINE {
                break;
            }
            sink(
                self.lines + 1,
                Row::rejected(RejectReason::TooLong, unfinished),
            );
            self.in_long_line = true;
        }
        if last {
            let mut out = Out::new(self.lines, b"", sink);
            match &mut self.parser {
                Parser::Access(access) => access.finish(&mut out),
                Parser::Adblock(adblock) => adblock.finish(&mut out),
                Parser::Sections(sections) => sections.finish(&mut out),
                Parser::SpamAssassin(spamassassin) => spamassassin.finish(&mut out),
                _ => {}
            }
        }
        done
    }

    /// Reads the whole lines of a block.
    fn read_lines<F>(&mut self, block: &[u8], last: bool, sink: &mut F) -> usize
    where
        F: FnMut(u64, Row<'_>),
    {
        let whole = match memchr::memrchr(b'\n', block) {
            _ if last => block.len(),
            Some(newline) => newline + 1,
            None => 0,
        };
        for line in lines(block.get(..whole).unwrap_or_default()) {
            self.lines += 1;
            let number = self.lines;
            if line.len() > MAX_LINE {
                sink(number, Row::rejected(RejectReason::TooLong, line));
                continue;
            }
            match &mut self.parser {
                Parser::Plain => plain::read(line, number, sink),
                Parser::AtLines(_) if conflict::is_mark(line) => {
                    sink(number, Row::rejected(RejectReason::LateHeading, line));
                }
                parser if !parser.at_lines() && self.conflict.holds(line) => {
                    Out::new(number, line, sink).reject(RejectReason::Conflict, line);
                }
                Parser::AtLines(read) => read(line, &mut Out::new(number, line, sink)),
                Parser::Access(access) => access.read(line, &mut Out::new(number, line, sink)),
                Parser::Adblock(adblock) => adblock.read(line, &mut Out::new(number, line, sink)),
                Parser::Exim(exim) => exim.read(line, &mut Out::new(number, line, sink)),
                Parser::Rpz(rpz) => rpz.read(line, &mut Out::new(number, line, sink)),
                Parser::Sections(sections) => {
                    sections.read(line, &mut Out::new(number, line, sink));
                }
                Parser::SpamAssassin(spamassassin) => {
                    spamassassin.read(line, &mut Out::new(number, line, sink));
                }
                // Their records do not end at lines.
                Parser::Csv(_) | Parser::Json(_) => {}
            }
        }
        whole
    }

    /// Skips to the end of a line that is too long.
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
    /// An error of reading `input`. The rows before the error were passed on.
    pub fn read_all<F>(&mut self, mut input: impl Read, sink: &mut F) -> io::Result<()>
    where
        F: FnMut(u64, Row<'_>),
    {
        let mut buffer = vec![0; 4 * MAX_LINE];
        let mut filled = 0;
        loop {
            let free = buffer.get_mut(filled..).unwrap_or_default();
            let (count, failed) = match input.read(free) {
                Ok(count) => (count, None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => (0, Some(error)),
            };
            filled += count;
            if count > 0 && filled < buffer.len() {
                // Fills the buffer first: input that comes byte by byte is not parsed
                // again with each byte.
                continue;
            }
            let block = buffer.get(..filled).unwrap_or_default();
            let at_end = count == 0 && failed.is_none();
            let done = self.read(block, at_end, sink);
            if let Some(error) = failed {
                return Err(error);
            }
            if at_end {
                return Ok(());
            }
            buffer.copy_within(done..filled, 0);
            filled -= done;
        }
    }
}
