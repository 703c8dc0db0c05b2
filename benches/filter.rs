//! Look-ups and page filling: `cargo bench --bench filter`.
//!
//! Times are wall time of one thread. "cold" looks up another page each time, in a filter far
//! larger than the caches; "warm" looks up keys in a few pages.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use blocklist_filter::base::replacement::Replacement;
use blocklist_filter::filter::page::{Filling, first_key, page_of};
use blocklist_filter::filter::{
    Batch, EncodedPage, Filter, Key, Layout, Load, Record, Shape, Spec, Writer, sizing,
};
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};

fn main() {
    divan::main();
}

/// Entries of the filter: 145 MB of pages at one in a million.
const ENTRIES: u64 = 40_000_000;
/// Keys looked up in one sample.
const ASKED: usize = 100_000;

/// Returns a key that looks random. Listed ones have even numbers.
fn key(i: u64) -> Key {
    Key::of(&i.to_le_bytes(), 0)
}

fn record(key: Key) -> Record {
    Record {
        key,
        kind: 0,
        source: 0,
        added: 20_000,
        expires: None,
    }
}

fn spec() -> Spec {
    Spec {
        name: "bench".to_owned(),
        generation: 1,
        built: 0,
        seed: 0,
        rules_version: 1,
        rules: 0,
        kinds: 1,
        fpr: 1e-6,
        records: true,
        sources: Vec::new(),
    }
}

fn begin(path: &Path, entries: u64) -> Writer {
    let output = Replacement::claim(path).expect("claim the output");
    let shape = sizing::shape(entries, spec().fpr);
    Writer::begin(output, spec(), entries, shape, None).expect("begin the filter")
}

fn layout(shape: Shape, records: bool) -> Layout {
    let bits = true;
    Layout {
        shape,
        bits,
        records,
    }
}

/// A filter on disk, written once per run.
static FILTER: LazyLock<(tempfile::TempDir, PathBuf)> = LazyLock::new(|| {
    let folder =
        tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder for the filter");
    let path = folder.path().join("bench.blf");
    let mut records: Vec<_> = (0..ENTRIES).map(|i| record(key(2 * i))).collect();
    records.sort_unstable_by_key(|record| record.key);
    records.dedup();
    let mut writer = begin(&path, records.len() as u64);
    let shape = writer.layout().shape;
    let mut page = EncodedPage::default();
    let mut rest = &records[..];
    for number in 0..shape.pages {
        let here = rest.partition_point(|record| page_of(record.key, shape.pages) <= number);
        let (records, after) = rest.split_at(here);
        rest = after;
        encode_page(writer.layout(), records, &mut page);
        writer.append(std::slice::from_ref(&page)).expect("append");
    }
    writer.finish().expect("finish the filter");
    (folder, path)
});

fn open(load: Load) -> Filter {
    Filter::open(&FILTER.1, load).expect("open the filter")
}

fn ask(bencher: Bencher<'_, '_>, load: Load, keys: &[Key]) {
    let filter = open(load);
    bencher
        .counter(ItemsCount::new(keys.len()))
        .bench_local(|| {
            for &key in keys {
                black_box(filter.look_up(black_box(key)).expect("an answer"));
            }
        });
}

#[divan::bench(args = [Load::Memory, Load::Disk], sample_count = 20, sample_size = 1)]
fn miss_cold(bencher: Bencher<'_, '_>, load: Load) {
    let keys: Vec<_> = (0..ASKED as u64).map(|i| key(2 * i + 1)).collect();
    ask(bencher, load, &keys);
}

#[divan::bench(args = [Load::Memory, Load::Disk], sample_count = 20, sample_size = 1)]
fn miss_warm(bencher: Bencher<'_, '_>, load: Load) {
    // The high bits choose the page: these keys share a few.
    let keys: Vec<_> = (0..ASKED as u64)
        .map(|i| Key(key(2 * i + 1).0 >> 14))
        .collect();
    ask(bencher, load, &keys);
}

#[divan::bench(args = [Load::Memory, Load::Disk], sample_count = 20, sample_size = 1)]
fn hit_proved(bencher: Bencher<'_, '_>, load: Load) {
    let keys: Vec<_> = (0..ASKED as u64 / 10).map(|i| key(2 * i)).collect();
    ask(bencher, load, &keys);
}

#[divan::bench(sample_count = 20, sample_size = 1)]
fn hit_pages_only(bencher: Bencher<'_, '_>) {
    let filter = open(Load::Memory);
    let keys: Vec<_> = (0..ASKED as u64).map(|i| key(2 * i)).collect();
    bencher
        .counter(ItemsCount::new(keys.len()))
        .bench_local(|| {
            for &key in &keys {
                assert!(filter.may_hold(black_box(key)).expect("an answer"));
            }
        });
}

