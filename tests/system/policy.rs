//! Verdicts by the daemon: lists with their own policy, exemptions, the whitelist, and what
//! softens.

use crate::support;

use std::net::{IpAddr, Ipv6Addr};

use blocklist_milter::base::day::Day;
use blocklist_milter::compile::{self, Plan, Progress};
use blocklist_milter::demo::peer::{Answer, Change, Peer, TestMail};
use support::rig::{Rig, verdict};
use support::until;

const SPAM: &str = "spam@bad.example\n@bad.test\n.deep.test\nrole@\n";
const REJECTING: &str = "[[list]]\nname = 'spam'\nfilter = 'spam.blf'\n";

fn rejecting(rest: &str) -> Rig {
    Rig::new(
        &[("spam.list", SPAM), ("white.txt", "good@bad.test\n")],
        &format!("{REJECTING}{rest}"),
    )
}

fn from(mail_from: &str, headers: &[&str]) -> TestMail {
    TestMail::new(mail_from, &["<bob@our.example>"], headers)
}

fn to(recipients: &[&str], mail_from: &str, header: &str) -> TestMail {
    TestMail::new(mail_from, recipients, &[header])
}

#[test]
fn every_identity_and_kind_of_entry() {
    let rig = rejecting("");
    for (mail_from, header, expected) in [
        ("<spam@bad.example>", "From: a@ok.example", "reject"),
        ("SPAM@Bad.Example", "From: a@ok.example", "reject"),
        (
            "<@relay.example:spam@bad.example>",
            "From: a@ok.example",
            "reject",
        ),
        ("<x@bad.test>", "From: a@ok.example", "reject"),
        ("<x@sub.bad.test>", "From: a@ok.example", "accept"),
        ("<x@a.deep.test>", "From: a@ok.example", "reject"),
        ("<x@b.a.deep.test>", "From: a@ok.example", "reject"),
        ("<x@deep.test>", "From: a@ok.example", "accept"),
        ("<role@anywhere.example>", "From: a@ok.example", "reject"),
        ("<ok@ok.example>", "From: Name <spam@bad.example>", "reject"),
        ("<ok@ok.example>", "fROM:spam@bad.example", "reject"),
        ("<ok@ok.example>", "Sender: x@bad.test", "reject"),
        (
            "<ok@ok.example>",
            "Reply-To: a@ok.example, x@bad.test",
            "reject",
        ),
        ("<ok@ok.example>", "Return-Path: <x@bad.test>", "accept"),
        ("<ok@ok.example>", "To: x@bad.test", "accept"),
        (
            "<ok@ok.example>",
            "From: \"spam@bad.example\" <a@ok.example>",
            "accept",
        ),
        ("<>", "From: MAILER-DAEMON", "accept"),
        ("<>", "From: spam@bad.example", "reject"),
        ("<ok@ok.example>", "From: a@ok.example", "accept"),
    ] {
        assert_eq!(
            verdict(&rig.deliver(&from(mail_from, &[header]))),
            expected,
            "{mail_from} {header}"
        );
    }
}

#[test]
fn envelope_hits_are_refused_at_rcpt_and_header_hits_at_the_end_of_the_headers() {
    let rig = rejecting("");
    let outcome = rig.deliver(&from("<spam@bad.example>", &[]));
    assert_eq!(outcome.message, None);
    let Answer::Text(text) = &outcome.recipients[0] else {
        panic!("{outcome:?}")
    };
    assert!(
        text.starts_with("550-5.7.1 spam@bad.example is on the sender blocklist spam (case ")
            && text.ends_with(
                "\r\n550 5.7.1 If this is wrong, write to postmaster at the recipient's domain"
            ),
        "{text}"
    );
    let outcome = rig.deliver(&from("<ok@ok.example>", &["From: spam@bad.example"]));
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
    let rig = Rig::new(
        &[("spam.list", SPAM), ("white.txt", "good@bad.test\n")],
        &settings,
    );
    let header = "From: spam@bad.example";
    let outcome = rig.deliver(&from("<ok@ok.example>", &[header]));
    let told = Answer::Text("550 5.7.1 listed, see Help@our.example".to_owned());
    assert_eq!(outcome.message, Some(told));
    for (recipient, expected) in [
        ("<help@our.example>", "accept"),
        ("<helper@our.example>", "reject"),
        ("<postmaster@our.example>", "reject"),
    ] {
        let answer = rig.deliver(&to(&[recipient], "<spam@bad.example>", header));
        assert_eq!(verdict(&answer), expected, "{recipient}");
    }
}

