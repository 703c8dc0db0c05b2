//! Items of objects that are still open, and may yet say that nobody inside them is listed.

use super::super::day::Day;
use super::super::entry::Wildcards;
use super::super::out::Out;
use super::super::row::{Item, Skip};

/// Bytes held at most, texts and places. An object with more has to say what it means before
/// its items.
const MAX_BYTES: usize = 16 << 20;

/// Items in their order.
#[derive(Debug, Default)]
pub(super) struct Held {
    text: Vec<u8>,
    items: Vec<Place>,
}

#[derive(Debug)]
struct Place {
    start: usize,
    line: u64,
    added: Option<Day>,
    expires: Option<Day>,
}

impl Held {
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.text.len() + self.items.len() * size_of::<Place>() > MAX_BYTES
    }

    pub(super) fn add(&mut self, item: Item<'_>, line: u64) {
        self.items.push(Place {
            start: self.text.len(),
            line,
            added: item.added,
            expires: item.expires,
        });
        self.text.extend_from_slice(item.text);
    }

    /// Lists the items from number `first` on.
    pub(super) fn release(&mut self, first: usize, out: &mut Out<'_>) {
        self.drain(first, |item, line| {
            out.at(line, item.text).item(item, Wildcards::Star);
        });
    }

    /// Lists nobody of them.
    pub(super) fn skip(&mut self, first: usize, skip: Skip, out: &mut Out<'_>) {
        self.drain(first, |item, line| out.at(line, item.text).skip(skip));
    }

    /// Hands out the items from number `first` on, and forgets them.
    pub(super) fn drain(&mut self, first: usize, mut each: impl FnMut(Item<'_>, u64)) {
        let places = self.items.get(first..).unwrap_or_default();
        let ends = places.iter().skip(1).map(|next| next.start);
        for (place, end) in places.iter().zip(ends.chain([self.text.len()])) {
            let item = Item {
                text: self.text.get(place.start..end).unwrap_or_default(),
                added: place.added,
                expires: place.expires,
            };
            each(item, place.line);
        }
        let start = places.first().map_or(self.text.len(), |place| place.start);
        self.text.truncate(start);
        self.items.truncate(first);
    }
}
