//! Reading lists: from a block of bytes to rows.
//!
//! `cargo bench --bench list`. For a list of a hundred million addresses there are 40 ns of
//! processor time for each; finding its lines, and distinguishing plain entries from everything
//! else, must be a small part of that. The items are lines.

use blocklist_milter::list::{Format, Reader, Reading, Row, lines};
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
    let reading = Reading::given(format);
    bencher.counter(ItemsCount::new(LINES)).bench(|| {
        let mut sum = 0;
        Reader::new(&reading).read(black_box(list), true, &mut |_, row| {
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
