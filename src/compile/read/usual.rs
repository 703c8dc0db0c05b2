//! The fast path for lists whose usual lines are an entry with something fixed around it: hosts files
//! and access tables.
//!
//! ```text
//!   list     0.0.0.0 Bad.Example     # a comment     0.0.0.0 worse.example other.example
//!   keys     Bad.Example             (empty)         worse.example other.example
//!            by the block            by the reader   by the reader
//! ```
//!
//! The keys are a plain list, which a [`Block`] reads. A line whose key is not a plain entry goes to
//! the reader with those around it that are not, either. A property test compares the result with
//! that of the reader alone.

use super::block::{Block, Line};
use crate::address::{Kind, Rules};
use crate::list::{self, Reader, Row, Usual};

/// Memory for the keys of a block; reused for the next.
#[derive(Debug, Default)]
pub(super) struct UsualLines {
    /// A line for each of the block: its key, or nothing.
    keys: Vec<u8>,
    text: Block,
    below: Vec<u8>,
}

/// What a line gives.
pub(super) enum Found<'a> {
    /// An entry: its kind, its canonical text, and how it is written behind `prefix`.
    Entry {
        kind: Kind,
        entry: &'a [u8],
        prefix: &'static [u8],
        written: &'a [u8],
    },
    /// What the reader says.
    Row(Row<'a>),
}

