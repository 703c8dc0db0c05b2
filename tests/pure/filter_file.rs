//! Filter files: reading gives what was written, in memory and from disk.
#![allow(
    clippy::cast_possible_truncation,
    reason = "keys are cut to make up data"
)]

use std::fs;

use blocklist_filter::base::replacement::Replacement;
use blocklist_filter::filter::page::{self, PAGE_BYTES, Page};
use blocklist_filter::filter::{EncodedPage, Filter, Key, Load, Record, Writer, sizing};
use proptest::prelude::*;
use twox_hash::XxHash3_64;

use crate::support::compile::folder;
use crate::support::filters::{
    by_page, check_answers, encode_page, record, records, sorted, spec, write,
};

#[test]
fn lists_of_all_sizes_come_back() {
    let folder = folder(&[]);
    let path = folder.at("a.blf");
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
    let folder = folder(&[]);
    let path = folder.at("a.blf");
    write(&path, spec(1e-6, true), &records(10)).unwrap();
    let filter = Filter::open(&path, Load::Disk).unwrap();
    assert_eq!(*filter.spec(), spec(1e-6, true));
    assert_eq!(filter.entries(), 10);
    assert_eq!(filter.source(1).unwrap().file, "lists/zwölf.csv");
    assert_eq!(filter.source(2), None);
}

/// The bytes of a filter may only change with the version of the format.
#[test]
fn the_bytes_are_pinned() {
    let folder = folder(&[]);
    let path = folder.at("a.blf");
    for (count, fpr, with_records, expected) in [
        (0, 1e-6, true, PINNED[0]),
        (5_000, 1e-6, true, PINNED[1]),
        (5_000, 1e-6, false, PINNED[2]),
        (5_000, 1e-2, true, PINNED[3]),
    ] {
        write(&path, spec(fpr, with_records), &records(count)).unwrap();
        let got = XxHash3_64::oneshot(&fs::read(&path).unwrap());
        assert_eq!(
            format!("{got:016x}"),
            expected,
            "{count} {fpr} {with_records}"
        );
    }
}

const PINNED: [&str; 4] = [
    "c1a06377b0909a8e",
    "103ddf9f84c2ed26",
    "03842817bf4d88f9",
    "588e59e32cdd7bba",
];

#[test]
fn a_union_of_pages_holds_both() {
    let folder = folder(&[]);
    let path = folder.at("a.blf");
    let all = records(3_000);
    let spec = spec(1e-4, false);
    let shape = sizing::shape(3_000, spec.fpr);
    let pages = |records: &[Record]| -> Vec<Page> {
        let (replacement, entries) = (Replacement::claim(&path).unwrap(), records.len() as u64);
        let mut writer = Writer::begin(replacement, spec.clone(), entries, shape, None).unwrap();
        for records in by_page(shape, records) {
            let mut page = EncodedPage::default();
            encode_page(writer.layout(), records, &mut page);
            writer.append(&[page]).unwrap();
        }
        writer.finish().unwrap();
        let bytes = fs::read(&path).unwrap();
        let (pages, _) = bytes[PAGE_BYTES..].as_chunks::<PAGE_BYTES>();
        pages[..shape.pages as usize].to_vec()
    };
    let entries = |pages: &[Page]| -> f64 {
        let fills = pages.iter().map(page::count_set);
        fills
            .map(|set| sizing::entries_of_fill(set, shape.probes))
            .sum()
    };
    let (a, b) = (pages(&all[..2_000]), pages(&all[1_400..]));
    let mut both = a.clone();
    for (page, other) in both.iter_mut().zip(&b) {
        sizing::union(page, other);
    }
    assert!(both == pages(&all));
    let shared = sizing::intersection(entries(&a), entries(&b), entries(&both));
    let deviation = sizing::estimate_deviation(3_000.0, shape);
    assert!((shared - 600.0).abs() < 6.0 * deviation, "{shared}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn nothing_inserted_is_ever_missed(
        keys in prop::collection::vec(any::<u64>(), 0..3_000),
        with_records: bool,
        exponent in 0.31_f64..12.0,
    ) {
        let folder = folder(&[]);
        let path = folder.at("a.blf");
        let records = sorted(keys.into_iter().map(Key).map(record).collect());
        let fpr = 10_f64.powf(-exponent);
        let header = write(&path, spec(fpr, with_records), &records).unwrap();
        prop_assert_eq!(header, Filter::verify(&path).unwrap());
        check_answers(&path, &records);
    }

    #[test]
    fn estimates_are_near(count in 1_000_u64..20_000, exponent in 1.0_f64..8.0) {
        let folder = folder(&[]);
        let path = folder.at("a.blf");
        write(&path, spec(10_f64.powf(-exponent), false), &records(count)).unwrap();
        let filter = Filter::open(&path, Load::Memory).unwrap();
        let stats = filter.stats().unwrap();
        let off = (stats.entries_estimated - count as f64).abs();
        prop_assert!(off < 6.0 * stats.entries_deviation + 1.0, "{stats:?}");
        prop_assert!(stats.fill > 0.0 && stats.fill < 0.6);
    }
}
