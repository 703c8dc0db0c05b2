//! The senders in header values and in MAIL arguments: tables, properties, limits.
use std::fs;

use blocklist_filter::address::{Canonical, Rules};
use blocklist_milter::sender::{
    Identity, MAX_ADDRESSES, MAX_SCANNED_BYTES, MAYBE_CUT_BYTES, Senders, Strength,
};
use proptest::prelude::*;

use crate::support::table::byte_words;
use crate::support::{root, rows, thread_time};

/// Returns the addresses of one value, weak ones after `~`, doubtful ones after `?`.
fn shown(senders: &Senders) -> Vec<String> {
    let senders = senders.iter().map(|sender| {
        let mark = match sender.strength {
            Strength::Strong => "",
            Strength::Weak => "~",
            Strength::Doubtful => "?",
        };
        format!("{mark}{}", String::from_utf8_lossy(sender.address))
    });
    senders.collect()
}

fn of_header(value: &[u8]) -> Vec<String> {
    let mut senders = Senders::new();
    senders.add_header(Identity::From, value);
    shown(&senders)
}

/// Returns whether the spammer is among the senders of a value.
fn finds_spam(value: &str) -> bool {
    let found = of_header(value.as_bytes());
    found.iter().any(|address| address == "spam@bad.example")
}

fn of_mail(argument: &[u8]) -> Vec<String> {
    let mut senders = Senders::new();
    senders.add_mail_from(argument);
    shown(&senders)
}

