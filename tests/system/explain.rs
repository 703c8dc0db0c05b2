//! `explain`, `replay`, `--check` and `--print-config`: their answers agree with the daemon's.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;

use blocklist_milter::base::day::Day;
use blocklist_milter::demo::peer::TestMail;
use blocklist_milter::explain::{Explainer, Mail};
use blocklist_milter::filter::Load;
use blocklist_milter::inspect::Query;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::messages;
use crate::support::rig::{Rig, verdict};
use crate::support::table::bytes;
use crate::support::{has, has_all, words};

const CONFIG: &str =
    "[[list]]\nname = 'spam'\nfilter = 'spam.blf'\n[whitelist]\nentries = ['good@bad.test']\n";

fn rig() -> Rig {
    Rig::new(&[("spam.list", "spam@bad.example\n@bad.test\n")], CONFIG)
}

/// Returns what a command says with `--json`; its words are split at blanks.
fn json(rig: &Rig, command: &str) -> Value {
    rig.milter(&[&words(command)[..], &["--json"]].concat())
        .json()
}

fn packed(text: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(text).unwrap();
    packed.finish().unwrap()
}

/// The stored messages in `tests/messages/` get the same verdict from all.
#[test]
fn explain_and_the_daemon_say_the_same_of_every_message() {
    let rig = messages::rig();
    let mut explainer = Explainer::open(&rig.path("c.toml")).unwrap();
    let mut peer = rig.peer();
    let mut wrong = Vec::new();
    for case in messages::cases() {
        let mut mail = Mail::open(&case.path()).unwrap();
        mail.mail_from = Some(case.mail.clone().into_bytes());
        mail.recipients = vec![b"<user@mail.example>".to_vec()];
        let explained = explainer.explain(&mail);
        let listed = explained
            .identities
            .iter()
            .filter(|named| named.list.is_some());
        let listed = listed.map(|named| messages::named(&named.identity));
        let listed: BTreeSet<_> = listed.collect();
        let mut letter = TestMail::new(&case.mail, &["<user@mail.example>"], &[]);
        let fields = mail.headers.fields.iter();
        letter.headers = fields
            .map(|field| (field.name.clone(), field.value.clone()))
            .collect();
        let served = verdict(&peer.deliver(&letter).unwrap());
        let (expected, is_listed) = (case.verdict(), listed.iter().eq(&case.identity));
        let explained = explained.decision.verdict;
        if explained != expected || served != expected || !is_listed {
            let reason = &case.reason;
            let said = format!("explain says {explained}, the daemon {served}");
            wrong.push(format!("{} ({reason}): {expected}, {said}", case.file));
        }
    }
    peer.quit().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_json_has_its_fixed_fields() {
    let rig = rig();
    let mail = "From: Name <Spam@Bad.Example>\nReply-To: good@bad.test\n\nFrom: x@bad.test\n";
    rig.write("m.eml", mail);
    let explained = json(&rig, "explain --mail-from <a@ok.example> m.eml");
    assert_eq!(explained["verdict"], "reject");
    has(
        explained["reply"].as_str().unwrap(),
        "550-5.7.1 Spam@Bad.Example is on",
    );
    let shown = explained["identities"]
        .as_array()
        .unwrap()
        .iter()
        .map(|identity| {
            let names = [
                "identity",
                "canonical",
                "list",
                "entry",
                "whitelisted",
                "weak",
            ];
            names
                .map(|name| identity[name].to_string())
                .join(" ")
                .replace('"', "")
        });
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [
            "mail-from a@ok.example null null false false",
            "from spam@bad.example spam spam@bad.example false false",
            "reply-to good@bad.test spam @bad.test true false",
        ]
    );
    assert_eq!(explained["identities"][1]["address"], "Spam@Bad.Example");
}