#[divan::bench(args = [Load::Memory, Load::Disk], sample_count = 3, sample_size = 1)]
fn open_filter(bencher: Bencher<'_, '_>, load: Load) {
    LazyLock::force(&FILTER);
    bencher.bench(|| open(load));
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn read_all_records(bencher: Bencher<'_, '_>) {
    let filter = open(Load::Disk);
    bencher.counter(ItemsCount::new(ENTRIES)).bench(|| {
        let mut records = filter.records().expect("records");
        let mut some = Batch::default();
        for end in (1..64).map(|part| Some(Key(part << 58))).chain([None]) {
            some.clear();
            records.take_before(end, &mut some).expect("records");
        }
        some
    });
}

/// Only the writing: pages are already encoded. Syncs, reads back, checks and renames.
#[divan::bench(sample_count = 3, sample_size = 1)]
fn write_pages(bencher: Bencher<'_, '_>) {
    let entries = 20_000_000;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let path = folder.path().join("bench.blf");
    let shape = sizing::shape(entries, 1e-6);
    let pages: Vec<_> = (0..shape.pages)
        .map(|number| {
            let first = first_key(number, shape.pages);
            let load = entries * (number + 1) / shape.pages - entries * number / shape.pages;
            let step = u64::MAX / shape.pages / load;
            let records: Vec<_> = (0..load).map(|i| record(Key(first.0 + i * step))).collect();
            let mut page = EncodedPage::default();
            encode_page(layout(shape, true), &records, &mut page);
            page
        })
        .collect();
    bencher.counter(ItemsCount::new(entries)).bench_local(|| {
        let mut writer = begin(&path, entries);
        writer.append(&pages).expect("append");
        writer.finish().expect("finish the filter")
    });
}

#[divan::bench(args = [1_000, 1_000_000, 10_000_000_000])]
fn size_filter(entries: u64) -> Shape {
    sizing::shape(black_box(entries), 1e-6)
}

/// Returns the keys of one page of a large list at a rate.
fn page_of_keys(fpr: f64) -> (Shape, Vec<Key>) {
    let entries = 100_000_000;
    let shape = sizing::shape(entries, fpr);
    let first = first_key(7, shape.pages);
    let width = u64::MAX / shape.pages;
    let mut keys: Vec<_> = (0..entries / shape.pages)
        .map(|i| Key(first.0 + key(i).0 % width))
        .collect();
    keys.sort_unstable();
    keys.dedup();
    (shape, keys)
}

const RATES: [f64; 3] = [1e-2, 1e-4, 1e-6];

#[divan::bench(args = RATES)]
fn fill_page(bencher: Bencher<'_, '_>, fpr: f64) {
    let (shape, keys) = page_of_keys(fpr);
    let records: Vec<_> = keys.into_iter().map(record).collect();
    let mut page = EncodedPage::default();
    bencher
        .counter(ItemsCount::new(records.len()))
        .bench_local(|| encode_page(layout(shape, false), black_box(&records), &mut page));
}

#[divan::bench(args = RATES)]
fn fill_page_and_records(bencher: Bencher<'_, '_>, fpr: f64) {
    let (shape, keys) = page_of_keys(fpr);
    let records: Vec<_> = keys.into_iter().map(record).collect();
    let mut page = EncodedPage::default();
    bencher
        .counter(ItemsCount::new(records.len()))
        .bench_local(|| encode_page(layout(shape, true), black_box(&records), &mut page));
}

/// The same with 20 sources and a hundred days; a third of the entries expire.
#[divan::bench(args = RATES)]
fn fill_page_and_mixed_records(bencher: Bencher<'_, '_>, fpr: f64) {
    let (shape, keys) = page_of_keys(fpr);
    let mixed = |key: Key| Record {
        source: u32::try_from(key.0 % 20).expect("below 20"),
        added: u16::try_from(key.0 / 20 % 100).expect("below 100"),
        expires: (key.0 / 2_000).is_multiple_of(3).then_some(30_000),
        ..record(key)
    };
    let records: Vec<_> = keys.into_iter().map(mixed).collect();
    let mut page = EncodedPage::default();
    bencher
        .counter(ItemsCount::new(records.len()))
        .bench_local(|| encode_page(layout(shape, true), black_box(&records), &mut page));
}

/// Encodes one page of a file: its sorted, distinct records, if any.
fn encode_page(layout: Layout, records: &[Record], out: &mut EncodedPage) {
    let records = Batch::from_iter(records);
    let all = 0..records.len();
    out.encode(layout, (&records, all), &mut Filling::default());
}
