//! The canonical form of addresses: a table of cases, entries of lists, properties.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use blocklist_filter::address::{
    Canonical, Entry, Kind, Kinds, ParseError, RULES_VERSION, Rules, behind_route, escaped,
};
use blocklist_filter::filter::Key;
use proptest::prelude::*;

use crate::support::table::{byte_words, bytes};
use crate::support::{rows, words};

const NONE: Rules = Rules {
    providers: false,
    plus: false,
    srs: false,
    nfkc: false,
};

fn rules(names: &str) -> Rules {
    let mut rules = NONE;
    for name in names.split_whitespace() {
        match name {
            "default" => rules = Rules::default(),
            "none" => rules = NONE,
            "providers" => rules.providers = true,
            "plus" => rules.plus = true,
            "srs" => rules.srs = true,
            "nfkc" => rules.nfkc = true,
            _ => panic!("no such rule: {name}"),
        }
    }
    rules
}

/// Returns the canonical form, or `!` and the name of the error, as in the table.
fn canonical(written: &[u8], rules: Rules) -> String {
    match Canonical::parse(written, rules) {
        Ok(form) => escaped(form.as_bytes()).to_string(),
        Err(error) => format!("! {error:?}"),
    }
}

/// Returns every entry by which a sender is looked up, as text.
fn lookups(written: &[u8], rules: Rules) -> Vec<String> {
    let mut found = Vec::new();
    if let Ok(form) = Canonical::parse(written, rules) {
        let _ = form.lookups(Kinds::ALL, |_, entry| {
            found.push(escaped(entry).to_string());
            ControlFlow::<()>::Continue(())
        });
    }
    found
}

