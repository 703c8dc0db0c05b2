//! Text lists: golden pairs, and properties of the reader.
//!
//! `tests/lists/NAME.txt` is a list, and `NAME.expected` is the result of reading it: the format and
//! what decided it, then each row; or why the list is refused. In `NAME.as.FORMAT.txt` the format is
//! given; `NAME.toml` is the `list.toml` of the list. After an intended change, update them with
//! `UPDATE_EXPECTED=1 cargo test --test pure list::` and read the difference.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use blocklist_compile::list::{
    Declared, Format, ListToml, MAX_LINE, Purpose, RawEntry, Reader, Reading, Row, Why, reading,
};
use proptest::prelude::*;
use proptest::sample;

use crate::support::rows as table;
use crate::support::table::byte_words;

/// Returns one row as a line of text.
fn show(number: u64, row: &Row<'_>) -> String {
    let (what, text) = match row {
        Row::Entry(RawEntry {
            text,
            added,
            expires,
            ..
        }) => {
            let added = added.map(|day| format!(" added {day}")).unwrap_or_default();
            let expires = expires
                .map(|day| format!(" expires {day}"))
                .unwrap_or_default();
            return format!("{number} item {}{added}{expires}", text.escape_ascii());
        }
        Row::Skipped { skip, .. } if !skip.is_by_word() => {
            return format!("{number} skipped {skip:?}");
        }
        Row::Skipped { skip, text } => (format!("skipped {skip:?}"), text),
        Row::Rejected { reason, text } => (format!("rejected {reason:?}"), text),
        Row::Refused { refusal, text } => (format!("refused {refusal:?}"), text),
    };
    format!("{number} {what} {}", text.escape_ascii())
}

/// Returns all rows of a list, read in blocks that grow by `step` bytes.
fn rows(list: &[u8], reading: &Reading, step: usize) -> (Vec<String>, u64) {
    let mut reader = Reader::new(reading);
    let mut rows = Vec::new();
    let mut sink = |number: u64, row: Row<'_>| rows.push(show(number, &row));
    let (mut start, mut end) = (0, 0);
    loop {
        end = (end + step.max(1)).min(list.len());
        let last = end == list.len();
        start += reader.read(&list[start..end], last, &mut sink);
        assert!(start <= end, "more done than there was");
        if last {
            assert_eq!(start, list.len(), "not all of the last block done");
            break;
        }
    }
    let lines = reader.lines();
    (rows, lines)
}

fn lists() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lists");
    let mut lists: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the folder of golden pairs")
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    lists.sort();
    assert!(!lists.is_empty());
    lists
}

/// Returns how the list of a golden pair is read, or why not.
fn reading_of(path: &Path, list: &[u8]) -> Result<Reading, String> {
    let stem = path.file_stem().unwrap().to_str().unwrap();
    let given = stem.split_once(".as.");
    let given = Declared {
        format: given.map(|(_, format)| format.parse().unwrap()),
        ..Declared::default()
    };
    let toml = path.with_extension("toml");
    let declared = match fs::read_to_string(&toml) {
        Ok(text) => ListToml::parse(&text, &toml)
            .map_err(|error| {
                error
                    .to_string()
                    .replace(&format!("{}:", toml.display()), "")
            })?
            .declared(&[])
            .unwrap(),
        Err(_) => Declared::default(),
    };
    let declared = given.or(&declared);
    reading(list, true, &declared).map_err(|refusal| refusal.to_string())
}

