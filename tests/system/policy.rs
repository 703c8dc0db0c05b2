//! Verdicts by the daemon: lists with their own policy, exemptions, the whitelist, and what
//! softens.

use blocklist_milter::base::day::Day;
use blocklist_milter::compile::{self, Plan, Progress};
use blocklist_milter::demo::peer::{Answer, Change, TestMail};

use crate::support::has_all;
use crate::support::rig::{Rig, letter, verdict};
use crate::support::rows;

const SPAM: &str = "spam@bad.example\n@bad.test\n.deep.test\nrole@\n";
const REJECTING: &str = "[[list]]\nname = 'spam'\nfilter = 'spam.blf'\n";

fn rejecting(rest: &str) -> Rig {
    let files = [("spam.list", SPAM), ("white.txt", "good@bad.test\n")];
    Rig::new(&files, &format!("{REJECTING}{rest}"))
}

/// Returns the verdict on a message to these recipients.
fn to(rig: &Rig, recipients: &[&str], mail_from: &str, header: &str) -> String {
    verdict(&rig.deliver(&TestMail::new(mail_from, recipients, &[header])))
}

#[test]
fn every_identity_and_kind_of_entry() {
    rejecting("").judges(
        r#"
        <spam@bad.example>                | From: a@ok.example                      | reject
        SPAM@Bad.Example                  | From: a@ok.example                      | reject
        <@relay.example:spam@bad.example> | From: a@ok.example                      | reject
        <x@bad.test>                      | From: a@ok.example                      | reject
        <x@sub.bad.test>                  | From: a@ok.example                      | accept
        <x@a.deep.test>                   | From: a@ok.example                      | reject
        <x@b.a.deep.test>                 | From: a@ok.example                      | reject
        <x@deep.test>                     | From: a@ok.example                      | accept
        <role@anywhere.example>           | From: a@ok.example                      | reject
        <ok@ok.example>                   | From: Name <spam@bad.example>           | reject
        <ok@ok.example>                   | fROM:spam@bad.example                   | reject
        <ok@ok.example>                   | Sender: x@bad.test                      | reject
        <ok@ok.example>                   | Reply-To: a@ok.example, x@bad.test      | reject
        <ok@ok.example>                   | Return-Path: <x@bad.test>               | accept
        <ok@ok.example>                   | To: x@bad.test                          | accept
        <ok@ok.example>                   | From: "spam@bad.example" <a@ok.example> | accept
        <>                                | From: MAILER-DAEMON                     | accept
        <>                                | From: spam@bad.example                  | reject
        <ok@ok.example>                   | From: a@ok.example                      | accept
        "#,
    );
}

#[test]
fn envelope_hits_are_refused_at_rcpt_and_header_hits_at_the_end_of_the_headers() {
    let rig = rejecting("");
    let outcome = rig.deliver(&letter("<spam@bad.example>", &[]));
    assert_eq!(outcome.message, None);
    let Answer::Text(text) = &outcome.recipients[0] else {
        panic!("{outcome:?}")
    };
    let begin = "550-5.7.1 spam@bad.example is on the sender blocklist spam (case ";
    let end = "\r\n550 5.7.1 If this is wrong, write to postmaster at the recipient's domain";
    assert!(text.starts_with(begin) && text.ends_with(end), "{text}");
    let outcome = rig.deliver(&letter("<ok@ok.example>", &["From: spam@bad.example"]));
    assert_eq!(outcome.recipients, [Answer::Continue]);
    assert!(outcome.message.is_some_and(|answer| answer.refuses()));
}

