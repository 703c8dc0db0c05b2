//! Words by which lists say that somebody is not listed, in any place.
//!
//! Each word is tried in each place of each format: a list must never list a sender about whom it
//! says the opposite. It may reject the row, which is counted and reported.

use blocklist_milter::list::{Format, Reader, Row, guess};

/// The result for `x@one.example` in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Listed,
    Ends,
    Rejected,
    Off,
}

fn fate(list: &str, name: &str) -> Fate {
    let format = guess(list.as_bytes(), name);
    fate_in(list, format)
}

fn fate_in(list: &str, format: Format) -> Fate {
    let mut fate = Fate::Off;
    let mut spoils = false;
    Reader::new(format)
        .read_all(list.as_bytes(), &mut |_, row: Row<'_>| match row {
            Row::Entry(raw) if raw.text.windows(13).any(|part| part == b"x@one.example") => {
                fate = if raw.expires.is_some() {
                    Fate::Ends
                } else {
                    Fate::Listed
                };
            }
            Row::Rejected { reason, text } => {
                spoils |= reason.spoils_list();
                if text.windows(13).any(|part| part == b"x@one.example") && fate == Fate::Off {
                    fate = Fate::Rejected;
                }
            }
            _ => {}
        })
        .expect("memory can be read");
    if spoils { Fate::Rejected } else { fate }
}

/// Returns lists with words about an entry, where nothing else describes it.
fn remarks(words: &str) -> Vec<String> {
    vec![
        format!("x@one.example,{words}\nspam@bad.example,7\n"),
        format!("7;x@one.example;{words}\n8;spam@bad.example;\n"),
        format!("spam@bad.example\nx@one.example # {words}\n"),
        format!("spam@bad.example\nx@one.example # ({words})\n"),
        format!("spam@bad.example: why\nx@one.example: {words}\n"),
        format!("spam@bad.example: why\nx@one.example: \"{words}\"\n"),
    ]
}

/// Returns lists with the words in place of an action or status.
fn actions(words: &str) -> Vec<String> {
    vec![
        format!("email,action\nx@one.example,{words}\n"),
        format!("Value;Policy;Note\nx@one.example;{words};y\n"),
        format!("[{{\"email\":\"x@one.example\",\"action\":\"{words}\"}}]"),
        format!("email: x@one.example\naction: {words}\n"),
        format!("email: x@one.example\n  action: \"{words}\"\n"),
        format!("Action : {words}\nValue  : x@one.example\n"),
    ]
}

const TAKE_OFF: &[&str] = &[
    "not spam",
    "Not a spammer",
    "no spam",
    "do not block",
    "Don't block!",
    "please do not reject",
    "never block",
    "no longer blocked",
    "no longer on the blocklist",
    "is not blocked anymore",
    "whitelisted",
    "now whitelisted",
    "has been unblocked",
    "was allowed",
    "[allowed]",
    "(trusted)",
    "false positive",
    "false-positive",
    "FP",
    "exception",
    "safe",
    "legitimate",
    "approved",
    "permit",
    "listed by mistake",
    "blocked in error",
    "kein Spam",
    "keine Werbung",
    "nicht blockieren",
    "nicht mehr gesperrt",
    "freigegeben",
    "wurde entsperrt",
    "Ausnahme",
    "erlaubt",
    "pas de spam",
    "ne pas bloquer",
    "autoris\u{e9}",
    "d\u{e9}bloqu\u{e9}",
    "no es spam",
    "no bloquear",
    "permitido",
    "non bloccare",
    "consentito",
    "niet blokkeren",
    "toegestaan",
    "dozwolony",
    "разрешено",
    "не спам",
    "允许",
];

const GONE: &[&str] = &[
    "removed",
    "was removed",
    "has been removed",
    "delisted",
    "no longer listed",
    "no longer active",
    "not active",
    "cleared",
    "revoked",
    "withdrawn",
    "obsolete",
    "expired",
    "entfernt",
    "wurde entfernt",
    "nicht mehr aktiv",
    "eliminado",
    "verwijderd",
    "удален",
];

#[test]
fn nobody_is_listed_beside_words_that_say_the_contrary() {
    let mut wrong = Vec::new();
    for words in TAKE_OFF.iter().chain(GONE) {
        for list in remarks(words).into_iter().chain(actions(words)) {
            if fate(&list, "list") == Fate::Listed {
                wrong.push(list);
            }
        }
    }
    assert!(wrong.is_empty(), "{} listed: {wrong:#?}", wrong.len());
}

#[test]
fn words_of_refusal_are_understood_where_an_action_is_expected() {
    let mut wrong = Vec::new();
    for words in [
        "Block",
        "Blocked sender",
        "Reject the message",
        "REJECT spam",
        "Block and report",
        "Deny delivery",
        "554 rejected",
        "Refuse with 550",
        "Drop silently",
        "bounce",
        "Absender sperren",
        "ablehnen",
        "bloquer",
        "rechazar",
        "bloccare",
        "weigeren",
        "zablokuj",
        "заблокировать",
        "spam",
        "not allowed",
    ] {
        for list in actions(words) {
            if fate(&list, "list") != Fate::Listed {
                wrong.push(list);
            }
        }
    }
    assert!(wrong.is_empty(), "not listed: {wrong:#?}");
}