#[test]
fn every_look_up_is_shown() {
    let rig = rig();
    rig.write("m.eml", "From: good@bad.test\n\n");
    has_all(
        &rig.milter(&["explain", "m.eml"]).ok(),
        &[
            "verdict  accept",
            "but it is whitelisted",
            "@bad.test",
            "LISTED, source spam, added 20",
            "whitelisted by good@bad.test",
        ],
    );
    let text = rig.milter(&["explain", "--address", "x@bad.test"]).ok();
    has(
        &text,
        "550-5.7.1 x@bad.test is on the sender blocklist spam",
    );
    rig.milter(&["explain", "--address", "nobody"])
        .ends(2, &["nobody: not an address"]);
}

/// The envelope as the server understood it, from its macros.
#[test]
fn the_mail_server_may_understand_other_addresses() {
    let rig = rig();
    rig.write("m.eml", "From: a@ok.example\n\n");
    let understood = "--mail-from <spam%bad.example> --mail-addr spam@bad.example";
    for (options, verdict) in [
        ("--mail-from <spam%bad.example>", "accept"),
        (understood, "reject"),
        (&format!("{understood} --rcpt <team@our.example>"), "reject"),
        (
            &format!("{understood} --rcpt <team@our.example> --rcpt-addr abuse@our.example"),
            "accept",
        ),
    ] {
        let explained = json(&rig, &format!("explain m.eml {options}"));
        assert_eq!(explained["verdict"], verdict, "{options}");
    }
    let text = rig
        .milter(&words(&format!("explain m.eml {understood}")))
        .ok();
    has(&text, "spam@bad.example");
}

/// Kilobytes of an address do not flood a terminal; its ends are shown.
#[test]
fn long_addresses_are_shortened() {
    let rig = rig();
    let long = format!("begin{}@bad.test", "x".repeat(2_000));
    rig.write("m.eml", &format!("From: <{long}>\n\n"));
    let text = rig.milter(&["explain", "--rcpt", &long, "m.eml"]).ok();
    has_all(&text, &["verdict  reject", "[...]", "xx@bad.test"]);
    let shown = text.lines().filter(|line| line.contains("beginxx"));
    assert!(shown.count() >= 2, "sender and recipient");
    let longest = text.lines().map(str::len).max();
    assert!(longest < Some(800), "{longest:?}");
}

/// A hint that is copied into a shell does not run anything that the sender wrote.
#[test]
fn the_hint_is_quoted_for_a_shell() {
    let rig = rig();
    rig.write(
        "m.eml",
        "Return-Path: <a'$(date)'@ok.example>\nFrom: a@ok.example\n\n",
    );
    let text = rig.milter(&["explain", "m.eml"]).ok();
    has(&text, r"--mail-from '<a'\''$(date)'\''@ok.example>'");
}

#[test]
fn recipients_are_told_apart() {
    let rig = rig();
    rig.write("m.eml", "From: a@ok.example\n\n");
    let alone = "explain --mail-from x@bad.test --rcpt bob@our.example m.eml";
    let both = format!("{alone} --rcpt abuse@our.example");
    let recipients = json(&rig, &both)["recipients"].clone();
    for (n, verdict, is_exempt) in [(0, "reject", false), (1, "accept", true)] {
        assert_eq!(recipients[n]["verdict"], verdict);
        assert_eq!(recipients[n]["exempt"], is_exempt);
    }
    let text = rig.milter(&words(&both)).ok();
    has_all(
        &text,
        &["bob@our.example: reject\n", "550-5.7.1 x@bad.test is on"],
    );
    let alone = json(&rig, alone);
    assert_eq!(alone["verdict"], "reject");
    let shown = alone["identities"].as_array().unwrap().len();
    assert_eq!(shown, 2, "From is shown although it is never asked for");
}

