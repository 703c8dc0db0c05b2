//! What `benches/ratios` takes of Rust: the list of addresses, fastbloom's filter of it, and the mail server's
//! side of the milter protocol. Each is a process of its own, which `benches/ratios` measures.
//!
//! ```text
//! addresses FILE COUNT                         writes a list, the same each time
//! fastbloom FILE COUNT                         reads it into fastbloom's filter, at a rate of one in a million
//! play SOCKET MESSAGES PER_CONNECTION          innocent messages with 24 fields, 16 connections at a time
//! wait SOCKET MESSAGES PER_CONNECTION RATE     the same, so many a second; prints for each how many microseconds its
//!                                              mail server waited from MAIL to the verdict
//! ```

use std::fs::File;
use std::io::{self, BufWriter, Read as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use blocklist_milter::demo::peer::{Answer, Peer, TestMail};

const CONNECTIONS: usize = 16;

fn main() -> io::Result<()> {
    // cargo itself passes --bench.
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let number = |word: &str| word.parse().expect("a number");
    match words[..] {
        ["addresses", file, count] => addresses(Path::new(file), number(count)),
        ["fastbloom", file, count] => fastbloom(Path::new(file), number(count)),
        ["play", socket, messages, each] => {
            play(Path::new(socket), number(messages), number(each), None);
            Ok(())
        }
        ["wait", socket, messages, each, rate] => {
            let rate = u32::try_from(number(rate)).expect("a rate");
            for wait in play(
                Path::new(socket),
                number(messages),
                number(each),
                Some(rate),
            ) {
                println!("{}", wait.as_micros());
            }
            Ok(())
        }
        _ => {
            println!("used by benches/ratios");
            Ok(())
        }
    }
}

/// Addresses of about 30 bytes at 50,000 domains, a quarter of them with a `+`, one letter in eight in upper case.
fn addresses(file: &Path, count: usize) -> io::Result<()> {
    const NAMES: [&str; 8] = [
        "anna",
        "bernd",
        "dmitri",
        "elena",
        "hiroshi",
        "info",
        "julia",
        "newsletter",
    ];
    let mut out = BufWriter::with_capacity(1 << 20, File::create(file)?);
    let mut random = 1_u64;
    for number in 0..count {
        // Knuth's random number generator; any would do.
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        // Some domains have many addresses: the cube of an even draw.
        let domain = (u128::from(random >> 40).pow(3) * 50_000) >> 72;
        let name = NAMES[number % NAMES.len()];
        let sign = if random >> 59 & 3 == 0 { '+' } else { '.' };
        let mut line = format!("{name}{sign}{number}@mail{domain}.example\n").into_bytes();
        let upper = usize::try_from(random >> 61).expect("three bits");
        line.iter_mut()
            .skip(upper)
            .step_by(8)
            .for_each(|byte| byte.make_ascii_uppercase());
        out.write_all(&line)?;
    }
    out.flush()
}

/// The least for the same job: read lines, lower case, insert.
fn fastbloom(file: &Path, count: usize) -> io::Result<()> {
    let mut filter = fastbloom::BloomFilter::with_false_pos(1e-6).expected_items(count);
    let mut file = File::open(file)?;
    let mut block = vec![0; 1 << 20];
    let mut kept = 0;
    loop {
        let read = file.read(&mut block[kept..])?;
        if read == 0 {
            break;
        }
        let end = kept + read;
        block[kept..end].make_ascii_lowercase();
        let mut start = 0;
        for newline in memchr::memchr_iter(b'\n', &block[..end]) {
            filter.insert(&block[start..newline]);
            start = newline + 1;
        }
        block.copy_within(start..end, 0);
        kept = end - start;
    }
    std::hint::black_box(filter);
    Ok(())
}

/// Returns for each message the time from MAIL to the verdict. With a rate, messages begin at even distances.
fn play(socket: &Path, messages: usize, each: usize, rate: Option<u32>) -> Vec<Duration> {
    let rest = "x".repeat(90);
    let mut headers: Vec<String> = (0..21).map(|n| format!("X-Field-{n}: {rest}")).collect();
    headers.push("From: Jane Roe <jane.roe@shop.example>".to_owned());
    headers.push("Reply-To: service@shop.example".to_owned());
    headers.push("Subject: your order".to_owned());
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let began = Instant::now();
    let client = |client: usize| {
        let mut waits = Vec::new();
        for session in 0..messages / each / CONNECTIONS {
            let mut peer = None;
            for message in 0..each {
                if let Some(rate) = rate {
                    let before = (session * each + message) * CONNECTIONS + client;
                    let due = Duration::from_secs(1) * u32::try_from(before).expect("few") / rate;
                    std::thread::sleep(due.saturating_sub(began.elapsed()));
                }
                let peer = peer.get_or_insert_with(|| {
                    let mut peer = Peer::unix(socket).expect("it listens");
                    peer.stranger().expect("it answers");
                    peer
                });
                let sender = format!("<b-{client}-{session}-{message}@mailer.example>");
                let mail = TestMail::new(&sender, &["<bob@our.example>"], &headers);
                let outcome = peer.deliver(&mail).expect("it answers");
                let is_accepted =
                    matches!(outcome.message, Some(Answer::Accept | Answer::Continue));
                assert!(is_accepted, "{outcome:?}");
                waits.push(outcome.time);
            }
            peer.expect("a message").leave().expect("it reads");
        }
        waits
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CONNECTIONS)
            .map(|number| scope.spawn(move || client(number)))
            .collect();
        let waits = clients.into_iter().map(|one| one.join().expect("it ends"));
        waits.flatten().collect()
    })
}
