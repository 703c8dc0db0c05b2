//! The records of one page: sorted keys with the data about each.
//!
//! The keys of a page are between the page's first key and the next page's, so only their
//! distance from the first one is stored, split in two (Elias-Fano): the low bits side by side;
//! the high part in unary, where record i with high part h sets bit h + i. The data is often the
//! same for many keys, so each distinct *class* of (kind, source, added, expires) is stored once,
//! and a record has its number.
//!
//! ```text
//!   u32 records   u32 classes   u8 low bits   u8 class bits   u16 0   u32 high words
//!   classes       10 bytes each: u8 kind, u8 has expires, u32 source, u16 added, u16 expires
//!   high          u64 words: record i sets bit (distance >> low bits) + i
//!   low           low bits of each distance, side by side, low bits first
//!   class         number of each record's class, side by side; no bits when there is one class
//! ```
//!
//! A page without keys has no block (length 0). For 100 million entries of one source, a record
//! takes 5.0 bytes. `record_block` reads what is written here.
//!
//! A part of a list is written once and read once, so speed counts more than size there: all 64 bits
//! of a distance are low bits, and there are no high words.

use std::iter::repeat_n;
use std::ops::Range;

use super::packed::{length, mask, pack, put_words};
use super::page;
use super::record::{Batch, Class, Key};
use super::sizing::Shape;

pub(super) fn sum(block: &[u8]) -> u64 {
    twox_hash::XxHash3_64::oneshot(block)
}

#[derive(Debug, Default)]
pub(super) struct Scratch {
    classes: Vec<Class>,
    /// Number of each record's class; empty while there is only one class.
    numbers: Vec<u32>,
    /// Places of the classes: a hash table with open addressing; number + 1, or 0 if free.
    table: Vec<u32>,
}

/// What a file has for each of its pages.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Number of pages and probes.
    pub shape: Shape,
    /// Bloom bits; a part of a list has none.
    pub bits: bool,
    /// Exact records.
    pub records: bool,
}

/// Returns the page of sorted keys; `None` if there are none.
///
/// # Panics
/// If they are of several pages: entries would be lost.
pub(super) fn page_of_all(keys: &[Key], shape: Shape) -> Option<u64> {
    let page_of = |key: &Key| page::page_of(*key, shape.pages);
    let page = keys.first().map(page_of);
    assert_eq!(page, keys.last().map(page_of), "records of two pages");
    page
}

/// Appends the block of a page's records to `out`; appends nothing if there are none.
///
/// # Panics
/// If they are not sorted, not distinct, or of several pages: the block would be read as other
/// keys, and entries would be lost.
// Inlined where pages are written, its loops would have too few registers.
#[inline(never)]
pub(super) fn encode(
    layout: Layout,
    (records, places): (&Batch, Range<usize>),
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) {
    let Layout { shape, bits, .. } = layout;
    let keys = &records.keys[places.clone()];
    let Some(page) = page_of_all(keys, shape) else {
        return;
    };
    let in_order = keys.iter().copied().is_sorted_by(|a, b| a < b);
    assert!(in_order, "records out of order");
    scratch.classify(records, places);
    let Scratch {
        classes, numbers, ..
    } = scratch;
    let base = page::first_key(page, shape.pages).0;
    let last = keys.last().map_or(base, |last| last.0);
    let low_bits = match bits {
        true => low_bits(shape.pages, keys.len()),
        false => WHOLE,
    };
    let high_bits = match low_bits {
        WHOLE => 0,
        _ => ((last - base) >> low_bits) + keys.len() as u64,
    };
    let class_bits = class_bits(classes.len());
    out.extend_from_slice(&length(keys.len()).to_le_bytes());
    out.extend_from_slice(&length(classes.len()).to_le_bytes());
    out.extend_from_slice(&[low_bits, class_bits, 0, 0]);
    out.extend_from_slice(&length(index(high_bits.div_ceil(64))).to_le_bytes());
    for class in classes {
        out.extend_from_slice(&class.encode());
    }
    let distances = keys.iter().map(|key| key.0 - base);
    if low_bits == WHOLE {
        put_words(out, distances);
    } else {
        put_high_parts(out, distances.clone().map(|distance| distance >> low_bits));
        let mask = mask(low_bits);
        pack(out, low_bits, distances.map(|distance| distance & mask));
    }
    if class_bits > 0 {
        pack(out, class_bits, numbers.iter().map(|&number| number.into()));
    }
}

pub(super) fn class_bits(classes: usize) -> u8 {
    let bits = usize::BITS - classes.saturating_sub(1).leading_zeros();
    u8::try_from(bits).unwrap_or(32)
}

/// The number of low bits that leaves no high part.
pub(super) const WHOLE: u8 = 64;

/// Appends high parts, which do not fall, as words in which each sets a bit.
fn put_high_parts(out: &mut Vec<u8>, parts: impl Iterator<Item = u64>) {
    let (mut word, mut number) = (0_u64, 0);
    for (i, part) in (0..).zip(parts) {
        let bit = part + i;
        while bit / 64 != number {
            out.extend_from_slice(&word.to_le_bytes());
            word = 0;
            number += 1;
        }
        word |= 1 << (bit % 64);
    }
    out.extend_from_slice(&word.to_le_bytes());
}

impl Scratch {
    /// Numbers the classes of some records in the order of their first appearance.
    fn classify(&mut self, records: &Batch, places: Range<usize>) {
        self.classes.clear();
        self.numbers.clear();
        if let Some((class, keys)) = records.runs_in(places.clone()).next()
            && keys.len() == places.len()
        {
            return self.classes.push(class);
        }
        let bits = places.len().ilog2() + 2;
        let slots = 1 << bits;
        self.table.clear();
        self.table.resize(slots, 0);
        for (class, keys) in records.runs_in(places) {
            let mut at = class.hash(bits);
            let number = loop {
                match self.table[at].checked_sub(1) {
                    None => {
                        self.classes.push(class);
                        break length(self.classes.len() - 1);
                    }
                    Some(number) if self.classes[number as usize] == class => break number,
                    Some(_) => at = (at + 1) & (slots - 1),
                }
            };
            self.table[at] = number + 1;
            self.numbers.extend(repeat_n(number, keys.len()));
        }
    }
}

/// Returns the number of low bits of a distance. It leaves one or two high parts per record,
/// which is about the cheapest split.
fn low_bits(pages: u64, records: usize) -> u8 {
    let width = (1_u128 << 64) / u128::from(pages);
    let spacing = width / records.max(1) as u128;
    let bits = spacing.checked_ilog2().unwrap_or(0).min(63);
    u8::try_from(bits).unwrap_or(63)
}

pub(super) fn index(value: u64) -> usize {
    usize::try_from(value).expect("a bit number inside one page's block")
}