/// Exempt clients, with and without a recipient: the senders are still shown. A recipient that is
/// affected by other lists than the first is deferred, and the others get their verdict.
#[test]
fn deferred_recipients_are_shown() {
    let rig = rig();
    rig.write("m.eml", "From: x@bad.test\n\n");
    let to = |first: &str, second: &str| {
        format!("explain --mail-from a@ok.example --rcpt {first} --rcpt {second} m.eml")
    };
    let (bob, abuse) = ("bob@our.example", "abuse@our.example");
    for (first, second, verdict) in [(bob, abuse, "reject"), (abuse, bob, "accept")] {
        let explained = json(&rig, &to(first, second));
        assert_eq!(explained["verdict"], verdict);
        let recipients = &explained["recipients"];
        assert_eq!(recipients[0]["deferred"], false);
        assert_eq!(recipients[1]["deferred"], true);
        has(recipients[1]["reply"].as_str().unwrap(), "452 4.5.3 ");
    }
    let text = rig.milter(&words(&to(bob, abuse))).ok();
    has(&text, "abuse@our.example: tempfail (other lists");
}

#[test]
fn an_exempt_client_can_be_played() {
    let rig = rig();
    rig.write(
        "c.toml",
        &format!("{CONFIG}[exempt]\nnetworks = ['192.0.2.0/24']\n"),
    );
    rig.write("m.eml", "From: x@bad.test\n\n");
    for (options, verdict, reason) in [
        ("--authenticated", "accept", "authenticated"),
        ("--client 192.0.2.7", "accept", "network"),
        ("--client 198.51.100.7", "reject", "listed"),
    ] {
        for to_bob in ["", "--rcpt bob@our.example"] {
            let explained = json(&rig, &format!("explain {options} {to_bob} m.eml"));
            assert_eq!(explained["verdict"], verdict, "{options} {to_bob}");
            assert_eq!(explained["reason"], reason, "{options} {to_bob}");
            assert_eq!(
                explained["identities"][0]["list"], "spam",
                "{options} {to_bob}"
            );
        }
    }
    rig.write(
        "c.toml",
        &format!("{CONFIG}[exempt]\nauthenticated = false\n"),
    );
    assert_eq!(
        json(&rig, "explain --authenticated m.eml")["verdict"],
        "reject"
    );
}

/// More messages than are judged at once, on all processors; the circuit breaker is not applied.
#[test]
fn a_large_mailbox_is_replayed_in_its_order() {
    let rig = rig();
    let config = format!("{CONFIG}[safety]\nmax_reject_share = \"10%\"\n");
    rig.write("c.toml", &config);
    rig.write(
        "other.toml",
        &config.replace("filter", "action = 'tag'\nfilter"),
    );
    let mbox = (0..2_500).map(|n| {
        let domain = if n % 2 == 0 { "bad.test" } else { "ok.example" };
        format!("From s{n}@{domain} Mon Jan  1 00:00:00 2026\nSubject: {n}\n\nbody\n\n")
    });
    rig.write("mbox", &mbox.collect::<String>());
    let replayed = json(&rig, "replay --against other.toml mbox");
    assert_eq!(replayed["messages"], 2_500);
    assert_eq!(
        replayed["verdicts"],
        json!([["accept", 1_250], ["reject", 1_250]])
    );
    assert_eq!(replayed["changed"], 1_250);
    let examples = (0..20).map(|n| json!([format!("mbox:{}", 2 * n + 1), "reject", "tag"]));
    assert_eq!(replayed["examples"], Value::from_iter(examples));
}