#[test]
fn golden_pairs() {
    let update = env::var_os("UPDATE_EXPECTED").is_some();
    let mut wrong = Vec::new();
    for path in lists() {
        let list = fs::read(&path).unwrap();
        let read = match reading_of(&path, &list) {
            Err(refusal) => format!("refused: {refusal}\n"),
            Ok(reading) => {
                let (rows, lines) = rows(&list, &reading, usize::MAX);
                let Reading { format, why, .. } = reading;
                let why = match why {
                    Why::Given => "given".to_owned(),
                    Why::Declared => "list.toml".to_owned(),
                    Why::Profile(name) => format!("the export of {name}"),
                    Why::Mark(mark) => mark.to_owned(),
                    Why::NoMark => "no mark of another format".to_owned(),
                };
                format!("{format} ({why}), {lines} lines\n{}\n", rows.join("\n"))
            }
        };
        let golden = path.with_extension("expected");
        if update {
            fs::write(&golden, &read).unwrap();
        } else if fs::read_to_string(&golden).unwrap_or_default() != read {
            wrong.push(format!("{} gives:\n{read}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_golden_list_split_anywhere_gives_the_same() {
    for path in lists() {
        let list = fs::read(&path).unwrap();
        let Ok(reading) = reading_of(&path, &list) else {
            continue;
        };
        let whole = rows(&list, &reading, usize::MAX);
        for step in [1, 7, 64] {
            assert_eq!(rows(&list, &reading, step), whole, "{}", path.display());
        }
    }
}

/// The formats that are read line by line.
pub(crate) const FORMATS: &[Format] = &[
    Format::Plain,
    Format::Addresses,
    Format::Hosts,
    Format::Dnsmasq,
    Format::Adblock,
    Format::Rpz,
    Format::Rbldnsd,
    Format::PostfixAccess,
    Format::SendmailAccess,
    Format::SpamAssassin,
    Format::Rspamd,
    Format::Amavis,
    Format::Exim,
];

/// Returns how lists of each format are read, and for each purpose.
pub(crate) fn readings() -> Vec<Reading> {
    let removal = |format: &Format| Reading {
        purpose: Purpose::Removal,
        ..Reading::given(*format)
    };
    let given = FORMATS.iter().map(|format| Reading::given(*format));
    let given = given.chain(FORMATS.iter().map(removal));
    given.chain([Reading::whitelist()]).collect()
}

#[test]
fn an_endless_line_is_rejected_once_and_not_kept() {
    for reading in readings() {
        let format = reading.format;
        for open in ["", "\"", "x,\"", "a@bad.example "] {
            let mut list = open.as_bytes().to_vec();
            list.resize(10 * MAX_LINE, b'a');
            let sign = if format == Format::Rpz { ";" } else { "#" };
            list.extend_from_slice(format!("\n{sign} the next line\n").as_bytes());
            let mut seen = Vec::new();
            Reader::new(&reading)
                .read_all(&list[..], &mut |number, row| {
                    seen.push((number, matches!(row, Row::Skipped { .. })));
                })
                .unwrap();
            assert_eq!(seen, [(1, false), (2, true)], "{format}, {open}");
        }
    }
}

#[test]
fn quotes_that_nothing_closes_are_not_searched_again_and_again() {
    // Quadratic reading would take minutes.
    let list = b"(<\"".repeat(MAX_LINE / 3);
    let plain = Reading::given(Format::Plain);
    assert_eq!(rows(&list, &plain, usize::MAX).0.len(), 1);
    let list = b"\"a,".repeat(MAX_LINE / 3);
    let addresses = Reading::given(Format::Addresses);
    assert_eq!(rows(&list, &addresses, usize::MAX).0.len(), 1);
}

/// Generates text from parts that have a meaning in some format.
fn list() -> impl Strategy<Value = Vec<u8>> {
    let words = byte_words(
        r#"
        spam@bad.example bad.example .sub.example *@star.example a@ OK REJECT allow From: 0.0.0.0
        CNAME{20}. blocklist_from unblocklist_from ||bad.example^ @@||bad.example^
        #{20}expires{20}2026-03-01 5.0 -1 $ORIGIN /@bad\.example$/ address=/ :127.0.0.2:x [x] {FEFF} ü
        "#,
    );
    let part = prop_oneof![
        6 => sample::select(words),
        6 => sample::select(byte_words(r##"{20} {9} , ; " # < > ( : / \ ! @"##)),
        4 => sample::select(byte_words("{A} {D}{A}")),
        1 => proptest::collection::vec(any::<u8>(), 0..8),
    ];
    proptest::collection::vec(part, 0..60).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_split_gives_the_same_rows(list in list(), step in 1_usize..40) {
        let _detection_does_not_panic = reading(&list, false, &Declared::default());
        for reading in readings() {
            let format = reading.format;
            let whole = rows(&list, &reading, usize::MAX);
            prop_assert_eq!(rows(&list, &reading, step), whole, "{}", format);
        }
    }

    /// Each line gives a row with its number, and no row has another number.
    #[test]
    fn no_line_is_lost_in_silence(list in list()) {
        let lines = blocklist_compile::list::lines(&list).count() as u64;
        for reading in readings() {
            let format = reading.format;
            let (rows, counted) = rows(&list, &reading, usize::MAX);
            prop_assert_eq!(counted, lines, "{}", format);
            let mut numbers: Vec<u64> = rows
                .iter()
                .map(|row| row.split(' ').next().unwrap().parse().unwrap())
                .collect();
            numbers.sort_unstable();
            numbers.dedup();
            prop_assert_eq!(numbers, (1..=lines).collect::<Vec<_>>(), "{}", format);
        }
    }

    /// Parts of a list that several readers read at once give the same as one reader.
    #[test]
    fn parts_read_apart_give_the_same(list in list()) {
        for reading in readings() {
            let format = reading.format;
            let Some(cut) = reading.cut() else {
                continue;
            };
            let (whole, _) = rows(&list, &reading, usize::MAX);
            let (mut apart, mut before, mut start, mut end) = (Vec::new(), 0, 0, 0);
            while end < list.len() {
                end = (end + 50).min(list.len());
                let part = match cut(&list[start..end]) {
                    _ if end == list.len() => &list[start..],
                    Some(length) => &list[start..start + length],
                    None => continue,
                };
                let mut reader = Reader::part(&reading, start == 0);
                reader.read(part, true, &mut |number, row| {
                    apart.push(show(before + number, &row));
                });
                before += reader.lines();
                start += part.len();
            }
            // A line that may be continued is read when the next one comes.
            let by_line = |mut rows: Vec<String>| {
                rows.sort_by_key(|row| row.split(' ').next().unwrap().parse::<u64>().unwrap());
                rows
            };
            prop_assert_eq!(by_line(apart), by_line(whole), "{}", format);
        }
    }

    /// No comment changes an entry: each list of a format, with comments of any kind between its
    /// lines and, where the format has them, after them.
    #[test]
    fn a_comment_changes_no_entry(
        words in proptest::collection::vec(comment(), 1..8), at in 0_usize..8, end in "(\n|\r\n)",
    ) {
        for [name, place, list] in table(include_str!("list/with_comments.txt")) {
            let (reading, trailing) = (reading_named(name), place.starts_with("after"));
            let format = reading.format;
            let plain: String = list.lines().map(|line| format!("{line}{end}")).collect();
            let sign = if format == Format::Rpz { ";" } else { "#" };
            let mut commented = String::new();
            for (number, line) in list.lines().enumerate() {
                let comment = &words[number % words.len()];
                if number >= at || trailing {
                    let _ = write!(commented, "{sign}{comment}{end}");
                }
                commented.push_str(line);
                if trailing {
                    let _ = write!(commented, " {sign} {comment}");
                }
                commented.push_str(&end);
            }
            let entries = |list: &str| -> Vec<String> {
                let (rows, _) = rows(list.as_bytes(), &reading, usize::MAX);
                let rows = rows.into_iter().filter(|row| !row.contains(" skipped "));
                rows.map(|row| row.split_once(' ').unwrap().1.to_owned()).collect()
            };
            let (expected, found) = (entries(&plain), entries(&commented));
            prop_assert!(expected.len() >= 3 && expected.iter().all(|row| row.starts_with("item")));
            prop_assert_eq!(found, expected, "{}: {}", format, commented);
            let detected = |list: &str| {
                let reading = reading_of(Path::new("x.txt"), list.as_bytes());
                reading.map(|reading| reading.format)
            };
            prop_assert_eq!(detected(&commented), detected(&plain), "{}", commented);
        }
    }

    /// A sender whom the format itself allows is never listed.
    #[test]
    fn an_allowance_lists_nobody([name, allowance] in sample::select(table(include_str!("list/allowances.txt"))), before in list()) {
        let reading = reading_named(name);
        let format = reading.format;
        let text = [&before[..], b"\n", allowance.as_bytes()].concat();
        // A parenthesis in a zone file goes on over lines.
        if format != Format::Rpz || !before.contains(&b'(') {
            let (rows, _) = rows(&text, &reading, usize::MAX);
            prop_assert!(rows.iter().all(|row| !row.contains("item friend")), "{:?}", rows);
        }
    }
}

/// Returns how a list of this name is read.
fn reading_named(name: &str) -> Reading {
    match name {
        "whitelist" => Reading::whitelist(),
        name => Reading::given(name.parse().unwrap()),
    }
}

/// Generates comments: words that sound like a verdict, signs of formats, anything.
fn comment() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => sample::select(include_str!("list/comments.txt").lines().collect::<Vec<_>>())
            .prop_map(str::to_owned),
        1 => "[^\\p{Cc}]{0,30}".prop_filter("an end", |text| !text.contains("expires")),
    ]
}

/// A key that stands behind more than what decides the format.
#[test]
fn a_key_at_the_end_of_a_long_document_is_found() {
    let toml = "read = { entry = 'emails[]', when.listed = true }";
    let declared = ListToml::parse(toml, Path::new("list.toml")).unwrap();
    let declared = declared.declared(&[]).unwrap();
    let emails = "\"a@bad.example\",".repeat(10_000);
    for (key, last) in [
        ("listed", "item a@bad.example"),
        ("lsited", "refused Missing"),
    ] {
        let text = format!("{{\"emails\": [{emails} \"a@bad.example\"], \"{key}\": true}}");
        let reading = reading(&text.as_bytes()[..64 << 10], false, &declared).unwrap();
        let (rows, _) = rows(text.as_bytes(), &reading, usize::MAX);
        assert!(
            rows.last().unwrap().contains(last),
            "{key}: {:?}",
            rows.last()
        );
    }
}
