//! Verdicts on messages with many senders, many recipients and several lists, by the daemon.

use crate::support;

use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom, Write};
use std::sync::LazyLock;

use blocklist_milter::address::Rules;
use blocklist_milter::compile::{self, Plan, Progress};
use blocklist_milter::demo::peer::{Answer, Change, Delivery, Peer, TestMail};
use proptest::prelude::*;
use support::rig::{Rig, verdict};
use support::until;

fn list(name: &str, rest: &str) -> String {
    format!("[[list]]\nname = '{name}'\nfilter = '{name}.blf'\n{rest}\n")
}

fn from(mail_from: &str, headers: &[&str]) -> TestMail {
    TestMail::new(mail_from, &["<bob@our.example>"], headers)
}

/// Returns a field with `count` addresses in a domain.
fn crowd(field: &str, count: usize, domain: &str) -> String {
    let all: Vec<String> = (0..count).map(|n| format!("s{n}@{domain}")).collect();
    format!("{field}: {}", all.join(", "))
}

/// A hit that leads to another verdict is not lost after many other hits.
#[test]
fn a_crowd_of_hits_hides_none() {
    let rig = Rig::new(
        &[
            ("mild.list", "@mild.test\n"),
            ("spam.list", "@bad.test\n"),
            ("shop.list", "@shop-spam.test\n"),
        ],
        &[
            list("mild", "action = 'tag'"),
            list("spam", "weak = 'tag'\nmailing_list = 'tag'"),
            list("shop", "recipients = ['@shop.example']"),
        ]
        .concat(),
    );
    let verdict_of = |headers: &[&str]| verdict(&rig.deliver(&from("<a@ok.example>", headers)));
    // A list that does not affect this recipient.
    let others = crowd("Reply-To", 200, "shop-spam.test");
    assert_eq!(verdict_of(&[&others]), "accept");
    assert_eq!(verdict_of(&[&others, "From: x@bad.test"]), "reject");
    // Weak hits on the same list.
    let quoted: Vec<String> = (0..200).map(|n| format!("\"w{n}@bad.test\"")).collect();
    let weak = format!("Reply-To: {}", quoted.join(", "));
    assert_eq!(verdict_of(&[&weak]), "tag");
    assert_eq!(verdict_of(&[&weak, "From: x@bad.test"]), "reject");
    // Softened for a mailing list; a hit in Sender is not.
    let authors = crowd("From", 200, "bad.test");
    assert_eq!(verdict_of(&["List-Id: x", &authors]), "tag");
    assert_eq!(
        verdict_of(&["List-Id: x", &authors, "Sender: x@bad.test"]),
        "reject"
    );
    let tagged = crowd("From", 200, "mild.test");
    assert_eq!(verdict_of(&[&tagged, "Sender: x@bad.test"]), "reject");
}

/// The files and lists of a site that filters for several domains.
fn tenants(mixed: &str) -> Rig {
    Rig::new(
        &[
            ("shop.list", "@bad.test\n"),
            ("corp.list", "@bad.test\n"),
            ("later.list", "@bad.test\n"),
            ("held.list", "@held.test\n"),
            ("hold.list", "@held.test\n"),
            ("mark.list", "@marked.test\n"),
            ("trial.list", "@bad.test\n@held.test\n"),
            ("envelope.list", "@envelope.test\n"),
        ],
        &[
            format!("mixed_recipients = '{mixed}'\n"),
            list("shop", "recipients = ['@shop.example']"),
            list("corp", "recipients = ['@corp.example']"),
            list(
                "later",
                "recipients = ['@later.example']\naction = 'tempfail'",
            ),
            list(
                "held",
                "recipients = ['@shop.example']\naction = 'quarantine'",
            ),
            list(
                "hold",
                "recipients = ['@corp.example']\naction = 'quarantine'",
            ),
            list("mark", "recipients = ['@mark.example']\naction = 'tag'"),
            list("trial", "recipients = ['@mark.example']\ndry_run = true"),
            list(
                "envelope",
                "check = ['mail-from']\nrecipients = ['@mark.example']\naction = 'discard'",
            ),
        ]
        .concat(),
    )
}

const RECIPIENTS: [&str; 7] = [
    "<a@shop.example>",
    "<b@corp.example>",
    "<c@later.example>",
    "<d@elsewhere.example>",
    "<postmaster@shop.example>",
    "<e@mark.example>",
    "<abuse@corp.example>",
];

