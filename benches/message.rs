//! The cost of one message inside the daemon: from four senders to a verdict, without sockets.
//! Every row also counts allocations; an innocent message must have none.
//!
//! `counting` is the cost of the counters, with one thread and with all threads counting the same:
//! atomics, no lock and no allocation. `count_for_the_circuit_breaker` takes a lock, but only if
//! `max_reject_share` is set; the last rows compare whole messages with and without it.
//!
//! `cargo bench --bench message`

use std::sync::Arc;
use std::time::Duration;

use blocklist_compile::compile::{self, Plan, Progress};
use blocklist_milter::config::Config;
use blocklist_milter::daemon::Readers;
use blocklist_milter::milter::{Client, Handler, Macros, Mailbox, Reply};
use blocklist_milter::policy::{CircuitBreaker, Reason};
use blocklist_milter::screen::Screen;
use blocklist_milter::snapshot::{Counters, Live};
use divan::{Bencher, black_box};

#[global_allocator]
static ALLOCATOR: divan::AllocProfiler = divan::AllocProfiler::system();

fn main() {
    divan::main();
}

const HEADERS: &[(&[u8], &[u8])] = &[
    (b"Received", b"from a.example (a.example [192.0.2.1])\n\tby mx.our.example; Sat, 21 Nov 2026 05:00:00 +0000"),
    (b"DKIM-Signature", b"v=1; a=rsa-sha256; d=shop.example; s=k1;\n\tbh=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=; b=abc"),
    (b"Message-ID", b"<20261121050000.1234@shop.example>"),
    (b"Date", b"Sat, 21 Nov 2026 05:00:00 +0000"),
    (b"From", b"Jane Roe <jane.roe@shop.example>"),
    (b"Sender", b"newsletter@shop.example"),
    (b"Reply-To", b"\"Customer service\" <service@shop.example>"),
    (b"To", b"bob@our.example"),
    (b"Subject", b"Your order"),
];

/// Lists of a million mailboxes, or of a few entries of each kind, in effect.
fn live(entries: &str, settings: &str) -> Arc<Live> {
    let folder = tempfile::tempdir().expect("a folder");
    let list = folder.path().join("x.list");
    std::fs::write(&list, entries).expect("a file");
    let plan = Plan::new(folder.path().join("x.blf"), vec![list]);
    compile::build(&plan, &Progress::new()).expect("a filter");
    let text = format!("[[list]]\nname = 'x'\nfilter = 'x.blf'\n{settings}");
    let config = Config::parse(&text, &folder.path().join("c.toml")).expect("a configuration");
    Arc::new(Live::new(config, None).expect("a good filter"))
}

const EVERY_KIND: &str = "a@b.example\n@c.example\n.d.example\nrole@\n";

fn mailboxes() -> String {
    (0..1_000_000)
        .map(|n| format!("user{n}@listed{}.example\n", n % 50_000))
        .collect()
}

fn message(screen: &mut Screen, macros: &Macros) -> Reply {
    screen.mail(
        Mailbox::Written(black_box(b"<bounce-1234@shop.example>")),
        macros,
    );
    let reply = screen.rcpt(Mailbox::Written(black_box(b"<bob@our.example>")), macros);
    if reply.is_refusal() {
        return reply;
    }
    for (name, value) in HEADERS {
        screen.header(black_box(name), black_box(value));
    }
    screen.end_of_headers(macros)
}

fn run(bencher: Bencher<'_, '_>, entries: &str, settings: &str, expected: &Reply) {
    let readers = Arc::new(Readers::start(1).expect("a thread"));
    let mut screen = Screen::new(live(entries, settings), readers);
    let macros = Macros::default().with("i", b"4XyZ12");
    screen.connect(
        &Client {
            address: Some([192, 0, 2, 1].into()),
            port: 25,
            ..Client::default()
        },
        &macros,
    );
    assert_eq!(message(&mut screen, &macros), *expected);
    bencher.bench_local(|| message(&mut screen, &macros));
}

#[divan::bench]
fn innocent_against_a_million_mailboxes(bencher: Bencher<'_, '_>) {
    run(bencher, &mailboxes(), "", &Reply::Accept);
}

#[divan::bench]
fn innocent_against_every_kind_of_entry(bencher: Bencher<'_, '_>) {
    run(bencher, EVERY_KIND, "", &Reply::Accept);
}

#[divan::bench]
fn innocent_with_a_circuit_breaker(bencher: Bencher<'_, '_>) {
    let settings = "[safety]\nmax_reject_share = '80%'\n";
    run(bencher, EVERY_KIND, settings, &Reply::Accept);
}

/// The counters of each message. (0: a thread for each processor.)
#[divan::bench(threads = [1, 0])]
fn counting(bencher: Bencher<'_, '_>) {
    let counters = Counters::default();
    bencher.bench(|| {
        counters.verdicts.increment(black_box("accept"));
        counters.reasons.increment(black_box(Reason::Unlisted));
        counters
            .durations
            .observe(black_box(Duration::from_micros(30)));
    });
}

#[divan::bench(threads = [1, 0])]
fn count_for_the_circuit_breaker(bencher: Bencher<'_, '_>) {
    let breaker = CircuitBreaker::default();
    bencher.bench(|| breaker.count(black_box(false), black_box(1_000), black_box(0.8)));
}
