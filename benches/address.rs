//! The cost of one address: of its canonical form, its key, and all its look-ups. Every row also
//! counts allocations; plain ASCII must have none.
//!
//! `cargo bench --bench address`

use std::hint::black_box;
use std::ops::ControlFlow;

use blocklist_filter::address::{Canonical, Entry, Kinds, Rules};
use blocklist_filter::filter::Key;
use divan::Bencher;

#[global_allocator]
static ALLOCATOR: divan::AllocProfiler = divan::AllocProfiler::system();

fn main() {
    divan::main();
}

const WRITTEN: &[(&str, &str)] = &[
    ("plain", "Jane.Roe42@mail.example.com"),
    (
        "long",
        "newsletter-return-20391-x@bounces.marketing.example.co.uk",
    ),
    ("gmail", "Jane.Roe42+news@gmail.com"),
    ("hotmail", "jane_roe@hotmail.com"),
    ("verp", "bounce+12=jane=example.org@lists.example.com"),
    ("brackets", "Jane Roe <Jane.Roe42@mail.example.com>"),
    ("quoted", "\"jane\\ roe\" (x) @ example.com"),
    ("unicode", "Jürgen.Groß@bücher.example"),
];

fn names() -> impl Iterator<Item = &'static str> {
    WRITTEN.iter().map(|(name, _)| *name)
}

fn written(name: &str) -> &'static [u8] {
    let row = WRITTEN.iter().find(|(row, _)| *row == name);
    row.map_or(b"", |(_, written)| written.as_bytes())
}

#[divan::bench(args = names())]
fn canonical(bencher: Bencher<'_, '_>, name: &str) {
    let written = written(name);
    let mut form = Canonical::new();
    bencher.bench_local(|| {
        form.read(black_box(written), Rules::default())
            .map(|()| form.as_bytes().len())
    });
}

#[divan::bench(args = names())]
fn entry_to_key(bencher: Bencher<'_, '_>, name: &str) {
    let written = written(name);
    let mut entry = Entry::new();
    bencher.bench_local(|| {
        entry
            .read(black_box(written), Rules::default())
            .map(|()| Key::of(entry.as_bytes(), 7))
    });
}

#[divan::bench(args = names())]
fn lookup_keys(bencher: Bencher<'_, '_>, name: &str) {
    let written = written(name);
    let mut form = Canonical::new();
    bencher.bench_local(|| {
        let _ = form.read(black_box(written), Rules::default());
        let mut sum = 0;
        let _ = form.lookups(Kinds::ALL, |_, entry| {
            sum ^= Key::of(entry, 7).0;
            ControlFlow::<()>::Continue(())
        });
        sum
    });
}