/// Returns the result in a word for each accepted recipient, in order.
fn fate(outcome: &Delivery) -> Option<String> {
    let accepted = outcome.recipients.iter().any(|answer| !answer.refuses());
    let message = Delivery {
        recipients: Vec::new(),
        ..outcome.clone()
    };
    accepted.then(|| verdict(&message))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// The other recipients of a message do not matter. With `defer`, each recipient gets what it
    /// would get alone. With `tag`, a listed message gets at least its tag, and no recipient gets
    /// more than a tag because of others.
    #[test]
    fn no_recipient_changes_what_another_gets(
        recipients in proptest::sample::subsequence(RECIPIENTS.to_vec(), 1..=7).prop_shuffle(),
        from in proptest::sample::subsequence(vec!["bad", "held", "marked", "ok"], 1..=3),
        envelope in proptest::sample::select(vec!["bad", "envelope", "ok"]),
    ) {
        static DEFER: LazyLock<Rig> = LazyLock::new(|| tenants("defer"));
        static TAG: LazyLock<Rig> = LazyLock::new(|| tenants("tag"));
        let from: Vec<String> = from.iter().map(|name| format!("x@{name}.test")).collect();
        let header = format!("From: {}", from.join(", "));
        let mail_from = format!("<x@{envelope}.test>");
        let letter = |to: &[&str]| TestMail::new(&mail_from, to, &[&header]);
        let alone = |recipient: &str| verdict(&DEFER.deliver(&letter(&[recipient])));

        // As a client does: deferred recipients come again, until there are none.
        let mut waiting = recipients.clone();
        for _ in 0..=RECIPIENTS.len() {
            let outcome = DEFER.deliver(&letter(&waiting));
            let fate = fate(&outcome);
            let mut deferred = Vec::new();
            for (&recipient, answer) in waiting.iter().zip(&outcome.recipients) {
                match answer {
                    Answer::Text(text) if text.starts_with("452 4.5.3") => deferred.push(recipient),
                    Answer::Text(_) => {
                        let alone = alone(recipient);
                        prop_assert!(alone == "reject" || alone == "tempfail", "{recipient}: {alone}");
                    }
                    _ if fate.as_deref() == Some("tag") => {
                        // An unaffected recipient may get a tag because of an affected one.
                        let alone = alone(recipient);
                        prop_assert!(alone == "tag" || alone == "accept", "{recipient}: {alone}");
                    }
                    _ => prop_assert_eq!(fate.clone(), Some(alone(recipient)), "{}", recipient),
                }
            }
            prop_assert!(deferred.len() < waiting.len(), "{waiting:?} make no way");
            waiting = deferred;
            if waiting.is_empty() {
                break;
            }
        }

        let outcome = TAG.deliver(&letter(&recipients));
        let fate = fate(&outcome);
        for (recipient, answer) in recipients.iter().zip(&outcome.recipients) {
            let alone = alone(recipient);
            let got = if answer.refuses() { "refused" } else { fate.as_deref().unwrap_or_default() };
            match alone.as_str() {
                "accept" => prop_assert!(matches!(got, "accept" | "tag"), "{recipient}: {got}"),
                _ => prop_assert!(got != "accept", "{recipient}: {alone}, and here it is taken"),
            }
        }
    }
}

