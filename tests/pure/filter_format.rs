//! A second reader of filter files, written only from `contrib/filter-format.md`: it checks that
//! the output of the compiler agrees with the document, and that the document's example is correct.
//!
//! It uses the filter module only for writing.
#![allow(
    clippy::cast_possible_truncation,
    reason = "keys are cut to make up data"
)]

use crate::support::filters;

use std::fs;
use std::path::Path;

use blocklist_filter::base::replacement::Replacement;
use blocklist_filter::filter::{
    EncodedPage, Filter, FilterFile, Key, Record, Source, Spec, Writer, page, sizing,
};
use filters::{encode_page, write};
use proptest::prelude::*;
use twox_hash::XxHash3_64;

/// The bytes of a file, and the fields of its header.
struct Reader {
    bytes: Vec<u8>,
    pages: u64,
    probes: u64,
    /// Offset and length of pages, sums, directory, sources, records.
    sections: [(usize, usize); 5],
}

impl Reader {
    fn open(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap();
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!(bytes[..8], *b"\x89blf\r\n\x1a\n");
        assert_eq!((u32_at(8), u32_at(12), u32_at(76)), (1, 4096, 4096));
        assert_eq!(u64_at(4088), XxHash3_64::oneshot(&bytes[..4088]));
        let pages = u64_at(64);
        let records = u32_at(20) & 1 == 1;
        // A part of a list has no pages and no checksums.
        let bit_pages = if u32_at(20) == 9 { 0 } else { pages };
        let mut end = 4096;
        let mut sections = [(0, 0); 5];
        for (i, section) in sections.iter_mut().enumerate() {
            let (offset, length) = (u64_at(96 + 24 * i), u64_at(104 + 24 * i));
            let sum = u64_at(112 + 24 * i);
            let declared = match i {
                0 => Some(4096 * bit_pages),
                1 => Some(8 * bit_pages),
                2 => Some(if records { 16 * pages } else { 0 }),
                4 if !records => Some(0),
                _ => None,
            };
            assert!(declared.is_none_or(|declared| declared == length));
            assert_eq!(offset, end, "a gap before section {i}");
            end += length;
            *section = (offset as usize, length as usize);
            let contents = &bytes[section.0..section.0 + section.1];
            let paged = i == 0 || i == 4;
            let expected = if paged {
                0
            } else {
                XxHash3_64::oneshot(contents)
            };
            assert_eq!(sum, expected);
        }
        assert_eq!(end, bytes.len() as u64);
        let probes = u64::from(u32_at(72));
        let reader = Self {
            bytes,
            pages,
            probes,
            sections,
        };
        let set: u32 = reader.section(0).iter().map(|byte| byte.count_ones()).sum();
        assert_eq!(u64::from(set), reader.u64_at(80));
        for page in 0..bit_pages as usize {
            let sum = XxHash3_64::oneshot(&reader.section(0)[4096 * page..4096 * (page + 1)]);
            assert_eq!(sum, reader.u64_at(reader.sections[1].0 + 8 * page));
        }
        reader
    }

    fn u64_at(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().unwrap())
    }

    fn section(&self, i: usize) -> &[u8] {
        let (offset, length) = self.sections[i];
        &self.bytes[offset..offset + length]
    }

    fn page_of(&self, key: u64) -> u64 {
        ((u128::from(key) * u128::from(self.pages)) >> 64) as u64
    }

    fn bits(&self, key: u64) -> Vec<u64> {
        let word = |j: u64| {
            let mut z = key.wrapping_add((j + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ z >> 31
        };
        (0..self.probes)
            .map(|d| word(d / 4) >> (15 * (d % 4)) & 32767)
            .collect()
    }

    fn pages_hold(&self, key: u64) -> bool {
        let start = 4096 * self.page_of(key) as usize;
        let page = &self.section(0)[start..start + 4096];
        self.bits(key)
            .iter()
            .all(|&b| page[b as usize / 8] >> (b % 8) & 1 == 1)
    }

    /// Returns all records of a page.
    fn records(&self, page: u64) -> Vec<Record> {
        let row = |page: u64| self.sections[2].0 + 16 * page as usize;
        let end_of = |page| self.u64_at(row(page)) as usize;
        let start = page.checked_sub(1).map_or(0, end_of);
        let end = end_of(page);
        let block = &self.section(4)[start..end];
        assert_eq!(self.u64_at(row(page) + 8), XxHash3_64::oneshot(block));
        if block.is_empty() {
            return Vec::new();
        }
        let number = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().unwrap()) as usize;
        let (n, classes, high_words) = (number(0), number(4), number(12));
        let (l, w) = (usize::from(block[8]), usize::from(block[9]));
        let high = 16 + 10 * classes;
        let low = high + 8 * high_words;
        let class = low + (n * l).div_ceil(8);
        assert_eq!(block.len(), class + (n * w).div_ceil(8));
        let bit = |from: usize, b: usize| u64::from(block[from + b / 8] >> (b % 8) & 1);
        let value = |from: usize, width: usize, i: usize| {
            (0..width).fold(0, |value, b| value | bit(from, i * width + b) << b)
        };
        let first = (u128::from(page) << 64).div_ceil(u128::from(self.pages)) as u64;
        let set = (0..64 * high_words).filter(|&b| bit(high, b) == 1);
        let high_parts: Vec<u64> = match l {
            // A block of a part.
            64 => vec![0; n],
            _ => (set.enumerate().map(|(i, b)| ((b - i) as u64) << l)).collect(),
        };
        let records: Vec<_> = (high_parts.iter().enumerate())
            .map(|(i, high_part)| {
                let distance = high_part | value(low, l, i);
                let at = 16 + 10 * value(class, w, i) as usize;
                let day = |at: usize| u16::from_le_bytes([block[at], block[at + 1]]);
                Record {
                    key: Key(first + distance),
                    kind: block[at],
                    source: number(at + 2) as u32,
                    added: day(at + 6),
                    expires: (block[at + 1] == 1).then(|| day(at + 8)),
                }
            })
            .collect();
        assert_eq!(records.len(), n);
        records
    }
}