#[test]
fn a_mailbox_is_replayed_and_compared() {
    let rig = rig();
    for folder in ["md", "md/cur", "md/new"] {
        fs::create_dir(rig.path(folder)).unwrap();
    }
    rig.write(
        "md/cur/1",
        "Return-Path: <x@bad.test>\nFrom: a@ok.example\n\n",
    );
    rig.write(
        "md/cur/2",
        "Return-Path: <a@ok.example>\nFrom: y@bad.test\n\n",
    );
    rig.write("md/dovecot-uidlist", "3 V1700000000 N4\n1 :1\n");
    rig.write("md/new/3", "Return-Path: <>\nFrom: a@ok.example\n\n");
    rig.write(
        "other.toml",
        &CONFIG.replace("filter", "action = 'tag'\nfilter"),
    );
    let replayed = json(&rig, "replay --against other.toml md");
    for (name, expected) in [
        ("messages", json!(3)),
        ("verdicts", json!([["reject", 2], ["accept", 1]])),
        ("lists", json!([["spam", 2]])),
        ("senders", json!([["x@bad.test", 1], ["y@bad.test", 1]])),
        ("sources", json!([["spam", 2]])),
        ("not_messages", json!(1)),
        ("changes", json!([["reject", "tag", 2]])),
    ] {
        assert_eq!(replayed[name], expected, "{name}");
    }
    let decided = &replayed["decided"][1];
    let decided = ["message", "identity", "sender", "entry"].map(|name| &decided[name]);
    assert_eq!(decided, ["md/cur/2", "from", "y@bad.test", "@bad.test"]);
    has_all(
        &rig.milter(&["replay", "md"]).ok(),
        &[
            "3 messages",
            "66.7 %",
            "reject      md/cur/1  mail-from x@bad.test (list spam, source spam)",
            "1 file left out: not a message",
        ],
    );
}

/// A path that is not a mailbox gives an error, not "0 messages"; a compressed mbox is read.
#[test]
fn only_a_mailbox_is_replayed() {
    let rig = rig();
    let mbox = b"From x@bad.test Mon Jan  1 00:00:00 2026\nFrom: a@ok.example\n\nbody\n";
    fs::write(rig.path("mbox.gz"), packed(mbox)).unwrap();
    assert_eq!(
        json(&rig, "replay mbox.gz")["verdicts"],
        json!([["reject", 1]])
    );

    fs::create_dir(rig.path("empty")).unwrap();
    fs::create_dir(rig.path("lists")).unwrap();
    rig.write("lists/own.txt", "spam@bad.test\nnote: a list\n");
    fs::write(rig.path("list.gz"), packed(b"spam@bad.test\n")).unwrap();
    for wrong in ["empty", "lists", "lists/own.txt", "list.gz", "c.toml"] {
        let why = format!("blocklist-milter: {wrong}: no message found");
        rig.milter(&["replay", wrong]).ends(2, &[&why]);
    }
}

#[test]
fn faults_are_told_in_one_line_each_and_end_with_2() {
    let rig = rig();
    let told = |arguments: &[&str]| rig.milter(arguments).ends(2, &[]);
    has(
        &rig.milter(&["--check"]).ok(),
        "list spam: reject, 2 entries",
    );
    assert!(told(&["explain", "missing.eml"]).starts_with("blocklist-milter: missing.eml: "));
    assert_eq!(
        told(&["--chek"]),
        "blocklist-milter: unexpected argument '--chek' found (tip: a similar argument exists: '--check')\n"
    );
    assert_eq!(
        told(&["explain"]),
        "blocklist-milter: give an address, or a stored message (- for standard input)\n"
    );
    for (config, faults) in [
        (
            "sandbx = 1\n[[list]]\nname = 'a'\nfilter = 'spam.blf'\nacton = 'tag'\n",
            &[
                "c.toml:3:1: unknown setting sandbx; did you mean sandbox?",
                "c.toml:7:1: unknown setting acton in [list]; did you mean action?",
            ][..],
        ),
        // A wrong setting does not hide a missing filter.
        (
            "on_error = 'acept'\n[[list]]\nname = 'a'\nfilter = 'a.blf'\n",
            &["did you mean \"accept\"?", "list a: "],
        ),
        (
            "[[list]]\nname = 'a'\nfilter = 'a.blf'\n[[list]]\nname = 'b'\nfilter = 'b.blf'\n[whitelist]\nfiles = ['w.txt', 'v.txt']\n",
            &[
                "c.toml:5:10: list a: ",
                "c.toml:8:10: list b: ",
                "w.txt",
                "v.txt",
            ],
        ),
    ] {
        rig.write("c.toml", config);
        has_all(&told(&["--check"]), faults);
    }
    // A common first edit: another action, with the reply left unchanged.
    let tagged = CONFIG.replace("filter", "reply = '550 5.7.1 no'\naction = 'tag'\nfilter");
    rig.write("c.toml", &tagged);
    let warning =
        "warning: list spam: action \"tag\" sends no reply; the setting reply has no effect";
    has(&rig.milter(&["--check"]).ok(), warning);
    rig.write("c.toml", CONFIG);
    has_all(
        &rig.milter(&["--print-config"]).ok(),
        &["on_error = \"tempfail\"", "[safety]"],
    );
}

