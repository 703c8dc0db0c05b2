//! Where the formats put what they find on a line.

use super::prefix::{has_prefix, has_wildcard};
use crate::list::row::charset;
use crate::list::row::entry::{self, Wildcards};
use crate::list::row::reject_reason::RejectReason;
use crate::list::row::{Mend, RawEntry, Row, Skip};
use crate::list::text::words::Words;

/// The rows of one line on their way to the reader's caller.
pub(crate) struct Out<'s> {
    line: u64,
    /// The text that is shown for a skipped row.
    text: &'s [u8],
    sink: &'s mut dyn FnMut(u64, Row<'_>),
}

impl<'s> Out<'s> {
    /// Takes the rows of line number `line`, which reads `text`.
    pub(crate) fn new(line: u64, text: &'s [u8], sink: &'s mut dyn FnMut(u64, Row<'_>)) -> Self {
        Self { line, text, sink }
    }

    /// Returns the number of the line.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// Takes the rows of another line.
    pub(crate) fn at<'o>(&'o mut self, line: u64, text: &'o [u8]) -> Out<'o> {
        Out {
            line,
            text,
            sink: &mut *self.sink,
        }
    }

    /// Reports that nobody is listed here.
    pub(crate) fn skip(&mut self, skip: Skip) {
        (self.sink)(self.line, Row::skipped(skip, self.text));
    }

    /// Reports a text that cannot be an entry.
    pub(crate) fn reject(&mut self, reason: RejectReason, text: &[u8]) {
        (self.sink)(self.line, Row::rejected(reason, text));
    }

    /// Reports a fault that was mended in the next row.
    fn mended(&mut self, mend: Mend, text: &[u8]) {
        (self.sink)(self.line, Row::mended(mend, text));
    }

    /// Lists an entry, unless its text cannot be one.
    pub(crate) fn raw_entry(&mut self, raw: RawEntry<'_>, wildcards: Wildcards) {
        if raw.text.is_ascii() {
            self.checked(without_quotes(raw.text), raw, wildcards);
        } else {
            self.foreign(raw, wildcards);
        }
    }

    /// Lists an entry with text beyond ASCII.
    #[cold]
    fn foreign(&mut self, raw: RawEntry<'_>, wildcards: Wildcards) {
        let decoded;
        let text = match std::str::from_utf8(raw.text) {
            Ok(text) => text,
            Err(_) => {
                self.mended(Mend::Charset, raw.text);
                // A client may send the same bytes.
                self.checked(without_quotes(raw.text), raw, wildcards);
                decoded = charset::windows_1252(raw.text);
                &decoded
            }
        };
        let (mended, mend) = charset::mend(text);
        if let Some(mend) = mend {
            self.mended(mend, raw.text);
        }
        self.checked(without_quotes(mended.as_bytes()), raw, wildcards);
    }

    /// Lists `text` as an entry, or rejects it.
    fn checked(&mut self, text: &[u8], raw: RawEntry<'_>, wildcards: Wildcards) {
        let special = entry::characters(text).special;
        let checked = match entry::check(text, wildcards) {
            Ok(()) if (special || text.first() == Some(&b'+')) && has_prefix(bare(text)) => {
                Err(RejectReason::Prefix)
            }
            // `10:00:00 login: user=<me@us.example>`
            Ok(()) if special && memchr::memmem::find(text, b"=<").is_some_and(|at| at > 0) => {
                Err(RejectReason::Words)
            }
            Ok(()) if special && has_wildcard(bare(text)) => Err(RejectReason::Wildcard),
            checked => checked,
        };
        match checked {
            Ok(()) => (self.sink)(self.line, Row::Entry(RawEntry { text, ..raw })),
            Err(reason) => self.reject(reason, text),
        }
    }

    /// Lists an entry without dates, in a format where only the star is a wildcard.
    pub(crate) fn entry(&mut self, text: &[u8]) {
        self.raw_entry(RawEntry::new(text), Wildcards::Star);
    }

    /// Lists a domain; a name with an `@` is rejected.
    pub(crate) fn domain(&mut self, name: &[u8]) {
        let name = name.strip_suffix(b".").unwrap_or(name);
        if name.is_empty() || name.contains(&b'@') {
            self.reject(RejectReason::NotADomain, name);
        } else {
            self.entry(name);
        }
    }

    /// Lists a domain and its subdomains: two entries, or one rejection.
    pub(crate) fn tree(&mut self, name: &[u8]) {
        let name = name.strip_suffix(b".").unwrap_or(name);
        self.domain(name);
        let mut below = Vec::with_capacity(name.len() + 1);
        below.push(b'.');
        below.extend_from_slice(name);
        if !name.is_empty() && !name.contains(&b'@') && entry::check(name, Wildcards::Star).is_ok()
        {
            self.entry(&below);
        }
    }
}

/// Returns the text in the angle brackets at the end, if there are any.
fn bare(text: &[u8]) -> &[u8] {
    match (text.strip_suffix(b">"), memchr::memrchr(b'<', text)) {
        (Some(before), Some(bracket)) => before.get(bracket + 1..).unwrap_or_default(),
        _ => text,
    }
}

/// Removes quotes around a whole address: `"spam@bad.example"` -> `spam@bad.example`. Those of
/// `"a b"@bad.example` are a part of it.
fn without_quotes(text: &[u8]) -> &[u8] {
    let (Some((&first, _)), Some((&last, _))) = (text.split_first(), text.split_last()) else {
        return text;
    };
    if first != last || !matches!(first, b'"' | b'\'' | b'`') || text.len() < 3 {
        return text;
    }
    match text.get(1..text.len() - 1) {
        Some(inner) if !inner.contains(&first) => inner.trim_ascii(),
        _ => text,
    }
}

/// Returns what [`before_comment`] has cut off a line.
pub(crate) fn comment<'l>(line: &'l [u8], text: &[u8]) -> &'l [u8] {
    line.trim_ascii_start()
        .get(text.len()..)
        .unwrap_or_default()
}

/// Returns the text of a line before its comment: a `#` at the start or after white space, and
/// not in quotes.
pub(crate) fn before_comment(line: &[u8]) -> &[u8] {
    let Some(_) = memchr::memchr(b'#', line) else {
        return line.trim_ascii();
    };
    let mut rest = Words(line);
    loop {
        let left = rest.0.trim_ascii_start();
        if left.first() == Some(&b'#') {
            let kept = line.len() - left.len();
            return line.get(..kept).unwrap_or_default().trim_ascii();
        }
        if rest.next().is_none() {
            return line.trim_ascii();
        }
    }
}
