//! Entries that later text may still take off the list: those of open JSON objects, and those of
//! options that a later option cancels.

use super::out::Out;
use crate::list::row::day::Day;
use crate::list::row::entry::Wildcards;
use crate::list::row::reject_reason::RejectReason;
use crate::list::row::{RawEntry, Skip};

/// Maximum number of bytes held, texts and places. A larger object must say what it means before
/// its entries.
const MAX_BYTES: usize = 16 << 20;

/// Entries in their order.
#[derive(Debug, Default)]
pub(super) struct Held {
    text: Vec<u8>,
    entries: Vec<Place>,
}

#[derive(Debug)]
struct Place {
    start: usize,
    line: u64,
    added: Option<Day>,
    expires: Option<Day>,
}

impl Held {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.text.len() + self.entries.len() * size_of::<Place>() > MAX_BYTES
    }

    pub(crate) fn add(&mut self, raw: RawEntry<'_>, line: u64) {
        self.entries.push(Place {
            start: self.text.len(),
            line,
            added: raw.added,
            expires: raw.expires,
        });
        self.text.extend_from_slice(raw.text);
    }

    /// Lists the entries from number `first` on.
    pub(crate) fn release(&mut self, first: usize, out: &mut Out<'_>) {
        self.drain(first, |raw, line| {
            out.at(line, raw.text).raw_entry(raw, Wildcards::Star);
        });
    }

    /// Skips them: they list nobody.
    pub(crate) fn skip(&mut self, first: usize, skip: Skip, out: &mut Out<'_>) {
        self.drain(first, |raw, line| out.at(line, raw.text).skip(skip));
    }

    /// Rejects them.
    pub(crate) fn reject(&mut self, first: usize, reason: RejectReason, out: &mut Out<'_>) {
        self.drain(first, |raw, line| {
            out.at(line, raw.text).reject(reason, raw.text);
        });
    }

    /// Ends them on this day, or on their own day if it is earlier.
    pub(crate) fn end(&mut self, first: usize, day: Day) {
        for place in self.entries.get_mut(first..).unwrap_or_default() {
            place.expires = Some(place.expires.map_or(day, |end| end.min(day)));
        }
    }

    /// Hands out the entries from number `first` on, and forgets them.
    pub(super) fn drain(&mut self, first: usize, mut each: impl FnMut(RawEntry<'_>, u64)) {
        let places = self.entries.get(first..).unwrap_or_default();
        let ends = places.iter().skip(1).map(|next| next.start);
        for (place, end) in places.iter().zip(ends.chain([self.text.len()])) {
            let raw = RawEntry {
                text: self.text.get(place.start..end).unwrap_or_default(),
                added: place.added,
                expires: place.expires,
            };
            each(raw, place.line);
        }
        let start = places.first().map_or(self.text.len(), |place| place.start);
        self.text.truncate(start);
        self.entries.truncate(first);
    }
}
