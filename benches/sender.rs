//! The cost of the senders of a message: the ordinary forms, odd ones, and hostile text.
//!
//! `cargo bench --bench sender`

use blocklist_milter::sender::{Identity, Senders};
use divan::Bencher;
use divan::counter::BytesCount;

#[global_allocator]
static ALLOCATOR: divan::AllocProfiler = divan::AllocProfiler::system();

fn main() {
    divan::main();
}

/// The four identities of a typical message; memory is reused for the next.
#[divan::bench]
fn typical_message(bencher: Bencher<'_, '_>) {
    let mut senders = Senders::new();
    bencher.bench_local(|| {
        senders.clear();
        senders.add_mail_from(b"<bounce+jane=roe.example@mail.shop.example>");
        senders.add_header(Identity::From, b"\"Shop, Inc.\" <news@shop.example>");
        senders.add_header(Identity::Sender, b"Mailer <mailer@mail.shop.example>");
        senders.add_header(
            Identity::ReplyTo,
            b"=?utf-8?Q?Sh=C3=B6p?= <help@shop.example>",
        );
        senders.len()
    });
}

const VALUES: &[(&str, &str)] = &[
    ("plain", "news@shop.example"),
    ("name", "\"Shop, Inc.\" <news@shop.example>"),
    (
        "two mailboxes",
        "Shop <news@shop.example>, Jane <jane@roe.example>",
    ),
    ("comment", "news@shop.example (Shop)"),
    ("name with address", "help@shop.example <news@shop.example>"),
    ("encoded address", "=?utf-8?Q?news=40shop.example?="),
    ("utf-8 address", "Jürgen <jürgen@bücher.example>"),
];

#[divan::bench(args = VALUES.iter().map(|(name, _)| *name))]
fn value(bencher: Bencher<'_, '_>, name: &str) {
    let value = VALUES.iter().find(|(row, _)| *row == name);
    let value = value.map_or("", |(_, value)| value).as_bytes();
    let mut senders = Senders::new();
    bencher.bench_local(|| {
        senders.clear();
        senders.add_header(Identity::From, value);
        senders.len()
    });
}

/// Prefix, repeated part, suffix: unclosed openers and the like.
const FAMILIES: &[(&str, &str, &str)] = &[
    ("", "\"", ""),
    ("\"", "\\\"", "\""),
    ("", "(", ""),
    ("", "(,", ""),
    ("", "()", ""),
    ("", "<", ""),
    ("", "<,", ""),
    ("", "<\"", ""),
    ("", "<(", ""),
    ("", "<>", ""),
    ("", ",", ""),
    ("", ";", ""),
    ("", "g:", ""),
    ("", "@", ""),
    ("", "a@b ", ""),
    ("", "a@b,", ""),
    ("", "\r\n ", ""),
    ("", "=?", ""),
    ("", "=?utf-8?Q?", ""),
    ("", "=?utf-8?Q?x?= ", ""),
    ("", "a(x)", ""),
    ("", "\\", ""),
    ("", "\u{e9}", ""),
    ("<@", "r,@r", ":a@b>"),
];

#[divan::bench(args = FAMILIES, sample_count = 5)]
fn hostile(bencher: Bencher<'_, '_>, (prefix, unit, suffix): (&str, &str, &str)) {
    const SIZE: usize = 1 << 20;
    let value = format!("{prefix}{}{suffix}", unit.repeat(SIZE / unit.len()));
    let mut senders = Senders::new();
    bencher
        .counter(BytesCount::new(value.len()))
        .bench_local(|| {
            senders.clear();
            senders.add_header(Identity::From, value.as_bytes());
            senders.len()
        });
}