/// A refused sender can write to the contact, without an entry in `[exempt]`.
#[test]
fn the_contact_is_named_and_stays_reachable() {
    let settings = format!(
        "contact = 'Help@our.example'\n{REJECTING}\
         reply = '550 5.7.1 listed, see {{contact}}'\n[exempt]\nrecipients = []\n"
    );
    let rig = Rig::new(&[("spam.list", SPAM)], &settings);
    let header = "From: spam@bad.example";
    let outcome = rig.deliver(&letter("<ok@ok.example>", &[header]));
    let told = Answer::Text("550 5.7.1 listed, see Help@our.example".to_owned());
    assert_eq!(outcome.message, Some(told));
    for (recipient, expected) in [
        ("<help@our.example>", "accept"),
        ("<helper@our.example>", "reject"),
        ("<postmaster@our.example>", "reject"),
    ] {
        assert_eq!(
            to(&rig, &[recipient], "<spam@bad.example>", header),
            expected,
            "{recipient}"
        );
    }
}

#[test]
fn recipients_that_stay_reachable() {
    let rig = rejecting("[exempt]\nrecipients = ['postmaster@', 'abuse@', '@open.example']\n");
    let header = "From: a@ok.example";
    let listed = "From: spam@bad.example";
    for recipient in [
        "<postmaster>",
        "<POSTMASTER@our.example>",
        "abuse@our.example",
        "<x@open.example>",
    ] {
        assert_eq!(
            to(&rig, &[recipient], "<spam@bad.example>", header),
            "accept",
            "{recipient}"
        );
        assert_eq!(
            to(&rig, &[recipient], "<a@ok.example>", listed),
            "accept",
            "{recipient}"
        );
    }
    let both = ["<bob@our.example>", "<postmaster@our.example>"];
    let outcome = rig.deliver(&TestMail::new("<spam@bad.example>", &both, &[header]));
    let refused = outcome.recipients.iter().map(Answer::refuses);
    assert_eq!(refused.collect::<Vec<_>>(), [true, false]);
    assert_eq!(outcome.message, Some(Answer::Accept));
    // A header hit has one answer for all: the second recipient needs a transaction of its own.
    let outcome = rig.deliver(&TestMail::new("<a@ok.example>", &both, &[listed]));
    assert_eq!(verdict(&outcome), "tempfail reject");
    let apart = "452 4.5.3 send to this recipient in a separate transaction";
    assert_eq!(
        outcome.recipients,
        [Answer::Continue, Answer::Text(apart.into())]
    );
}

/// The sender as the server understood MAIL FROM counts, besides what the client sent.
#[test]
fn the_sender_as_the_server_understood_it() {
    let rig = rejecting("[whitelist]\nentries = ['good@bad.test']\n");
    let with_macro = |argument: &str, understood: &str| {
        let mut letter = letter(argument, &[]);
        let understood = Some(understood).filter(|&understood| understood != "-");
        letter
            .macros
            .extend(understood.map(|address| ("{mail_addr}".into(), address.into())));
        letter
    };
    for [argument, understood, expected] in rows(
        r#"
        <spam%bad.example>    | spam@bad.example         | reject
        <bad.example!spam>    | SPAM@Bad.Example         | reject
        <"spam"%bad.example>  | "spam"@bad.example       | reject
        <role>                | role@mx.test             | reject
        <bad.example\\ !spam> | spam@bad.example\\\s     | reject
        <spam@bad.example>    | other@ok.example         | reject
        <spam@bad.example>    | spam@bad.example         | reject
        <spam@bad.example>    |                          | reject
        <spam@bad.example>    | spam                     | reject
        <good@bad.test>       | GOOD@bad.test            | accept
        <good%bad.test>       | good@bad.test            | accept
        // No server said so.
        <spam%bad.example>    | -                        | accept
        <spam%bad.example>    | spam%bad.example@mx.test | accept
        <a@ok.example>        | a@ok.example             | accept
        <>                    |                          | accept
        "#,
    ) {
        let verdict = verdict(&rig.deliver(&with_macro(argument, understood)));
        assert_eq!(verdict, expected, "{argument} {understood}");
    }
    // It counted only for that message.
    let mut peer = rig.peer();
    for (understood, expected) in [("spam@bad.example", "reject"), ("-", "accept")] {
        let letter = with_macro("<spam%bad.example>", understood);
        assert_eq!(verdict(&peer.deliver(&letter).unwrap()), expected);
    }
}

