//! The memory of a connection, for any input: at most 3.5 MiB at any time, and almost nothing after
//! the message.
//!
//! The allocator counts it, so that everything is included that the program holds: also the memory
//! of other threads, and memory that the system has not taken back. No other test runs meanwhile,
//! because it counts all threads.

use crate::support;
use crate::{MEMORY, one_at_a_time};

use std::fmt::Write as _;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::thread;

use blocklist_compile::compile::{self, Plan, Progress};
use blocklist_milter::config::Config;
use blocklist_milter::daemon::Readers;
use blocklist_milter::milter::Session;
use blocklist_milter::screen::Screen;
use blocklist_milter::snapshot::Live;
use support::rows;
use support::table::bytes;
use support::wire::{OFFER, packet};

/// Most bytes that a connection may hold at any time.
const MOST_BYTES: usize = 7 << 19;
/// Most bytes that it may hold between two messages, after any message, besides the session itself.
const IDLE_BYTES: usize = 3 << 10;
/// Most bytes that its thread may keep for the next message, on any connection, with the last decision.
const SPARE_BYTES: usize = 11 << 10;

/// The fields that a list can check.
const FIELDS: [&str; 7] = [
    "From",
    "Sender",
    "Reply-To",
    "Return-Path",
    "Resent-From",
    "Resent-Sender",
    "Resent-Reply-To",
];

fn macros(of: u8, pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut payload = vec![of];
    for (name, value) in pairs {
        payload.extend_from_slice(format!("{name}\0{value}\0").as_bytes());
    }
    packet(b'D', &payload)
}

fn mail(argument: &str) -> Vec<u8> {
    packet(b'M', format!("{argument}\0").as_bytes())
}

fn rcpt(argument: &str) -> Vec<u8> {
    packet(b'R', format!("{argument}\0").as_bytes())
}

fn header(name: &str, value: &str) -> Vec<u8> {
    packet(b'L', format!("{name}\0{value}\0").as_bytes())
}

fn connect() -> Vec<u8> {
    packet(b'C', b"mx.example\x004\x19\x88192.0.2.1\0")
}

/// Returns `bytes` of different addresses with about this length, separated by `between`.
fn addresses(number: &mut u32, length: usize, bytes: usize, between: &str) -> String {
    let mut text = String::new();
    while text.len() + length + between.len() < bytes {
        *number += 1;
        let _ = write!(
            text,
            "{number:x}@{}{between}",
            "b".repeat(length.saturating_sub(8))
        );
    }
    text
}

/// Returns a message with these headers and a recipient, up to the end of the headers.
fn message(headers: impl IntoIterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    let mut packets = vec![mail("<a@ok.example>"), rcpt("<bob@our.example>")];
    packets.extend(headers);
    packets.push(packet(b'N', b""));
    packets
}

/// The bytes of a field that are scanned; more are sent.
const SCANNED: usize = 64 << 10;

/// What is repeated in fields, and in the envelope.
const REPEATED: &str = r#"
    encoded words           | =?utf-8?q?a=40b=2Eexample?=\s
    encoded words in base64 | =?utf-8?b?YUBiLmV4YW1wbGU=?=\s
    folds                   | a{D}\n\s
    open brackets           | <
    angle addresses         | <a@b>
    quoted strings          | "a@b"\s
    open comments           | (a@b\s
    colons                  | a@b:
    at signs                | @
    one word                | a
    wide letters            | {FF21}{FF20}
    a path                  | a.b!
    semicolons              | a@b;
    backslashes             | \\
    unknown bytes           | {80}
"#;

/// Messages that try to take as much memory as possible.
fn messages() -> Vec<(String, Vec<Vec<u8>>)> {
    let mut all = Vec::new();
    let mut add = |what: &str, packets| all.push((what.to_owned(), packets));
    let mut number = 0;
    for length in [8, 10, 20, 100, 1000, 40_000] {
        for between in [", ", "\r\n ", " "] {
            for pieces in [1, 4, 40] {
                let fields = (0..pieces).flat_map(|_| FIELDS);
                let headers = fields.map(|field| {
                    let value = addresses(&mut number, length, SCANNED / pieces, between);
                    header(field, &value)
                });
                let what = format!(
                    "addresses of {length} bytes, parted by {between:?}, in {pieces} fields of each name"
                );
                add(&what, message(headers));
            }
        }
    }
    // Each field is one address, which needs no scan.
    for count in [3_000, 5_000] {
        let field = |n: usize| header(FIELDS[n % 7], &format!("{n:x}@b.example"));
        let what = format!("{count} plain fields");
        add(&what, message((0..count * 7).map(field)));
    }
    let name = "a".repeat(100_000);
    let long = |n: usize| header(FIELDS[n % 7], &format!("{n}{name}@b.example"));
    add("plain fields of 100 KB", message((0..70).map(long)));
    for [what, piece] in rows(REPEATED) {
        let piece = String::from_utf8(bytes(piece)).unwrap();
        let value = piece.repeat(SCANNED / piece.len());
        for value in [
            value.clone(),
            format!("<{value}>"),
            format!("{value}@b.example"),
            format!("{value} <c@d>"),
        ] {
            let scanned = &value[..value.floor_char_boundary(SCANNED)];
            let start: String = value.chars().take(10).collect();
            let headers = FIELDS.map(|field| header(field, scanned));
            add(&format!("{what}: {start}"), message(headers));
            let envelope = vec![mail(&value), rcpt("<b@c>")];
            add(&format!("{what} in MAIL: {start}"), envelope);
        }
    }
    let long = "x".repeat(65_000);
    let mut packets = vec![
        // The macros of a client are kept as long as it is connected, and the client cannot choose
        // them.
        macros(b'C', &[("v", "Postfix 3.7.11")]),
        connect(),
        macros(b'M', &[("i", &long)]),
        mail(&format!("<{long}@b.example>")),
    ];
    for n in 0..2_000 {
        let recipient = format!("{n}{}", &long[..20_000]);
        packets.push(macros(b'R', &[("{rcpt_addr}", &recipient)]));
        packets.push(rcpt(&format!("<{n}{}@our.example>", &long[..1000])));
    }
    add("macros and recipients", packets.clone());
    // All of it in one message.
    for field in FIELDS {
        let value = addresses(&mut number, 20, SCANNED, " ");
        packets.push(header(field, &value));
    }
    packets.push(packet(b'N', b""));
    add("macros, recipients and addresses", packets);
    let mut packets = message([header("From", &"a@b.example, ".repeat(10_000))]);
    packets.pop();
    packets.last_mut().unwrap().pop();
    add(UNFINISHED, packets);
    let results: String = (0..5_000)
        .map(|n| format!("; dkim=pass header.d=d{n}.example"))
        .collect();
    let results = header(
        "Authentication-Results",
        &format!("mx.our.example{results}"),
    );
    add("results of DKIM", message(vec![results; 50]));
    let listed: String = (0..3_000)
        .map(|n| format!("{n}@listed.example, "))
        .collect();
    let headers = FIELDS.map(|field| header(field, &listed));
    add("listed senders", message(headers));
    all
}

const UNFINISHED: &str = "an unfinished header";

/// A daemon's session, with lists that check every field.
struct Site {
    live: Arc<Live>,
    readers: Arc<Readers>,
}

impl Site {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("x.list");
        std::fs::write(&list, "a@bad.example\n@listed.example\n.sub.example\nx@\n").unwrap();
        let plan = Plan::new(folder.path().join("x.blf"), vec![list]);
        compile::build(&plan, &Progress::new()).unwrap();
        let check = "check = ['mail-from', 'from', 'sender', 'reply-to', 'return-path', 'resent-from', 'resent-sender', 'resent-reply-to']";
        let text = format!(
            "[[list]]\nname = 'x'\nfilter = 'x.blf'\naction = 'tag'\n{check}\n[whitelist]\nentries = ['a@b.example']\nrequire_dkim = true\nauthserv_ids = ['mx.our.example']\n"
        );
        let config = Config::parse(&text, &folder.path().join("c.toml")).unwrap();
        let live = Arc::new(Live::new(config, None).unwrap());
        let readers = Arc::new(Readers::start(1).unwrap());
        Self { live, readers }
    }

    fn session(&self) -> Session<Screen> {
        let readers = Arc::clone(&self.readers);
        let mut session = Session::new(Screen::new(Arc::clone(&self.live), readers as _));
        give(&mut session, &packet(b'O', OFFER));
        give(&mut session, &connect());
        session
    }
}

