//! `explain`, `replay`, `--check` and `--print-config`: their answers agree with the daemon's.

use crate::support;
use crate::support::table;

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use blocklist_milter::base::day::Day;
use blocklist_milter::demo::peer::TestMail;
use blocklist_milter::explain::{Explainer, Mail};
use blocklist_milter::filter::Load;
use blocklist_milter::inspect::Query;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use support::rig::{Rig, verdict};
use table::bytes;

const CONFIG: &str =
    "[[list]]\nname = 'spam'\nfilter = 'spam.blf'\n[whitelist]\nentries = ['good@bad.test']\n";

fn rig() -> Rig {
    Rig::new(&[("spam.list", "spam@bad.example\n@bad.test\n")], CONFIG)
}

fn program(rig: &Rig, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_blocklist-milter"));
    command
        .arg("--config")
        .arg(rig.path("c.toml"))
        .args(arguments)
        .current_dir(rig.path(""));
    command.output().expect("the program runs")
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).expect("one JSON object")
}

/// The stored messages in `tests/messages/` get the same verdict from all.
#[test]
fn explain_and_the_daemon_say_the_same_of_every_message() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/messages");
    let blocklist = fs::read_to_string(folder.join("blocklist.txt")).unwrap();
    let rig = Rig::new(
        &[("spam.list", &blocklist)],
        "[[list]]\nname = 'spam'\nfilter = 'spam.blf'\ncheck = ['mail-from', 'from', 'sender', 'reply-to', 'return-path', 'resent-from', 'resent-sender', 'resent-reply-to']\n",
    );
    let mut explainer = Explainer::open(&rig.path("c.toml")).unwrap();
    let mut peer = rig.peer();
    let mut wrong = Vec::new();
    let table = fs::read_to_string(folder.join("expected.txt")).unwrap();
    for row in table.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = row.split('\t').collect();
        let [file, expected, _, mail_from, reason] = columns[..] else {
            panic!("{row}")
        };
        let mut mail = Mail::open(&folder.join(file)).unwrap();
        mail.mail_from = Some(mail_from.as_bytes().to_vec());
        mail.recipients = vec![b"<bob@our.example>".to_vec()];
        let explained = explainer.explain(&mail).verdict;
        let headers = mail
            .headers
            .fields
            .iter()
            .map(|field| (field.name.clone(), field.value.clone()))
            .collect();
        let letter = TestMail {
            headers,
            ..TestMail::new(mail_from, &["<bob@our.example>"], &[])
        };
        let served = verdict(&peer.deliver(&letter).unwrap());
        if explained != expected || served != expected {
            wrong.push(format!(
                "{file}: {expected}, explain says {explained}, the daemon {served} ({reason})"
            ));
        }
    }
    peer.quit().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_json_has_its_fixed_fields() {
    let rig = rig();
    rig.write(
        "m.eml",
        "From: Name <Spam@Bad.Example>\nReply-To: good@bad.test\n\nFrom: x@bad.test\n",
    );
    let explained = json(&program(
        &rig,
        &[
            "explain",
            "--json",
            "--mail-from",
            "<a@ok.example>",
            "m.eml",
        ],
    ));
    assert_eq!(explained["verdict"], "reject");
    assert!(
        explained["reply"]
            .as_str()
            .unwrap()
            .starts_with("550-5.7.1 Spam@Bad.Example is on"),
        "{explained}"
    );
    let identities = explained["identities"].as_array().unwrap();
    assert_eq!(identities.len(), 3, "{explained}");
    let field = |n: usize, name: &str| identities[n][name].clone();
    for (n, identity, canonical, list, entry, whitelisted) in [
        (
            0,
            "mail-from",
            "a@ok.example",
            Value::Null,
            Value::Null,
            false,
        ),
        (
            1,
            "from",
            "spam@bad.example",
            "spam".into(),
            "spam@bad.example".into(),
            false,
        ),
        (
            2,
            "reply-to",
            "good@bad.test",
            "spam".into(),
            "@bad.test".into(),
            true,
        ),
    ] {
        assert_eq!(field(n, "identity"), identity);
        assert_eq!(field(n, "canonical"), canonical);
        assert_eq!(field(n, "list"), list);
        assert_eq!(field(n, "entry"), entry);
        assert_eq!(field(n, "whitelisted"), whitelisted);
        assert_eq!(field(n, "weak"), false);
    }
    assert_eq!(field(1, "address"), "Spam@Bad.Example");
}