#[test]
fn recipients_that_stay_reachable() {
    let rig = rejecting("[exempt]\nrecipients = ['postmaster@', 'abuse@', '@open.example']\n");
    let header = "From: a@ok.example";
    for recipient in [
        "<postmaster>",
        "<POSTMASTER@our.example>",
        "abuse@our.example",
        "<x@open.example>",
    ] {
        assert_eq!(
            verdict(&rig.deliver(&to(&[recipient], "<spam@bad.example>", header))),
            "accept",
            "{recipient}"
        );
        assert_eq!(
            verdict(&rig.deliver(&to(
                &[recipient],
                "<a@ok.example>",
                "From: spam@bad.example"
            ))),
            "accept"
        );
    }
    let both = ["<bob@our.example>", "<postmaster@our.example>"];
    let outcome = rig.deliver(&to(&both, "<spam@bad.example>", header));
    assert!(
        outcome.recipients[0].refuses() && !outcome.recipients[1].refuses(),
        "{outcome:?}"
    );
    assert_eq!(outcome.message, Some(Answer::Accept));
    // A header hit has one answer for all: the second recipient needs a transaction of its own.
    let outcome = rig.deliver(&to(&both, "<a@ok.example>", "From: spam@bad.example"));
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
    for (argument, understood, expected) in [
        ("<spam%bad.example>", Some("spam@bad.example"), "reject"),
        ("<bad.example!spam>", Some("SPAM@Bad.Example"), "reject"),
        (
            "<\"spam\"%bad.example>",
            Some("\"spam\"@bad.example"),
            "reject",
        ),
        ("<role>", Some("role@mx.test"), "reject"),
        (
            "<bad.example\\ !spam>",
            Some("spam@bad.example\\ "),
            "reject",
        ),
        ("<spam@bad.example>", Some("other@ok.example"), "reject"),
        ("<spam@bad.example>", Some("spam@bad.example"), "reject"),
        ("<spam@bad.example>", Some(""), "reject"),
        ("<spam@bad.example>", Some("spam"), "reject"),
        ("<good@bad.test>", Some("GOOD@bad.test"), "accept"),
        ("<good%bad.test>", Some("good@bad.test"), "accept"),
        // No server said so.
        ("<spam%bad.example>", None, "accept"),
        (
            "<spam%bad.example>",
            Some("spam%bad.example@mx.test"),
            "accept",
        ),
        ("<a@ok.example>", Some("a@ok.example"), "accept"),
        ("<>", Some(""), "accept"),
    ] {
        let mut letter = from(argument, &[]);
        letter
            .macros
            .extend(understood.map(|address| ("{mail_addr}".into(), address.into())));
        assert_eq!(
            verdict(&rig.deliver(&letter)),
            expected,
            "{argument} {understood:?}"
        );
    }
    // It counted only for that message.
    let mut peer = rig.peer();
    let mut letter = from("<spam%bad.example>", &[]);
    letter.macros = vec![("{mail_addr}".into(), "spam@bad.example".into())];
    assert_eq!(verdict(&peer.deliver(&letter).unwrap()), "reject");
    letter.macros.clear();
    assert_eq!(verdict(&peer.deliver(&letter).unwrap()), "accept");
}

