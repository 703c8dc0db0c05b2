//! A second reader of deltas, written only from `contrib/filter-format.md`: it checks that the
//! output of `blocklist-compile delta` agrees with the document.
#![allow(
    clippy::cast_possible_truncation,
    reason = "keys are cut to make up data"
)]

use std::fs;
use std::io::Read;

use blocklist_compile::compile::{Progress, make_delta};
use blocklist_filter::filter::{Key, Record};
use flate2::read::ZlibDecoder;
use sha2::{Digest, Sha256};
use twox_hash::XxHash3_64;

use crate::support::compile::{folder, records as stored};
use crate::support::filters::{key, record, records, sorted, spec, write};

/// The day on which filters of [`spec`] are built.
const BUILT: u16 = 20_717;

/// Kind, source, day added, day of expiry.
type Class = (u8, u32, u16, Option<u16>);

fn class_of(record: &Record) -> Class {
    (record.kind, record.source, record.added, record.expires)
}

/// Reads fields from bytes.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.bytes(2).try_into().unwrap())
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes(4).try_into().unwrap())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes(8).try_into().unwrap())
    }

    /// Reads a number, and so many things.
    fn many<T>(&mut self, mut read: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.u32()).map(|_| read(self)).collect()
    }

    fn class(&mut self) -> Class {
        let [kind, expires] = *self.bytes(2) else {
            unreachable!()
        };
        let (source, added, day) = (self.u32(), self.u16(), self.u16());
        assert!(expires == 1 || (expires, day) == (0, 0));
        (kind, source, added, (expires == 1).then_some(day))
    }
}

/// Reads bits from bytes, the lowest first.
struct Bits<'a>(&'a [u8], usize);

impl Bits<'_> {
    fn take(&mut self, count: u64) -> u64 {
        let bit = |at: usize| u64::from(self.0[at / 8] >> (at % 8) & 1);
        let value = (0..count).fold(0, |sum, i| sum | bit(self.1 + i as usize) << i);
        self.1 += count as usize;
        value
    }

    fn rice(&mut self, k: u64) -> u64 {
        let mut clear = 0;
        while self.take(1) == 0 {
            clear += 1;
        }
        clear << k | self.take(k)
    }
}

/// Applies a delta to the records of OLD, following the document, and checks everything else in it.
fn patched(delta: &[u8], old: &[u8], old_records: &[Record], new: &[u8]) -> Vec<Record> {
    let mut file = Fields(delta);
    assert_eq!(file.bytes(8), b"\x89bld\r\n\x1a\n");
    assert_eq!(file.u32(), 1);
    let length = file.u32() as usize;
    let mut head = Vec::new();
    let mut packed = ZlibDecoder::new(file.bytes(length));
    packed.read_to_end(&mut head).unwrap();
    let (segments, sum) = file.0.split_at(file.0.len() - 8);
    let all = &delta[..delta.len() - 8];
    assert_eq!(sum, XxHash3_64::oneshot(all).to_le_bytes());

    let mut head = Fields(&head);
    let sha256 = |bytes: &[u8]| Sha256::digest(bytes).to_vec();
    assert_eq!(head.bytes(32), sha256(&old[..4096]));
    assert_eq!(head.bytes(8), &old[24..32]);
    assert_eq!(head.bytes(32), sha256(new));
    assert_eq!(head.u64(), new.len() as u64);
    assert_eq!(head.bytes(4096), &new[..4096]);
    let mut sources = Fields(&new[96 + 3 * 24..]);
    let (offset, length) = (sources.u64() as usize, sources.u64() as usize);
    assert_eq!(head.bytes(length), &new[offset..offset + length]);
    let day = head.u16();
    let pairs = head.many(|head| (head.class(), head.class()));
    let (changed, added) = (head.many(Fields::class), head.many(Fields::class));
    let (touched_count, added_count) = (head.u64() as usize, head.u64() as usize);
    assert!(head.0.is_empty());

    let (mut touches, mut additions) = (Vec::new(), Vec::new());
    let (mut index, mut key) = (0, 0);
    let mut bits = Bits(segments, 0);
    while (touches.len(), additions.len()) != (touched_count, added_count) {
        let (t, a) = (bits.take(13), bits.take(13));
        assert!((1..=4096).contains(&(t + a)));
        let k: Vec<_> = (0..4).map(|_| bits.take(6)).collect();
        for _ in 0..t {
            index += bits.rice(k[0]);
            let number = if changed.is_empty() {
                0
            } else {
                bits.rice(k[1])
            };
            touches.push((index, number));
            index += 1;
        }
        for _ in 0..a {
            key += bits.rice(k[2]);
            let number = if added.len() == 1 { 0 } else { bits.rice(k[3]) };
            additions.push((key, added[number as usize]));
            key += 1;
        }
        while !bits.1.is_multiple_of(8) {
            assert_eq!(bits.take(1), 0);
        }
    }
    assert_eq!(bits.1, 8 * segments.len());

    let record = |key: Key, (kind, source, added, expires): Class| Record {
        key,
        kind,
        source,
        added,
        expires,
    };
    let additions = additions.into_iter();
    let mut made: Vec<_> = additions
        .map(|(key, class)| record(Key(key), class))
        .collect();
    let left = |record: &&Record| record.expires.is_none_or(|end| end > day);
    for (index, old) in (0..).zip(old_records.iter().filter(left)) {
        let touch = touches.iter().find(|touch| touch.0 == index);
        let becomes = |(from, to): &(Class, Class)| (*from == class_of(old)).then_some(*to);
        let class = match touch {
            Some((_, 0)) => continue,
            Some((_, number)) => changed[*number as usize - 1],
            None => pairs
                .iter()
                .find_map(becomes)
                .unwrap_or_else(|| class_of(old)),
        };
        made.push(record(old.key, class));
    }
    sorted(made)
}