#[test]
fn every_look_up_is_shown() {
    let rig = rig();
    rig.write("m.eml", "From: good@bad.test\n\n");
    let text = stdout(&program(&rig, &["explain", "m.eml"]));
    for shown in [
        "verdict  accept",
        "but it is whitelisted",
        "@bad.test",
        "LISTED, source spam, added 20",
        "whitelisted by good@bad.test",
    ] {
        assert!(text.contains(shown), "{shown} is missing in\n{text}");
    }
    let text = stdout(&program(&rig, &["explain", "--address", "x@bad.test"]));
    assert!(
        text.contains("550-5.7.1 x@bad.test is on the sender blocklist spam"),
        "{text}"
    );
    let output = program(&rig, &["explain", "--address", "nobody"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("nobody: not an address"), "{text}");
}

/// The envelope as the server understood it, from its macros.
#[test]
fn the_mail_server_may_understand_other_addresses() {
    let rig = rig();
    rig.write("m.eml", "From: a@ok.example\n\n");
    let raw = ["--mail-from", "<spam%bad.example>"];
    let understood = ["--mail-addr", "spam@bad.example"];
    let team = ["--rcpt", "<team@our.example>"];
    let abuse = ["--rcpt-addr", "abuse@our.example"];
    for (options, verdict) in [
        (&[raw][..], "accept"),
        (&[raw, understood], "reject"),
        (&[raw, understood, team], "reject"),
        (&[raw, understood, team, abuse], "accept"),
    ] {
        let arguments = [&["explain", "--json", "m.eml"][..], &options.concat()].concat();
        let explained = json(&program(&rig, &arguments));
        assert_eq!(explained["verdict"], verdict, "{options:?}");
    }
    let arguments = [&["explain", "m.eml"][..], &raw, &understood].concat();
    assert!(stdout(&program(&rig, &arguments)).contains("spam@bad.example"));
}

/// Kilobytes of an address do not flood a terminal; its ends are shown.
#[test]
fn long_addresses_are_shortened() {
    let rig = rig();
    let long = format!("begin{}@bad.test", "x".repeat(2_000));
    rig.write("m.eml", &format!("From: <{long}>\n\n"));
    let arguments = ["explain", "--rcpt", &long, "m.eml"];
    let text = stdout(&program(&rig, &arguments));
    assert!(text.contains("verdict  reject"), "{text:.500}");
    let shown = text.lines().filter(|line| line.contains("beginxx"));
    assert!(shown.count() >= 2, "sender and recipient");
    assert!(text.contains("[...]") && text.contains("xx@bad.test"));
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
    let text = stdout(&program(&rig, &["explain", "m.eml"]));
    assert!(
        text.contains(r"--mail-from '<a'\''$(date)'\''@ok.example>'"),
        "{text}"
    );
}

#[test]
fn recipients_are_told_apart() {
    let rig = rig();
    rig.write("m.eml", "From: a@ok.example\n\n");
    let arguments = [
        "explain",
        "--json",
        "--mail-from",
        "x@bad.test",
        "--rcpt",
        "bob@our.example",
        "--rcpt",
        "abuse@our.example",
        "m.eml",
    ];
    let explained = json(&program(&rig, &arguments));
    let recipients = explained["recipients"].as_array().unwrap();
    assert_eq!(
        (
            recipients[0]["verdict"].as_str(),
            recipients[0]["exempt"].as_bool()
        ),
        (Some("reject"), Some(false))
    );
    assert_eq!(
        (
            recipients[1]["verdict"].as_str(),
            recipients[1]["exempt"].as_bool()
        ),
        (Some("accept"), Some(true))
    );
    let arguments: Vec<&str> = arguments
        .into_iter()
        .filter(|word| *word != "--json")
        .collect();
    let text = stdout(&program(&rig, &arguments));
    assert!(
        text.contains("bob@our.example: reject\n") && text.contains("550-5.7.1 x@bad.test is on"),
        "{text}"
    );
    let alone = json(&program(
        &rig,
        &[
            "explain",
            "--json",
            "--mail-from",
            "x@bad.test",
            "--rcpt",
            "bob@our.example",
            "m.eml",
        ],
    ));
    assert_eq!(alone["verdict"], "reject");
    assert_eq!(
        alone["identities"].as_array().unwrap().len(),
        2,
        "From is shown although it is never asked for"
    );
}

/// Exempt clients, with and without a recipient: the senders are still shown. A recipient that is
/// affected by other lists than the first is deferred, and the others get their verdict.
#[test]
fn deferred_recipients_are_shown() {
    let rig = rig();
    rig.write("m.eml", "From: x@bad.test\n\n");
    let to_both = |first: &str, second: &str, options: &[&str]| {
        let envelope = [
            "--mail-from",
            "a@ok.example",
            "--rcpt",
            first,
            "--rcpt",
            second,
            "m.eml",
        ];
        program(&rig, &[&["explain"][..], options, &envelope].concat())
    };
    let (bob, abuse) = ("bob@our.example", "abuse@our.example");
    for (first, second, verdict) in [(bob, abuse, "reject"), (abuse, bob, "accept")] {
        let explained = json(&to_both(first, second, &["--json"]));
        assert_eq!(explained["verdict"], verdict);
        let recipients = explained["recipients"].as_array().unwrap();
        let deferred = recipients.iter().map(|one| one["deferred"].as_bool());
        assert_eq!(deferred.collect::<Vec<_>>(), [Some(false), Some(true)]);
        let reply = recipients[1]["reply"].as_str().unwrap();
        assert!(reply.starts_with("452 4.5.3 "), "{reply}");
    }
    let text = stdout(&to_both(bob, abuse, &[]));
    assert!(
        text.contains("abuse@our.example: tempfail (other lists"),
        "{text}"
    );
}

#[test]
fn an_exempt_client_can_be_played() {
    let rig = rig();
    rig.write(
        "c.toml",
        &format!("{CONFIG}[exempt]\nnetworks = ['192.0.2.0/24']\n"),
    );
    rig.write("m.eml", "From: x@bad.test\n\n");
    let login = &["--authenticated"][..];
    let network = &["--client", "192.0.2.7"][..];
    let stranger = &["--client", "198.51.100.7"][..];
    let to_bob = &["--rcpt", "bob@our.example"][..];
    for (options, verdict, reason) in [
        ([login, &[]], "accept", "authenticated"),
        ([login, to_bob], "accept", "authenticated"),
        ([network, &[]], "accept", "network"),
        ([network, to_bob], "accept", "network"),
        ([stranger, &[]], "reject", "listed"),
        ([stranger, to_bob], "reject", "listed"),
    ] {
        let arguments = [&["explain", "--json"], options[0], options[1], &["m.eml"]].concat();
        let explained = json(&program(&rig, &arguments));
        assert_eq!(explained["verdict"], verdict, "{options:?}");
        assert_eq!(explained["reason"], reason, "{options:?}");
        assert_eq!(explained["identities"][0]["list"], "spam", "{options:?}");
    }
    rig.write(
        "c.toml",
        &format!("{CONFIG}[exempt]\nauthenticated = false\n"),
    );
    let arguments = ["explain", "--json", "--authenticated", "m.eml"];
    assert_eq!(json(&program(&rig, &arguments))["verdict"], "reject");
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
    let mbox: String = (0..2_500)
        .map(|n| {
            let domain = if n % 2 == 0 { "bad.test" } else { "ok.example" };
            format!("From s{n}@{domain} Mon Jan  1 00:00:00 2026\nSubject: {n}\n\nbody\n\n")
        })
        .collect();
    rig.write("mbox", &mbox);
    let replayed = json(&program(
        &rig,
        &["replay", "--json", "--against", "other.toml", "mbox"],
    ));
    assert_eq!(replayed["messages"], 2_500);
    assert_eq!(
        replayed["verdicts"],
        serde_json::json!([["accept", 1_250], ["reject", 1_250]])
    );
    assert_eq!(replayed["changed"], 1_250);
    let examples = replayed["examples"].as_array().unwrap();
    let expected: Vec<Value> = (0..20)
        .map(|n| serde_json::json!([format!("mbox:{}", 2 * n + 1), "reject", "tag"]))
        .collect();
    assert_eq!(examples, &expected);
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
    let replayed = json(&program(
        &rig,
        &["replay", "--json", "--against", "other.toml", "md"],
    ));
    assert_eq!(replayed["messages"], 3);
    assert_eq!(
        replayed["verdicts"],
        serde_json::json!([["reject", 2], ["accept", 1]])
    );
    assert_eq!(replayed["lists"], serde_json::json!([["spam", 2]]));
    assert_eq!(
        replayed["senders"],
        serde_json::json!([["x@bad.test", 1], ["y@bad.test", 1]])
    );
    assert_eq!(replayed["sources"], serde_json::json!([["spam", 2]]));
    assert_eq!(replayed["not_messages"], 1);
    let decided = &replayed["decided"][1];
    assert_eq!(
        [
            &decided["message"],
            &decided["identity"],
            &decided["sender"],
            &decided["entry"]
        ],
        ["md/cur/2", "from", "y@bad.test", "@bad.test"]
    );
    assert_eq!(
        replayed["changes"],
        serde_json::json!([["reject", "tag", 2]])
    );
    let text = stdout(&program(&rig, &["replay", "md"]));
    assert!(
        text.contains("3 messages") && text.contains("66.7 %"),
        "{text}"
    );
    let line = "reject      md/cur/1  mail-from x@bad.test (list spam, source spam)";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("1 file left out: not a message"), "{text}");
}