/// A recipient is exempt by its address at the server, not by the rules that find hidden senders.
#[test]
fn the_recipient_as_the_server_understood_it() {
    let rig = rejecting("");
    for (argument, understood, expected) in [
        ("<abuse@our.example>", Some("abuse@our.example"), "accept"),
        (
            "<\"abuse\"@our.example>",
            Some("abuse@our.example"),
            "accept",
        ),
        (
            "<@r.example:abuse@our.example>",
            Some("abuse@our.example"),
            "accept",
        ),
        ("<postmaster>", Some("postmaster@mx.test"), "accept"),
        ("<postmaster>", None, "accept"),
        (
            "<prvs=0=abuse@our.example>",
            Some("prvs=0=abuse@our.example"),
            "reject",
        ),
        ("<prvs=0=abuse@our.example>", None, "reject"),
        (
            "<mailto:abuse@our.example>",
            Some("\"mailto:abuse\"@our.example"),
            "reject",
        ),
        (
            "<mailto:abuse@our.example>",
            Some("mailto:abuse@our.example"),
            "reject",
        ),
        ("<mailto:abuse@our.example>", None, "reject"),
        ("<abuse%our.example@our.example>", None, "reject"),
    ] {
        let mut letter = to(&[argument], "<spam@bad.example>", "X: y");
        letter
            .recipient_macros
            .extend(understood.map(|address| ("{rcpt_addr}".into(), address.into())));
        assert_eq!(
            verdict(&rig.deliver(&letter)),
            expected,
            "{argument} {understood:?}"
        );
    }
}

#[test]
fn clients_that_are_not_refused() {
    let rig = rejecting("[exempt]\nnetworks = ['192.0.2.0/28', '2001:db8::/32']\n");
    let letter = from("<spam@bad.example>", &["From: spam@bad.example"]);
    for (client, port, expected) in [
        ("192.0.2.7", 25, "accept"),
        ("192.0.2.16", 25, "reject"),
        ("2001:db8::7", 25, "accept"),
        ("2001:db9::7", 25, "reject"),
        ("127.0.0.1", 0, "accept"),
        ("127.0.0.1", 40_000, "reject"),
        ("::1", 0, "accept"),
    ] {
        let mut peer = Peer::unix(&rig.path("m.sock")).unwrap();
        peer.client(client.parse().unwrap(), port).unwrap();
        assert_eq!(
            verdict(&peer.deliver(&letter).unwrap()),
            expected,
            "{client} {port}"
        );
        peer.quit().unwrap();
    }
    let mut with_login = letter.clone();
    with_login.macros = vec![("{auth_authen}".into(), "bob".into())];
    let mut peer = rig.peer();
    assert_eq!(verdict(&peer.deliver(&with_login).unwrap()), "accept");
    // The authentication counted only for that message.
    assert_eq!(verdict(&peer.deliver(&letter).unwrap()), "reject");
    let rig = rejecting("[exempt]\nauthenticated = false\nlocal = false\n");
    let mut peer = Peer::unix(&rig.path("m.sock")).unwrap();
    peer.client(IpAddr::V6(Ipv6Addr::LOCALHOST), 0).unwrap();
    assert_eq!(verdict(&peer.deliver(&with_login).unwrap()), "reject");
}

#[test]
fn the_whitelist_clears_its_own_address_only() {
    let rig = rejecting(
        "[whitelist]\nfiles = ['white.txt']\nentries = ['@sub.deep.test', '.deep.deep.test', 'role@']\n",
    );
    for (mail_from, header, expected) in [
        ("<good@bad.test>", "From: good@bad.test", "accept"),
        ("<good@bad.test>", "From: other@bad.test", "reject"),
        ("<other@bad.test>", "From: good@bad.test", "reject"),
        ("<x@sub.deep.test>", "From: a@ok.example", "accept"),
        ("<x@a.sub.deep.test>", "From: a@ok.example", "reject"),
        ("<x@y.deep.deep.test>", "From: a@ok.example", "accept"),
        ("<role@any.example>", "From: a@ok.example", "accept"),
    ] {
        assert_eq!(
            verdict(&rig.deliver(&from(mail_from, &[header]))),
            expected,
            "{mail_from} {header}"
        );
    }
}

#[test]
fn a_whitelist_entry_ends_on_its_day() {
    let white = "old@bad.test # expires 2020-01-01\n\
                 new@bad.test # expires 2150-01-01\n\
                 twice@bad.test # expires 2020-01-01\n\
                 twice@bad.test\n\
                 unclear@bad.test # until friday\n";
    let rig = Rig::new(
        &[("spam.list", SPAM), ("white.txt", white)],
        &format!("{REJECTING}[whitelist]\nfiles = ['white.txt']\n"),
    );
    for (mail_from, expected) in [
        ("<old@bad.test>", "reject"),
        ("<new@bad.test>", "accept"),
        ("<twice@bad.test>", "accept"),
        ("<unclear@bad.test>", "accept"),
    ] {
        let verdict = verdict(&rig.deliver(&from(mail_from, &["From: a@ok.example"])));
        assert_eq!(verdict, expected, "{mail_from}");
    }
}