const SEED: u64 = 0x0123_4567_89ab_cdef;
const ADDED: u16 = 20_717;
/// Entry, kind, name of the kind, day of expiry.
const ENTRIES: [(&str, u8, &str, Option<u16>); 3] = [
    ("spammer@bad.example", 0, "mailbox", None),
    ("@worse.example", 2, "domain", None),
    (".worst.example", 3, "subtree", Some(20_900)),
];

fn example() -> (Spec, Vec<Record>) {
    let source = Source {
        name: "example".to_owned(),
        file: "example.txt".to_owned(),
        licence: "CC0-1.0".to_owned(),
        lines: 4,
        entries: 3,
        rejected: 0,
    };
    let spec = Spec {
        name: "example".to_owned(),
        generation: 1,
        kinds: 0b1101,
        sources: vec![source],
        ..filters::spec(1e-6, true)
    };
    let mut records: Vec<_> = ENTRIES
        .iter()
        .map(|&(entry, kind, _, expires)| Record {
            key: Key(XxHash3_64::oneshot_with_seed(SEED, entry.as_bytes())),
            kind,
            source: 0,
            added: ADDED,
            expires,
        })
        .collect();
    records.sort_by_key(|record| record.key);
    (spec, records)
}

/// Returns the rows of 16 bytes that are not all zero, in hexadecimal.
fn dump(bytes: &[u8]) -> String {
    let mut rows = String::new();
    for (i, row) in bytes.chunks(16).enumerate() {
        if row.iter().any(|&byte| byte != 0) {
            let hex: Vec<_> = row.iter().map(|byte| format!("{byte:02x}")).collect();
            rows += &format!("{:08x}  {}\n", 16 * i, hex.join(" "));
        }
    }
    rows
}

#[test]
fn the_example_of_the_document_is_true() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("example.blf");
    let (spec, records) = example();
    write(&path, spec, &records).unwrap();
    let document = include_str!("../../contrib/filter-format.md");
    let reader = Reader::open(&path);
    for (entry, _, kind, expires) in ENTRIES {
        let key = XxHash3_64::oneshot_with_seed(SEED, entry.as_bytes());
        let bits = reader.bits(key);
        let expires = expires.map_or_else(|| "never".to_owned(), |day| format!("day {day}"));
        let row = format!("| `{entry}` | {kind} | `{key:016x}` | {bits:?} | {expires} |");
        assert!(document.contains(&row), "the document lacks:\n{row}");
    }
    let rows = dump(&fs::read(&path).unwrap());
    assert!(document.contains(&rows), "the document lacks:\n{rows}");
    let nothing = format!("`{:016x}`", XxHash3_64::oneshot(&[]));
    assert!(document.contains(&nothing), "the document lacks {nothing}");
    assert_eq!((reader.pages, reader.probes), (1, 2));
    assert_eq!(reader.records(0), records);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_reader_made_from_the_document_finds_all(
        keys in prop::collection::btree_set(any::<u64>(), 0..5_000),
        fpr in prop_oneof![Just(0.3), Just(1e-2), Just(1e-6), Just(1e-12)],
    ) {
        let records: Vec<_> = keys
            .iter()
            .map(|&key| Record {
                key: Key(key),
                kind: key as u8 % 4,
                source: 0,
                added: key as u16 % 7,
                expires: (key % 5 == 0).then_some(9),
            })
            .collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.blf");
        let spec = Spec { fpr, ..example().0 };
        write(&path, spec, &records).unwrap();
        let reader = Reader::open(&path);
        prop_assert!(keys.iter().all(|&key| reader.pages_hold(key)));
        let back: Vec<_> = (0..reader.pages).flat_map(|page| reader.records(page)).collect();
        prop_assert_eq!(back, records);
    }

    #[test]
    fn a_reader_made_from_the_document_finds_all_of_a_part(
        keys in prop::collection::btree_set(any::<u64>(), 0..9_000),
        classes in 1_u16..9,
        digest: u128,
    ) {
        let record = |&key: &u64| Record {
            key: Key(key),
            kind: key as u8 % 4,
            source: 0,
            added: key as u16 % classes,
            expires: (classes > 4 && key % 5 == 0).then_some(9),
        };
        let records: Vec<_> = keys.iter().map(record).collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.part");
        let replacement = Replacement::claim(&path).unwrap();
        let spec = Spec { kinds: 0b1111, ..example().0 };
        let entries = records.len() as u64;
        let shape = sizing::shape(entries, spec.fpr);
        let mut writer = Writer::begin(replacement, spec, entries, shape, Some(digest)).unwrap();
        let mut page = EncodedPage::default();
        for number in 0..shape.pages {
            let here = |record: &&Record| page::page_of(record.key, shape.pages) == number;
            let here: Vec<_> = records.iter().filter(here).copied().collect();
            encode_page(writer.layout(), &here, &mut page);
            writer.append(std::slice::from_ref(&page)).unwrap();
        }
        writer.finish().unwrap();
        let reader = Reader::open(&path);
        let back: Vec<_> = (0..reader.pages).flat_map(|page| reader.records(page)).collect();
        prop_assert_eq!(back, records);
        prop_assert_eq!(&reader.bytes[4072..4088], digest.to_le_bytes());
        let part = FilterFile::open_part(&path).unwrap();
        prop_assert_eq!(part.header.part, Some(digest));
        Filter::verify(&path).unwrap();
    }
}