/// Passes bytes as the daemon does: in pieces of at most 8 KiB, with answers written at once.
fn give(session: &mut Session<Screen>, bytes: &[u8]) {
    for piece in bytes.chunks(8 << 10) {
        let mut rest = piece;
        while !rest.is_empty() || session.is_waiting() {
            let mut answers = Vec::new();
            while session.is_waiting() {
                let mut now = Context::from_waker(Waker::noop());
                if session.poll_answer(&mut now, &mut answers).is_pending() {
                    thread::yield_now();
                }
            }
            let progress = session.receive(rest, &mut answers).unwrap();
            rest = &rest[progress.taken..];
        }
    }
}

/// The ordinary message that follows another from the same server.
fn ordinary() -> Vec<u8> {
    message([header("From", "a@b.example")]).concat()
}

/// Returns the bytes that a connection held at the worst moment of a message; then, after the next
/// ordinary message, the bytes that it holds and those that its thread keeps.
fn measured(site: &Site, packets: &[Vec<u8>], has_end: bool) -> [usize; 3] {
    let before = MEMORY.current_usage();
    let mut session = site.session();
    MEMORY.reset_peak_usage();
    for packet in packets {
        give(&mut session, packet);
    }
    let held = MEMORY.peak_usage() - before;
    if !has_end {
        return [held, 0, 0];
    }
    give(&mut session, &packet(b'A', b""));
    give(&mut session, &ordinary());
    let both = MEMORY.current_usage();
    drop(session);
    let spare = MEMORY.current_usage();
    [held, both - spare, spare - before]
}

/// Without the limits in `src/sender/store.rs` it is three times as much. Without `give_back` in
/// `src/sender/mod.rs` a connection keeps half a mebibyte after the message.
#[test]
fn the_memory_of_a_connection_is_bounded_and_given_back() {
    let _turn = one_at_a_time();
    let site = Site::new();
    // Includes what the first message allocates once.
    give(&mut site.session(), &ordinary());
    let at_first = MEMORY.current_usage();
    let mut worst = [const { (0, String::new()) }; 3];
    for (what, packets) in messages() {
        // Each on a separate thread, which keeps nothing yet.
        let measured = || measured(&site, &packets, what != UNFINISHED);
        let measured = thread::scope(|scope| scope.spawn(measured).join()).unwrap();
        println!("{measured:?} {what}");
        for (worst, bytes) in worst.iter_mut().zip(measured) {
            if bytes > worst.0 {
                *worst = (bytes, what.clone());
            }
        }
    }
    println!("worst of a message, of a connection after it, of its thread: {worst:?}");
    for (worst, most) in worst.iter().zip([MOST_BYTES, IDLE_BYTES, SPARE_BYTES]) {
        assert!(worst.0 <= most, "{worst:?}, more than {most}");
    }
    // What is kept for all connections, such as queues of threads.
    let left = MEMORY.current_usage().saturating_sub(at_first);
    assert!(left < 64 << 10, "{left} bytes are left over");
}