#[test]
fn an_unknown_action_is_counted_and_named() {
    for words in ["frobnicate", "Route A", "per policy 7", "x", "Blokhatatlan"] {
        for list in actions(words) {
            assert_eq!(fate(&list, "list"), Fate::Rejected, "{list}");
        }
    }
}

#[test]
fn remarks_about_spam_do_not_hide_a_listed_sender() {
    for words in [
        "spam from abroad",
        "reported by joe",
        "sends invoices nobody ordered",
        "old spammer",
        "ticket 12",
        "not a day without it",
        "phishing for bank accounts",
        "blocked since spring",
        "schickt Werbung",
    ] {
        let list = format!("spam@bad.example\nx@one.example # {words}\n");
        assert_eq!(fate(&list, "list"), Fate::Listed, "{list}");
    }
}

#[test]
fn an_address_of_nobody_who_sends_is_not_listed() {
    for who in [
        "recipient",
        "Recipients",
        "To",
        "Cc",
        "victim",
        "Reporter",
        "contact",
        "complainant",
        "owner",
        "Admin",
        "outgoing",
        "Empf\u{e4}nger",
        "destinataire",
        "customer",
    ] {
        for list in [
            format!("Type,Address\n{who},x@one.example\nSender,spam@bad.example\n"),
            format!("role;email;added\n{who};x@one.example;2026-01-01\n"),
            format!("email,category\nx@one.example,{who}\n"),
            format!("{who},x@one.example\nsender,spam@bad.example\n"),
            format!("[{{\"email\":\"x@one.example\",\"role\":\"{who}\"}}]"),
            format!("[{{\"kind\":\"{who}\",\"address\":\"x@one.example\"}}]"),
            format!("[{{\"type\":\"{who}\",\"emails\":[\"x@one.example\"]}}]"),
            format!("role: {who}\nemail: x@one.example\n"),
        ] {
            assert_ne!(fate(&list, "list"), Fate::Listed, "{list}");
        }
    }
}

/// Returns JSON that describes a list or a sender, with the sender inside.
fn around(said: &str) -> Vec<String> {
    vec![
        format!("[{{\"emails\":[\"x@one.example\"],{said}}}]"),
        format!("{{{said},\"senders\":[\"x@one.example\",\"spam@bad.example\"]}}"),
        format!("[{{\"sender\":{{\"address\":\"x@one.example\"}},{said}}}]"),
        format!("[{{{said},\"from\":{{\"emailAddress\":{{\"address\":\"x@one.example\"}}}}}}]"),
        format!("{{\"lists\":[{{{said},\"entries\":[{{\"value\":\"x@one.example\"}}]}}]}}"),
        format!("{{{said},\"sender\":{{\"email\":\"x@one.example\"}}}}\n{{}}\n"),
    ]
}

#[test]
fn what_an_object_says_holds_for_all_inside_it() {
    for said in [
        "\"listed\":false",
        "\"blocked\":\"no\"",
        "\"isBlocked\":0",
        "\"enabled\":false",
        "\"active\":false",
        "\"deleted\":true",
        "\"removed\":\"yes\"",
        "\"status\":\"expired\"",
        "\"status\":\"delisted\"",
        "\"state\":\"inactive\"",
        "\"score\":-3.5",
        "\"action\":\"none\"",
        "\"policy\":\"accept\"",
        "\"whitelisted\":true",
        "\"operation\":\"delete\"",
        "\"type\":\"whitelist\"",
        "\"op\":\"remove\"",
        "\"ignored\":true",
    ] {
        for list in around(said) {
            assert_eq!(fate(&list, "list"), Fate::Off, "{list}");
        }
    }
    for said in [
        "\"expires\":\"2027-01-01\"",
        "\"valid_until\":\"2020-01-01\"",
        "\"expires\":{\"$date\":\"2020-01-01T00:00:00Z\"}",
        "\"removed_at\":\"2026-05-05\"",
        "\"expiresAt\":1577836800",
    ] {
        for list in around(said) {
            assert_eq!(fate(&list, "list"), Fate::Ends, "{list}");
        }
    }
    for said in [
        "\"blocked\":true",
        "\"ok\":true",
        "\"status\":\"active\"",
        "\"score\":4",
    ] {
        for list in around(said) {
            assert_eq!(fate(&list, "list"), Fate::Listed, "{list}");
        }
    }
}

