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
//! takes 5.0 bytes.
//!
//! A part of a list is written once and read once, so speed counts more than size there: all 64 bits
//! of a distance are low bits, and there are no high words.
//!
//! Finding one key reads only the high bits before it, and decodes no other record. The checksum of
//! a block is checked before. Still nothing in it is trusted: a wrong count, a key out of order or
//! out of the page is a problem.

use std::iter::repeat_n;
use std::ops::Range;

use super::fields::Fields;
use super::packed::{length, mask, pack, put_words, unpack, unpacked};
use super::page;
use super::record::{Batch, CLASS_BYTES, Class, Key, Record};
use super::sizing::Shape;

const HEAD_BYTES: usize = 16;

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

fn class_bits(classes: usize) -> u8 {
    let bits = usize::BITS - classes.saturating_sub(1).leading_zeros();
    u8::try_from(bits).unwrap_or(32)
}

/// The number of low bits that leaves no high part.
const WHOLE: u8 = 64;

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

fn index(value: u64) -> usize {
    usize::try_from(value).expect("a bit number inside one page's block")
}

pub(super) struct RecordBlock<'a> {
    base: u64,
    /// The greatest possible distance from `base`.
    last: u64,
    count: usize,
    low_bits: u8,
    class_bits: u8,
    classes: &'a [[u8; CLASS_BYTES]],
    high: &'a [[u8; 8]],
    low: &'a [u8],
    numbers: &'a [u8],
}

impl<'a> RecordBlock<'a> {
    /// Reads the lengths in a page's block, and checks that they fill it exactly. A part of a list has
    /// other blocks than a filter.
    pub(super) fn parse(
        shape: Shape,
        is_part: bool,
        page: u64,
        block: &'a [u8],
    ) -> Result<Self, &'static str> {
        const SHORT: &str = "the block is cut off";
        let empty = [0; HEAD_BYTES];
        let (head, rest) = match block {
            [] => (&empty, block),
            _ => block.split_first_chunk::<HEAD_BYTES>().ok_or(SHORT)?,
        };
        let mut head = Fields::new(head.as_slice(), SHORT);
        let (count, class_count) = (head.u32()? as usize, head.u32()? as usize);
        let [low_bits, class_bits, zeros @ ..] = head.array::<4>()?;
        let high_count = head.u32()? as usize;
        if (count == 0) != block.is_empty() {
            return Err("a block without records");
        }
        if zeros != [0, 0]
            || low_bits > WHOLE
            || class_count > count
            || class_bits != self::class_bits(class_count)
        {
            return Err("the block's head is malformed");
        }
        // These are products of 32-bit numbers, which cannot overflow 64 bits.
        let packed = |bits: u8| (count * usize::from(bits)).div_ceil(8);
        let (classes, rest) = rest
            .split_at_checked(class_count * CLASS_BYTES)
            .ok_or(SHORT)?;
        let (high, rest) = rest.split_at_checked(high_count * 8).ok_or(SHORT)?;
        let (low, numbers) = rest.split_at_checked(packed(low_bits)).ok_or(SHORT)?;
        if numbers.len() != packed(class_bits) {
            return Err("the block's length is not what its head says");
        }
        let high = high.as_chunks().0;
        // A block of more than 512 MiB may have 2^32 of them.
        let ones: u64 = high
            .iter()
            .map(|word| u64::from(u64::from_le_bytes(*word).count_ones()))
            .sum();
        let expected = if low_bits == WHOLE { 0 } else { count as u64 };
        if ones != expected {
            return Err("the high parts are not as many as the records");
        }
        if count > 0 && is_part != (low_bits == WHOLE) {
            return Err("a part of a list and a filter have other blocks");
        }
        let Key(base) = page::first_key(page, shape.pages);
        let next = (page + 1 < shape.pages).then(|| page::first_key(page + 1, shape.pages));
        Ok(Self {
            base,
            last: next.map_or(u64::MAX, |Key(next)| next - 1) - base,
            count,
            low_bits,
            class_bits,
            classes: classes.as_chunks().0,
            high,
            low,
            numbers,
        })
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn find(&self, key: Key) -> Result<Option<Record>, &'static str> {
        let Some(distance) = key.0.checked_sub(self.base) else {
            return Ok(None);
        };
        let wanted = distance >> self.low_bits;
        let low = distance & mask(self.low_bits);
        // Each clear bit ends the records of one high part: skips `wanted` of them.
        let mut zeros = 0;
        let mut first = 0;
        for (at, word) in self.high.iter().enumerate() {
            let word = u64::from_le_bytes(*word);
            let here = u64::from(word.count_zeros());
            if zeros + here >= wanted {
                let skip = wanted - zeros;
                first = at * 64 + select_zero(word, skip);
                zeros = wanted;
                break;
            }
            zeros += here;
        }
        if zeros < wanted {
            return Ok(None);
        }
        let mut bit = first;
        while self.high_bit(bit) {
            // Of the `bit` bits before this one, `wanted` are clear; the others are records.
            let i = bit - index(wanted);
            if unpack(self.low, self.low_bits, i) == low {
                let number = unpack(self.numbers, self.class_bits, i);
                return self.class(number).map(|class| Some(class.record(key)));
            }
            bit += 1;
        }
        Ok(None)
    }

    fn high_bit(&self, bit: usize) -> bool {
        self.high
            .get(bit / 64)
            .is_some_and(|word| u64::from_le_bytes(*word) >> (bit % 64) & 1 == 1)
    }

    fn class(&self, number: u64) -> Result<Class, &'static str> {
        let class = self.classes.get(index(number));
        Class::decode(class.ok_or("a record names a class that is not there")?)
    }

    /// Replaces what was decoded before. Classes are checked against what the header declares: `kinds` has
    /// one bit per kind.
    pub(super) fn decode(
        &self,
        kinds: u8,
        sources: usize,
        records: &mut Batch,
    ) -> Result<(), &'static str> {
        for bytes in self.classes {
            Class::decode(bytes)?.check(kinds, sources)?;
        }
        records.clear();
        let keys = &mut records.keys;
        match self.low_bits {
            WHOLE => {
                let distances = self.low.as_chunks().0.iter();
                keys.extend(distances.map(|distance| Key(u64::from_le_bytes(*distance))));
            }
            bits => {
                self.check_high()?;
                keys.extend(unpacked(self.low, bits, self.count).map(Key));
                self.add_high(keys);
            }
        }
        // They are distances so far. The last one is the greatest.
        if !keys.is_sorted_by(|a, b| a < b) {
            return Err("keys out of order");
        }
        if keys.last().is_some_and(|last| last.0 > self.last) {
            return Err("a key outside its page");
        }
        for key in keys {
            key.0 += self.base;
        }
        match self.class_bits {
            0 if self.count > 0 => records.end_run(self.class(0)?, self.count),
            bits => {
                let numbers = unpacked(self.numbers, bits, self.count);
                for (end, number) in (1..).zip(numbers) {
                    records.end_run(self.class(number)?, end);
                }
            }
        }
        Ok(())
    }

    fn check_high(&self) -> Result<(), &'static str> {
        let words = self.high.iter().map(|word| u64::from_le_bytes(*word));
        let last = words.enumerate().rev().find(|(_, word)| *word != 0);
        let greatest = last.map_or(0, |(at, word)| {
            at * 64 + word.ilog2() as usize - (self.count - 1)
        });
        match greatest as u64 <= self.last >> self.low_bits {
            true => Ok(()),
            false => Err("a key outside its page"),
        }
    }

    fn add_high(&self, distances: &mut [Key]) {
        let mut distances = (0..).zip(distances);
        for (at, word) in (0..).zip(self.high) {
            let mut word = u64::from_le_bytes(*word);
            while word != 0
                && let Some((i, distance)) = distances.next()
            {
                let high = at * 64 + u64::from(word.trailing_zeros()) - i;
                distance.0 |= high << self.low_bits;
                word &= word - 1;
            }
        }
    }
}