/// A recipient is exempt by its address at the server, not by the rules that find hidden senders.
#[test]
fn the_recipient_as_the_server_understood_it() {
    let rig = rejecting("");
    for [argument, understood, expected] in rows(
        r#"
        <abuse@our.example>             | abuse@our.example          | accept
        <"abuse"@our.example>           | abuse@our.example          | accept
        <@r.example:abuse@our.example>  | abuse@our.example          | accept
        <postmaster>                    | postmaster@mx.test         | accept
        <postmaster>                    | -                          | accept
        <prvs=0=abuse@our.example>      | prvs=0=abuse@our.example   | reject
        <prvs=0=abuse@our.example>      | -                          | reject
        <mailto:abuse@our.example>      | "mailto:abuse"@our.example | reject
        <mailto:abuse@our.example>      | mailto:abuse@our.example   | reject
        <mailto:abuse@our.example>      | -                          | reject
        <abuse%our.example@our.example> | -                          | reject
        "#,
    ) {
        let mut letter = TestMail::new("<spam@bad.example>", &[argument], &["X: y"]);
        if understood != "-" {
            letter
                .recipient_macros
                .push(("{rcpt_addr}".into(), understood.into()));
        }
        assert_eq!(
            verdict(&rig.deliver(&letter)),
            expected,
            "{argument} {understood}"
        );
    }
}

#[test]
fn clients_that_are_not_refused() {
    let rig = rejecting("[exempt]\nnetworks = ['192.0.2.0/28', '2001:db8::/32']\n");
    let mail = letter("<spam@bad.example>", &["From: spam@bad.example"]);
    for (client, port, expected) in [
        ("192.0.2.7", 25, "accept"),
        ("192.0.2.16", 25, "reject"),
        ("2001:db8::7", 25, "accept"),
        ("2001:db9::7", 25, "reject"),
        ("127.0.0.1", 0, "accept"),
        ("127.0.0.1", 40_000, "reject"),
        ("::1", 0, "accept"),
    ] {
        let mut peer = rig.client(client, port);
        assert_eq!(
            verdict(&peer.deliver(&mail).unwrap()),
            expected,
            "{client} {port}"
        );
        peer.quit().unwrap();
    }
    let mut with_login = mail.clone();
    with_login.macros = vec![("{auth_authen}".into(), "bob".into())];
    let mut peer = rig.peer();
    assert_eq!(verdict(&peer.deliver(&with_login).unwrap()), "accept");
    // The authentication counted only for that message.
    assert_eq!(verdict(&peer.deliver(&mail).unwrap()), "reject");
    let rig = rejecting("[exempt]\nauthenticated = false\nlocal = false\n");
    let mut peer = rig.client("::1", 0);
    assert_eq!(verdict(&peer.deliver(&with_login).unwrap()), "reject");
}

#[test]
fn the_whitelist_clears_its_own_address_only() {
    let entries = "entries = ['@sub.deep.test', '.deep.deep.test', 'role@']";
    rejecting(&format!("[whitelist]\nfiles = ['white.txt']\n{entries}\n")).judges(
        "
        <good@bad.test>      | From: good@bad.test  | accept
        <good@bad.test>      | From: other@bad.test | reject
        <other@bad.test>     | From: good@bad.test  | reject
        <x@sub.deep.test>    | From: a@ok.example   | accept
        <x@a.sub.deep.test>  | From: a@ok.example   | reject
        <x@y.deep.deep.test> | From: a@ok.example   | accept
        <role@any.example>   | From: a@ok.example   | accept
        ",
    );
}

