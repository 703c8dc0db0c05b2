//! Filters for tests: keys, records, a simple writer, and the check that everything is found.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test program takes what it needs"
)]
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test may fail, and makes up its data by cutting keys"
)]

use std::path::Path;

use blocklist_filter::base::replacement::Replacement;
use blocklist_filter::filter::page::{Filling, page_of};
use blocklist_filter::filter::{
    Answer, Batch, EncodedPage, Error, Filter, Header, Key, Layout, Load, Problem, Record, Shape,
    Source, Spec, Writer, sizing,
};

/// Returns a key that looks random and is always the same.
pub fn key(i: u64) -> Key {
    Key::of(&i.to_le_bytes(), 0x5eed)
}

pub fn spec(fpr: f64, records: bool) -> Spec {
    Spec {
        name: "spammers".to_owned(),
        generation: 7,
        built: 1_790_000_000,
        seed: 0x0123_4567_89ab_cdef,
        rules_version: 1,
        rules: 1,
        kinds: 0b1111,
        fpr,
        records,
        sources: vec![
            Source {
                name: "first".to_owned(),
                file: "lists/first.txt".to_owned(),
                licence: "CC0-1.0".to_owned(),
                lines: 100,
                entries: 90,
                rejected: 3,
            },
            Source {
                name: "zweite".to_owned(),
                file: "lists/zwölf.csv".to_owned(),
                licence: String::new(),
                lines: 5,
                entries: 5,
                rejected: 0,
            },
        ],
    }
}

/// Returns a record of a key, derived from the key.
pub fn record(key: Key) -> Record {
    let Key(bits) = key;
    Record {
        key,
        kind: (bits % 4) as u8,
        source: (bits >> 8) as u32 % 2,
        added: 20_000 + (bits >> 16) as u16 % 50,
        expires: (bits & 0x700 == 0).then_some(21_000),
    }
}

pub fn records(count: u64) -> Vec<Record> {
    sorted((0..count).map(|i| record(key(i))).collect())
}

pub fn sorted(mut records: Vec<Record>) -> Vec<Record> {
    records.sort_by_key(|record| record.key);
    records.dedup_by_key(|record| record.key);
    records
}

/// Begins a filter with this number of entries.
pub fn begin(path: &Path, spec: Spec, entries: u64) -> Result<Writer, Error> {
    let shape = sizing::shape(entries, spec.fpr);
    Writer::begin(Replacement::claim(path)?, spec, entries, shape, None)
}

/// Encodes one page of a file: its sorted, distinct records, if any.
pub fn encode_page(layout: Layout, records: &[Record], out: &mut EncodedPage) {
    let records = Batch::from_iter(records);
    let all = 0..records.len();
    out.encode(layout, (&records, all), &mut Filling::default());
}

/// Writes a filter as a compiler would, page by page.
pub fn write(path: &Path, spec: Spec, records: &[Record]) -> Result<Header, Error> {
    let mut writer = begin(path, spec, records.len() as u64)?;
    let mut page = EncodedPage::default();
    for records in by_page(writer.layout().shape, records) {
        encode_page(writer.layout(), records, &mut page);
        writer.append(std::slice::from_ref(&page))?;
    }
    writer.finish()
}

pub fn by_page(shape: Shape, records: &[Record]) -> impl Iterator<Item = &[Record]> {
    let mut rest = records;
    (0..shape.pages).map(move |number| {
        let count = rest.partition_point(|record| page_of(record.key, shape.pages) <= number);
        let (page, after) = rest.split_at(count);
        rest = after;
        page
    })
}

/// Checks that every entry is found, with its record, in memory and from disk, and that the answers
/// for other keys are the same in both.
pub fn check_answers(path: &Path, expected: &[Record]) {
    let memory = Filter::open(path, Load::Memory).unwrap();
    let disk = Filter::open(path, Load::Disk).unwrap();
    let with_records = memory.spec().records;
    for record in expected {
        let answer = match with_records {
            true => Answer::Listed(*record),
            false => Answer::Unproved,
        };
        assert_eq!(memory.look_up(record.key).unwrap(), answer);
        assert_eq!(disk.look_up(record.key).unwrap(), answer);
    }
    let innocent = match with_records {
        true => Answer::FalsePositive,
        false => Answer::Unproved,
    };
    for i in 0..500 {
        let key = key(i << 32 | 1 << 31);
        let answer = memory.look_up(key).unwrap();
        assert_eq!(disk.look_up(key).unwrap(), answer);
        assert!(answer == Answer::Miss || answer == innocent);
    }
    if with_records {
        let mut back = Batch::default();
        let taken = disk.records().unwrap().take_before(None, &mut back);
        taken.unwrap();
        assert!(back.records().eq(expected.iter().copied()));
    } else {
        assert!(matches!(memory.records(), Err(Error::NoRecords(_))));
    }
}

/// Writes a filter of three pages. Returns its header and its records.
pub fn three_pages(path: &Path) -> (Header, Vec<Record>) {
    let records = records(2_500);
    let header = write(path, spec(1e-6, true), &records).unwrap();
    assert_eq!(header.shape.pages, 3);
    (header, records)
}

pub fn problem<T>(result: Result<T, Error>) -> Problem {
    match result {
        Err(Error::Invalid { problem, .. }) => problem,
        Err(other) => panic!("not a problem of the file: {other}"),
        Ok(_) => panic!("a damaged file was taken for sound"),
    }
}