fn check_table(file: &str, read: fn(&[u8]) -> Vec<String>) {
    let text = fs::read_to_string(root("tests/senders").join(file)).unwrap();
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    let mut wrong = Vec::new();
    for row in rows {
        let mut columns = row.split('\t');
        let value = columns.next().unwrap().replace("<TAB>", "\t");
        let expected: Vec<&str> = columns.collect();
        let found = read(value.as_bytes());
        let found: Vec<_> = found.iter().map(|f| f.replace('\t', "<TAB>")).collect();
        if found != expected {
            wrong.push(format!("{value}: {found:?}, not {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn header_values() {
    check_table("headers.txt", of_header);
}

fn of_header_at_sendmail(value: &[u8]) -> Vec<String> {
    let mut senders = Senders::new();
    senders.set_sendmail();
    senders.add_header(Identity::From, value);
    shown(&senders)
}

#[test]
fn header_values_at_sendmail() {
    check_table("sendmail.txt", of_header_at_sendmail);
}

/// A quoted string of more than 256 bytes, with its quotes, ends a mailbox. A longer mailbox is cut, its address too.
#[test]
fn sendmail_parts_and_cuts_a_long_mailbox() {
    let quoted = |length: usize| {
        format!(
            "spam@bad.example \"{}\" <ok@good.example>",
            "N".repeat(length)
        )
    };
    let named = |length: usize| format!("{} <spam@bad.examplexy>", "N ".repeat(length / 2));
    let inside = |length: usize| {
        let name = "N".repeat(length);
        format!("\"{name} <spam@bad.example>, x\" <ok@good.example>")
    };
    let cron = |length: usize| {
        let name = "N".repeat(length);
        format!("\"Cron {name} for spam@bad.example\" <root>")
    };
    let commented = format!(
        "ok@good.example ({} <spam@bad.example>, (x) x)",
        "N".repeat(215)
    );
    let alone = format!("<{}.spam@bad.examplexy>", "n.".repeat(118) + "n");
    let behind = format!("{} {alone}", "N ".repeat(200));
    let local = alone.trim_matches(['<', '>']).replace("xy", "");
    for (value, address, is_found) in [
        (quoted(254), "spam@bad.example", false),
        (quoted(255), "spam@bad.example", true),
        (named(230), "spam@bad.example", false),
        (named(238), "spam@bad.example", true),
        (named(260), "spam@bad.example", false),
        (cron(221), "spam@bad.example", false),
        (cron(962), "spam@bad.example", false),
        (commented, "spam@bad.example", false),
        (inside(200), "spam@bad.example", false),
        (inside(300), "spam@bad.example", false),
        (inside(700), "spam@bad.example", false),
        (alone, &*local, true),
        (behind, &*local, true),
    ] {
        let found = of_header_at_sendmail(value.as_bytes());
        assert_eq!(
            found
                .iter()
                .any(|one| one.trim_start_matches('~') == address),
            is_found,
            "{value}: {found:?}"
        );
    }
}

/// A server breaks a long line, and its last backslash escapes the blank or `!` there, not the quote.
#[test]
fn a_field_is_read_in_the_lines_in_which_it_is_delivered() {
    const NAME: &str = r#"\" <spam@bad.example>, x" <ok@good.example>"#;
    let is_found = |identity: Identity, value: &str| {
        let mut senders = Senders::new();
        senders.add_header(identity, value.as_bytes());
        let mut found = senders.iter();
        found.any(|sender| sender.address == b"spam@bad.example")
    };
    let headers = Identity::ALL
        .into_iter()
        .filter(|it| *it != Identity::MailFrom);
    for identity in headers {
        let field = identity.name().len() + 1;
        // Postfix, Sendmail, its mailer relay; behind the first line and behind the second.
        for (break_at, is_first) in [
            (998, true),
            (989, true),
            (2039, false),
            (998 + 997, false),
            (989 + 988, false),
        ] {
            for before in [field, field + 1] {
                let quoted = |more: usize| format!("\"{}{NAME}", "N".repeat(more - 2));
                let own_line = |blanks: &str| {
                    format!("x@y.example,\n{blanks}{}", quoted(break_at - blanks.len()))
                };
                let beside = format!("x@y.example, {}", quoted(break_at - 8));
                assert!(
                    is_found(identity, &quoted(break_at - before)),
                    "{identity} {break_at}"
                );
                let postfix = [998, 998 + 997].contains(&break_at);
                assert!(
                    is_found(
                        identity,
                        &match postfix {
                            true => own_line("  "),
                            false => beside,
                        }
                    ),
                    "{identity} {break_at}"
                );
                if is_first {
                    assert!(
                        !is_found(identity, &quoted(break_at - before - 3)),
                        "{identity} {break_at}"
                    );
                }
            }
        }
    }
}

/// Sendmail ends a mailbox behind a token that is too long for it, and cuts one that is too long.
#[test]
fn sendmail_divides_and_cuts_what_is_too_long() {
    let token = "N".repeat(257);
    let divided =
        of_header_at_sendmail(format!("spam@bad.example {token} <ok@good.example>").as_bytes());
    assert!(
        divided.contains(&"spam@bad.example".to_owned()),
        "{divided:?}"
    );
    let name = "N ".repeat(119);
    let cut = format!("{name}<spam@bad.example{}@good.example>", "Z".repeat(1_300));
    let cut = of_header_at_sendmail(cut.as_bytes());
    assert!(cut.contains(&"spam@bad.example".to_owned()), "{cut:?}");
}

/// A long list of addresses fits once, although it is read in several forms.
#[test]
fn a_long_list_is_not_stored_again_in_each_form() {
    let list: Vec<_> = (0..MAX_ADDRESSES - 16)
        .map(|n| format!("{n}@x.ex"))
        .collect();
    let mut senders = Senders::new();
    senders.add_header(Identity::ReplyTo, list.join(", ").as_bytes());
    assert!(senders.len() < list.len() + 200, "{}", senders.len());
}

#[test]
fn bytes_that_are_not_utf_8_are_read_as_windows_1252_too() {
    for value in [
        &b"<info@m\xfcller.example>"[..],
        b"x, info@m\xfcller.example",
    ] {
        assert!(of_header(value).contains(&"info@müller.example".to_owned()));
    }
    assert_eq!(
        of_header(b"\"M\xfcller, v@w.example\" <ok@good.example>"),
        ["ok@good.example"]
    );
}

#[test]
fn mail_arguments() {
    check_table("mail.txt", of_mail);
}

#[test]
fn a_message_s_senders_are_kept_apart_and_forgotten() {
    let mut senders = Senders::new();
    senders.add_mail_from(b"<a@b.example>");
    senders.add_header(Identity::From, b"a@b.example");
    senders.add_header(Identity::From, b"A <a@b.example>, (x) a@b.example");
    senders.add_header(Identity::ReplyTo, b"\"a@b.example\"");
    let found: Vec<_> = senders.iter().map(|s| (s.identity, s.strength)).collect();
    let expected = [
        (Identity::MailFrom, Strength::Strong),
        (Identity::From, Strength::Strong),
        (Identity::ReplyTo, Strength::Weak),
    ];
    assert_eq!(found, expected);
    senders.clear();
    assert!(senders.is_empty());
}

#[test]
fn addresses_beyond_the_bound_are_reported() {
    let add_many = |senders: &mut Senders, count: usize| {
        for number in 0..count {
            let value = format!("{number}@bad.example");
            senders.add_header(Identity::From, value.as_bytes());
        }
    };
    let mut senders = Senders::new();
    add_many(&mut senders, MAX_ADDRESSES);
    assert_eq!(senders.len(), MAX_ADDRESSES);
    assert!(!senders.truncated());
    senders.add_header(Identity::From, b"one@more.example");
    assert_eq!(senders.len(), MAX_ADDRESSES);
    assert!(senders.truncated());
    // One field does not use the limit of another.
    senders.add_header(Identity::ReplyTo, b"spam@bad.example");
    let last = senders.iter().last().map(|sender| sender.address);
    assert_eq!(last, Some(&b"spam@bad.example"[..]));
    senders.clear();
    assert!(!senders.truncated());
    // Words of a name do not use the limit, nor do duplicates of the first addresses.
    senders.add_header(Identity::From, b"c@d.example");
    add_many(&mut senders, MAX_ADDRESSES - 2);
    let name: Vec<_> = (0..1_000).map(|n| format!("{n}@x.example")).collect();
    let value = format!("{} <a@b.example>", name.join(" "));
    senders.add_header(Identity::From, value.as_bytes());
    senders.add_header(Identity::From, "c@d.example,\n ".repeat(1_000).as_bytes());
    assert_eq!(senders.len(), MAX_ADDRESSES);
    assert!(!senders.truncated());
}

/// Every spelling of a mailbox, before and after everything that separates two.
#[test]
fn whatever_parts_two_addresses_both_are_found() {
    let bare = [
        " ", "\t", "\r\n ", "\u{b}", "\u{c}", "\u{a0}", "\u{2028}", "\u{3000}", "，", "、", "؛",
        " (x) ", " <> ", ": ", ":25, ", ", ", ";", " ; , ",
    ];
    for parted in bare {
        let value = format!("spam@bad.example{parted}ok@good.example");
        let found = of_header(value.as_bytes());
        for address in ["spam@bad.example", "ok@good.example"] {
            assert!(found.iter().any(|f| f == address), "{value:?}: {found:?}");
        }
    }
    for [first, second] in rows(
        r#"
        spam@bad.example        | ok@good.example
        <spam@bad.example>      | <ok@good.example>
        Name <spam@bad.example> | "x" <ok@good.example>
        spam@bad.example        | <ok@good.example>
        <spam@bad.example>      | "x" <ok@good.example>
        Name <spam@bad.example> | ok@good.example
        spam@bad.example        | "x" <ok@good.example>
        <spam@bad.example>      | ok@good.example
        Name <spam@bad.example> | <ok@good.example>
        "#,
    ) {
        for parted in [", ", ",", ";", " , ,", ",\r\n "] {
            let value = format!("{first}{parted}{second}");
            let expected = ["spam@bad.example", "ok@good.example"];
            assert_eq!(of_header(value.as_bytes()), expected, "{value:?}");
        }
    }
}

#[test]
fn a_field_that_may_have_been_cut_is_reported() {
    for (length, is_cut) in [(MAYBE_CUT_BYTES - 1, false), (MAYBE_CUT_BYTES, true)] {
        let mut senders = Senders::new();
        let name = "x".repeat(length - "<a@b.example>".len());
        senders.add_header(Identity::From, format!("{name}<a@b.example>").as_bytes());
        assert_eq!(shown(&senders), ["a@b.example"]);
        assert_eq!(senders.truncated(), is_cut);
    }
}

#[test]
fn values_beyond_the_bound_on_scanning_are_reported() {
    let field = format!("{} <a@b.example>, c@d.example", "x".repeat(6 << 10));
    let fields = MAX_SCANNED_BYTES / field.len();
    let mut senders = Senders::new();
    for _ in 0..fields {
        senders.add_header(Identity::From, field.as_bytes());
    }
    assert_eq!(shown(&senders), ["a@b.example", "c@d.example"]);
    assert!(!senders.truncated());
    senders.add_header(Identity::From, field.replace("c@d", "e@f").as_bytes());
    assert_eq!(shown(&senders), ["a@b.example", "c@d.example"]);
    assert!(senders.truncated());
    // An ordinary value needs no scan, and one field does not use the limit of another.
    senders.add_header(Identity::From, b"Name <spam@bad.example>");
    senders.add_header(Identity::ReplyTo, b"spam@bad.example, ok@good.example");
    assert_eq!(senders.len(), 5);
    senders.clear();
    senders.add_header(Identity::From, field.as_bytes());
    assert!(!senders.truncated());
    // The envelope has the same limit.
    let argument = format!("<a@b.example> {}", "x".repeat(MAX_SCANNED_BYTES));
    senders.add_mail_from(argument.as_bytes());
    assert!(senders.truncated() && senders.len() == 2);
}

/// If comparing both readings of an address costs too much, both are kept.
#[test]
fn no_reading_is_lost_beyond_what_is_compared() {
    let odd: Vec<_> = (0..1_000).map(|n| format!("[{n}]@b.example")).collect();
    for parted in [" ", ", "] {
        let found = of_header(odd.join(parted).as_bytes());
        for (number, written) in odd.iter().enumerate() {
            let read = format!("{number}@b.example");
            let has_both = found.contains(written) && found.contains(&read);
            assert!(has_both, "{written}");
        }
    }
}

#[test]
fn a_long_value_hides_nothing() {
    for filler in byte_words(r#"x " \" ( < =? =?utf-8?Q? , : @ a@b{20} {A}{20}"#) {
        let filler = filler.repeat(60_000 / filler.len());
        let value = [&filler[..], b", Name <spam@bad.example>"].concat();
        let found = of_header(&value);
        let mut found = found.iter().map(|address| address.trim_start_matches('~'));
        let is_found = found.any(|address| address == "spam@bad.example");
        assert!(is_found, "behind {} ...", filler[..12].escape_ascii());
    }
}

/// `prefix→repeated→suffix`, or what is repeated alone: unclosed openers, distant closers, and texts
/// that made some version of the scan read the same part repeatedly. Then, for NFC and IDNA: composed
/// and decomposed, wide, rejected, with many labels. Then words with several readings, alone and each
/// another address. The notation is that of [`byte_words`]; `№` is another number each time.
const HOSTILE: &str = include_str!("sender/hostile.txt");

/// Returns a text of a family, in which no address occurs twice.
fn repeated(family: &str, size: usize) -> Vec<u8> {
    let [prefix, unit, suffix] = match family.split('→').collect::<Vec<_>>()[..] {
        [prefix, unit, suffix] => [prefix, unit, suffix],
        _ => ["", family, ""],
    };
    let mut text = prefix.to_owned();
    for number in 0_usize.. {
        if text.len() >= size {
            break;
        }
        text.push_str(&unit.replace('№', &format!("{number:08}")));
    }
    text.push_str(suffix);
    text.into_bytes()
}

/// The processor time that a release build may need for a message of [`MESSAGE_BYTES`] of any
/// family in all its sender fields, including the canonical form of every address found.
const MOST_SECONDS: f64 = 0.5;
const MESSAGE_BYTES: usize = 16 << 20;

#[test]
#[ignore = "a campaign: measures, 16 MB of each family"]
fn hostile_values_take_little_time() {
    let mut senders = Senders::new();
    let mut form = Canonical::new();
    // The shortest of some times for this value in each of these fields.
    let mut seconds = |value: &[u8], fields: &[Identity]| {
        let mut best = f64::MAX;
        for _ in 0..3 {
            senders.clear();
            let start = thread_time();
            for &field in fields {
                senders.add_header(field, value);
            }
            for sender in senders.iter() {
                let _ = form.read(sender.address, Rules::default());
            }
            best = best.min((thread_time() - start).as_secs_f64());
            if best < MOST_SECONDS / 64.0 {
                break;
            }
        }
        best
    };
    let mut slow = Vec::new();
    for family in byte_words(HOSTILE) {
        let family = std::str::from_utf8(&family).unwrap();
        let longest = MAX_SCANNED_BYTES - 1024;
        let quarter = seconds(&repeated(family, longest / 4), &[Identity::From]);
        let whole = seconds(&repeated(family, longest), &[Identity::From]);
        // As long as a server allows a field to be, and as many as fit in the message.
        let field = repeated(family, MAYBE_CUT_BYTES - 1024);
        let headers = Identity::ALL.iter().copied();
        let headers = headers.filter(|&identity| identity != Identity::MailFrom);
        let fields: Vec<_> = headers.cycle().take(MESSAGE_BYTES / field.len()).collect();
        let message = seconds(&field, &fields);
        println!(
            "{message:.3} s a message, {:.0} ns a byte: {family:?}",
            whole * 1e9 / longest as f64
        );
        // A quadratic reader would need sixteen times as long.
        let grows = whole > 8.0 * quarter + 0.002;
        if grows || (!cfg!(debug_assertions) && message > MOST_SECONDS) {
            slow.push(format!(
                "{family:?}: {quarter:.3} s, then {whole:.3} s; {message:.3} s a message"
            ));
        }
    }
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}

/// Returns whether each sender in a value has a local part and a domain.
fn have_two_sides(value: &[u8]) -> bool {
    let mut senders = Senders::new();
    senders.add_header(Identity::From, value);
    senders.add_mail_from(value);
    senders.iter().all(|sender| {
        let at = sender.address.iter().rposition(|&byte| byte == b'@');
        at.is_some_and(|at| at > 0 && at + 1 < sender.address.len())
    })
}

/// Generates a part of a header value, including odd ones.
fn fragment() -> impl Strategy<Value = String> {
    let fixed = prop::sample::select(byte_words(
        r#"
        < > " ( ) , ; : @ . {20} {9} {D}{A}{20} \ [ ] =? ?= a b.example Name a@b.example
        <c@d.example> "x{20}y" (z) =?utf-8?Q?e=40f?= =?utf-8?B?Z0Bo?= é {200B} {A0} ' ! mailto:
        [192.0.2.1] {0} {7F}
        "#,
    ));
    let fixed = fixed.prop_map(|text| String::from_utf8(text).expect("UTF-8"));
    prop_oneof![8 => fixed, 1 => "[a-z]{1,3}", 1 => any::<char>().prop_map(String::from)]
}

fn value() -> impl Strategy<Value = String> {
    prop::collection::vec(fragment(), 0..24).prop_map(|fragments| fragments.concat())
}

fn plain_local() -> impl Strategy<Value = String> {
    "[A-Za-z0-9!#$%&'*+/=^_`{|}~.-]{1,12}"
}

fn plain_domain() -> impl Strategy<Value = String> {
    "[A-Za-z0-9.-]{0,8}[a-z0-9][A-Za-z0-9.-]{0,3}"
}

fn plain_name() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "[A-Za-z0-9=?_!'/ .é-]{0,20}",
        "\"[A-Za-z0-9=?_,:;<>@()é\\[\\] -]{0,20}\"",
        Just("=?utf-8?Q?N=C3=A4me?=".to_owned()),
        "=\\?utf-8\\?[qQbB]\\?[A-Za-z0-9=?]{0,12}",
    ]
}

/// Generates blanks, folds and comments, which RFC 5322 allows between tokens.
fn cfws() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => Just(""),
        7 => prop::sample::select(vec![
            " ", "\t", "\r\n ", " (a comment)", "(v@w.example) ", "\r\n\t(\"v@w.example) ",
            " (with \\) and (nested <v@w.example>), v@w.example;) ",
        ]),
    ]
    .prop_map(str::to_owned)
}

