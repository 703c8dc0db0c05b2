//! The formats that are read line by line, and what they share: where they put what they find on a
//! line ([`Out`]), rules that a later line cancels, lines that continue others.

pub(crate) mod access;
pub(crate) mod adblock;
pub(crate) mod continued;
pub(crate) mod dnsmasq;
pub(crate) mod exim;
mod held;
pub(crate) mod hosts;
pub(crate) mod plain;
pub(crate) mod rbldnsd;
pub(crate) mod rpz;
pub(crate) mod score;
pub(crate) mod spamassassin;

use std::fmt;

pub(crate) use held::Held;
pub(crate) use hosts::is_nowhere;
pub(crate) use plain::before_comment;
pub(crate) use rpz::before_semicolon;

use super::row::{RawEntry, Refusal, RejectReason, Row, Skip, entry};
use super::text::{BOM, MAX_LINE, is_one_of, lines, whole_lines};
use blocklist_filter::address::plain::PlainEntry;

pub(crate) trait LineFormat: fmt::Debug + Send {
    /// Reads one line, without its end and without a byte order mark.
    fn line(&mut self, line: &[u8], out: &mut Out<'_>);

    /// Ends the list, or a part of it. The text of `out` is the last line if it has no end.
    fn finish(&mut self, _out: &mut Out<'_>) {}
}

/// Reads a line that means the same wherever it stands.
pub(crate) type ReadLine = fn(&[u8], &mut Out<'_>);

impl LineFormat for ReadLine {
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) {
        self(line, out);
    }
}

/// Reads the whole lines of a block, and counts them. Returns the number of bytes used.
pub(crate) fn read_lines(
    format: &mut dyn LineFormat,
    block: &[u8],
    last: bool,
    count: &mut u64,
    sink: &mut dyn FnMut(u64, Row<'_>),
) -> usize {
    let whole = match last {
        true => block.len(),
        false => whole_lines(block).unwrap_or(0),
    };
    for line in lines(block.get(..whole).unwrap_or_default()) {
        read_line(format, line, count, sink);
    }
    whole
}

pub(crate) fn read_line(
    format: &mut dyn LineFormat,
    line: &[u8],
    count: &mut u64,
    sink: &mut dyn FnMut(u64, Row<'_>),
) {
    *count += 1;
    if line.len() > MAX_LINE {
        return Out::new(*count, line, sink).reject(RejectReason::TooLong, line);
    }
    let line = line.strip_prefix(BOM).unwrap_or(line);
    format.line(line, &mut Out::new(*count, line, sink));
}

/// The rows of one line on their way to the reader's caller.
pub(crate) struct Out<'s> {
    pub(crate) line: u64,
    /// The text of the line, which is shown for a skipped row.
    pub(crate) text: &'s [u8],
    pub(crate) sink: &'s mut dyn FnMut(u64, Row<'_>),
}

impl<'s> Out<'s> {
    pub(crate) fn new(line: u64, text: &'s [u8], sink: &'s mut dyn FnMut(u64, Row<'_>)) -> Self {
        Self { line, text, sink }
    }

    /// Reports that nobody is listed here.
    pub(crate) fn skip(&mut self, skip: Skip) {
        self.skip_by(skip, self.text);
    }

    /// Reports the same, counted by a word.
    pub(crate) fn skip_by(&mut self, skip: Skip, text: &[u8]) {
        let text = beginning(text);
        (self.sink)(self.line, Row::Skipped { skip, text });
    }

    /// Reports that this is about something else.
    pub(crate) fn other(&mut self, word: &[u8]) {
        self.skip_by(Skip::Other, word);
    }

    /// Reports a line without a text to read: a blank line, or a comment.
    pub(crate) fn nothing(&mut self) {
        self.skip(match self.text.trim_ascii() {
            b"" => Skip::Blank,
            _ => Skip::Comment,
        });
    }

    /// Reports a text that cannot be an entry.
    pub(crate) fn reject(&mut self, reason: RejectReason, text: &[u8]) {
        let text = beginning(text);
        (self.sink)(self.line, Row::Rejected { reason, text });
    }

    /// Reports a text for which nothing of the list can be used.
    pub(crate) fn refuse(&mut self, refusal: Refusal) {
        let text = beginning(self.text);
        (self.sink)(self.line, Row::Refused { refusal, text });
    }

    /// Lists an entry; on an error, nothing is reported.
    pub(crate) fn list(&mut self, raw: RawEntry<'_>) -> Result<(), RejectReason> {
        let (text, plain) = entry::read_plainly(raw.text)?;
        let text = &text;
        (self.sink)(self.line, Row::Entry(RawEntry { text, plain, ..raw }));
        Ok(())
    }

    /// Lists an entry without dates, unless its text cannot be one.
    pub(crate) fn entry(&mut self, text: &[u8]) {
        if let Err(reason) = self.list(RawEntry::new(text)) {
            self.reject(reason, text);
        }
    }

    /// Lists a domain, in a format that knows nothing else; returns whether it is one.
    pub(crate) fn domain(&mut self, name: &[u8]) -> bool {
        let name = name.strip_suffix(b".").unwrap_or(name);
        let is_other =
            matches!(name, [b'@' | b'.' | b'/', ..]) || memchr::memchr(b'@', name).is_some();
        let listed = match is_other || name.len() > MAX_NAME_BYTES {
            true => Err(RejectReason::NotADomain),
            false => match self.list(RawEntry::new(name)) {
                // A name of one label is a name here, not a word.
                Err(RejectReason::NotAnEntry) if !name.contains(&b'.') => {
                    self.list(RawEntry::new(&[b"@", name].concat()))
                }
                listed => listed,
            },
        };
        if let Err(reason) = listed {
            self.reject(reason, name);
        }
        listed.is_ok()
    }

    /// Lists a domain and its subdomains: two entries, or one rejection.
    pub(crate) fn tree(&mut self, name: &[u8]) {
        let name = name.strip_suffix(b".").unwrap_or(name);
        if self.domain(name) {
            let below = [b".", name].concat();
            let below = RawEntry {
                plain: PlainEntry::of(name).and_then(PlainEntry::below),
                ..RawEntry::new(&below)
            };
            (self.sink)(self.line, Row::Entry(below));
        }
    }
}

/// Maximum number of bytes of a name, in any script.
const MAX_NAME_BYTES: usize = 512;

/// Maximum number of bytes of a line that are passed on for a message.
const SHOWN: usize = 120;

fn beginning(text: &[u8]) -> &[u8] {
    let text = text.trim_ascii();
    text.get(..SHOWN).unwrap_or(text)
}

/// The words that the name of a file follows.
const WORDS: &str = "!#include $include .include addn-hosts conf-dir conf-file include include-toplevel servers-file";

/// Returns whether a line includes another file, whose entries are not read.
///
/// ```text
///   $INCLUDE more.zone          zone files, rbldnsd
///   include more.cf             SpamAssassin
///   conf-file=/etc/more.conf    dnsmasq
///   include: more.conf          unbound
///   !#include more.txt          ad blockers
/// ```
pub(crate) fn includes(text: &[u8]) -> bool {
    let is_part = |b: &u8| b.is_ascii_alphabetic() || b"!#$.-".contains(b);
    let end = text.iter().position(|b| !is_part(b));
    let (word, file) = text.split_at(end.unwrap_or(text.len()));
    // Not `include@bad.example`.
    let file = match file {
        [b':' | b'=' | b'(', file @ ..] => file,
        [b' ' | b'\t', file @ ..] => match file.trim_ascii_start() {
            [b':' | b'=', file @ ..] | file => file,
        },
        _ => return false,
    };
    !file.trim_ascii().is_empty() && is_one_of(word, WORDS)
}