#[test]
fn a_whitelist_entry_ends_on_its_day() {
    let white = "old@bad.test # expires 2020-01-01\n\
                 new@bad.test # expires 2150-01-01\n\
                 twice@bad.test # expires 2020-01-01\n\
                 twice@bad.test\n\
                 unclear@bad.test # until friday\n";
    let files = [("spam.list", SPAM), ("white.txt", white)];
    let rig = Rig::new(
        &files,
        &format!("{REJECTING}[whitelist]\nfiles = ['white.txt']\n"),
    );
    rig.is("<old@bad.test>", "reject");
    rig.is("<new@bad.test>", "accept");
    rig.is("<twice@bad.test>", "accept");
    rig.is("<unclear@bad.test>", "accept");
}

#[test]
fn a_whitelisted_header_may_need_dkim() {
    let rig = rejecting(
        "[whitelist]\nfiles = ['white.txt']\nentries = ['shop@mail.bad.test', '@mail.deep.test']\nrequire_dkim = true\nauthserv_ids = ['mx.our.example']\n",
    );
    for [results, from, expected] in rows(
        r"
        X: y                                              | good@bad.test    | reject
        mx.our.example; dkim=pass header.d=bad.test       | good@bad.test    | accept
        mx.our.example;\n dkim=pass header.d=bad.test     | good@bad.test    | accept
        mx.forged.example; dkim=pass header.d=bad.test    | good@bad.test    | reject
        mx.our.example; dkim=fail header.d=bad.test       | good@bad.test    | reject
        mx.our.example; dkim=pass header.d=other.test     | good@bad.test    | reject
        // Relaxed alignment: the same organizational domain.
        mx.our.example; dkim=pass header.d=deep.test      | x@mail.deep.test | accept
        // A public suffix is not an organizational domain.
        mx.our.example; dkim=pass header.d=test           | good@bad.test    | reject
        ",
    ) {
        let from = format!("From: {from}");
        let results = format!("Authentication-Results: {results}");
        for headers in [[&*results, &from], [&from, &results]] {
            assert_eq!(
                rig.verdict("<a@ok.example>", &headers),
                expected,
                "{headers:?}"
            );
        }
    }
    // The envelope is checked before any DKIM result is known.
    assert_eq!(rig.verdict("<good@bad.test>", &[]), "accept");
}

#[test]
fn each_action() {
    for action in ["reject", "tempfail", "discard", "quarantine", "tag", "log"] {
        let expected = if action == "log" { "accept" } else { action };
        let both = ["From: x@bad.test"];
        for (setting, envelope, header) in [
            ("", expected, expected),
            ("dry_run = true\n", "accept", "accept"),
            ("enabled = false\n", "accept", "accept"),
        ] {
            let rig = rejecting(&format!("action = '{action}'\n{setting}"));
            assert_eq!(
                rig.verdict("<spam@bad.example>", &[]),
                envelope,
                "{action} {setting}"
            );
            assert_eq!(
                rig.verdict("<spam@bad.example>", &both),
                envelope,
                "{action} {setting}"
            );
            assert_eq!(
                rig.verdict("<a@ok.example>", &both),
                header,
                "{action} {setting}"
            );
        }
    }
}

#[test]
fn discarding_and_holding_never_touch_an_exempt_recipient() {
    let both = ["<bob@our.example>", "<postmaster@our.example>"];
    for action in ["discard", "quarantine"] {
        let tag = format!("mixed_recipients = 'tag'\n{REJECTING}action = '{action}'\n");
        let rig = Rig::new(&[("spam.list", SPAM)], &tag);
        assert_eq!(
            to(&rig, &both, "<spam@bad.example>", "X: y"),
            "tag",
            "{action}"
        );
        let rig = rejecting(&format!("action = '{action}'\n"));
        let apart = format!("tempfail {action}");
        assert_eq!(to(&rig, &both, "<spam@bad.example>", "X: y"), apart);
        assert_eq!(
            to(&rig, &both[1..], "<spam@bad.example>", "X: y"),
            "accept",
            "{action}"
        );
    }
}

