//! Filter files: what is written is what is read, in memory and from disk; damage
//! anywhere is noticed; nobody sees half a file.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test may fail, and makes up its data by cutting keys"
)]

use std::fs;
use std::path::{Path, PathBuf};

use blocklist_milter::filter::page::page_of;
use blocklist_milter::filter::{
    Answer, EncodedPage, Error, Filter, Header, Load, Record, Shape, Source, Spec, Writer,
    encode_page,
};
use twox_hash::XxHash3_64;

/// Keys that look random and are the same each time.
fn key(i: u64) -> u64 {
    XxHash3_64::oneshot_with_seed(0x5eed, &i.to_le_bytes())
}

fn spec(fpr: f64, records: bool) -> Spec {
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

/// A record of a key, told by the key.
fn record(key: u64) -> Record {
    Record {
        key,
        kind: (key % 4) as u8,
        source: (key >> 8) as u32 % 2,
        added: 20_000 + (key >> 16) as u16 % 50,
        expires: (key & 0x700 == 0).then_some(21_000),
    }
}

fn records(count: u64) -> Vec<Record> {
    sorted((0..count).map(|i| record(key(i))).collect())
}

fn sorted(mut records: Vec<Record>) -> Vec<Record> {
    records.sort_by_key(|record| record.key);
    records.dedup_by_key(|record| record.key);
    records
}

/// Writes a filter as a compiler would, page by page.
fn write(path: &Path, spec: Spec, records: &[Record]) -> Result<Header, Error> {
    let with_records = spec.records;
    let mut writer = Writer::create(path, spec, records.len() as u64)?;
    let mut page = EncodedPage::new();
    for records in by_page(writer.shape(), records) {
        encode_page(writer.shape(), records, with_records, &mut page);
        writer.append(std::slice::from_ref(&page))?;
    }
    writer.finish()
}

fn by_page(shape: Shape, records: &[Record]) -> impl Iterator<Item = &[Record]> {
    let mut rest = records;
    (0..shape.pages).map(move |number| {
        let count = rest.partition_point(|record| page_of(record.key, shape.pages) <= number);
        let (page, after) = rest.split_at(count);
        rest = after;
        page
    })
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.0.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// Every entry is found, with its record, in memory and from disk; the answers to
/// other keys are the same both ways.
fn check_answers(path: &Path, expected: &[Record]) {
    let memory = Filter::open(path, Load::Memory).unwrap();
    let disk = Filter::open(path, Load::Disk).unwrap();
    let with_records = memory.spec().records;
    for record in expected {
        let answer = if with_records {
            Answer::Listed(*record)
        } else {
            Answer::Unproved
        };
        assert_eq!(memory.look_up(record.key).unwrap(), answer);
        assert_eq!(disk.look_up(record.key).unwrap(), answer);
    }
    for i in 0..2_000 {
        let key = key(i << 32 | 1 << 31);
        let answer = memory.look_up(key).unwrap();
        assert_eq!(disk.look_up(key).unwrap(), answer);
        let innocent = if with_records {
            Answer::FalsePositive
        } else {
            Answer::Unproved
        };
        assert!(answer == Answer::Miss || answer == innocent);
    }
    assert_eq!(memory.stats().unwrap(), disk.stats().unwrap());
    if with_records {
        let back: Vec<_> = disk.records().unwrap().collect::<Result<_, _>>().unwrap();
        assert_eq!(back, expected);
    } else {
        assert!(matches!(memory.records(), Err(Error::NoRecords { .. })));
    }
}

#[test]
fn lists_of_all_sizes_come_back() {
    let folder = Folder::new();
    let path = folder.path("a.blf");
    for count in [0, 1, 2, 100, 1_132, 1_134, 20_000] {
        for fpr in [1e-2, 1e-6] {
            for with_records in [true, false] {
                let records = records(count);
                let written = write(&path, spec(fpr, with_records), &records).unwrap();
                assert_eq!(written, Filter::verify(&path).unwrap());
                assert_eq!(written.entries, records.len() as u64);
                assert_eq!(written.file_bytes(), fs::metadata(&path).unwrap().len());
                check_answers(&path, &records);
            }
        }
    }
    assert_eq!(folder.names(), ["a.blf"]);
}

#[test]
fn what_was_told_is_kept() {
    let folder = Folder::new();
    let path = folder.path("a.blf");
    write(&path, spec(1e-6, true), &records(10)).unwrap();
    let filter = Filter::open(&path, Load::Disk).unwrap();
    assert_eq!(*filter.spec(), spec(1e-6, true));
    assert_eq!(filter.entries(), 10);
    assert_eq!(filter.source(1).unwrap().file, "lists/zwölf.csv");
    assert_eq!(filter.source(2), None);
}