#[test]
fn a_whitelisted_header_may_need_dkim() {
    let rig = rejecting(
        "[whitelist]\nfiles = ['white.txt']\nentries = ['shop@mail.bad.test', '@mail.deep.test']\nrequire_dkim = true\nauthserv_ids = ['mx.our.example']\n",
    );
    let good = "From: good@bad.test";
    for (headers, expected) in [
        (vec![good], "reject"),
        (
            vec![
                "Authentication-Results: mx.our.example; dkim=pass header.d=bad.test",
                good,
            ],
            "accept",
        ),
        (
            vec![
                good,
                "Authentication-Results: mx.our.example;\n dkim=pass header.d=bad.test",
            ],
            "accept",
        ),
        (
            vec![
                "Authentication-Results: mx.forged.example; dkim=pass header.d=bad.test",
                good,
            ],
            "reject",
        ),
        (
            vec![
                "Authentication-Results: mx.our.example; dkim=fail header.d=bad.test",
                good,
            ],
            "reject",
        ),
        (
            vec![
                "Authentication-Results: mx.our.example; dkim=pass header.d=other.test",
                good,
            ],
            "reject",
        ),
        // Relaxed alignment: the same organizational domain.
        (
            vec![
                "Authentication-Results: mx.our.example; dkim=pass header.d=deep.test",
                "From: x@mail.deep.test",
            ],
            "accept",
        ),
        // A public suffix is not an organizational domain.
        (
            vec![
                "Authentication-Results: mx.our.example; dkim=pass header.d=test",
                good,
            ],
            "reject",
        ),
    ] {
        assert_eq!(
            verdict(&rig.deliver(&from("<a@ok.example>", &headers))),
            expected,
            "{headers:?}"
        );
    }
    // The envelope is checked before any DKIM result is known.
    assert_eq!(
        verdict(&rig.deliver(&from("<good@bad.test>", &[]))),
        "accept"
    );
}

#[test]
fn each_action() {
    for (action, envelope, header) in [
        ("reject", "reject", "reject"),
        ("tempfail", "tempfail", "tempfail"),
        ("discard", "discard", "discard"),
        ("quarantine", "quarantine", "quarantine"),
        ("tag", "tag", "tag"),
        ("log", "accept", "accept"),
    ] {
        let rig = rejecting(&format!("action = '{action}'\n"));
        assert_eq!(
            verdict(&rig.deliver(&from("<spam@bad.example>", &[]))),
            envelope,
            "{action}"
        );
        assert_eq!(
            verdict(&rig.deliver(&from("<a@ok.example>", &["From: spam@bad.example"]))),
            header,
            "{action}"
        );
        let rig = rejecting(&format!("action = '{action}'\ndry_run = true\n"));
        assert_eq!(
            verdict(&rig.deliver(&from("<spam@bad.example>", &["From: x@bad.test"]))),
            "accept",
            "{action}"
        );
        let rig = rejecting(&format!("action = '{action}'\nenabled = false\n"));
        assert_eq!(
            verdict(&rig.deliver(&from("<spam@bad.example>", &["From: x@bad.test"]))),
            "accept",
            "{action}"
        );
    }
}

#[test]
fn discarding_and_holding_never_touch_an_exempt_recipient() {
    let both = ["<bob@our.example>", "<postmaster@our.example>"];
    for action in ["discard", "quarantine"] {
        let rig = Rig::new(
            &[("spam.list", SPAM)],
            &format!("mixed_recipients = 'tag'\n{REJECTING}action = '{action}'\n"),
        );
        assert_eq!(
            verdict(&rig.deliver(&to(&both, "<spam@bad.example>", "X: y"))),
            "tag",
            "{action}"
        );
        let rig = rejecting(&format!("action = '{action}'\n"));
        assert_eq!(
            verdict(&rig.deliver(&to(&both, "<spam@bad.example>", "X: y"))),
            format!("tempfail {action}"),
        );
        assert_eq!(
            verdict(&rig.deliver(&to(&both[1..], "<spam@bad.example>", "X: y"))),
            "accept",
            "{action}"
        );
    }
}