/// `query` and `explain` give the same answer for every sender in `tests/addresses.txt`; half of
/// its groups are listed.
#[test]
fn query_and_explain_say_the_same_of_every_address() {
    /// A row of the table: as it is written, and its canonical form.
    fn row(line: &str) -> Option<(Vec<u8>, &str)> {
        let (written, rest) = line.split_once('\t').filter(|_| !line.starts_with('#'))?;
        Some((bytes(written), rest.split('\t').next()?))
    }
    let groups = include_str!("../addresses.txt").split("\n\n");
    let groups = groups.map(|group| group.lines().filter_map(row).collect());
    let groups: Vec<Vec<_>> = groups.collect();
    let listed = groups
        .iter()
        .step_by(2)
        .flatten()
        .map(|(_, canonical)| canonical);
    let listed = listed.filter(|canonical| !canonical.starts_with('!'));
    let listed: String = listed.map(|canonical| format!("{canonical}\n")).collect();
    let rig = Rig::new(
        &[("spam.list", &listed)],
        "[[list]]\nname = 'spam'\nfilter = 'spam.blf'\n[exempt]\nrecipients = []\n",
    );
    let today = Day::read(b"2026-01-31").unwrap();
    let mut query = Query::open(&rig.path("spam.blf"), Load::Memory, today).unwrap();
    let mut explainer = Explainer::open(&rig.path("c.toml")).unwrap();
    let (mut found, mut wrong) = ([0, 0], Vec::new());
    for (written, _) in groups.iter().flatten() {
        let asked = query.ask(written).unwrap();
        let explained = explainer.explain(&Mail {
            mail_from: Some(written.clone()),
            ..Mail::from_address(&String::from_utf8_lossy(written))
        });
        let same =
            |canonical: &Option<String>| canonical.is_some() && *canonical == asked.canonical;
        for named in explained
            .identities
            .iter()
            .filter(|named| same(&named.canonical))
        {
            found[usize::from(asked.listed)] += 1;
            let entries: Vec<&str> = asked.matches.iter().map(|one| one.entry.as_str()).collect();
            let agree = match &named.entry {
                Some(entry) => named.list.is_some() && entries.contains(&entry.as_str()),
                None => named.list.is_none() && !asked.listed,
            };
            if !agree {
                let written = written.escape_ascii();
                wrong.push(format!(
                    "{written}: query {entries:?}, explain {:?}",
                    named.entry
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        found.iter().all(|count| *count > 100),
        "not listed, and listed: {found:?}"
    );
}

/// A whitelist is opened like any list: decompressed and decoded.
#[test]
fn a_whitelist_may_be_packed_or_in_utf_16() {
    let rig = rig();
    let wide = "\u{feff}spam@bad.example\r\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes);
    for (name, bytes, expected) in [
        ("packed.gz", packed(b"spam@bad.example\n"), "accept"),
        ("wide.txt", wide.collect(), "accept"),
        ("other.txt", b"friend@good.example\n".to_vec(), "reject"),
    ] {
        fs::write(rig.path(name), bytes).unwrap();
        let config = "listen = ['unix:@/s']\n[[list]]\nname = 'spam'\nfilter = '@/spam.blf'\n[whitelist]\nfiles = ['@/NAME']\n";
        let config = config
            .replace('@', rig.path("").to_str().unwrap())
            .replace("NAME", name);
        fs::write(rig.path("other.toml"), config).unwrap();
        let mut explainer = Explainer::open(&rig.path("other.toml")).unwrap();
        let explained = explainer.explain(&Mail::from_address("spam@bad.example"));
        assert_eq!(explained.decision.verdict, expected, "{name}");
    }
}