/// A path that is not a mailbox gives an error, not "0 messages"; a compressed mbox is read.
#[test]
fn only_a_mailbox_is_replayed() {
    let rig = rig();
    let mbox = b"From x@bad.test Mon Jan  1 00:00:00 2026\nFrom: a@ok.example\n\nbody\n";
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(mbox).unwrap();
    fs::write(rig.path("mbox.gz"), packed.finish().unwrap()).unwrap();
    let replayed = json(&program(&rig, &["replay", "--json", "mbox.gz"]));
    assert_eq!(replayed["verdicts"], serde_json::json!([["reject", 1]]));

    fs::create_dir(rig.path("empty")).unwrap();
    fs::create_dir(rig.path("lists")).unwrap();
    rig.write("lists/own.txt", "spam@bad.test\nnote: a list\n");
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(b"spam@bad.test\n").unwrap();
    fs::write(rig.path("list.gz"), packed.finish().unwrap()).unwrap();
    for wrong in ["empty", "lists", "lists/own.txt", "list.gz", "c.toml"] {
        let output = program(&rig, &["replay", wrong]);
        assert_eq!(output.status.code(), Some(2), "{wrong}: {output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            said.starts_with(&format!("blocklist-milter: {wrong}: no message found")),
            "{said}"
        );
    }
}

