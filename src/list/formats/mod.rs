//! The formats that are read line by line, and what they share ([`out`], [`held`], [`continued`]).

pub(crate) mod access;
pub(crate) mod adblock;
pub(crate) mod continued;
pub(crate) mod dnsmasq;
pub(crate) mod exim;
mod held;
pub(crate) mod hosts;
mod out;
pub(crate) mod plain;
pub(crate) mod rbldnsd;
pub(crate) mod rpz;
pub(crate) mod score;
pub(crate) mod spamassassin;

use std::fmt;

pub(crate) use held::Held;
pub(crate) use hosts::is_nowhere;
pub(crate) use out::Out;
pub(crate) use plain::{before_comment, split_comment};

use super::row::{RejectReason, Row};
use super::text::{BOM, MAX_LINE, is_one_of, lines, whole_lines};

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
        *count += 1;
        if line.len() > MAX_LINE {
            Out::new(*count, line, sink).reject(RejectReason::TooLong, line);
            continue;
        }
        let line = line.strip_prefix(BOM).unwrap_or(line);
        format.line(line, &mut Out::new(*count, line, sink));
    }
    whole
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
