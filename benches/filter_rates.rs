//! False-positive rates and sizes, measured: `cargo bench --bench filter_rates`.
//!
//! For each target, a filter of three million entries is written and read back. Every entry is
//! looked up (none may be missed), and as many unlisted keys as a small sampling error needs.
//! "exact" is the mean of (set bits / 32768)^probes over the pages: the rate without sampling
//! error. Exits with an error if a rate is more than 5 % off (with three standard deviations of the
//! sample allowed) or the size more than 1 %.
//!
//! `tests/run` measures less, with `--quick`: seconds, also in a build without optimization.

use std::f64::consts::LN_2;
use std::process::ExitCode;
use std::thread;

use blocklist_filter::base::replacement::Replacement;
use blocklist_filter::filter::page::{Filling, page_of};
use blocklist_filter::filter::{
    Batch, EncodedPage, Filter, Key, Layout, Load, Record, Spec, Writer, sizing,
};

const ENTRIES: u64 = 3_000_000;
/// With `--quick`.
const QUICK_ENTRIES: u64 = 1_000_000;

/// Target and number of keys: at least 20 million, and a thousand false positives.
const TARGETS: [(f64, u64); 3] = [
    (1e-2, 20_000_000),
    (1e-4, 100_000_000),
    (1e-6, 2_000_000_000),
];
/// With `--quick`: a few false positives each.
const QUICK_TARGETS: [(f64, u64); 3] = [(1e-2, 1_000_000), (1e-4, 3_000_000), (1e-6, 20_000_000)];

fn main() -> ExitCode {
    println!(
        "   target   probes  bits/entry  over textbook      asked     hits    measured       exact    off"
    );
    let quick = std::env::args().any(|argument| argument == "--quick");
    let (entries, targets) = if quick {
        (QUICK_ENTRIES, QUICK_TARGETS)
    } else {
        (ENTRIES, TARGETS)
    };
    let mut sound = true;
    for (fpr, asked) in targets {
        sound &= measure(entries, fpr, asked);
    }
    if sound {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn measure(entries: u64, fpr: f64, asked: u64) -> bool {
    let folder = tempfile::tempdir().expect("a folder for the filter");
    let path = folder.path().join("rates.blf");
    let record = |i: u64| Record {
        key: Key::of(&i.to_le_bytes(), 0),
        ..Record::default()
    };
    let mut records: Vec<_> = (0..entries).map(record).collect();
    records.sort_unstable_by_key(|record| record.key);
    records.dedup();
    let spec = Spec {
        name: "rates".to_owned(),
        generation: 1,
        built: 0,
        seed: 0,
        rules_version: 1,
        rules: 0,
        kinds: 1,
        fpr,
        records: false,
        sources: Vec::new(),
    };
    let entries = records.len() as u64;
    let shape = sizing::shape(entries, fpr);
    let output = Replacement::claim(&path).expect("claim the output");
    let mut writer = Writer::begin(output, spec, entries, shape, None).expect("begin the filter");
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

    let filter = Filter::open(&path, Load::Memory).expect("open the filter");
    let listed = |record: &Record| filter.may_hold(record.key).expect("an answer");
    assert!(records.iter().all(listed), "an entry was missed");

    let hits = count_hits(&filter, asked);
    let stats = filter.stats().expect("figures of the filter");
    let measured = hits as f64 / asked as f64;
    // One large filter needs -ln p / (ln 2)^2.
    let textbook_bits = -fpr.ln() / LN_2.powi(2);
    let bits_per_entry = filter.header().page_bytes() as f64 * 8.0 / filter.entries() as f64;
    let over = bits_per_entry / textbook_bits - 1.0;
    let off = measured / fpr - 1.0;
    println!(
        "{fpr:9.0e} {:8} {:11.3} {:13.2}% {asked:10} {hits:8} {measured:11.4e} {:11.4e} {:5.1}%",
        shape.probes,
        bits_per_entry,
        over * 100.0,
        stats.rate_expected,
        off * 100.0,
    );
    let sampling = 3.0 / (hits as f64).sqrt();
    let exact_off = stats.rate_expected / fpr - 1.0;
    off.abs() < 0.05 + sampling && exact_off.abs() < 0.05 && over.abs() < 0.01
}

/// Counts the hits of keys from a multiplicative sequence that is hashed again: none is listed,
/// except by a chance of one in 2^64.
fn count_hits(filter: &Filter, asked: u64) -> u64 {
    let threads = thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let part = asked.div_ceil(threads);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|i| {
                scope.spawn(move || {
                    (i * part..((i + 1) * part).min(asked))
                        .filter(|&i| {
                            let key = Key::of(&i.to_le_bytes(), 1);
                            filter.may_hold(key).expect("an answer")
                        })
                        .count() as u64
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().expect("a worker"))
            .sum()
    })
}

/// Encodes one page of a file: its sorted, distinct records, if any.
fn encode_page(layout: Layout, records: &[Record], out: &mut EncodedPage) {
    let records = Batch::from_iter(records);
    let all = 0..records.len();
    out.encode(layout, (&records, all), &mut Filling::default());
}