#[test]
fn faults_are_told_in_one_line_each_and_end_with_2() {
    let rig = rig();
    let told = |arguments: &[&str]| {
        let output = program(&rig, arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(stdout(&program(&rig, &["--check"])).contains("list spam: reject, 2 entries"));
    assert!(told(&["explain", "missing.eml"]).starts_with("blocklist-milter: missing.eml: "));
    assert_eq!(
        told(&["--chek"]),
        "blocklist-milter: unexpected argument '--chek' found (tip: a similar argument exists: '--check')\n"
    );
    assert_eq!(
        told(&["explain"]),
        "blocklist-milter: give an address, or a stored message (- for standard input)\n"
    );
    rig.write(
        "c.toml",
        "workrs = 1\n[[list]]\nname = 'a'\nfilter = 'spam.blf'\nacton = 'tag'\n",
    );
    let faults = told(&["--check"]);
    assert!(
        faults.contains("c.toml:4:1: unknown setting workrs; did you mean workers?"),
        "{faults}"
    );
    assert!(
        faults.contains("c.toml:8:1: unknown setting acton in [list]; did you mean action?"),
        "{faults}"
    );
    // A wrong setting does not hide a missing filter.
    rig.write(
        "c.toml",
        "on_error = 'acept'\n[[list]]\nname = 'a'\nfilter = 'a.blf'\n",
    );
    let faults = told(&["--check"]);
    assert!(
        faults.contains("did you mean \"accept\"?") && faults.contains("list a: "),
        "{faults}"
    );
    rig.write("c.toml", "[[list]]\nname = 'a'\nfilter = 'a.blf'\n[[list]]\nname = 'b'\nfilter = 'b.blf'\n[whitelist]\nfiles = ['w.txt', 'v.txt']\n");
    let faults = told(&["--check"]);
    for missing in [
        "c.toml:6:10: list a: ",
        "c.toml:9:10: list b: ",
        "w.txt",
        "v.txt",
    ] {
        assert!(
            faults.contains(missing),
            "{missing} is not told of in\n{faults}"
        );
    }
    rig.write(
        "c.toml",
        &format!("socket_group = 'no-such-group'\n{CONFIG}"),
    );
    let report = stdout(&program(&rig, &["--check"]));
    assert!(
        report.contains("warning: socket_group: no group \"no-such-group\""),
        "{report}"
    );
    // A common first edit: another action, with the reply left unchanged.
    rig.write(
        "c.toml",
        &CONFIG.replace("filter", "reply = '550 5.7.1 no'\naction = 'tag'\nfilter"),
    );
    let report = stdout(&program(&rig, &["--check"]));
    let warning =
        "warning: list spam: action \"tag\" sends no reply; the setting reply has no effect";
    assert!(report.contains(warning), "{report}");
    rig.write("c.toml", CONFIG);
    let printed = stdout(&program(&rig, &["--print-config"]));
    assert!(
        printed.contains("on_error = \"tempfail\"") && printed.contains("[safety]"),
        "{printed}"
    );
}

/// `query` and `explain` give the same answer for every sender in `tests/addresses.txt`; half of
/// its groups are listed.
#[test]
fn query_and_explain_say_the_same_of_every_address() {
    let table: Vec<Vec<&str>> = include_str!("../addresses.txt")
        .split("\n\n")
        .map(|group| {
            let rows = group.lines().filter(|line| !line.starts_with('#'));
            rows.filter(|line| line.contains('\t')).collect()
        })
        .collect();
    let columns = |row: &str| -> (Vec<u8>, String) {
        let mut columns = row.split('\t');
        let mut next = || columns.next().expect("five columns");
        (bytes(next()), next().to_owned())
    };
    let listed: String = table
        .iter()
        .step_by(2)
        .flatten()
        .map(|row| columns(row).1)
        .filter(|canonical| !canonical.starts_with('!'))
        .map(|canonical| canonical + "\n")
        .collect();
    let rig = Rig::new(
        &[("spam.list", &listed)],
        "[[list]]\nname = 'spam'\nfilter = 'spam.blf'\n[exempt]\nrecipients = []\n",
    );
    let filter = rig.path("spam.blf");
    let today = Day::read(b"2026-01-31").unwrap();
    let mut query = Query::open(&filter, Load::Memory, today).unwrap();
    let mut explainer = Explainer::open(&rig.path("c.toml")).unwrap();
    let (mut with_hit, mut without, mut wrong) = (0, 0, Vec::new());
    for row in table.iter().flatten() {
        let written = columns(row).0;
        let asked = query.ask(&written).unwrap();
        let explained = explainer.explain(&Mail {
            mail_from: Some(written.clone()),
            ..Mail::from_address(&String::from_utf8_lossy(&written))
        });
        let same = explained
            .identities
            .iter()
            .filter(|named| named.canonical.is_some() && named.canonical == asked.canonical);
        for named in same {
            *(if asked.listed {
                &mut with_hit
            } else {
                &mut without
            }) += 1;
            let entries: Vec<&str> = asked.matches.iter().map(|one| one.entry.as_str()).collect();
            let agree = match &named.entry {
                Some(entry) => named.list.is_some() && entries.contains(&entry.as_str()),
                None => named.list.is_none() && !asked.listed,
            };
            if !agree {
                wrong.push(format!(
                    "{row}: query {entries:?}, explain {:?}",
                    named.entry
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        with_hit > 100 && without > 100,
        "{with_hit} listed, {without} not"
    );
}

/// A whitelist is opened like any list: decompressed and decoded.
#[test]
fn a_whitelist_may_be_packed_or_in_utf_16() {
    let rig = rig();
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(b"spam@bad.example\n").unwrap();
    let wide: Vec<u8> = "\u{feff}spam@bad.example\r\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let files = [
        ("packed.gz", packed.finish().unwrap()),
        ("wide.txt", wide),
        ("other.txt", b"friend@good.example\n".to_vec()),
    ];
    let verdicts = files.map(|(name, bytes)| {
        fs::write(rig.path(name), bytes).unwrap();
        let config = "listen = ['unix:@/s']\n[[list]]\nname = 'spam'\nfilter = '@/spam.blf'\n[whitelist]\nfiles = ['@/NAME']\n"
            .replace('@', rig.path("").to_str().unwrap())
            .replace("NAME", name);
        fs::write(rig.path("other.toml"), config).unwrap();
        let mut explainer = Explainer::open(&rig.path("other.toml")).unwrap();
        explainer.explain(&Mail::from_address("spam@bad.example")).verdict
    });
    assert_eq!(verdicts, ["accept", "accept", "reject"]);
}