/// Generates a display name (RFC 5322 section 3.4), which may look like an address if it is quoted.
fn display_name() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        4 => "[A-Za-z0-9!#$%&'*+/^_`{|}~é-]{1,8}",
        1 => Just("=?utf-8?Q?v=40w.example?=".to_owned()),
        2 => "\"([A-Za-z0-9,:;<>@(). \\[\\]é-]|\\\\\"|\\\\\\\\){0,12}\"",
        1 => Just("\"v@w.example\"".to_owned()),
        1 => Just("\"<v@w.example>, v@w.example\"".to_owned()),
    ];
    prop::collection::vec((cfws(), word), 0..4).prop_map(|words| {
        words
            .into_iter()
            .map(|(cfws, word)| cfws + " " + &word)
            .collect()
    })
}

/// Returns an address with unique words, and a mailbox with it.
fn mailbox(number: usize, bare: bool, name: &str, around: &[String]) -> (String, String) {
    let address = format!("m{number}@d{number}.example");
    let [before, within, behind] = around else {
        unreachable!("three are generated");
    };
    let written = if bare {
        format!("{before}{address}{behind}")
    } else {
        format!("{name}{before}<{within}{address}{within}>{behind}")
    };
    (written, address)
}

/// Generates mailboxes and groups, separated by commas, and the addresses of the mailboxes.
fn mailbox_list() -> impl Strategy<Value = (String, Vec<String>)> {
    let mailbox_parts = (
        any::<bool>(),
        display_name(),
        prop::collection::vec(cfws(), 3),
    );
    let group = (
        prop::option::weighted(0.3, "[A-Za-z]{1,8}|\"v@w[.]example: x;\""),
        prop::collection::vec(mailbox_parts, 1..4),
    );
    prop::collection::vec(group, 1..4).prop_map(|groups| {
        let mut addresses = Vec::new();
        let mut written = Vec::new();
        for (group, mailboxes) in groups {
            let mut members = Vec::new();
            for (bare, name, around) in mailboxes {
                let (mailbox, address) = mailbox(addresses.len(), bare, &name, &around);
                members.push(mailbox);
                addresses.push(address);
            }
            let members = members.join(",");
            written.push(match group {
                Some(name) => format!("{name}:{members};"),
                None => members,
            });
        }
        (written.join(","), addresses)
    })
}