/// No recipient is deferred if a hit could at most tag, or was already answered at RCPT.
#[test]
fn recipients_share_a_transaction_where_they_can() {
    let (bob, postmaster) = ("<bob@our.example>", "<postmaster@our.example>");
    for (rest, mail_from, expected) in [
        ("", "<a@ok.example>", "tempfail accept"),
        ("action = 'quarantine'", "<a@ok.example>", "tempfail accept"),
        ("action = 'tag'", "<a@ok.example>", "accept"),
        ("action = 'log'", "<a@ok.example>", "accept"),
        ("dry_run = true", "<a@ok.example>", "accept"),
        ("enabled = false", "<a@ok.example>", "accept"),
        ("check = ['mail-from']", "<a@ok.example>", "accept"),
        ("check = ['mail-from']", "<x@bad.test>", "reject accept"),
        (
            "check = ['mail-from']\naction = 'discard'",
            "<a@ok.example>",
            "accept",
        ),
        (
            "check = ['mail-from']\naction = 'discard'",
            "<x@bad.test>",
            "tempfail accept",
        ),
        (
            "except_recipients = ['bob@our.example']",
            "<a@ok.example>",
            "accept",
        ),
        // A cleared hit defers no recipient.
        (
            "check = ['mail-from']\naction = 'discard'\n[whitelist]\nentries = ['x@bad.test']",
            "<x@bad.test>",
            "accept",
        ),
    ] {
        let rig = Rig::new(&[("spam.list", "@bad.test\n")], &list("spam", rest));
        let letter = TestMail::new(mail_from, &[postmaster, bob], &["From: a@ok.example"]);
        assert_eq!(
            verdict(&rig.deliver(&letter)),
            expected,
            "{rest} {mail_from}"
        );
        let deferred = rig.live.counters.deferred.get();
        assert_eq!(
            deferred,
            u64::from(expected.starts_with("tempfail")),
            "{rest}"
        );
    }
    // Neither for an exempt client, nor for local mail, which would come again unchanged.
    let rig = Rig::new(
        &[("spam.list", "@bad.test\n")],
        &format!(
            "{}[exempt]\nlocal = false\nauthenticated = false\nnetworks = ['192.0.2.7']\n",
            list("spam", "")
        ),
    );
    for (client, port, login) in [
        ("192.0.2.7", 25, ""),
        ("127.0.0.1", 0, ""),
        // A mail program with authentication would not send at all.
        ("192.0.2.8", 25, "bob"),
    ] {
        let mut peer = Peer::unix(&rig.path("m.sock")).unwrap();
        peer.client(client.parse().unwrap(), port).unwrap();
        let mut letter = TestMail::new(
            "<a@ok.example>",
            &[bob, postmaster],
            &["From: a@ok.example"],
        );
        letter.macros = vec![("{auth_authen}".into(), login.into())];
        assert_eq!(
            verdict(&peer.deliver(&letter).unwrap()),
            "accept",
            "{client}"
        );
        peer.quit().unwrap();
    }
}

/// Each recipient has a list that refuses the sender, but not the same list.
#[test]
fn what_every_recipient_would_refuse_is_refused() {
    let rig = tenants("tag");
    let (shop, corp, later) = ("<a@shop.example>", "<b@corp.example>", "<c@later.example>");
    let (nobody, postmaster) = ("<d@elsewhere.example>", "<postmaster@shop.example>");
    for (recipients, sender, expected) in [
        (vec![shop, corp], "x@bad.test", "reject"),
        (vec![corp, shop, shop], "x@bad.test", "reject"),
        (vec![shop, later], "x@bad.test", "tempfail"),
        (vec![later, corp, shop], "x@bad.test", "tempfail"),
        (vec![shop, nobody], "x@bad.test", "tag"),
        (vec![nobody, corp, shop], "x@bad.test", "tag"),
        (vec![shop, corp, postmaster], "x@bad.test", "tag"),
        (vec![nobody, postmaster], "x@bad.test", "accept"),
        (vec![shop, corp], "x@held.test", "quarantine"),
        (vec![shop, later], "x@held.test", "tag"),
    ] {
        let header = format!("From: {sender}");
        let outcome = rig.deliver(&TestMail::new("<a@ok.example>", &recipients, &[&header]));
        assert_eq!(verdict(&outcome), expected, "{recipients:?} {sender}");
    }
    // For the envelope sender, each recipient gets its own answer.
    let outcome = rig.deliver(&TestMail::new(
        "<x@bad.test>",
        &[shop, nobody, later, corp, postmaster],
        &["From: a@ok.example"],
    ));
    assert_eq!(verdict(&outcome), "reject tempfail reject accept");
    let refused: Vec<bool> = outcome.recipients.iter().map(|one| one.refuses()).collect();
    assert_eq!(refused, [true, false, true, true, false]);
}

/// A list in a dry run, or one that only logs, has no effect, not even through another list.
#[test]
fn a_list_that_changes_nothing_does_not_harden_another() {
    let letter = from(
        "<l@lists.example>",
        &["From: x@bad.test", "List-Id: <l.lists.example>"],
    );
    for (other, expected) in [
        ("action = 'reject'\ndry_run = true", "tag"),
        ("action = 'log'", "tag"),
        ("recipients = ['@elsewhere.example']", "tag"),
        ("action = 'tag'", "reject"),
    ] {
        let rig = Rig::new(
            &[
                ("spam.list", "@bad.test\n"),
                ("other.list", "@lists.example\n"),
            ],
            &[list("spam", "mailing_list = 'tag'"), list("other", other)].concat(),
        );
        assert_eq!(verdict(&rig.deliver(&letter)), expected, "{other}");
    }
}