#[test]
fn the_tag_stands_once_and_forged_ones_go() {
    let rig = rejecting("action = 'tag'\n");
    let changes = |headers: &[&str]| rig.deliver(&letter("<a@ok.example>", headers)).changes;
    let name = || "X-Sender-Blocklist".to_owned();
    let removed = |index| Change::Changed(index, name(), String::new());
    let tag = "list=spam; identity=from; address=spam@bad.example; source=spam".to_owned();
    let forged = [
        "X-Sender-Blocklist: forged",
        "From: spam@bad.example",
        "x-sender-BLOCKLIST: forged too",
    ];
    assert_eq!(
        changes(&forged),
        [removed(2), removed(1), Change::Added(name(), tag)]
    );
    // They are also removed from an innocent sender's message.
    assert_eq!(changes(&forged[..1]), [removed(1)]);
}

#[test]
fn the_strongest_of_several_lists_wins() {
    let lists = |first: &str, second: &str| {
        Rig::new(
            &[
                ("one.list", "a@both.example\nb@one.example\n"),
                ("two.list", "a@both.example\nc@two.example\n"),
            ],
            &format!(
                "[[list]]\nname = 'one'\nfilter = 'one.blf'\naction = '{first}'\n\
                 [[list]]\nname = 'two'\nfilter = 'two.blf'\naction = '{second}'\n"
            ),
        )
    };
    for (first, second, expected) in [
        ("tag", "reject", "reject"),
        ("reject", "tag", "reject"),
        ("tempfail", "reject", "reject"),
        ("discard", "tempfail", "tempfail"),
        ("quarantine", "discard", "discard"),
        ("tag", "quarantine", "quarantine"),
        ("log", "tag", "tag"),
    ] {
        let rig = lists(first, second);
        rig.is("<a@both.example>", expected);
        rig.is(
            "<b@one.example>",
            if first == "log" { "accept" } else { first },
        );
        rig.is("<c@two.example>", second);
    }
    // Two senders of one message, each on another list.
    let rig = lists("tag", "quarantine");
    assert_eq!(
        rig.verdict("<b@one.example>", &["From: c@two.example"]),
        "quarantine"
    );
}

#[test]
fn lists_for_some_recipients() {
    let rig = rejecting(
        "recipients = ['@shop.example', 'vip@']\nexcept_recipients = ['help@shop.example']\n",
    );
    for (recipients, envelope, header) in [
        (&["<x@shop.example>"][..], "reject", "reject"),
        (&["<help@shop.example>"], "accept", "accept"),
        (&["<vip@our.example>"], "reject", "reject"),
        (&["<bob@our.example>"], "accept", "accept"),
        (
            &["<x@shop.example>", "<help@shop.example>"],
            "reject accept",
            "tempfail reject",
        ),
    ] {
        assert_eq!(
            to(&rig, recipients, "<spam@bad.example>", "X: y"),
            envelope,
            "{recipients:?}"
        );
        let found = to(&rig, recipients, "<a@ok.example>", "From: x@bad.test");
        assert_eq!(found, header, "{recipients:?}");
    }
}

#[test]
fn mailing_lists_may_be_treated_softer() {
    rejecting("mailing_list = 'tag'\n").judges(
        "
        <list-bounces@lists.example> | From: spam@bad.example + List-Id: <l.lists.example> | tag
        <list-bounces@lists.example> | List-Post: <mailto:l@lists.example> + Reply-To: x@bad.test | tag
        <list-bounces@lists.example> | From: spam@bad.example | reject
        <x@bad.test>      | From: spam@bad.example + List-Id: <l.lists.example> | reject
        <a@lists.example> | Sender: spam@bad.example + List-Id: <l.lists.example> | reject
        ",
    );
    let headers = ["From: spam@bad.example", "List-Id: <l.lists.example>"];
    assert_eq!(
        rejecting("").verdict("<l@lists.example>", &headers),
        "reject"
    );
}