#[test]
fn a_list_with_the_name_of_an_allowlist_lists_nobody() {
    for name in [
        "Whitelist",
        "allow list",
        "Allowed senders",
        "safe_senders",
        "Exceptions",
        "Not spam",
        "False positives",
        "Ausnahmen",
        "Liste blanche",
        "Removed",
    ] {
        for key in ["name", "title", "displayName", "id", "label"] {
            for list in [
                format!("[{{\"{key}\":\"{name}\",\"entries\":[\"x@one.example\"]}}]"),
                format!("{{\"emails\":[\"x@one.example\"],\"{key}\":\"{name}\"}}"),
                format!("[{{\"{key}\":\"{name}\",\"senders\":[{{\"email\":\"x@one.example\"}}]}}]"),
            ] {
                assert_eq!(fate(&list, "list"), Fate::Off, "{list}");
            }
        }
        for list in [
            format!("spam@bad.example\n# {name}\nx@one.example\n"),
            format!("spam@bad.example\n\n{name}\n=====\nx@one.example\n"),
            format!("spam@bad.example\n[{name}]\nx@one.example\n"),
        ] {
            assert_ne!(fate(&list, "list"), Fate::Listed, "{list}");
        }
    }
    let own = "[{\"email\":\"x@one.example\",\"name\":\"Whitelist\"}]";
    assert_eq!(fate(own, "list"), Fate::Listed, "the sender's own name");
}

#[test]
fn an_end_in_a_comment_is_read_however_it_is_called() {
    for name in [
        "expires",
        "Expires:",
        "expires on",
        "expires=",
        "expiry:",
        "exp",
        "until",
        "valid until",
        "blocked until",
        "valid through",
        "remove after",
        "remove on",
        "delist",
        "unblock after",
        "ends",
        "bis",
        "g\u{fc}ltig bis",
        "hasta",
        "spam, until",
        "added 2025-01-01 until",
    ] {
        for day in ["2027-02-03", "03.02.2027", "2027-02-03T10:00:00Z"] {
            let list = format!("spam@bad.example\nx@one.example # {name} {day}\n");
            assert_eq!(fate(&list, "list"), Fate::Ends, "{list}");
        }
        let unclear = format!("spam@bad.example\nx@one.example # {name} 2027-02-30\n");
        assert_eq!(fate(&unclear, "list"), Fate::Rejected, "{unclear}");
    }
}

#[test]
fn what_stands_before_an_address_never_becomes_a_part_of_it() {
    for before in [
        "email=",
        "Sender=",
        "from=",
        "blacklist_from=",
        "1=",
        "17)",
        "8:",
        "12|",
        "+",
        "\u{2022}",
        "{",
        "[",
        "\u{2192}",
        "mail=",
    ] {
        let list = format!("spam@bad.example\n{before}x@one.example\n");
        let format = guess(list.as_bytes(), "list");
        let mut entries = Vec::new();
        let mut rejected = 0;
        Reader::new(format)
            .read_all(list.as_bytes(), &mut |_, row: Row<'_>| match row {
                Row::Entry(raw) => entries.push(String::from_utf8_lossy(raw.text).into_owned()),
                Row::Rejected { .. } => rejected += 1,
                _ => {}
            })
            .unwrap();
        let is_read = entries.iter().any(|entry| entry == "x@one.example");
        assert!(
            is_read || entries.len() == 1 && rejected == 1,
            "{before}: {entries:?}"
        );
    }
    for address in [
        "bounce=x@one.example",
        "prvs=0123abc=x@one.example",
        "joe=good.example@bounce.x@one.example",
        "btv1==0123==x@one.example",
        "SRS0=abc=de=good.example=x@one.example",
        "a+x@one.example",
        "6.x@one.example",
        "info=good.example=x@one.example",
    ] {
        if address.matches('@').count() == 1 {
            let list = format!("{address}\n");
            assert_eq!(fate(&list, "list"), Fate::Listed, "{list}");
        }
    }
}

#[test]
fn the_column_of_the_sender_goes_before_that_of_a_mailbox() {
    for (mailbox, sender) in [
        ("Email", "Blocked Sender"),
        ("Mail", "BlockedSendersAndDomains"),
        ("Address", "From"),
        ("E-Mail", "Absender"),
        ("email_address", "sender_address"),
        ("Adresse", "Exp\u{e9}diteur"),
        ("email", "blocked_email"),
        ("value", "envelope_from"),
    ] {
        for list in [
            format!("{mailbox},{sender}\nme@us.example,x@one.example\n"),
            format!("{sender};note;{mailbox}\nx@one.example;y;me@us.example\n"),
            format!("[{{\"{mailbox}\":\"me@us.example\",\"{sender}\":\"x@one.example\"}}]"),
        ] {
            assert_eq!(fate(&list, "list"), Fate::Listed, "{list}");
            let turned = list
                .replace("x@one.example", "y")
                .replace("me@us.example", "x@one.example")
                .replace('y', "spam@bad.example");
            assert_ne!(fate(&turned, "list"), Fate::Listed, "{turned}");
        }
    }
}
