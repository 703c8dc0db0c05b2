//! The fast path for lists whose usual lines are one entry with something around it: access tables,
//! tables with separators and JSON lines. (The address of a hosts file's line is a matter of the
//! [`Block`].)
//!
//! ```text
//!   list     Bad.Example REJECT     # a comment     worse.example REJECT now   good.example OK
//!   keys     Bad.Example            (empty)         worse.example              (empty)
//!            by the block           by the reader   by the block               by the reader
//! ```
//!
//! The keys are a plain list, which a [`Block`] reads. A line whose key is not a plain entry goes to
//! the reader with those around it that are not, either. A property test compares the result with
//! that of the reader alone.

use super::block::Block;
use crate::list::{self, MAX_LINE, Reader, Row, Usual};
use blocklist_filter::address::{Kind, Rules};

#[derive(Debug, Default)]
pub(super) struct UsualLines {
    /// A line for each of the block: its key, or nothing.
    keys: Vec<u8>,
    starts: Vec<usize>,
    text: Block,
    below: Vec<u8>,
}

pub(super) enum Found<'a> {
    /// An entry: its kind, its canonical text, and how it is written.
    Entry {
        kind: Kind,
        entry: &'a [u8],
        written: &'a [u8],
        /// If the domain is listed with its subdomains, their entry.
        below: Option<&'a [u8]>,
    },
    Row(Row<'a>),
}