#[test]
fn weak_addresses() {
    for (setting, in_the_name, doubtful) in [
        ("full", "reject", "tag"),
        ("tag", "tag", "tag"),
        ("ignore", "accept", "accept"),
    ] {
        let rig = rejecting(&format!("weak = '{setting}'\n"));
        for (from, expected) in [
            ("From: \"spam@bad.example\"", in_the_name),
            ("From: spam@bad.example", "reject"),
            // An address that only some programs show never leads to a refusal.
            ("From: spam@bad.example:<a@ok.example>", doubtful),
        ] {
            assert_eq!(
                rig.verdict("<a@ok.example>", &[from]),
                expected,
                "{setting} {from}"
            );
        }
    }
}

#[test]
fn replies_are_filled_in_and_cleaned() {
    let rig = rejecting(
        "reply = '''550 5.7.9 {address} ({identity}) is on {list} since {date} by {source}\n100% sure, {client}, {{case {case}}}'''\n",
    );
    let outcome = rig.deliver(&letter("<x\u{e9}%s@bad.test>", &[]));
    let Answer::Text(text) = &outcome.recipients[0] else {
        panic!("{outcome:?}")
    };
    assert!(
        text.starts_with("550-5.7.9 x?%s@bad.test (mail-from) is on spam since 20"),
        "{text}"
    );
    has_all(
        text,
        &[" by spam\r\n550 5.7.9 100% sure, 192.0.2.25, {case "],
    );
}

#[test]
fn nothing_of_a_message_reaches_the_next() {
    let rig = rejecting("mailing_list = 'tag'\n");
    let mut peer = rig.peer();
    let innocent = (
        "<bob@our.example>",
        "<a@ok.example>",
        &["From: a@ok.example"][..],
        "accept",
    );
    for _ in 0..3 {
        for (recipient, mail_from, headers, expected) in [
            ("<bob@our.example>", "<spam@bad.example>", &[][..], "reject"),
            innocent,
            (
                "<bob@our.example>",
                "<a@ok.example>",
                &["From: spam@bad.example", "List-Id: x"],
                "tag",
            ),
            (
                "<bob@our.example>",
                "<a@ok.example>",
                &["From: spam@bad.example"],
                "reject",
            ),
            (
                "<postmaster>",
                "<spam@bad.example>",
                &["From: x@bad.test"],
                "accept",
            ),
            innocent,
        ] {
            let letter = TestMail::new(mail_from, &[recipient], headers);
            assert_eq!(
                verdict(&peer.deliver(&letter).unwrap()),
                expected,
                "{headers:?}"
            );
        }
    }
    peer.quit().unwrap();
}

#[test]
fn the_circuit_breaker_makes_tags_of_refusals() {
    let rig = rejecting("[safety]\nmax_reject_share = \"50%\"\n");
    let mut peer = rig.peer();
    let mut gets = |sender: &str| verdict(&peer.deliver(&letter(sender, &[])).unwrap());
    let refused = (0..120)
        .take_while(|_| gets("<spam@bad.example>") == "reject")
        .count();
    assert_eq!(refused, 100, "the hundredth message makes the share count");
    assert_eq!(gets("<spam@bad.example>"), "tag");
    for _ in 0..130 {
        assert_eq!(gets("<a@ok.example>"), "accept");
    }
    assert_eq!(gets("<spam@bad.example>"), "reject");
}

#[test]
fn entries_that_have_expired_are_not_hits() {
    let rig = rejecting("");
    rig.is("<spam@bad.example>", "reject");
    // The same list, compiled in 1970 with expiry in 1971.
    let plan = Plan {
        built: 86_400,
        expires: Some(Day(365)),
        ..Plan::new(rig.path("spam.blf"), vec![rig.path("spam.list")])
    };
    compile::build(&plan, &Progress::new()).unwrap();
    rig.becomes("<spam@bad.example>", "accept");
}
