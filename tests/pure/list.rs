//! Text lists: golden pairs, and properties of the reader.
//!
//! `tests/lists/NAME.txt` is a list, and `NAME.expected` is the result of reading it: the detected
//! format, then each row. After an intended change, update them with
//! `UPDATE_EXPECTED=1 cargo test --test pure list::` and read the difference.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use blocklist_milter::list::{Format, MAX_LINE, RawEntry, Reader, Row, guess};
use proptest::prelude::*;

/// Returns one row as a line of text.
fn show(number: u64, row: &Row<'_>) -> String {
    match row {
        Row::Entry(RawEntry {
            text,
            added,
            expires,
        }) => {
            let mut shown = format!("{number} item {}", text.escape_ascii());
            if let Some(day) = added {
                let _ = write!(shown, " added {day}");
            }
            if let Some(day) = expires {
                let _ = write!(shown, " expires {day}");
            }
            shown
        }
        Row::Skipped { skip, .. } => format!("{number} skipped {skip:?}"),
        Row::Mended { mend, text } => format!("{number} mended {mend:?} {}", text.escape_ascii()),
        Row::Rejected { reason, text } => {
            format!("{number} rejected {reason:?} {}", text.escape_ascii())
        }
    }
}

/// Returns all rows of a list, read in blocks that grow by `step` bytes.
fn rows(list: &[u8], format: Format, step: usize) -> (Vec<String>, u64) {
    let mut reader = Reader::new(format);
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

#[test]
fn golden_pairs() {
    let update = env::var_os("UPDATE_EXPECTED").is_some();
    let mut wrong = Vec::new();
    for path in lists() {
        let list = fs::read(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let format = guess(&list, name);
        let (rows, lines) = rows(&list, format, usize::MAX);
        let read = format!("{format}, {lines} lines\n{}\n", rows.join("\n"));
        let golden = path.with_extension("expected");
        if update {
            fs::write(&golden, &read).unwrap();
        } else if fs::read_to_string(&golden).unwrap_or_default() != read {
            wrong.push(format!("{name} gives:\n{read}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_golden_list_split_anywhere_gives_the_same() {
    for path in lists() {
        let list = fs::read(&path).unwrap();
        let format = guess(&list, path.file_name().unwrap().to_str().unwrap());
        let whole = rows(&list, format, usize::MAX);
        for step in [1, 7, 64] {
            assert_eq!(rows(&list, format, step), whole, "{}", path.display());
        }
    }
}

#[test]
fn an_endless_line_is_rejected_once_and_not_kept() {
    for &format in FORMATS {
        if matches!(format, Format::Json | Format::JsonLines) {
            // These have no long lines, only long strings.
            continue;
        }
        for open in ["", "\"", "x,\"", "a@bad.example "] {
            let mut list = open.as_bytes().to_vec();
            list.resize(10 * MAX_LINE, b'a');
            list.extend_from_slice(b"\n# the next line\n");
            let mut seen = Vec::new();
            Reader::new(format)
                .read_all(&list[..], &mut |number, row| {
                    seen.push((number, matches!(row, Row::Skipped { .. })));
                })
                .unwrap();
            assert_eq!(seen, [(1, false), (2, true)], "{format}, {open}");
        }
    }
}

#[test]
fn an_endless_string_is_rejected_and_not_kept() {
    let mut list = b"[\"one@bad.example\",\n\"".to_vec();
    list.resize(10 * MAX_LINE, b'a');
    list.extend_from_slice(b"\",\n\"two@bad.example\"]");
    let (rows, lines) = rows(&list, Format::Json, 5000);
    assert_eq!(lines, 3);
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[0], "1 item one@bad.example");
    assert!(rows[1].starts_with("2 rejected TooLong "), "{}", rows[1]);
    assert_eq!(rows[2], "3 item two@bad.example");
}

#[test]
fn an_object_without_end_is_rejected_and_not_kept() {
    let fields = "\"email\": \"\",".repeat(1_000_000);
    let list = format!("[{{{fields}}}, \"a@b.example\"]");
    let (rows, _) = rows(list.as_bytes(), Format::Json, 1 << 16);
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert!(rows[0].starts_with("1 rejected TooLong"), "{rows:?}");
    assert!(rows[1].contains("a@b.example"), "{rows:?}");
}

#[test]
fn quotes_that_nothing_closes_are_not_searched_again_and_again() {
    // Quadratic reading of 4 MB would take hours.
    let list = b"a@bad.example,\"\nb@bad.example,\n".repeat(150_000);
    let (rows, lines) = rows(&list, Format::Csv { column: 0 }, usize::MAX);
    assert_eq!(lines, 300_000);
    assert!(!rows.is_empty());
    let list = b"(<\"".repeat(MAX_LINE / 3);
    assert_eq!(self::rows(&list, Format::Plain, usize::MAX).0.len(), 1);
}

const FORMATS: &[Format] = &[
    Format::Plain,
    Format::Sections,
    Format::Hosts,
    Format::Csv { column: 0 },
    Format::Csv { column: 2 },
    Format::PostfixAccess,
    Format::SendmailAccess,
    Format::SpamAssassin,
    Format::Rspamd,
    Format::Amavis,
    Format::Exim,
    Format::Json,
    Format::JsonLines,
    Format::Rpz,
    Format::Rbldnsd,
    Format::Dnsmasq,
    Format::Adblock,
    Format::Patterns,
];

/// Generates text from parts that have a meaning in some format.
fn list() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        6 => prop_oneof![
            Just("spam@bad.example"), Just("bad.example"), Just(".sub.example"),
            Just("*@star.example"), Just("a@"), Just("OK"), Just("REJECT"), Just("allow"),
            Just("From:"), Just("0.0.0.0"), Just("CNAME ."), Just("blocklist_from"),
            Just("||bad.example^"), Just("2026-03-01"), Just("5.0"), Just("-1"),
            Just("{\"email\":"), Just("[\""), Just("\"]"), Just("\"}"), Just("\\u00fc"),
            Just("email,action"), Just("\u{feff}"), Just("ü"),
        ].prop_map(|text| text.as_bytes().to_vec()),
        6 => prop_oneof![
            Just(" "), Just("\t"), Just(","), Just(";"), Just("\""), Just("#"), Just("<"),
            Just(">"), Just("("), Just(":"), Just("/"), Just("\\"), Just("!"), Just("@"),
        ].prop_map(|text| text.as_bytes().to_vec()),
        4 => prop_oneof![Just("\n"), Just("\r\n")].prop_map(|text| text.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..8),
    ];
    proptest::collection::vec(part, 0..60).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_split_gives_the_same_rows(list in list(), step in 1_usize..40) {
        let _guess_does_not_panic = guess(&list, "list.txt");
        for &format in FORMATS {
            let whole = rows(&list, format, usize::MAX);
            prop_assert_eq!(rows(&list, format, step), whole, "{}", format);
        }
    }

    #[test]
    fn line_numbers_are_those_of_the_text(list in list()) {
        let lines = blocklist_milter::list::lines(&list).count() as u64;
        for &format in FORMATS {
            let (rows, counted) = rows(&list, format, usize::MAX);
            prop_assert_eq!(counted, lines, "{}", format);
            for row in rows {
                let number: u64 = row.split(' ').next().unwrap().parse().unwrap();
                // A truncated text ends one past its last line.
                prop_assert!((1..=lines + 1).contains(&number), "{}: {}", format, row);
            }
        }
    }

    #[test]
    fn blocks_of_whole_lines_read_apart_give_the_same(list in list()) {
        for &format in FORMATS {
            if !Reader::new(format).at_lines() {
                continue;
            }
            let (whole, _) = rows(&list, format, usize::MAX);
            let mut apart = Vec::new();
            for (before, line) in list.split_inclusive(|&b| b == b'\n').enumerate() {
                Reader::new(format).read(line, true, &mut |number, row| {
                    apart.push(show(before as u64 + number, &row));
                });
            }
            prop_assert_eq!(apart, whole, "{}", format);
        }
    }

    #[test]
    fn no_line_is_lost_in_silence(list in list()) {
        for &format in FORMATS {
            if !Reader::new(format).at_lines() {
                continue;
            }
            let (rows, lines) = rows(&list, format, usize::MAX);
            for number in 1..=lines {
                let start = format!("{number} ");
                prop_assert!(rows.iter().any(|row| row.starts_with(&start)), "{} {}", format, number);
            }
        }
    }

    /// An allowed sender is never listed, in any assumed format.
    #[test]
    fn an_allowance_lists_nobody(at in 0..ALLOWANCES.len(), before in list()) {
        let (list, format) = ALLOWANCES[at];
        let mut text = b"block@bad.example\n".to_vec();
        let (format, exact) = match format {
            Some(format) => { text.clear(); (format, true) }
            None => (Format::Plain, false),
        };
        if !exact {
            text.extend_from_slice(&before);
            text.push(b'\n');
        }
        text.extend_from_slice(list.as_bytes());
        let (rows, _) = rows(&text, format, usize::MAX);
        prop_assert!(rows.iter().all(|row| !row.contains("item friend")), "{:?}", rows);
    }
}

/// Lists that allow `friend@good.example`, and the format if it cannot be detected.
const ALLOWANCES: &[(&str, Option<Format>)] = &[
    ("friend@good.example OK", None),
    ("friend@good.example\tpermit", None),
    ("friend@good.example,allow", None),
    ("allow,friend@good.example", None),
    ("friend@good.example;Whitelisted;x", None),
    ("friend@good.example -5.0", None),
    ("!friend@good.example", None),
    ("friend@good.example DUNNO", None),
    ("friend@good.example OK", Some(Format::PostfixAccess)),
    (
        "friend@good.example 1700000000",
        Some(Format::PostfixAccess),
    ),
    ("friend@good.example DUNNO", Some(Format::PostfixAccess)),
    ("friend@good.example 450 later", Some(Format::PostfixAccess)),
    ("friend@good.example\n  OK", Some(Format::PostfixAccess)),
    (
        "From:friend@good.example RELAY",
        Some(Format::SendmailAccess),
    ),
    (
        "From:friend@good.example ERROR:4.2.1:\"450 x\"",
        Some(Format::SendmailAccess),
    ),
    (
        "To:friend@good.example REJECT",
        Some(Format::SendmailAccess),
    ),
    (
        "unblocklist_from friend@good.example",
        Some(Format::SpamAssassin),
    ),
    (
        "whitelist_from_rcvd friend@good.example x",
        Some(Format::SpamAssassin),
    ),
    ("friend@good.example -5", Some(Format::Rspamd)),
    ("friend@good.example WHITE:-5", Some(Format::Rspamd)),
    ("friend@good.example 0", Some(Format::Amavis)),
    ("friend@good.example: accept", Some(Format::Exim)),
    (
        "email,action\nfriend@good.example,exempt",
        Some(Format::Csv { column: 0 }),
    ),
    (
        "email,foo\nfriend@good.example,Allow",
        Some(Format::Csv { column: 0 }),
    ),
    (
        "email,action\nfriend@good.example,",
        Some(Format::Csv { column: 0 }),
    ),
    (
        "{\"email\":\"friend@good.example\",\"action\":\"allow\"}",
        Some(Format::Json),
    ),
    (
        "{\"allowed\":[\"friend@good.example\"]}",
        Some(Format::Json),
    ),
    (
        "{\"white_list\":{\"x\":[\"friend@good.example\"]}}",
        Some(Format::Json),
    ),
    (
        "{\"reporters\":[\"friend@good.example\"]}",
        Some(Format::JsonLines),
    ),
    (
        "{\"friend@good.example\":{\"action\":\"allow\"}}",
        Some(Format::Json),
    ),
    ("{\"friend@good.example\":false}", Some(Format::Json)),
];

/// Returns the spellings of a name in tables and programs.
fn spellings(words: &str) -> Vec<String> {
    let joined = words.replace(' ', "_");
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    let titled: Vec<String> = words.split(' ').map(capital).collect();
    vec![
        words.to_owned(),
        joined.clone(),
        joined.to_uppercase(),
        titled.join(" "),
        format!("is{}", titled.concat()),
        format!("is_{joined}"),
        format!("Is {words}?"),
        format!("sender_{joined}"),
    ]
}

/// Returns the rows of a table, and of JSON, with an additional column or key.
fn with_column(name: &str, value: &str) -> Vec<Vec<String>> {
    let bare = matches!(value, "true" | "false" | "0" | "1" | "null");
    let mut lists = vec![
        format!("email,{name}\nx@bad.example,{value}\n"),
        format!("{name};note;email\n{value};y;x@bad.example\n"),
        format!("email\t{name}\nx@bad.example\t{value}\n"),
        format!("[{{\"email\":\"x@bad.example\",\"{name}\":\"{value}\"}}]"),
        format!("{{\"{name}\":\"{value}\",\"email\":\"x@bad.example\"}}\n{{}}"),
        format!("{{\"x@bad.example\":{{\"{name}\":\"{value}\"}}}}"),
    ];
    if bare {
        lists.push(format!(
            "[{{\"{name}\":{value},\"email\":\"x@bad.example\"}}]"
        ));
    }
    let read = |list: String| rows(list.as_bytes(), guess(list.as_bytes(), "list"), usize::MAX).0;
    lists.into_iter().map(read).collect()
}

fn check_column(name: &str, value: &str, expected: &str) {
    for rows in with_column(name, value) {
        let said = match rows.iter().find(|row| row.contains("x@bad.example")) {
            Some(row) if row.contains(" expires ") => "ends",
            Some(row) if row.contains(" item ") => "listed",
            Some(row) if row.contains(" rejected ") => "rejected",
            _ if rows.iter().any(|row| row.contains(" rejected ")) => "rejected",
            _ => "off",
        };
        assert_eq!(said, expected, "{name} {value}: {rows:?}");
    }
}

const YES: &[&str] = &[
    "true", "yes", "Y", "t", "1", "On", "ja", "oui", "S\u{ed}", "-1",
];
const NO: &[&str] = &[
    "false", "NO", "n", "f", "0", "off", "nein", "n\u{e3}o", "0.0",
];
const DAYS: &[&str] = &["2026-01-31", "2026-01-31 10:00:00", "31.01.2026"];
const UNCLEAR: &[&str] = &["perhaps", "?", "see note"];

#[test]
fn columns_for_yes_and_no_are_read_under_any_name_and_with_any_answer() {
    for (words, yes, no, day) in [
        ("blocked", "listed", "off", "listed"),
        ("banned", "listed", "off", "listed"),
        ("listed", "listed", "off", "listed"),
        ("blacklisted", "listed", "off", "listed"),
        ("spam", "listed", "off", "listed"),
        ("malicious", "listed", "off", "listed"),
        ("phishing", "listed", "off", "listed"),
        ("disposable", "listed", "off", "listed"),
        ("active", "listed", "off", "listed"),
        ("enabled", "listed", "off", "listed"),
        ("whitelisted", "off", "listed", "off"),
        ("allowed", "off", "listed", "off"),
        ("trusted", "off", "listed", "off"),
        ("safe", "off", "listed", "off"),
        ("false positive", "off", "listed", "off"),
        ("not spam", "off", "listed", "off"),
        ("deleted", "off", "listed", "ends"),
        ("removed", "off", "listed", "ends"),
        ("delisted", "off", "listed", "ends"),
        ("resolved", "off", "listed", "ends"),
        ("revoked", "off", "listed", "ends"),
        ("inactive", "off", "listed", "ends"),
        ("no longer listed", "off", "listed", "off"),
    ] {
        for name in spellings(words) {
            let answers = [(YES, yes), (NO, no), (DAYS, day), (UNCLEAR, "rejected")];
            for (values, expected) in answers {
                values
                    .iter()
                    .for_each(|value| check_column(&name, value, expected));
            }
        }
    }
}

#[test]
fn a_day_on_which_an_entry_was_taken_off_is_read_under_any_name() {
    for word in [
        "deleted", "removed", "delisted", "resolved", "revoked", "closed", "unlisted",
    ] {
        for name in [
            format!("{word}_at"),
            format!("{word} on"),
            format!("{word}Date"),
            format!("date {word}"),
        ] {
            DAYS.iter().for_each(|day| check_column(&name, day, "ends"));
            for never in ["", "null", "0000-00-00"] {
                check_column(&name, never, "listed");
            }
        }
    }
}

#[test]
fn a_day_on_which_an_entry_ends_is_read_under_any_name() {
    for name in [
        "expire",
        "exp",
        "expires",
        "expire_date",
        "expireAt",
        "ExpirationDate",
        "end",
        "end time",
        "valid_till",
        "valid through",
        "validTo",
        "blocked_until",
        "banned until",
        "listedUntil",
        "ban_expires",
        "ban_end",
        "unban_date",
        "remove on",
        "Ablaufdatum",
        "G\u{fc}ltig bis",
        "gueltig_bis",
        "date d'expiration",
        "fecha de expiraci\u{f3}n",
        "scadenza",
        "expired",
    ] {
        for (value, ends) in [("2026-12-24", true), ("1798070400", true), ("never", false)] {
            for rows in with_column(name, value) {
                let item = rows.iter().find(|row| row.contains(" item x@bad.example"));
                let has_end = item.map(|row| row.ends_with(" expires 2026-12-24"));
                assert_eq!(has_end, Some(ends), "{name} {value}: {rows:?}");
            }
        }
    }
}

#[test]
fn a_status_is_off_listed_or_rejected_and_never_ignored() {
    for name in ["status", "State", "email_status", "Statut"] {
        for (values, expected) in [
            (
                &[
                    "cleared", "Released", "revoked", "CLOSED", "archived", "off", "0", "no",
                ][..],
                "off",
            ),
            (
                &[
                    "inactive",
                    "delisted",
                    "not active",
                    "no longer listed",
                    "whitelisted",
                ],
                "off",
            ),
            (
                &["approved", "Good", "passed", "pending", "in review"],
                "rejected",
            ),
            (
                &["active", "Listed", "confirmed", "blocked", "", "1"],
                "listed",
            ),
        ] {
            values
                .iter()
                .for_each(|value| check_column(name, value, expected));
        }
    }
}