#[test]
fn the_tag_stands_once_and_forged_ones_go() {
    let rig = rejecting("action = 'tag'\n");
    let forged = [
        "X-Sender-Blocklist: forged",
        "From: spam@bad.example",
        "x-sender-BLOCKLIST: forged too",
    ];
    let outcome = rig.deliver(&from("<a@ok.example>", &forged));
    let name = || "X-Sender-Blocklist".to_owned();
    let tag = "list=spam; identity=from; address=spam@bad.example; source=spam".to_owned();
    assert_eq!(
        outcome.changes,
        [
            Change::Changed(2, name(), String::new()),
            Change::Changed(1, name(), String::new()),
            Change::Added(name(), tag)
        ]
    );
    // They are also removed from an innocent sender's message.
    let outcome = rig.deliver(&from("<a@ok.example>", &["X-Sender-Blocklist: forged"]));
    assert_eq!(outcome.changes, [Change::Changed(1, name(), String::new())]);
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
        let verdict_of = |sender: &str| verdict(&rig.deliver(&from(sender, &[])));
        assert_eq!(verdict_of("<a@both.example>"), expected, "{first} {second}");
        assert_eq!(
            verdict_of("<b@one.example>"),
            if first == "log" { "accept" } else { first }
        );
        assert_eq!(verdict_of("<c@two.example>"), second);
    }
    // Two senders of one message, each on another list.
    let outcome =
        lists("tag", "quarantine").deliver(&from("<b@one.example>", &["From: c@two.example"]));
    assert_eq!(verdict(&outcome), "quarantine");
}

#[test]
fn lists_for_some_recipients() {
    let rig = rejecting(
        "recipients = ['@shop.example', 'vip@']\nexcept_recipients = ['help@shop.example']\n",
    );
    for (recipient, expected) in [
        ("<x@shop.example>", "reject"),
        ("<help@shop.example>", "accept"),
        ("<vip@our.example>", "reject"),
        ("<bob@our.example>", "accept"),
    ] {
        assert_eq!(
            verdict(&rig.deliver(&to(&[recipient], "<spam@bad.example>", "X: y"))),
            expected,
            "{recipient}"
        );
        assert_eq!(
            verdict(&rig.deliver(&to(&[recipient], "<a@ok.example>", "From: x@bad.test"))),
            expected
        );
    }
    let mixed = ["<x@shop.example>", "<help@shop.example>"];
    assert_eq!(
        verdict(&rig.deliver(&to(&mixed, "<spam@bad.example>", "X: y"))),
        "reject accept"
    );
    assert_eq!(
        verdict(&rig.deliver(&to(&mixed, "<a@ok.example>", "From: x@bad.test"))),
        "tempfail reject"
    );
}

#[test]
fn mailing_lists_may_be_treated_softer() {
    let rig = rejecting("mailing_list = 'tag'\n");
    for (mail_from, headers, expected) in [
        (
            "<list-bounces@lists.example>",
            vec!["From: spam@bad.example", "List-Id: <l.lists.example>"],
            "tag",
        ),
        (
            "<list-bounces@lists.example>",
            vec![
                "List-Post: <mailto:l@lists.example>",
                "Reply-To: x@bad.test",
            ],
            "tag",
        ),
        (
            "<list-bounces@lists.example>",
            vec!["From: spam@bad.example"],
            "reject",
        ),
        (
            "<x@bad.test>",
            vec!["From: spam@bad.example", "List-Id: <l.lists.example>"],
            "reject",
        ),
        (
            "<a@lists.example>",
            vec!["Sender: spam@bad.example", "List-Id: <l.lists.example>"],
            "reject",
        ),
    ] {
        assert_eq!(
            verdict(&rig.deliver(&from(mail_from, &headers))),
            expected,
            "{mail_from} {headers:?}"
        );
    }
    let rig = rejecting("");
    let headers = ["From: spam@bad.example", "List-Id: <l.lists.example>"];
    assert_eq!(
        verdict(&rig.deliver(&from("<l@lists.example>", &headers))),
        "reject"
    );
}