/// A form feed or vertical tab is not white space in RFC 5322, so such a value is not an ordinary
/// form: it is read as it would be beside a second mailbox.
#[test]
fn controls_around_an_address_are_read_alike_alone_and_beside_another() {
    for control in ['\u{b}', '\u{c}', '\u{1}', '\u{7f}'] {
        for value in [
            format!("{control}a@b.example"),
            format!("a@b.example{control}"),
            format!("{control}<a@b.example>"),
            format!("{control}\"x\" <a@b.example>"),
            format!("<a@b.example>{control}"),
            format!("Name{control}<a@b.example>"),
        ] {
            let alone = of_header(value.as_bytes());
            let mut beside = of_header(format!("{value}, z@z.example").as_bytes());
            beside.retain(|found| found != "z@z.example");
            assert_eq!(alone, beside, "{value:?}");
        }
    }
}

/// The no-break space and the next line of Latin-1, which are not UTF-8.
#[test]
fn blanks_of_latin_1_are_not_part_of_an_address() {
    for blank in [0x85, 0xA0] {
        for value in [
            &[blank, b'a', b'@', b'b'][..],
            &[b'a', b'@', b'b', blank],
            &[b'N', blank, b'a', b'@', b'b', blank, blank, b'x'],
            &[b'<', b'a', b'@', b'b', blank, b'>'],
        ] {
            assert!(of_header(value).contains(&"a@b".to_owned()), "{value:?}");
        }
    }
}

