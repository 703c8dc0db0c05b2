//! Reading lists: from a block of bytes to rows.
//!
//! `cargo bench --bench list`. For a list of a hundred million addresses there are 40 ns of
//! processor time for each; finding its lines, and distinguishing plain entries from everything
//! else, must be a small part of that. The items are lines. `benches/instructions` counts what a
//! whole build executes for each.

use blocklist_compile::list::{Declared, Format, Reader, Reading, Row, lines, reading};
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};

fn main() {
    divan::main();
}

/// Lines in a block: small enough to stay in the cache, like the compiler's blocks.
const LINES: usize = 30_000;

/// Returns addresses of about 30 bytes, as in lists; the same each time.
fn list() -> Vec<u8> {
    let mut list = Vec::new();
    let mut state = 1_u64;
    for number in 0..LINES {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let padding = &"abcdefghijklmnop"[..(state >> 60) as usize];
        let line = format!("{padding}.{number}@domain{}.example\n", state >> 52 & 0xff);
        list.extend_from_slice(line.as_bytes());
    }
    list
}

#[divan::bench]
fn lines_by_64_bytes(bencher: Bencher<'_, '_>) {
    let list = list();
    bencher
        .counter(ItemsCount::new(LINES))
        .bench(|| lines(black_box(&list)).fold(0, |sum, line| sum + line.len()));
}

#[divan::bench]
fn lines_by_memchr_each(bencher: Bencher<'_, '_>) {
    let list = list();
    bencher.counter(ItemsCount::new(LINES)).bench(|| {
        let mut rest = black_box(&list[..]);
        let mut sum = 0;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            sum += end;
            rest = &rest[end + 1..];
        }
        sum
    });
}

#[divan::bench]
fn lines_by_memchr_iter(bencher: Bencher<'_, '_>) {
    let list = list();
    bencher.counter(ItemsCount::new(LINES)).bench(|| {
        let mut start = 0;
        let mut sum = 0;
        for end in memchr::memchr_iter(b'\n', black_box(&list)) {
            sum += end - start;
            start = end + 1;
        }
        sum
    });
}

fn read(bencher: Bencher<'_, '_>, list: &[u8], format: Format) {
    read_as(bencher, list, &Reading::given(format));
}

fn read_as(bencher: Bencher<'_, '_>, list: &[u8], reading: &Reading) {
    bencher.counter(ItemsCount::new(LINES)).bench(|| {
        let mut sum = 0;
        Reader::new(reading).read(black_box(list), true, &mut |_, row| {
            if let Row::Entry(raw) = row {
                sum += raw.text.len();
            }
        });
        sum
    });
}

#[divan::bench]
fn read_plain(bencher: Bencher<'_, '_>) {
    read(bencher, &list(), Format::Plain);
}

#[divan::bench]
fn read_postfix_access(bencher: Bencher<'_, '_>) {
    let list = String::from_utf8_lossy(&list()).replace('\n', " REJECT\n");
    read(bencher, list.as_bytes(), Format::PostfixAccess);
}

/// Reads a table of senders with an action, in which nearly every row counts.
fn read_table(bencher: Bencher<'_, '_>, table: &str) {
    let values = |value: &str| vec![("action".to_owned(), vec![value.to_owned()])];
    let declared = Declared {
        entry: vec!["sender".to_owned()],
        when: values("block"),
        unless: values("allow"),
        ..Declared::default()
    };
    let reading = reading(table.as_bytes(), true, &declared).expect("the table is declared");
    read_as(bencher, table.as_bytes(), &reading);
}

#[divan::bench]
fn read_hosts(bencher: Bencher<'_, '_>) {
    let list = String::from_utf8_lossy(&list()).replace('@', ".");
    let list: String = list
        .lines()
        .map(|line| format!("0.0.0.0 {line}\n"))
        .collect();
    read(bencher, list.as_bytes(), Format::Hosts);
}

#[divan::bench]
fn read_csv(bencher: Bencher<'_, '_>) {
    let rows = String::from_utf8_lossy(&list()).replace('\n', ",Block,a note\n");
    read_table(bencher, &format!("Sender,Action,Note\n{rows}"));
}

#[divan::bench]
fn read_json_lines(bencher: Bencher<'_, '_>) {
    let list = list();
    let lines = String::from_utf8_lossy(&list);
    let row = |line| format!("{{\"sender\":\"{line}\",\"action\":\"block\",\"n\":1}}\n");
    read_table(bencher, &lines.lines().map(row).collect::<String>());
}