impl UsualLines {
    /// Passes on what the whole lines of a block give, each with the number of its line in the block;
    /// returns the number of lines. `reader` reads nothing else.
    pub(super) fn read(
        &mut self,
        usual: &Usual,
        reader: &mut Reader,
        rules: Rules,
        block: &[u8],
        mut visit: impl FnMut(u64, Found<'_>),
    ) -> u64 {
        self.find_keys(usual, block);
        let mut lines = list::lines(block);
        let mut number = 0;
        // Where the lines begin that the reader gets, and the number of lines before them.
        let mut unread = None;
        let mut read = |text: &[u8], before: u64, visit: &mut dyn FnMut(u64, Found<'_>)| {
            let read = reader.lines();
            reader.read(text, true, &mut |line, row| {
                visit(before + line - read, Found::Row(row));
            });
        };
        let below = &mut self.below;
        self.text
            .lines(&self.keys, rules, |Line { written, entry }| {
                let start = lines.start();
                lines.next();
                number += 1;
                // A sign before an address may be one of the list.
                let entry = entry.filter(|_| written.first() != Some(&b'-'));
                let Some((kind, entry)) = entry else {
                    unread.get_or_insert((start, number - 1));
                    return;
                };
                if let Some((from, before)) = unread.take() {
                    let text = block.get(from..start).unwrap_or_default();
                    read(text, before, &mut visit);
                }
                let found = Found::Entry {
                    kind,
                    entry,
                    prefix: b"",
                    written,
                };
                visit(number, found);
                if usual.has_trees && kind == Kind::Domain {
                    below.clear();
                    below.extend_from_slice(entry);
                    if let Some(first) = below.first_mut() {
                        *first = b'.';
                    }
                    let found = Found::Entry {
                        kind: Kind::Subtree,
                        entry: below,
                        prefix: b".",
                        written,
                    };
                    visit(number, found);
                }
            });
        if let Some((from, before)) = unread {
            let text = block.get(from..).unwrap_or_default();
            read(text, before, &mut visit);
        }
        number
    }

    /// Finds the key of each line.
    fn find_keys(&mut self, usual: &Usual, block: &[u8]) {
        let keys = &mut self.keys;
        keys.clear();
        let mut start = 0;
        for line in list::lines(block) {
            // It may continue the line before, or stand between that line and one that does. (A byte
            // order mark may come before a blank.)
            let continues = |first: &u8| !first.is_ascii_graphic() || *first == b'#';
            if keys.len() > start && line.first().is_none_or(continues) {
                keys.truncate(start);
                keys.push(b'\n');
            }
            start = keys.len();
            keys.extend_from_slice((usual.key)(line));
            keys.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Entry;
    use crate::list::{Format, Reading};
    use proptest::prelude::*;

    fn line() -> impl Strategy<Value = String> {
        let start = prop_oneof![
            4 => Just(""), 4 => Just("0.0.0.0 "), 1 => Just("127.0.0.1\t"), 1 => Just("127.0.1.1 "),
            1 => Just("0.0.0.0  "), 1 => Just(" "), 1 => Just("# "), 1 => Just("From:"), 1 => Just("\u{feff}"),
            1 => Just("::1 "), 1 => Just("10.0.0.1 "),
        ];
        let key = prop_oneof![
            4 => "[a-zA-Z0-9.+_-]{1,9}@[a-zA-Z.-]{1,9}\\.(com|Example)",
            4 => "[A-Za-z0-9._-]{1,9}\\.(com|Example|[0-9a-f]{1,2})",
            1 => "(localhost|LocalHost\\.LocalDomain|broadcasthost|if|192\\.0\\.2\\.1|gmail\\.com|co\\.uk|x@|<>)",
            1 => "[ -~]{0,9}",
            1 => "[a-z.]{1,3}@(gmail|gmx)\\.com",
        ];
        let end = prop_oneof![
            4 => Just(""), 4 => Just(" REJECT"), 2 => Just("\tREJECT"), 1 => Just(" DISCARD now"),
            1 => Just(" 550 5.7.1 no"), 1 => Just(" OK"), 1 => Just(" 450"), 1 => Just(" reject"), 1 => Just("\r"),
            1 => Just(" REJECTED"), 1 => Just(" # why"), 1 => Just(" other.example"), 1 => Just("."),
            1 => Just(" RELAY"), 1 => Just("\r REJECT \r"), 1 => Just(" REJECT \"(<a"),
        ];
        prop_oneof![
            12 => (start, key, end).prop_map(|(start, key, end)| format!("{start}{key}{end}")),
            1 => Just(String::new()),
            1 => "[ \t\r]{0,2}REJECT",
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        /// The reader alone gives the same.
        #[test]
        fn usual_lines_are_line_by_line(
            lines in proptest::collection::vec(line(), 0..12), last: bool, bits in 0_u8..16,
            before in proptest::collection::vec(line(), 0..3),
        ) {
            let rules = Rules::from_bits(bits).unwrap();
            let mut text = lines.join("\n");
            if last {
                text.push('\n');
            }
            for format in [Format::Hosts, Format::PostfixAccess, Format::SendmailAccess] {
                let reading = Reading::given(format);
                let row = |line: u64, row: &Row<'_>| match row {
                    Row::Entry(raw) => match Entry::parse(raw.text, rules) {
                        Ok(entry) => format!("{line} {:?} {:?} {raw:?}", entry.kind(), entry.as_bytes()),
                        Err(error) => format!("{line} {error} {raw:?}"),
                    },
                    row => format!("{line} {row:?}"),
                };
                let mut expected = Vec::new();
                let mut reader = Reader::new(&reading);
                reader.read(text.as_bytes(), true, &mut |line, found| expected.push(row(line, &found)));
                let mut found = Vec::new();
                let mut usual_lines = UsualLines::default();
                let usual = reading.usual().unwrap();
                // An earlier block must not matter.
                let mut other = Reader::new(&reading);
                usual_lines.read(usual, &mut other, rules, before.join("\n").as_bytes(), |_, _| {});
                let mut other = Reader::new(&reading);
                let count = usual_lines.read(usual, &mut other, rules, text.as_bytes(), |line, it| {
                    found.push(match it {
                        Found::Row(it) => row(line, &it),
                        Found::Entry { kind, entry, prefix, written } => {
                            let raw = [prefix, written].concat();
                            format!("{line} {kind:?} {entry:?} {:?}", list::RawEntry::new(&raw))
                        }
                    });
                });
                prop_assert_eq!(&found, &expected, "{:?}: {:?}", format, text);
                prop_assert_eq!(count, reader.lines());
            }
        }
    }

    /// The usual lines of the formats do not reach the reader.
    #[test]
    fn usual_lines_are_read_without_the_reader() {
        for (format, text) in [
            (
                Format::Hosts,
                "0.0.0.0 Bad.Example\r\n127.0.0.1\tworse.example",
            ),
            (
                Format::PostfixAccess,
                "a@b.example REJECT\nbad.example\tDISCARD\nb@b.example 550 5.7.1 \"no\"\n",
            ),
            (Format::SendmailAccess, "a@b.example REJECT for a reason\n"),
        ] {
            let reading = Reading::given(format);
            let mut reader = Reader::new(&reading);
            let usual = reading.usual().unwrap();
            let mut usual_lines = UsualLines::default();
            usual_lines.read(
                usual,
                &mut reader,
                Rules::default(),
                text.as_bytes(),
                |_, _| {},
            );
            assert_eq!(reader.lines(), 0, "{text}");
        }
    }
}
