//! The tables of `docs/sizing.md` agree with the program's own sizing;
//! `UPDATE_SIZING=1 cargo test --test system sizing::` writes them.

use std::fmt::Write as _;
use std::fs;

use blocklist_compile::compile::{DEFAULT_FPR, DEFAULT_FPR_WITHOUT_RECORDS};
use blocklist_filter::filter::page::PAGE_BYTES;
use blocklist_filter::filter::sizing::{rate, shape};
use blocklist_filter::filter::{Filter, Load, Shape};

use crate::support::compile::folder;

const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/sizing.md");
/// Checksum of the page, and end and checksum of its records.
const PER_PAGE_BYTES: u64 = 24;
const HEADER_BYTES: u64 = 4096;
/// 2^64, the number of keys.
const KEYS: f64 = 18_446_744_073_709_551_616.0;

#[test]
fn the_tables_are_those_of_the_program() {
    let guide = fs::read_to_string(GUIDE).expect("the guide is there");
    let made = with_table(&guide, "entries", &by_entries());
    let made = with_table(&made, "rates", &by_rate());
    if std::env::var_os("UPDATE_SIZING").is_some() {
        fs::write(GUIDE, &made).expect("docs/ can be written");
    }
    assert!(
        fs::read_to_string(GUIDE).expect("the guide is there") == made,
        "docs/sizing.md is out of date: UPDATE_SIZING=1 cargo test --test system sizing::"
    );
}

/// The sizes in the tables equal the size of a file that the compiler writes.
#[test]
fn the_sum_is_the_size_of_a_real_file() {
    const ENTRIES: u64 = 30_000;
    let lines: String = (0..ENTRIES)
        .map(|n| format!("user{n}@bad.example\n"))
        .collect();
    let folder = folder(&[("list.txt", &lines)]);
    folder.run("build --quiet --seed 1 -o x.blf list.txt").ok();
    let filter = folder.at("x.blf");
    let bytes = fs::metadata(&filter).expect("it was built").len() as f64;
    let expected = file_bytes(ENTRIES, shape(ENTRIES, DEFAULT_FPR));
    assert!((bytes / expected - 1.0).abs() < 0.01, "{bytes} {expected}");
    let filter = Filter::open(&filter, Load::Disk).expect("a filter");
    assert_eq!(filter.header().shape, shape(ENTRIES, DEFAULT_FPR));
}

fn by_entries() -> String {
    let mut table = String::from(
        "| entries | memory | bits an entry | file | memory and file without records | the same key, of a billion look-ups |\n|--:|--:|--:|--:|--:|--:|\n",
    );
    for power in 5..=10 {
        let entries = 10_u64.pow(power);
        let shape = self::shape(entries, DEFAULT_FPR);
        let memory = page_bytes(shape);
        let without = self::shape(entries, DEFAULT_FPR_WITHOUT_RECORDS);
        let without = page_bytes(without) + (HEADER_BYTES + without.pages * 8) as f64;
        let _ = writeln!(
            table,
            "| 10^{power} | {} | {:.1} | {} | {} | {} |",
            size(memory),
            memory * 8.0 / entries as f64,
            size(file_bytes(entries, shape)),
            size(without),
            small(entries as f64 * 1e9 / KEYS),
        );
    }
    table
}

fn by_rate() -> String {
    const ENTRIES: u64 = 100_000_000;
    let mut table = String::from(
        "| `--fpr` | bits an entry | memory for 10^8 entries | of a million unlisted senders match the Bloom filter | refused with records | refused without |\n|--:|--:|--:|--:|--:|--:|\n",
    );
    for fpr in [1e-2, 1e-3, 1e-4, 1e-6, 1e-8] {
        let shape = shape(ENTRIES, fpr);
        let memory = page_bytes(shape);
        let hit = rate(ENTRIES, shape) * 1e6;
        let _ = writeln!(
            table,
            "| {fpr:e} | {:.1} | {} | {} | none | {} |",
            memory * 8.0 / ENTRIES as f64,
            size(memory),
            small(hit),
            small(hit),
        );
    }
    table
}

fn page_bytes(shape: Shape) -> f64 {
    (shape.pages * PAGE_BYTES as u64) as f64
}

/// Returns the size of a file with records of one source, by `contrib/filter-format.md`, for pages
/// of average load.
fn file_bytes(entries: u64, shape: Shape) -> f64 {
    const BLOCK_HEAD_BYTES: u64 = 16 + 10;
    let load = (entries / shape.pages).max(1);
    let width = (1_u128 << 64) / u128::from(shape.pages);
    let low_bits = (width / u128::from(load)).ilog2();
    let highest = u64::try_from(width >> low_bits).expect("a few thousand");
    let words = (highest + load).div_ceil(64);
    let block = BLOCK_HEAD_BYTES + words * 8 + (load * u64::from(low_bits)).div_ceil(8);
    (HEADER_BYTES + shape.pages * (PER_PAGE_BYTES + block)) as f64 + page_bytes(shape)
}

fn size(bytes: f64) -> String {
    let mut value = bytes / 1024.0;
    let mut unit = "KiB";
    for larger in ["MiB", "GiB"] {
        if value >= 1024.0 {
            (value, unit) = (value / 1024.0, larger);
        }
    }
    let decimals = usize::from(value < 10.0);
    format!("{value:.decimals$} {unit}")
}

/// Formats a number for people: no exponent unless it is very small.
fn small(value: f64) -> String {
    match value {
        value if value > 9.5 => format!("{value:.0}"),
        value if value > 0.95 => format!("{value:.1}"),
        value if value >= 0.001 => format!("{value:.3}"),
        value => format!("{value:.1e}"),
    }
}

/// Returns the guide with the table after its comment replaced.
fn with_table(guide: &str, name: &str, table: &str) -> String {
    let begin = format!("<!-- {name} -->\n");
    let (before, rest) = guide.split_once(&begin).expect("the comment is there");
    let (_, after) = rest.split_once("<!-- end -->").expect("its end is there");
    format!("{before}{begin}{table}<!-- end -->{after}")
}