impl UsualLines {
    /// Passes on what the lines of a block give, with their numbers; returns how many there are.
    pub(super) fn read(
        &mut self,
        usual: &mut Usual,
        reader: &mut Reader,
        rules: Rules,
        block: &[u8],
        mut visit: impl FnMut(u64, Found<'_>),
    ) -> u64 {
        self.find_keys(usual, block);
        let starts = &self.starts;
        let mut number = 0;
        // The number of lines before those that the reader gets.
        let mut unread = None;
        let mut read = |text: &[u8], before: usize, visit: &mut dyn FnMut(u64, Found<'_>)| {
            let read = reader.lines();
            reader.read(text, true, &mut |line, row| {
                visit(before as u64 + line - read, Found::Row(row));
            });
        };
        let below = &mut self.below;
        self.text.lines(&self.keys, rules, |line| {
            number += 1;
            let Some((kind, entry)) = line.listed::<false>() else {
                unread.get_or_insert(number - 1);
                return;
            };
            if let Some(before) = unread.take() {
                let (from, start) = (starts[before], starts[number - 1]);
                let text = block.get(from..start).unwrap_or_default();
                read(text, before, &mut visit);
            }
            let is_tree = matches!(usual, Usual::Access) && kind == Kind::Domain;
            if is_tree {
                below.clear();
                below.extend_from_slice(entry);
                if let Some(first) = below.first_mut() {
                    *first = b'.';
                }
            }
            let found = Found::Entry {
                kind,
                entry,
                written: line.written,
                below: is_tree.then_some(&**below),
            };
            visit(number as u64, found);
        });
        if let Some(before) = unread {
            let text = block.get(starts[before]..).unwrap_or_default();
            read(text, before, &mut visit);
        }
        number as u64
    }

    fn find_keys(&mut self, usual: &mut Usual, block: &[u8]) {
        let keys = &mut self.keys;
        keys.clear();
        self.starts.clear();
        let mut start = 0;
        for line in list::lines(block) {
            let begins = line.as_ptr().addr() - block.as_ptr().addr();
            self.starts.push(begins);
            // It may continue the line before, or stand between that line and one that does. (A byte
            // order mark may come before a blank.)
            let continues = |first: &u8| !first.is_ascii_graphic() || *first == b'#';
            let is_access = matches!(usual, Usual::Access);
            if is_access && keys.len() > start && line.first().is_none_or(continues) {
                keys.truncate(start);
                keys.push(b'\n');
            }
            start = keys.len();
            // The reader does not read a longer one.
            if line.len() < MAX_LINE - 2 {
                keys.extend_from_slice(usual.key(line));
            }
            keys.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::{Declared, Format, Reading};
    use blocklist_filter::address::Entry;
    use proptest::prelude::*;

    fn line() -> impl Strategy<Value = String> {
        let start = prop_oneof![
            8 => Just(""), 1 => Just(" "), 1 => Just("# "), 1 => Just("From:"), 1 => Just("\u{feff}"),
        ];
        let key = prop_oneof![
            4 => "[a-zA-Z0-9.+_-]{1,9}@[a-zA-Z.-]{1,9}\\.(com|Example)",
            4 => "[A-Za-z0-9._-]{1,9}\\.(com|Example|[0-9a-f]{1,2})",
            1 => "(localhost|if|192\\.0\\.2\\.1|gmail\\.com|co\\.uk|x@|<>)",
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

    fn row() -> impl Strategy<Value = String> {
        let entry =
            "([a-z+-]{1,3}@|)(b\\.example|gmail\\.com|co\\.uk| b\\.example |\\.b\\.example|x|)";
        let cells = (
            entry,
            "(block|Block|allow|\"block\"|)",
            "(|n|1|0.5|\"|\"\"|\"a\"\"b\"|,|\u{fc})",
        );
        let csv = cells.prop_map(|(entry, action, note)| format!("{entry},{action},{note}"));
        let note = "(1|-1.5e3|01|true|null|\"\"|\"x\\\\u0041\"|\\{\"a\":[1]\\}|x|)";
        let cells = (
            entry,
            "(block|Block|allow|\\\\u0062lock|)",
            note,
            "(|,|\\}|,\"sender\":\"y@b.example\")",
        );
        let json = cells.prop_map(|(entry, action, note, end)| {
            format!("{{\"sender\": \"{entry}\" ,\"action\":\"{action}\",\"n\":{note}{end}}}")
        });
        prop_oneof![6 => csv, 6 => json, 1 => "[\",\r a]{0,5}", 1 => Just("\u{feff}a@b.example,block,".to_owned())]
    }

    /// Checks that the reader alone gives the same. Another block `before` must not matter.
    fn check(
        reading: &Reading,
        text: &str,
        before: &str,
        rules: Rules,
    ) -> Result<(), TestCaseError> {
        let row = |line: u64, row: &Row<'_>| match row {
            Row::Entry(raw) => match Entry::parse(raw.text, rules) {
                Ok(entry) => format!("{line} {:?} {:?} {raw:?}", entry.kind(), entry.as_bytes()),
                Err(error) => format!("{line} {error} {raw:?}"),
            },
            row => format!("{line} {row:?}"),
        };
        let mut expected = Vec::new();
        let mut reader = Reader::new(reading);
        reader.read(text.as_bytes(), true, &mut |line, found| {
            expected.push(row(line, &found));
        });
        let mut usual_lines = UsualLines::default();
        let mut found = Vec::new();
        let mut other = Reader::new(reading);
        let mut usual = reading.usual(true).unwrap();
        usual_lines.read(&mut usual, &mut other, rules, before.as_bytes(), |_, _| {});
        let mut other = Reader::new(reading);
        let mut usual = reading.usual(true).unwrap();
        let count = usual_lines.read(
            &mut usual,
            &mut other,
            rules,
            text.as_bytes(),
            |line, it| {
                let shown = |kind, entry, written| {
                    format!(
                        "{line} {kind:?} {entry:?} {:?}",
                        list::RawEntry::new(written)
                    )
                };
                match it {
                    Found::Row(it) => found.push(row(line, &it)),
                    Found::Entry {
                        kind,
                        entry,
                        written,
                        below,
                    } => {
                        found.push(shown(kind, entry, written));
                        let raw = [b".", written].concat();
                        found.extend(below.map(|below| shown(Kind::Subtree, below, &raw)));
                    }
                }
            },
        );
        // Of a list that is refused, nothing else counts.
        let is_refused = |rows: &[String]| rows.iter().any(|row| row.contains(" Refused "));
        if is_refused(&expected) {
            prop_assert!(is_refused(&found), "{:?}: {:?}", reading, text);
            return Ok(());
        }
        prop_assert_eq!(&found, &expected, "{:?}: {:?}", reading, text);
        prop_assert_eq!(count, reader.lines());
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn usual_lines_are_line_by_line(
            lines in proptest::collection::vec(line(), 0..12), end in "\n?", bits in 0_u8..16,
            before in proptest::collection::vec(line(), 0..3),
        ) {
            let rules = Rules::from_bits(bits).unwrap();
            let text = lines.join("\n") + &end;
            for format in [Format::PostfixAccess, Format::SendmailAccess] {
                check(&Reading::given(format), &text, &before.join("\n"), rules)?;
            }
        }

        #[test]
        fn usual_rows_are_row_by_row(
            rows in proptest::collection::vec(row(), 0..12), end in "(\n|\r\n)?", is_strict: bool,
            has_least: bool,
        ) {
            let condition = |value: &str| vec![("action".to_owned(), vec![value.to_owned()])];
            let declared = |format, entry: &str, number: &str| Declared {
                at_least: has_least.then(|| (number.to_owned(), 1.0)).into_iter().collect(),
                format: Some(format),
                entry: vec![entry.to_owned(), "note".to_owned()],
                when: condition("block"),
                unless: if is_strict { condition("allow") } else { Vec::new() },
                ..Declared::default()
            };
            let text = rows.join(if end.is_empty() { "\n" } else { &end }) + &end;
            let heading = "\n sender , action,note\n";
            let csv = declared(Format::Csv, "sender", "note");
            let csv = list::reading(heading.as_bytes(), true, &csv).unwrap();
            check(&csv, &format!("{heading}{text}"), "a,b\n\"", Rules::default())?;
            let json = declared(Format::JsonLines, "sender", "n");
            let json = list::reading(b"{\"action\":0,\"n\":0}", true, &json).unwrap();
            check(&json, &text, "{\n", Rules::default())?;
        }
    }
}