/// The whitelist finds an address by every rule by which a list finds it, and no other address.
#[test]
fn the_whitelist_follows_the_rules_of_the_list() {
    let rig = Rig::new(
        &[("spam.list", "@never.test\n")],
        &format!(
            "{}[whitelist]\nentries = ['good@bad.test', '@friend.example']\n",
            list("spam", "")
        ),
    );
    let list = rig.path("options.list");
    std::fs::write(&list, "@bad.test\n@relay.example\nrole@any.example\n").unwrap();
    let plan = Plan {
        threads: 1,
        rules: Rules {
            plus: true,
            srs: true,
            ..Rules::default()
        },
        ..Plan::new(rig.path("spam.blf"), vec![list])
    };
    compile::build(&plan, &Progress::new()).unwrap();
    let verdict_of = |sender: &str| verdict(&rig.deliver(&from(sender, &["From: a@ok.example"])));
    until("the new filter", || {
        (verdict_of("<x@bad.test>") == "reject").then_some(())
    });
    for (sender, expected) in [
        ("<good@bad.test>", "accept"),
        ("<good+tag@bad.test>", "accept"),
        ("<goods@bad.test>", "reject"),
        ("<SRS0=HHH=TT=bad.test=good@forwarder.example>", "accept"),
        ("<SRS0=HHH=TT=bad.test=evil@forwarder.example>", "reject"),
        ("<SRS0=HHH=TT=bad.test=evil@friend.example>", "accept"),
        // Anybody can write another address into their own.
        ("<SRS0=HHH=TT=bad.test=good@relay.example>", "reject"),
        ("<SRS0=HHH=TT=friend.example=x@relay.example>", "reject"),
    ] {
        assert_eq!(verdict_of(sender), expected, "{sender}");
    }
}

/// A provider with several domains signs with the domain that was written, not with the one that is
/// compared.
#[test]
fn dkim_vouches_for_the_domain_that_was_written() {
    let rig = Rig::new(
        &[("spam.list", "no-such-friend@gmail.com\n")],
        &format!(
            "{}[whitelist]\nentries = ['no-such-friend@gmail.com']\nrequire_dkim = true\nauthserv_ids = ['mx.our.example']\n",
            list("spam", "")
        ),
    );
    for (signer, expected) in [
        ("googlemail.com", "accept"),
        ("gmail.com", "accept"),
        ("mail.example", "reject"),
    ] {
        let vouched =
            format!("Authentication-Results: mx.our.example; dkim=pass header.d={signer}");
        let letter = from(
            "<a@ok.example>",
            &[&vouched, "From: no-such-friend@googlemail.com"],
        );
        assert_eq!(verdict(&rig.deliver(&letter)), expected, "{signer}");
    }
}

/// An unreadable list with a mild action does not defer mail.
#[test]
fn an_unreadable_list_that_only_logs_is_not_waited_for() {
    for (rest, expected) in [
        ("action = 'log'", "accept"),
        ("dry_run = true", "accept"),
        ("", "tempfail"),
        // A hit would be a tag, so an undecided message gets a tag that says so.
        ("mailing_list = 'tag'", "tag"),
    ] {
        let rig = Rig::new(
            &[("spam.list", "@bad.test\n")],
            &list("spam", &format!("load = 'disk'\n{rest}")),
        );
        let mut file = OpenOptions::new()
            .write(true)
            .open(rig.path("spam.blf"))
            .unwrap();
        file.seek(SeekFrom::Start(4096)).unwrap();
        file.write_all(&[0xff; 64]).unwrap();
        let letter = from("<>", &["From: a@ok.example", "List-Id: x"]);
        assert_eq!(verdict(&rig.deliver(&letter)), expected, "{rest}");
    }
}

