//! Any bytes as a list of any format: never a panic, each line is counted once, and the rows do not
//! depend on how the bytes are split.
//!
//! The first byte chooses the format or a declaration of a table, the second the split, the rest is the list.
//! `cargo fuzz run --sanitizer none list`
#![no_main]

use blocklist_compile::compile::guard::Guard;
use blocklist_compile::list::{Declared, Format, Reader, Reading, Row, lines, reading};
use blocklist_filter::address::{Entry, Rules};
use libfuzzer_sys::fuzz_target;

const FORMATS: [&str; 13] = [
    "plain",
    "hosts",
    "addresses",
    "postfix-access",
    "sendmail-access",
    "spamassassin",
    "rspamd",
    "amavis",
    "exim",
    "rpz",
    "rbldnsd",
    "dnsmasq",
    "adblock",
];

/// A row without its lifetime.
type Seen = (u64, Vec<u8>, String);

fn rows(list: &[u8], reading: &Reading, split: usize) -> Vec<Seen> {
    let mut reader = Reader::new(reading);
    let (mut seen, mut is_refused) = (Vec::new(), false);
    let mut sink = |line, row: Row<'_>| {
        seen.push(match row {
            Row::Entry(raw) => (
                line,
                raw.text.to_vec(),
                format!("{:?}{:?}", raw.added, raw.expires),
            ),
            Row::Skipped { skip, .. } => (line, Vec::new(), skip.name().to_owned()),
            Row::Rejected { reason, text } => (line, text.to_vec(), reason.to_string()),
            Row::Refused { refusal, text } => {
                is_refused = true;
                (line, text.to_vec(), refusal.to_string())
            }
        });
    };
    let split = split.min(list.len());
    let done = if split < list.len() {
        reader.read(&list[..split], false, &mut sink)
    } else {
        0
    };
    let rest = reader.read(&list[done..], true, &mut sink);
    assert_eq!(done + rest, list.len());
    // Of a list that is refused, the lines are not needed.
    assert!(
        is_refused || reader.lines() == lines(list).count() as u64,
        "lines"
    );
    seen
}

fuzz_target!(|input: &[u8]| {
    let [format, split, list @ ..] = input else {
        return;
    };
    let declared = match usize::from(*format) {
        known if known < FORMATS.len() => {
            let format: Format = FORMATS[known].parse().expect("a known name");
            Declared {
                format: Some(format),
                ..Declared::default()
            }
        }
        other => Declared {
            // A table whose first column or a common key names the sender.
            entry: match other % 4 {
                0 => vec!["1".to_owned()],
                1 => vec!["email".to_owned()],
                2 => vec!["[].email".to_owned()],
                _ => Vec::new(),
            },
            all_rows: other % 4 < 3,
            ..Declared::default()
        },
    };
    let Ok(reading) = reading(list, true, &declared) else {
        return;
    };
    let whole = rows(list, &reading, usize::MAX);
    assert_eq!(rows(list, &reading, usize::from(*split)), whole);
    let guard = Guard::new(["own.example"]);
    for (_, text, _) in &whole {
        if let Ok(entry) = Entry::parse(text, Rules::default()) {
            let _ = guard.check(entry.kind(), entry.as_bytes());
        }
    }
});