#[test]
fn weak_addresses() {
    let only_in_the_name = from("<a@ok.example>", &["From: \"spam@bad.example\""]);
    for (setting, expected) in [("full", "reject"), ("tag", "tag"), ("ignore", "accept")] {
        let rig = rejecting(&format!("weak = '{setting}'\n"));
        assert_eq!(
            verdict(&rig.deliver(&only_in_the_name)),
            expected,
            "{setting}"
        );
        assert_eq!(
            verdict(&rig.deliver(&from("<a@ok.example>", &["From: spam@bad.example"]))),
            "reject"
        );
        // An address that only some programs show never leads to a refusal.
        let doubtful = from("<a@ok.example>", &["From: spam@bad.example:<a@ok.example>"]);
        let expected = if setting == "ignore" { "accept" } else { "tag" };
        assert_eq!(verdict(&rig.deliver(&doubtful)), expected, "{setting}");
    }
}

#[test]
fn replies_are_filled_in_and_cleaned() {
    let rig = rejecting(
        "reply = '''550 5.7.9 {address} ({identity}) is on {list} since {date} by {source}\n100% sure, {client}, {{case {case}}}'''\n",
    );
    let outcome = rig.deliver(&from("<x\u{e9}%s@bad.test>", &[]));
    let Answer::Text(text) = &outcome.recipients[0] else {
        panic!("{outcome:?}")
    };
    let (first, second) = text.split_once("\r\n").unwrap();
    assert!(
        first.starts_with("550-5.7.9 x?%s@bad.test (mail-from) is on spam since 20"),
        "{first}"
    );
    assert!(first.ends_with(" by spam"), "{first}");
    assert!(
        second.starts_with("550 5.7.9 100% sure, 192.0.2.25, {case "),
        "{second}"
    );
}

#[test]
fn nothing_of_a_message_reaches_the_next() {
    let rig = rejecting("mailing_list = 'tag'\n");
    let mut peer = rig.peer();
    let mut verdict_of = |letter: &TestMail| verdict(&peer.deliver(letter).unwrap());
    let innocent = from("<a@ok.example>", &["From: a@ok.example"]);
    for _ in 0..3 {
        assert_eq!(verdict_of(&from("<spam@bad.example>", &[])), "reject");
        assert_eq!(verdict_of(&innocent), "accept");
        assert_eq!(
            verdict_of(&from(
                "<a@ok.example>",
                &["From: spam@bad.example", "List-Id: x"]
            )),
            "tag"
        );
        assert_eq!(
            verdict_of(&from("<a@ok.example>", &["From: spam@bad.example"])),
            "reject"
        );
        assert_eq!(
            verdict_of(&to(
                &["<postmaster>"],
                "<spam@bad.example>",
                "From: x@bad.test"
            )),
            "accept"
        );
        assert_eq!(verdict_of(&innocent), "accept");
    }
    peer.quit().unwrap();
}

#[test]
fn the_circuit_breaker_makes_tags_of_refusals() {
    let rig = rejecting("[safety]\nmax_reject_share = \"50%\"\n");
    let mut peer = rig.peer();
    let spam = from("<spam@bad.example>", &[]);
    let refused = (0..120)
        .take_while(|_| verdict(&peer.deliver(&spam).unwrap()) == "reject")
        .count();
    assert_eq!(refused, 100, "the hundredth message makes the share count");
    assert_eq!(verdict(&peer.deliver(&spam).unwrap()), "tag");
    for _ in 0..130 {
        assert_eq!(
            verdict(&peer.deliver(&from("<a@ok.example>", &[])).unwrap()),
            "accept"
        );
    }
    assert_eq!(verdict(&peer.deliver(&spam).unwrap()), "reject");
}

#[test]
fn entries_that_have_expired_are_not_hits() {
    let rig = rejecting("");
    let letter = from("<spam@bad.example>", &[]);
    assert_eq!(verdict(&rig.deliver(&letter)), "reject");
    // The same list, compiled in 1970 with expiry in 1971.
    let plan = Plan {
        built: 86_400,
        expires: Some(Day(365)),
        ..Plan::new(rig.path("spam.blf"), vec![rig.path("spam.list")])
    };
    compile::build(&plan, &Progress::new()).unwrap();
    until("the expired list is in force", || {
        (verdict(&rig.deliver(&letter)) == "accept").then_some(())
    });
}