/// Checks that the document's reader makes `new` from `old`.
fn check(old: &[Record], new: &[Record]) {
    let folder = folder(&[]);
    let [old_path, new_path, delta] = ["old.blf", "new.blf", "delta"].map(|name| folder.at(name));
    write(&old_path, spec(1e-6, true), old).unwrap();
    let mut after = spec(1e-6, true);
    after.generation += 1;
    after.sources[1].lines += 1;
    write(&new_path, after, new).unwrap();
    let made = make_delta(&delta, [&old_path, &new_path], &Progress::new()).unwrap();
    assert_eq!(made.refused, None);
    let [old, new, delta] = [&old_path, &new_path, &delta].map(|path| fs::read(path).unwrap());
    let patched = patched(&delta, &old, &stored(&old_path), &new);
    assert!(patched == stored(&new_path));
}

#[test]
fn a_reader_made_from_the_document_applies_a_delta() {
    // Every class, entries that expire, and more edits than fit in a segment.
    let mut all = records(30_000);
    for record in all.iter_mut().filter(|record| record.key.0 % 13 == 0) {
        record.expires = Some(20_700 + record.key.0 as u16 % 20);
    }
    let stays = |record: &&Record| record.expires.is_none_or(|end| end > BUILT);
    let new = all.iter().filter(stays).copied();
    let mut new: Vec<_> = new.filter(|record| record.key.0 % 7 != 0).collect();
    for record in &mut new {
        match record.key.0 % 11 {
            0 => record.added += 1,
            1 => record.expires = None,
            _ => {}
        }
    }
    new.extend((0..3_000).map(|i| record(key(1 << 40 | i))));
    new.retain(|record| stays(&record));
    check(&all, &sorted(new));
}

#[test]
fn numbers_are_left_out_where_there_is_one_to_choose() {
    let one = |i: u64| Record {
        key: Key(key(i).0),
        kind: 0,
        source: 0,
        added: 20_000,
        expires: None,
    };
    let list = |numbers: std::ops::Range<u64>| sorted(numbers.map(one).collect());
    check(&list(0..2_000), &list(40..2_050));
    check(&list(0..2_000), &list(0..2_050));
    check(&list(0..2_000), &list(40..2_000));
}
