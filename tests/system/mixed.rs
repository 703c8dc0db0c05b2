//! Verdicts on messages with many senders, many recipients and several lists, by the daemon.

use std::io::{Seek, SeekFrom, Write};
use std::sync::LazyLock;

use blocklist_milter::address::Rules;
use blocklist_milter::compile::{self, Plan, Progress};
use blocklist_milter::demo::peer::{Answer, Change, Delivery, TestMail};
use proptest::prelude::*;

use crate::support::rig::{OK, Rig, letter, verdict};
use crate::support::rows;

fn list(name: &str, rest: &str) -> String {
    format!("[[list]]\nname = '{name}'\nfilter = '{name}.blf'\n{rest}\n")
}

/// Returns a rig with a list `spam` of one domain, with these settings.
fn spam(settings: &str) -> Rig {
    Rig::new(&[("spam.list", "@bad.test\n")], &list("spam", settings))
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
    let verdict_of = |headers: &[&str]| rig.verdict("<a@ok.example>", headers);
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
    let lists = rows(
        "
        shop     | @bad.test              | recipients = ['@shop.example']
        corp     | @bad.test              | recipients = ['@corp.example']
        later    | @bad.test              | recipients = ['@later.example']\\naction = 'tempfail'
        held     | @held.test             | recipients = ['@shop.example']\\naction = 'quarantine'
        hold     | @held.test             | recipients = ['@corp.example']\\naction = 'quarantine'
        mark     | @marked.test           | recipients = ['@mark.example']\\naction = 'tag'
        trial    | @bad.test\\n@held.test | recipients = ['@mark.example']\\ndry_run = true
        envelope | @envelope.test         | recipients = ['@mark.example']\\naction = 'discard'\\ncheck = ['mail-from']
        ",
    );
    let config = lists.iter().map(|[name, _, settings]| list(name, settings));
    let config = format!(
        "mixed_recipients = '{mixed}'\n{}",
        config.collect::<String>()
    );
    let files = lists
        .iter()
        .map(|[name, entries, _]| (format!("{name}.list"), format!("{entries}\n")));
    let files: Vec<_> = files.collect();
    let files: Vec<_> = files
        .iter()
        .map(|(name, entries)| (&**name, &**entries))
        .collect();
    Rig::new(&files, &config)
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
    let both = ["<postmaster@our.example>", "<bob@our.example>"];
    for [settings, mail_from, expected] in rows(
        r"
                                                   | <a@ok.example> | tempfail accept
        action = 'quarantine'                      | <a@ok.example> | tempfail accept
        action = 'tag'                             | <a@ok.example> | accept
        action = 'log'                             | <a@ok.example> | accept
        dry_run = true                             | <a@ok.example> | accept
        enabled = false                            | <a@ok.example> | accept
        check = ['mail-from']                      | <a@ok.example> | accept
        check = ['mail-from']                      | <x@bad.test>   | reject accept
        check = ['mail-from']\naction = 'discard'  | <a@ok.example> | accept
        check = ['mail-from']\naction = 'discard'  | <x@bad.test>   | tempfail accept
        except_recipients = ['bob@our.example']    | <a@ok.example> | accept
        // A cleared hit defers no recipient.
        check = ['mail-from']\naction = 'discard'\n[whitelist]\nentries = ['x@bad.test'] | <x@bad.test> | accept
        ",
    ) {
        let rig = spam(settings);
        let found = verdict(&rig.deliver(&TestMail::new(mail_from, &both, &[OK])));
        assert_eq!(found, expected, "{settings} {mail_from}");
        let deferred = rig.live.counters.deferred.get();
        assert_eq!(
            deferred,
            u64::from(expected.starts_with("tempfail")),
            "{settings}"
        );
    }
    // Neither for an exempt client, nor for local mail, which would come again unchanged.
    let rig = spam("[exempt]\nlocal = false\nauthenticated = false\nnetworks = ['192.0.2.7']\n");
    for (client, port, login) in [
        ("192.0.2.7", 25, ""),
        ("127.0.0.1", 0, ""),
        // A mail program with authentication would not send at all.
        ("192.0.2.8", 25, "bob"),
    ] {
        let mut peer = rig.client(client, port);
        let mut letter = TestMail::new("<a@ok.example>", &both, &[OK]);
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
    for [recipients, sender, expected] in rows(
        "
        <a@shop.example> <b@corp.example>                    | x@bad.test  | reject
        <b@corp.example> <a@shop.example> <a@shop.example>   | x@bad.test  | reject
        <a@shop.example> <c@later.example>                   | x@bad.test  | tempfail
        <c@later.example> <b@corp.example> <a@shop.example>  | x@bad.test  | tempfail
        <a@shop.example> <d@else.example>                    | x@bad.test  | tag
        <d@else.example> <b@corp.example> <a@shop.example>   | x@bad.test  | tag
        <a@shop.example> <b@corp.example> <postmaster@shop.example> | x@bad.test | tag
        <d@else.example> <postmaster@shop.example>           | x@bad.test  | accept
        <a@shop.example> <b@corp.example>                    | x@held.test | quarantine
        <a@shop.example> <c@later.example>                   | x@held.test | tag
        ",
    ) {
        let to: Vec<&str> = recipients.split(' ').collect();
        let mail = TestMail::new("<a@ok.example>", &to, &[&format!("From: {sender}")]);
        assert_eq!(
            verdict(&rig.deliver(&mail)),
            expected,
            "{recipients} {sender}"
        );
    }
    // For the envelope sender, each recipient gets its own answer.
    let to = [0, 3, 2, 1, 4].map(|n| RECIPIENTS[n]);
    let outcome = rig.deliver(&TestMail::new("<x@bad.test>", &to, &[OK]));
    assert_eq!(verdict(&outcome), "reject tempfail reject accept");
    let refused: Vec<bool> = outcome.recipients.iter().map(Answer::refuses).collect();
    assert_eq!(refused, [true, false, true, true, false]);
}

/// A list in a dry run, or one that only logs, has no effect, not even through another list.
#[test]
fn a_list_that_changes_nothing_does_not_harden_another() {
    for [other, expected] in rows(
        r"
        action = 'reject'\ndry_run = true    | tag
        action = 'log'                       | tag
        recipients = ['@elsewhere.example']  | tag
        action = 'tag'                       | reject
        ",
    ) {
        let rig = Rig::new(
            &[
                ("spam.list", "@bad.test\n"),
                ("other.list", "@lists.example\n"),
            ],
            &[list("spam", "mailing_list = 'tag'"), list("other", other)].concat(),
        );
        let headers = ["From: x@bad.test", "List-Id: <l.lists.example>"];
        assert_eq!(
            rig.verdict("<l@lists.example>", &headers),
            expected,
            "{other}"
        );
    }
}

/// The whitelist finds an address by every rule by which a list finds it, and no other address.
#[test]
fn the_whitelist_follows_the_rules_of_the_list() {
    let rig = spam("[whitelist]\nentries = ['good@bad.test', '@friend.example']\n");
    let list = rig.path("options.list");
    std::fs::write(&list, "@bad.test\n@relay.example\nrole@any.example\n").unwrap();
    let mut plan = Plan::new(rig.path("spam.blf"), vec![list]);
    plan.rules = Rules {
        plus: true,
        srs: true,
        ..Rules::default()
    };
    compile::build(&plan, &Progress::new()).unwrap();
    rig.becomes("<x@relay.example>", "reject");
    rig.judges(
        "
        <good@bad.test>                                 | From: a@ok.example | accept
        <good+tag@bad.test>                             | From: a@ok.example | accept
        <goods@bad.test>                                | From: a@ok.example | reject
        <SRS0=HHH=TT=bad.test=good@forwarder.example>   | From: a@ok.example | accept
        <SRS0=HHH=TT=bad.test=evil@forwarder.example>   | From: a@ok.example | reject
        <SRS0=HHH=TT=bad.test=evil@friend.example>      | From: a@ok.example | accept
        // Anybody can write another address into their own.
        <SRS0=HHH=TT=bad.test=good@relay.example>       | From: a@ok.example | reject
        <SRS0=HHH=TT=friend.example=x@relay.example>    | From: a@ok.example | reject
        ",
    );
}

/// A provider with several domains signs with the domain that was written, not with the one that is
/// compared.
#[test]
fn dkim_vouches_for_the_domain_that_was_written() {
    let whitelist = "[whitelist]\nentries = ['no-such-friend@gmail.com']\nrequire_dkim = true\nauthserv_ids = ['mx.our.example']\n";
    let files = [("spam.list", "no-such-friend@gmail.com\n")];
    let rig = Rig::new(&files, &list("spam", whitelist));
    for (signer, expected) in [
        ("googlemail.com", "accept"),
        ("gmail.com", "accept"),
        ("mail.example", "reject"),
    ] {
        let vouched =
            format!("Authentication-Results: mx.our.example; dkim=pass header.d={signer}");
        let headers = [&vouched, "From: no-such-friend@googlemail.com"];
        assert_eq!(
            rig.verdict("<a@ok.example>", &headers),
            expected,
            "{signer}"
        );
    }
}

/// An unreadable list with a mild action does not defer mail.
#[test]
fn an_unreadable_list_that_only_logs_is_not_waited_for() {
    for (settings, expected) in [
        ("action = 'log'", "accept"),
        ("dry_run = true", "accept"),
        ("", "tempfail"),
        // A hit would be a tag, so an undecided message gets a tag that says so.
        ("mailing_list = 'tag'", "tag"),
    ] {
        let rig = spam(&format!("load = 'disk'\n{settings}"));
        let file = std::fs::File::options()
            .write(true)
            .open(rig.path("spam.blf"));
        let mut file = file.unwrap();
        file.seek(SeekFrom::Start(4096)).unwrap();
        file.write_all(&[0xff; 64]).unwrap();
        assert_eq!(
            rig.verdict("<>", &[OK, "List-Id: x"]),
            expected,
            "{settings}"
        );
    }
}

/// A mail server that sends no recipient does not end an exemption.
#[test]
fn an_exempt_client_is_exempt_without_recipients() {
    let rig = spam("[exempt]\nnetworks = ['192.0.2.7']\n");
    for (client, expected) in [("192.0.2.7", "accept"), ("192.0.2.8", "reject")] {
        let mut peer = rig.client(client, 25);
        let letter = TestMail::new("<x@bad.test>", &[], &["From: x@bad.test"]);
        assert_eq!(verdict(&peer.deliver(&letter).unwrap()), expected);
        peer.quit().unwrap();
    }
}

/// If the daemon tags, nobody else can; and thousands of forged tags need only a little work of the
/// mail server.
#[test]
fn forged_tags() {
    let forged = "x-SENDER-blocklist: list=spam; identity=from";
    let changes = |settings: &str, headers: &[&str]| {
        spam(settings)
            .deliver(&letter("<a@ok.example>", headers))
            .changes
    };
    let removed = |index| Change::Changed(index, "X-Sender-Blocklist".into(), String::new());
    for (settings, expected) in [
        ("action = 'tag'", vec![removed(1)]),
        // It tags because of mixed recipients.
        ("", vec![removed(1)]),
        ("action = 'log'", vec![]),
        ("action = 'tag'\ndry_run = true", vec![]),
    ] {
        assert_eq!(changes(settings, &[forged]), expected, "{settings}");
    }
    let made = changes("action = 'tag'", &[forged; 5_000]);
    assert_eq!(made.len(), 100, "{:?}", made.first());
    assert_eq!(made.last(), Some(&removed(1)));
}

/// Thousands of addresses do not hide the one after them.
#[test]
fn a_sender_behind_more_than_are_looked_at_is_not_missed() {
    let files = [("spam.list", "@bad.test\n")];
    let crowds = (0..4).map(|n| crowd("From", 3_000, &format!("c{n}.ok.example")));
    let crowds: Vec<String> = crowds.collect();
    let mut headers: Vec<&str> = crowds.iter().map(String::as_str).collect();
    headers.push("From: x@bad.test");
    for [settings, recipients, expected] in rows(
        "
                              | <bob@our.example>                     | tempfail
                              | <abuse@our.example>                   | accept
        // An exempt recipient does not make it clean.
                              | <bob@our.example> <abuse@our.example> | tag
        dry_run = true        | <bob@our.example>                     | accept
        action = 'log'        | <bob@our.example>                     | accept
        // An undecided sender never gets more than a listed one.
        action = 'tag'        | <bob@our.example>                     | tag
        action = 'tag'        | <bob@our.example> <abuse@our.example> | tag
        check = ['mail-from'] | <bob@our.example>                     | accept
        ",
    ) {
        // A list that checks all headers, in a dry run.
        let trial = "[[list]]\nname = 'trial'\nfilter = 'spam.blf'\ndry_run = true\n";
        let spam = list("spam", &format!("{settings}\n{trial}"));
        let rig = Rig::new(&files, &format!("mixed_recipients = 'tag'\n{spam}"));
        let recipients: Vec<&str> = recipients.split(' ').collect();
        let outcome = rig.deliver(&TestMail::new("<a@ok.example>", &recipients, &headers));
        assert_eq!(verdict(&outcome), expected, "{settings} {recipients:?}");
        let tag = outcome.changes.iter().find_map(|change| match change {
            Change::Added(_, value) => Some(value.as_str()),
            Change::Changed(..) | Change::Quarantined(_) => None,
        });
        assert_eq!(tag, (expected == "tag").then_some("undecided"));
    }
    let rig = Rig::new(
        &files,
        &format!("on_error = 'accept'\n{}", list("spam", "")),
    );
    assert_eq!(rig.verdict("<a@ok.example>", &headers), "accept");
    // A sender that is found on a list is rejected permanently.
    headers.rotate_right(1);
    assert_eq!(rig.verdict("<a@ok.example>", &headers), "reject");
}