#[test]
fn table_of_addresses() {
    let mut rules_now = Rules::default();
    let mut first: Option<String> = None;
    let (mut rows, mut wrong) = (0, Vec::new());
    for (number, line) in (1..).zip(include_str!("../addresses.txt").lines()) {
        if line.is_empty() {
            first = None;
        } else if let Some(names) = line.strip_prefix("rules: ") {
            rules_now = rules(names);
        } else if line != "#" && !line.starts_with("# ") {
            let columns: Vec<&str> = line.split('\t').collect();
            let [written, expected, same, _why, _source] = columns[..] else {
                panic!("line {number}: not five columns");
            };
            rows += 1;
            let got = canonical(&bytes(written), rules_now);
            if got != expected {
                wrong.push(format!(
                    "line {number}: {written}: got {got}, not {expected}"
                ));
            }
            let is_first = first.as_ref().is_none_or(|first| *first == got);
            if (is_first && !got.starts_with("! ")) != (same == "=") {
                wrong.push(format!("line {number}: {written}: {got}: should be {same}"));
            }
            first.get_or_insert(got);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(rows >= 300);
}

/// Returns what an entry is read as: its kind and its text, or `!` and the name of the error.
fn entry(written: &[u8]) -> String {
    match Entry::parse(written, Rules::default()) {
        Ok(entry) => format!("{:?} {}", entry.kind(), escaped(entry.as_bytes())),
        Err(error) => format!("! {error:?}"),
    }
}

#[test]
fn table_of_entries() {
    for [written, expected] in rows(include_str!("entries.txt")) {
        assert_eq!(entry(&bytes(written)), expected, "{written}");
    }
    let long = format!("@{}example", "a.".repeat(124));
    let expected = "! TooLong { got: 255, most: 253 }";
    assert_eq!(entry(long.as_bytes()), expected);
}

#[test]
fn a_sender_is_found_as_it_is_spelled_and_as_it_is_delivered() {
    for [written, with, expected] in rows(include_str!("lookups.txt")) {
        let rules = Rules {
            srs: with == "srs",
            ..Rules::default()
        };
        let found = lookups(written.as_bytes(), rules);
        assert_eq!(found, words(expected), "{written}");
    }
}

#[test]
fn only_the_kinds_asked_for_are_visited_and_break_ends_it() {
    let form = Canonical::parse(b"a@b.c.example", Rules::default()).unwrap();
    let mut kinds = Kinds::EMPTY;
    kinds.insert(Kind::Subtree);
    let mut seen = Vec::new();
    let end = form.lookups(kinds, |kind, text| {
        seen.push((kind, text.to_vec()));
        ControlFlow::Break(7)
    });
    assert_eq!(end, ControlFlow::Break(7));
    assert_eq!(seen, [(Kind::Subtree, b".c.example".to_vec())]);
}

/// The checksum of the canonical forms of all mapped code points, for this [`RULES_VERSION`].
/// Another sum means that the rules or the Unicode data of a dependency have changed: raise the
/// version. (Blocks that still get new capital letters are excluded, because the compiler's data
/// decides there.) Also checks that only the stops of UTS 46 divide labels.
#[test]
fn every_code_point_has_the_form_it_had() {
    let rules = Rules { nfkc: true, ..NONE };
    let letters = ('\u{80}'..='\u{1C7F}').chain('\u{1C90}'..='\u{33FF}');
    let compatible = ('\u{F900}'..='\u{FFFF}').chain('\u{1F100}'..='\u{1F2FF}');
    let mut sum = 0;
    let mut form = Canonical::new();
    for c in letters.chain(compatible) {
        form.read(format!("a{c}A@b{c}B.example").as_bytes(), rules)
            .unwrap();
        let stops = form.domain().iter().filter(|&&byte| byte == b'.').count();
        let is_stop = matches!(c, '\u{3002}' | '\u{FF0E}' | '\u{FF61}');
        assert_eq!(stops, 1 + usize::from(is_stop), "{c:?} in a domain");
        sum = Key::of(form.as_bytes(), sum).0;
    }
    assert_eq!((RULES_VERSION, sum), (2, 7_635_484_615_394_298_617));
}

#[test]
fn a_form_is_read_again_and_again_and_an_error_leaves_nothing() {
    let mut form = Canonical::new();
    let visited = form.lookups(Kinds::ALL, |_, _| ControlFlow::Break(()));
    assert!(visited.is_continue());
    for written in byte_words(r#"A@googlemail.com <> "x{20}y"@example.com nothing a@b.example"#) {
        let read = form.read(&written, Rules::default());
        assert_eq!(read.is_ok(), !form.as_bytes().is_empty());
        let fresh = Canonical::parse(&written, Rules::default());
        let fresh = fresh.map(|fresh| fresh.as_bytes().to_vec());
        assert_eq!(fresh, read.map(|()| form.as_bytes().to_vec()));
    }
}

#[test]
fn rules_and_kinds_survive_the_file() {
    for bits in 0..=u8::MAX {
        let is_known = bits < 16;
        assert_eq!(
            Rules::from_bits(bits).map(Rules::bits),
            is_known.then_some(bits)
        );
        assert_eq!(Kinds::from_bits(bits).is_some(), is_known);
    }
    assert_eq!(Rules::default().bits(), 1);
    assert_eq!(Kind::ALL.into_iter().collect::<Kinds>(), Kinds::ALL);
}

/// Long inputs of the worst kinds: the result is correct, and is found in time.
#[test]
fn a_hundred_kilobytes_of_anything() {
    let n = 100_000;
    let sender = |before: &str, after: &str| {
        let written = format!("{before}spam@x.example{after}");
        canonical(written.as_bytes(), Rules::default())
    };
    for open in [
        "(", "<", " ", "\u{200B}", "(\\)", "\r\n ", "\0", "<>", "()", "x<",
    ] {
        let mut before = open.repeat(n);
        if matches!(open, "(" | "(\\)") {
            before += &")".repeat(n);
        }
        assert_eq!(sender(&before, ""), "spam@x.example", "{open:?}");
    }
    for behind in [" ", "(", ")", ",", ";", "\u{200B}", ">", "()", "\r\n "] {
        assert_eq!(
            sender("", &behind.repeat(n)),
            "spam@x.example",
            "{behind:?}"
        );
    }
    for any in words("\" \\ @ . : [ a. \u{3002} ü. é e\u{301} @a, mailto: prvs=a= xn--é") {
        let any = any.repeat(n);
        for text in [
            any.clone(),
            format!("{any}@x.example"),
            format!("spam@{any}"),
        ] {
            let all = Rules::from_bits(15).unwrap();
            assert!(!canonical(&text.as_bytes()[..n.min(text.len())], all).is_empty());
        }
    }
    let too_long = Canonical::parse(&vec![b'a'; (1 << 20) + 1], Rules::default());
    assert!(matches!(too_long, Err(ParseError::TooLong { .. })));
}

/// Pieces that have a meaning in some rule, and pieces that have none.
const PIECES: &str = r#"
    a B spam x.example . .. @ @ @ " \ ( ) < > {20} {9} {D}{A}{20} , ; : [ ] * + - = prvs=12ab=
    btv1==12ab== mailto: srs0=h=t=o.example= gmail.com googlemail.com fastmail.com user. pm.me
    yahoo.com [IPv6:::1] [192.0.2.1] ü u{308} Σ İ ß ẞ ς {3002} {FF0E} {2024} {FF20} {200B} {200D}
    {200C} {AD} {A0} {3000} {85} क{94D} xn-- xn--bcher-kva 𝐚 ﬁ K {37E} Ⅎ ᾈ {345} א 1 % ! ? / {0}
    {7F}
"#;

/// Generates texts of these pieces, and of any others.
fn anything() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        8 => proptest::sample::select(byte_words(PIECES)),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
        1 => any::<char>().prop_map(|c| c.to_string().into_bytes()),
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn any_rules() -> impl Strategy<Value = Rules> {
    (0_u8..16).prop_map(|bits| Rules::from_bits(bits).unwrap())
}

fn form(written: &[u8], rules: Rules) -> Option<Vec<u8>> {
    Canonical::parse(written, rules)
        .ok()
        .map(|form| form.as_bytes().to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn canonical_twice_is_canonical_once(written in anything(), rules in any_rules()) {
        if let Some(once) = form(&written, rules) {
            prop_assert_eq!(form(&once, rules), Some(once.clone()), "{}", escaped(&once));
        }
    }

    #[test]
    fn an_entry_is_among_the_lookups_of_its_sender(written in anything(), rules in any_rules()) {
        if let Ok(entry) = Entry::parse(&written, rules) {
            let again = Entry::parse(entry.as_bytes(), rules);
            prop_assert_eq!(again.as_ref().map(Entry::as_bytes), Ok(entry.as_bytes()));
            prop_assert_eq!(again.map(|again| again.kind()), Ok(entry.kind()));
            let listed = escaped(entry.as_bytes()).to_string();
            let sender = match entry.kind() {
                Kind::Mailbox => written,
                Kind::LocalPart => [entry.as_bytes(), b"some.example"].concat(),
                Kind::Domain => [b"some", entry.as_bytes()].concat(),
                Kind::Subtree => [b"some@sub", entry.as_bytes()].concat(),
            };
            let found = lookups(&sender, rules);
            prop_assert!(found.contains(&listed), "{listed} not in {found:?}");
            let each: BTreeSet<_> = found.iter().collect();
            prop_assert_eq!(each.len(), found.len(), "each once: {:?}", found);
        }
    }

    /// However the route is written; without a route there is nothing behind it.
    #[test]
    fn what_is_behind_a_route_is_the_address(written in anything(), route in "@[a-z@,\\[\\]:\" ]{0,9}:?", open in "<?") {
        let written = [open.as_bytes(), route.as_bytes(), &written].concat();
        if let Some(rest) = behind_route(&written) {
            let short = [b"<@:", rest].concat();
            prop_assert_eq!(form(&short, Rules::default()), form(&written, Rules::default()));
        }
        let plain = written.iter().filter(|&&byte| byte != b':').copied().collect::<Vec<_>>();
        prop_assert_eq!(behind_route(&plain), None);
    }

    #[test]
    fn ascii_case_changes_nothing(written in anything(), rules in any_rules()) {
        prop_assert_eq!(form(&written.to_ascii_uppercase(), rules), form(&written.to_ascii_lowercase(), rules));
    }

    #[test]
    fn what_nobody_sees_changes_nothing(
        written in "[a-z.+\"ü=-]{1,9}@[a-zü]{1,8}\\.(example|com)",
        invisible in proptest::sample::select(&["\u{200B}", "\u{AD}", "\u{202E}", "\0", "\u{E0041}", "\u{FEFF}", "(c)", "((c)\\))"][..]),
        place in any::<proptest::sample::Index>(),
    ) {
        let mut places: Vec<_> = written.char_indices().map(|(at, _)| at).collect();
        places.push(written.len());
        let at = places[place.index(places.len())];
        let (before, after) = written.split_at(at);
        // In a quoted string a comment is text.
        let quoted = before.bytes().filter(|&byte| byte == b'"').count() % 2 == 1;
        let invisible = if quoted && invisible.starts_with('(') { "\0" } else { invisible };
        let hidden = format!("{before}{invisible}{after}");
        prop_assert_eq!(form(hidden.as_bytes(), Rules::default()), form(written.as_bytes(), Rules::default()));
    }

    /// A local part with a letter beyond ASCII never equals one without it.
    #[test]
    fn letters_beyond_ascii_are_never_folded_into_it(
        // NFC maps the Kelvin sign to K; it is the only such letter.
        letter in r"[\p{L}&&[^A-Za-z\x{212A}]]", plain in "[a-z]{0,3}",
    ) {
        let letter = letter.chars().next().unwrap();
        let Some(got) = form(format!("{plain}{letter}@x.example").as_bytes(), Rules::default()) else {
            return Ok(());
        };
        let fillers = ['\u{115F}', '\u{1160}', '\u{3164}', '\u{FFA0}'];
        let unseen = fillers.contains(&letter) && got == format!("{plain}@x.example").as_bytes();
        prop_assert!(!got.is_ascii() || unseen, "{letter} became {}", escaped(&got));
    }

    #[test]
    fn escaped_is_one_line_without_controls(bytes in anything()) {
        let shown = escaped(&bytes).to_string();
        let unwanted = |c: char| c.is_control() || ['\u{202E}', '\u{200B}'].contains(&c);
        prop_assert!(!shown.contains(unwanted), "{shown:?}");
    }
}

#[test]
fn a_label_too_long_for_a_host_is_kept_and_its_neighbours_are_mapped() {
    let domain = |written: &str| {
        let address = format!("a@{written}");
        let form = Canonical::parse(address.as_bytes(), Rules::default()).unwrap();
        let again = Canonical::parse(form.as_bytes(), Rules::default()).unwrap();
        assert_eq!(again.as_bytes(), form.as_bytes(), "{written}");
        String::from_utf8(form.domain().to_vec()).unwrap()
    };
    let long = "\u{e9}".repeat(600);
    let found = domain(&format!("{long}.B\u{dc}CHER.example"));
    assert_eq!(found, format!("{long}.xn--bcher-kva.example"));
    // The longest A-label, in its longest notation: each syllable in its three parts.
    let syllable = "\u{ac01}".repeat(55);
    let parts = "\u{1100}\u{1161}\u{11a8}".repeat(55);
    let found = domain(&format!("{parts}.example"));
    assert_eq!(found, domain(&format!("{syllable}.example")));
    assert!(found.starts_with("xn--"), "{found}");
}