proptest! {
    /// What counts is what RFC 5322 says: the mailboxes, not names and comments.
    #[test]
    fn a_clean_list_gives_its_mailboxes_and_nothing_else((value, addresses) in mailbox_list()) {
        prop_assert_eq!(of_header(value.as_bytes()), addresses, "{:?}", value);
    }

    /// No sender begins or ends with `@`, in any context, because that divides nothing.
    #[test]
    fn a_sender_has_a_local_part_and_a_domain(
        tokens in prop::collection::vec(prop::sample::select(vec![
            "a@b.example", "R", "\\@", "@", "\\", "\"", "<", ">", "(", ")", "[", "]", ",", ";", ":",
            " ", "\0", "\u{c}", "\u{a0}", "\u{3000}", "=?utf-8?q?=40?=", "=?utf-8?q?x?=", ".", "+", "é",
        ]), 1..12),
    ) {
        prop_assert!(have_two_sides(tokens.concat().as_bytes()), "{tokens:?}");
    }

    /// An address only in a name or a comment is weak, and one that only some programs show beside
    /// a mailbox is doubtful.
    #[test]
    fn what_is_in_names_is_weak_and_what_some_show_is_doubtful(
        number in 0..1000_usize,
        (name, before) in ("[a-z]{1,6}", "([a-z]{1,6} )?"),
        cfws in cfws(),
    ) {
        let address = format!("{name}@d{number}.example");
        for hidden in [
            format!("\"{before}{address}\""),
            format!("({address})"),
            format!("=?utf-8?Q?x_{name}=40d{number}.example?="),
            format!("{name}\u{ff20}d{number}.example"),
            format!("undisclosed ({address}):;"),
        ] {
            prop_assert_eq!(of_header(hidden.as_bytes()), [format!("~{address}")], "{}", hidden);
            let beside = of_header(format!("{hidden}{cfws} <ok@good.example>").as_bytes());
            prop_assert_eq!(beside, ["ok@good.example"], "{}", hidden);
        }
        for shown_by_some in [
            format!("{address}:<ok@good.example>"),
            format!("{address}<ok@good.example"),
            format!("{name}<ok@good.example>@d{number}.example"),
        ] {
            let found = of_header(shown_by_some.as_bytes());
            prop_assert_eq!(found, ["ok@good.example".to_owned(), format!("?{address}")], "{}", shown_by_some);
        }
    }

    /// For any bytes: no panic, and only valid senders.
    #[test]
    fn addresses_have_two_sides(value in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(have_two_sides(&value));
    }

    /// A mailbox after a comma is found after any text in which everything is closed.
    #[test]
    fn nothing_hides_the_next_mailbox(value in value()) {
        let closed = value.replace(['"', '(', ')', '<', '>', '\\'], "");
        let value = format!("{closed}, Name <spam@bad.example>");
        prop_assert!(finds_spam(&value));
    }

    /// Nor does any text after it.
    #[test]
    fn nothing_takes_back_a_mailbox(value in value()) {
        let value = format!("Name <spam@bad.example>, {value}");
        prop_assert!(finds_spam(&value));
    }

    /// An address at the end of a text counts, whatever stands before it. Only brackets, quotes, comments
    /// and backslashes may change its meaning.
    #[test]
    fn nothing_before_an_address_hides_it(
        before in prop::collection::vec(prop::sample::select(vec![
            "a", "Name", "@", "@", ".", " ", " ", "\t", "=", "!", "?", "#", "*", "/", "'", "é", "+", "-", "\"x\"", "\"x\"", "\"\"",
            "(x)", ",", ";", "=?utf-8?q?x?=", "=?utf-8?q?=40?=", "v@w.example", "v@", "\u{a0}", "\u{3000}", "[", "]",
        ]), 1..8),
        gap in prop::sample::select(vec![" ", "\t", "@ ", " @ ", " =", " !", "@ *", "\u{a0}", " 'x' "]),
        after in prop::sample::select(vec!["", " ", ", ok@good.example"]),
    ) {
        let before = before.concat();
        // Marks at the start of a text belong to the address.
        let begins = before.rsplit([',', ';']).next().is_some_and(|text| text.trim_ascii().is_empty());
        let gap = if begins { gap.trim_end_matches(['=', '!']) } else { gap };
        let value = format!("{before}{gap}spam@bad.example{after}");
        prop_assert!(finds_spam(&value), "{:?}: {:?}", value, of_header(value.as_bytes()));
    }

    /// Nor does anything after it that begins with a blank; only brackets and colons may make it a name.
    #[test]
    fn nothing_behind_an_address_hides_it(
        gap in prop::sample::select(vec![" ", "\t", "\u{a0}", "\u{3000}", ", ", "; ", " (x)", " \"x\""]),
        after in prop::collection::vec(prop::sample::select(vec![
            "a", "@", "@", ".", " ", "\t", "=", "!", "'", "é", "+", "\"x\"", "\"\"", "\"", "(x)", "(", ")", ",", ";", "\\",
            "=?utf-8?q?x?=", "=?utf-8?q?=40?=", "=?", "?=", "v@w.example", "v@", "\u{a0}", "\u{3000}", "[", "]", "\0",
        ]), 0..8),
    ) {
        let value = format!("spam@bad.example{gap}{}", after.concat());
        prop_assert!(finds_spam(&value), "{:?}: {:?}", value, of_header(value.as_bytes()));
    }

    /// A quoted name, a comment and an encoded word never count beside a mailbox.
    #[test]
    fn names_do_not_count(value in value()) {
        let inner = value.replace(['"', '\\', '\r', '\n'], "");
        let quoted = of_header(format!("\"v@w.example {inner}\" <ok@good.example>").as_bytes());
        prop_assert_eq!(quoted, ["ok@good.example"]);
        let inner = inner.replace(['(', ')'], "");
        let comment = of_header(format!("ok@good.example (v@w.example {inner})").as_bytes());
        prop_assert_eq!(comment, ["ok@good.example"]);
    }

    /// Letter case and folding do not change the result.
    #[test]
    fn case_and_folding_do_not_matter(value in value()) {
        let upper = |found: Vec<String>| -> Vec<String> {
            let mut found: Vec<_> = found
                .iter()
                .map(|address| address.replace(['\r', '\n'], "").to_ascii_uppercase())
                .collect();
            found.sort();
            found.dedup();
            found
        };
        // In encoded words the letter case matters.
        let mut value = value;
        value.retain(|character| character.is_ascii());
        while value.contains("=?") {
            value = value.replace("=?", "");
        }
        prop_assert_eq!(upper(of_header(value.as_bytes())), upper(of_header(value.to_ascii_uppercase().as_bytes())));
        // A bare CR before a blank would be part of a folding.
        let unfolded = value.replace('\r', "").replace("\n ", " ").replace('\t', " ");
        let folded = unfolded.replace(' ', "\n ");
        prop_assert_eq!(upper(of_header(folded.as_bytes())), upper(of_header(unfolded.as_bytes())));
    }

    /// The fast path returns what the slow path finds: a second mailbox after the value forces the
    /// slow path, and changes nothing for the first.
    #[test]
    fn plain_is_what_both_parsers_find(name in plain_name(), local in plain_local(), domain in plain_domain()) {
        let address = format!("{local}@{domain}");
        // Two dots at the end are read with them and without.
        prop_assume!(!address.contains("=?") && !address.ends_with(".."));
        let name = name.trim_end();
        for value in [address.clone(), format!("<{address}>"), format!("{name} <{address}> "), format!("{name}<{address}>")] {
            prop_assert_eq!(of_header(value.as_bytes()), [address.as_str()], "{}", value);
            let slow = of_header(format!("{value}, z@z.example").as_bytes());
            let first: Vec<&str> = slow.iter().map(String::as_str).filter(|found| *found != "z@z.example").collect();
            prop_assert_eq!(first, [address.as_str()], "{}", value);
        }
    }
}