/// Returns the position after this many clear bits of a word, which must have as many.
fn select_zero(word: u64, zeros: u64) -> usize {
    if zeros == 0 {
        return 0;
    }
    let mut clear = !word;
    for _ in 1..zeros {
        clear &= clear - 1;
    }
    clear.trailing_zeros() as usize + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape {
        pages: 2,
        probes: 20,
    };
    const LAYOUT: Layout = Layout {
        shape: SHAPE,
        bits: true,
        records: true,
    };

    fn decoded(block: &[u8]) -> Result<Batch, &'static str> {
        let mut decoded = Batch::from_iter(&[Record::default()]);
        RecordBlock::parse(SHAPE, false, 0, block)?.decode(1, 1, &mut decoded)?;
        Ok(decoded)
    }

    #[test]
    fn a_damaged_block_is_a_fault_or_gives_sorted_records_of_its_page() {
        let record = |(key, added)| Record {
            key: Key(key),
            added,
            ..Record::default()
        };
        let mut problems = Vec::new();
        for classes in [[0; 3], [0, 1, 2]] {
            let records = [5, 6, 1 << 40].into_iter().zip(classes).map(record);
            let records = Batch::from_iter(&records.collect::<Vec<_>>());
            let mut sound = Vec::new();
            encode(
                LAYOUT,
                (&records, 0..3),
                &mut Scratch::default(),
                &mut sound,
            );
            for at in 0..sound.len() {
                for value in 0..=u8::MAX {
                    let mut block = sound.clone();
                    block[at] = value;
                    match decoded(&block) {
                        Ok(records) => {
                            let keys: Vec<_> = records.records().map(|one| one.key).collect();
                            assert_eq!(keys, records.keys, "each has a class");
                            assert!(keys.is_sorted_by(|a, b| a < b));
                            let is_inside = |key: &Key| page::page_of(*key, 2) == 0;
                            assert!(keys.iter().all(is_inside), "byte {at} = {value}");
                        }
                        Err(problem) => problems.push(problem),
                    }
                }
            }
        }
        for expected in [
            "keys out of order",
            "a key outside its page",
            "a record names a class that is not there",
        ] {
            assert!(problems.contains(&expected));
        }
    }

    #[test]
    #[should_panic(expected = "out of order")]
    fn duplicates_are_refused() {
        let twice = Batch::from_iter(&[Record::default(); 2]);
        let (mut scratch, mut out) = (Scratch::default(), Vec::new());
        encode(LAYOUT, (&twice, 0..2), &mut scratch, &mut out);
    }
}
