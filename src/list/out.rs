//! Where the formats put what they found on a line.

use super::vet::{Wildcards, vet};
use super::words::Words;
use super::{Item, Reason, Row, Skip};

/// The rows of one line on their way to the reader's caller.
pub(super) struct Out<'s> {
    line: u64,
    /// What a skipped row is shown as.
    text: &'s [u8],
    sink: &'s mut dyn FnMut(u64, Row<'_>),
}

impl<'s> Out<'s> {
    /// For the rows of line number `line`, which reads `text`.
    pub(super) fn new(line: u64, text: &'s [u8], sink: &'s mut dyn FnMut(u64, Row<'_>)) -> Self {
        Self { line, text, sink }
    }

    /// The number of the line.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// Goes to another line.
    pub(super) fn at<'o>(&'o mut self, line: u64, text: &'o [u8]) -> Out<'o> {
        Out {
            line,
            text,
            sink: &mut *self.sink,
        }
    }

    /// Nobody is listed here.
    pub(super) fn skip(&mut self, skip: Skip) {
        (self.sink)(self.line, Row::skipped(skip, self.text));
    }

    /// This cannot be an entry.
    pub(super) fn reject(&mut self, reason: Reason, text: &[u8]) {
        (self.sink)(self.line, Row::rejected(reason, text));
    }

    /// An item, unless its text cannot be an entry.
    pub(super) fn item(&mut self, item: Item<'_>, wildcards: Wildcards) {
        match vet(item.text, wildcards) {
            Ok(()) => (self.sink)(self.line, Row::Item(item)),
            Err(reason) => self.reject(reason, item.text),
        }
    }

    /// An entry without dates, in a format where only the star is a wild card.
    pub(super) fn entry(&mut self, text: &[u8]) {
        self.item(Item::new(text), Wildcards::Star);
    }

    /// A domain, nothing else: what has an `@` is not one.
    pub(super) fn domain(&mut self, name: &[u8]) {
        let name = name.strip_suffix(b".").unwrap_or(name);
        if name.is_empty() || name.contains(&b'@') {
            self.reject(Reason::NotADomain, name);
        } else {
            self.entry(name);
        }
    }

    /// A domain and all domains below it: two entries, or one refusal.
    pub(super) fn tree(&mut self, name: &[u8]) {
        let name = name.strip_suffix(b".").unwrap_or(name);
        self.domain(name);
        let mut below = Vec::with_capacity(name.len() + 1);
        below.push(b'.');
        below.extend_from_slice(name);
        if !name.is_empty() && !name.contains(&b'@') && vet(name, Wildcards::Star).is_ok() {
            self.entry(&below);
        }
    }
}

/// The text of a line before its `#`, which stands at the start or after white
/// space and not in quotes.
pub(super) fn before_comment(line: &[u8]) -> &[u8] {
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