/// A mail server that sends no recipient does not end an exemption.
#[test]
fn an_exempt_client_is_exempt_without_recipients() {
    let rig = Rig::new(
        &[("spam.list", "@bad.test\n")],
        &format!("{}[exempt]\nnetworks = ['192.0.2.7']\n", list("spam", "")),
    );
    for (client, expected) in [("192.0.2.7", "accept"), ("192.0.2.8", "reject")] {
        let mut peer = Peer::unix(&rig.path("m.sock")).unwrap();
        peer.client(client.parse().unwrap(), 25).unwrap();
        let letter = TestMail::new("<x@bad.test>", &[], &["From: x@bad.test"]);
        assert_eq!(verdict(&peer.deliver(&letter).unwrap()), expected);
        peer.quit().unwrap();
    }
}

/// If the daemon tags, nobody else can; and thousands of forged tags need only a little work of the
/// mail server.
#[test]
fn forged_tags() {
    let files = [("spam.list", "@bad.test\n")];
    let forged = "x-SENDER-blocklist: list=spam; identity=from";
    let changes = |config: &str, headers: &[&str]| {
        let rig = Rig::new(&files, config);
        rig.deliver(&from("<a@ok.example>", headers)).changes
    };
    let removed = |index| Change::Changed(index, "X-Sender-Blocklist".into(), String::new());
    for (rest, expected) in [
        ("action = 'tag'", vec![removed(1)]),
        // It tags because of mixed recipients.
        ("", vec![removed(1)]),
        ("action = 'log'", vec![]),
        ("action = 'tag'\ndry_run = true", vec![]),
    ] {
        assert_eq!(changes(&list("spam", rest), &[forged]), expected, "{rest}");
    }
    let many = vec![forged; 5_000];
    let made = changes(&list("spam", "action = 'tag'"), &many);
    assert_eq!(made.len(), 100, "{:?}", made.first());
    assert_eq!(made.last(), Some(&removed(1)));
}

/// Thousands of addresses do not hide the one after them.
#[test]
fn a_sender_behind_more_than_are_looked_at_is_not_missed() {
    let files = [("spam.list", "@bad.test\n")];
    let crowds: Vec<String> = (0..4)
        .map(|n| crowd("From", 3_000, &format!("c{n}.ok.example")))
        .collect();
    let mut headers: Vec<&str> = crowds.iter().map(String::as_str).collect();
    headers.push("From: x@bad.test");
    let hidden = |recipients: &[&str]| TestMail::new("<a@ok.example>", recipients, &headers);
    for (rest, recipients, expected) in [
        ("", &["<bob@our.example>"][..], "tempfail"),
        ("", &["<abuse@our.example>"], "accept"),
        // An exempt recipient does not make it clean.
        ("", &["<bob@our.example>", "<abuse@our.example>"], "tag"),
        ("dry_run = true", &["<bob@our.example>"], "accept"),
        ("action = 'log'", &["<bob@our.example>"], "accept"),
        // An undecided sender never gets more than a listed one.
        ("action = 'tag'", &["<bob@our.example>"], "tag"),
        (
            "action = 'tag'",
            &["<bob@our.example>", "<abuse@our.example>"],
            "tag",
        ),
        ("check = ['mail-from']", &["<bob@our.example>"], "accept"),
    ] {
        // A list that checks all headers, in a dry run.
        let trial = "[[list]]\nname = 'trial'\nfilter = 'spam.blf'\ndry_run = true\n";
        let rest = &format!("{rest}\n{trial}");
        let tagging = format!("mixed_recipients = 'tag'\n{}", list("spam", rest));
        let rig = Rig::new(&files, &tagging);
        let outcome = rig.deliver(&hidden(recipients));
        assert_eq!(verdict(&outcome), expected, "{rest} {recipients:?}");
        let added = |change: &Change| match change {
            Change::Added(_, value) => Some(value.clone()),
            Change::Changed(..) | Change::Quarantined(_) => None,
        };
        let tag = outcome.changes.iter().find_map(added);
        assert_eq!(tag, (expected == "tag").then(|| "undecided".to_owned()));
    }
    let rig = Rig::new(
        &files,
        &format!("on_error = 'accept'\n{}", list("spam", "")),
    );
    assert_eq!(
        verdict(&rig.deliver(&hidden(&["<bob@our.example>"]))),
        "accept"
    );
    // A sender that is found on a list is rejected permanently.
    let mut first = headers.clone();
    first.rotate_right(1);
    let outcome = rig.deliver(&TestMail::new(
        "<a@ok.example>",
        &["<bob@our.example>"],
        &first,
    ));
    assert_eq!(verdict(&outcome), "reject");
}
