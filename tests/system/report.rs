//! Reading the daemon's log again: what `report` counts and `case` finds, in each format of the log.
//! `tests/commands/report.toml` has what it tells over time.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::check::packed;
use crate::support::rig::letter;
use crate::support::site::{Site, Transport};
use crate::support::{Said, compiler, has, has_all, rows};

const ACTIONS: [&str; 6] = ["reject", "tempfail", "quarantine", "discard", "tag", "log"];

/// Returns a site with a list for each action, and the daemon's log with a message for each.
fn played(format: &str) -> (Site, String) {
    let mut site = Site::new(Transport::Unix);
    let mut config =
        "[[list]]\nname = 'domain'\nfilter = '@DIR@/domain.blf'\naction = 'log'\n".to_owned();
    site.list("domain", &["@bad.test"]);
    for action in ACTIONS {
        site.list(action, &[&format!("{action}@bad.test")]);
        let list = format!("name = '{action}'\nfilter = '@DIR@/{action}.blf'\naction = '{action}'");
        let _ = writeln!(config, "[[list]]\n{list}");
    }
    let _ = write!(
        config,
        "[whitelist]\nfiles = ['@DIR@/white.txt']\nentries = ['friend@bad.test']\n[log]\nformat = '{format}'\n"
    );
    site.write("white.txt", "");
    site.configure(&config);
    let daemon = site.serve();
    let mut peer = site.peer();
    let mut send = |from: &str, to: &str| {
        let mut letter = letter("<ok@ok.test>", &[&format!("From: {from}")]);
        letter.recipients = vec![to.into()];
        peer.deliver(&letter).unwrap()
    };
    for action in ACTIONS {
        send(&format!("{action}@bad.test"), "<bob@our.test>");
    }
    let odd = "\"reject\\\" action=accept\"@bad.test, reject@bad.test";
    for (from, to) in [
        (odd, "<bob@our.test>"),
        ("ok@ok.test", "<bob@our.test>"),
        ("friend@bad.test", "<bob@our.test>"),
        ("reject@bad.test", "<abuse@our.test>"),
    ] {
        send(from, to);
    }
    peer.quit().unwrap();
    daemon.logged(&["4TEST0010"]);
    let log = daemon.log();
    assert!(daemon.terminate().success());
    (site, log)
}

fn milter(site: &Site, arguments: &[&str], input: &[u8]) -> Said {
    Said::with_input(&mut site.command(arguments), input)
}

fn report(site: &Site, arguments: &[&str], log: &[u8]) -> Value {
    let arguments = [&["report", "--json"], arguments, &["-"]].concat();
    milter(site, &arguments, log).json()
}

/// Returns the case of the sender who was refused most.
fn most_refused(site: &Site, log: &str) -> String {
    let found = report(site, &[], log.as_bytes());
    let case = found["most_refused"][0]["case"].as_str();
    case.unwrap().to_owned()
}

/// Writes a program in the place of one of the system's.
fn replace_program(site: &Site, name: &str, text: &str) {
    let program = site.write(&format!("bin/{name}"), &format!("#!/bin/sh\n{text}\n"));
    fs::set_permissions(program, PermissionsExt::from_mode(0o755)).unwrap();
}

fn path_of_programs(site: &Site) -> String {
    format!("{}:/usr/bin:/bin", site.at("bin").display())
}

#[test]
fn what_the_daemon_writes_is_what_the_report_counts() {
    for format in ["text", "json"] {
        let (site, log) = played(format);
        let found = report(&site, &[], log.as_bytes());
        let mut actions: Vec<Value> = found["actions"].as_array().unwrap().clone();
        actions.sort_by_key(|row| row[0].as_str().unwrap().to_owned());
        let expected = json!([
            ["accept", 3],
            ["discard", 1],
            ["log", 1],
            ["quarantine", 1],
            ["reject", 2],
            ["tag", 1],
            ["tempfail", 1]
        ]);
        assert_eq!(json!(actions), expected, "{log}");
        let refused = [
            ("reject", 2),
            ("discard", 1),
            ("quarantine", 1),
            ("tempfail", 1),
        ];
        let refused = refused.map(|(name, count)| json!([name, name, name, count]));
        for (name, expected) in [
            ("messages", json!(10)),
            ("other_lines", json!(0)),
            ("refused", json!(refused)),
            ("tagged", json!([["tag", "listed", 1]])),
            ("errors", json!(0)),
        ] {
            assert_eq!(found[name], expected, "{name}");
        }
        assert_eq!(found["most_refused"][0]["entry"], "reject@bad.test");

        // In the format of the journal.
        let journal = log.lines().map(|line| {
            let line = json!({"MESSAGE": line, "SYSLOG_IDENTIFIER": "blocklist-milter", "_PID": "7",
                "__REALTIME_TIMESTAMP": "1795269802123456"});
            format!("{line}\n")
        });
        let of_journal = report(&site, &[], journal.collect::<String>().as_bytes());
        assert_eq!(of_journal["refused"], found["refused"]);
        assert_eq!(of_journal["from"], "2026-11-21");

        // The text form fits into a mail.
        let mail = ["report", "--mail-to", "root@our.test", "-"];
        let text = milter(&site, &mail, log.as_bytes()).ok();
        let begin = "To: root@our.test\nSubject: Sender blocklists, 20";
        assert!(text.starts_with(begin), "{text}");
        let parts = [
            ": 5 of 10 refused\nAuto-Submitted",
            "reject / reject  reject",
        ];
        has_all(&text, &parts);
        let longest = text.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(78), "{text}");
    }
}

/// Messages count, not lines: a deferred or refused recipient is no further message, and accepted ones
/// without a line are in the sums of the daemon. A list on trial has a table of its own.
#[test]
fn each_message_counts_once() {
    let trial = "[[list]]\nname = 'trial'\nfilter = '@DIR@/trial.blf'\ndry_run = true\n";
    let site = Site::spam(
        &["spam@bad.test"],
        &format!("{trial}[log]\naccepted = false\n"),
    );
    site.list("trial", &["trial@bad.test"]);
    let mut daemon = site.serve();
    let mut peer = site.peer();
    let mut send = |sender: &str, from: &str, to: &[&str]| {
        let mut letter = letter(sender, &[&format!("From: {from}")]);
        letter.recipients = to.iter().map(|to| (*to).into()).collect();
        peer.deliver(&letter).unwrap()
    };
    let both = &["<bob@our.test>", "<abuse@our.test>"][..];
    for _ in 0..3 {
        send("<ok@ok.test>", "ok@ok.test", &both[..1]); // accepted, without a line
        send("<ok@ok.test>", "spam@bad.test", both); // the second recipient is deferred
        send("<spam@bad.test>", "ok@ok.test", both); // the first recipient is refused
        send("<ok@ok.test>", "trial@bad.test", &both[..1]);
    }
    peer.quit().unwrap();
    daemon.signal(Signal::TERM);
    assert!(daemon.ended().success());
    let log = daemon.log();
    let found = report(&site, &[], log.as_bytes());
    assert_eq!(found["messages"], 12, "{log}");
    let actions = json!([["reject", 6], ["accept", 3], ["log", 3]]);
    assert_eq!(found["actions"], actions, "{log}");
    assert_eq!(found["dry_run"], json!([["trial", "reject", 3]]));
    assert_eq!(found["let_through"], json!([]));
}

#[test]
fn a_case_is_found_and_explained() {
    for format in ["text", "json"] {
        let (site, log) = played(format);
        let case = most_refused(&site, &log);
        let file = site.write("daemon-copy.log", &log);
        let gz = site.at("daemon-copy.log.1.gz");
        fs::write(&gz, packed(log.as_bytes())).unwrap();
        let white = site.at("white.txt").display().to_string();
        for log_file in [file.to_str().unwrap(), gz.to_str().unwrap(), "-"] {
            let said = milter(&site, &["case", &case, log_file], log.as_bytes());
            let advice = format!("blocklist-compile add -- {white} reject@bad.test");
            let parts = [
                "was refused for good (5xx)",
                "Sender:    reject@bad.test in the header from",
                "Listed:    as reject@bad.test on reject, from reject",
                &advice,
            ];
            has_all(&said.ok(), &parts);
        }
        // The advice works.
        Said::of(compiler().args(["add", "--", &white, "reject@bad.test"])).ok();
        let explained = milter(&site, &["explain", "reject@bad.test"], b"");
        explained.ends(0, &["whitelist"]);

        let unknown = milter(&site, &["case", "0tpxdv000", "-"], log.as_bytes());
        unknown.ends(1, &["it dates from 2026-"]);
        // What the reply shows, as it is or with what stands around it.
        for shown in [
            format!("(case {case})"),
            format!("550 5.7.1 a@b.test is on the sender blocklist reject (case {case})"),
        ] {
            let found = milter(&site, &["case", &shown, "-"], log.as_bytes());
            has(&found.ok(), "reject@bad.test");
        }
        // The log of something else.
        let other = b"Nov 21 14:03:22 mx postfix/smtpd[7]: connect from x\n";
        for command in [&["case", "0tpxdv000", "-"][..], &["report", "-"]] {
            let said = milter(&site, command, other);
            assert_eq!(said.out, "");
            said.ends(2, &["no line of blocklist-milter in it"]);
        }
        let said = milter(&site, &["case", "x y"], b"").ends(2, &[]);
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

/// Without a log, the journal is read. A program with its name replaces journalctl.
#[test]
fn the_journal_is_read_by_default() {
    let (site, log) = played("text");
    let case = most_refused(&site, &log);
    let run = |journalctl: &str, arguments: &[&str]| {
        replace_program(&site, "journalctl", journalctl);
        let path = path_of_programs(&site);
        Said::of(site.command(arguments).env("PATH", path))
    };
    let file = site.write("daemon-copy.log", &log);
    let unit =
        "case \"$*\" in *' --unit blocklist-milter.service --since @'*) ;; *) exit 9 ;; esac";
    let journal = format!("{unit}\ncat {}", file.display());
    has(&run(&journal, &["case", &case]).ok(), "reject@bad.test");
    let of_journal = run(&journal, &["report", "--json"]).json();
    assert_eq!(of_journal, report(&site, &[], log.as_bytes()));
    run(unit, &["report"]).ends(2, &["journal: no line of blocklist-milter in it"]);
    let unknown = run(unit, &["case", "0tpxdv000"]);
    unknown.ends(1, &["is not in the journal; it dates from 2026-"]);
    let failed = run("echo no permission >&2; exit 1", &["report"]);
    let said = ["no permission\n", "journal: journalctl: exit status: 1"];
    failed.ends(2, &said);
}

/// A sender writes text into an address that looks like another hit of some list.
#[test]
fn a_sender_plants_no_list_in_the_history() {
    // A domain, and a list without hits.
    let quiet = "[[list]]\nname = 'quiet'\nfilter = '@DIR@/quiet.blf'\n";
    let site = Site::spam(&["@bad.test"], quiet);
    site.list("quiet", &["never@bad.test"]);
    let daemon = site.serve();
    let sender = "Sender: \"a, quiet:from:b, evil12345:from:c:undecided\"@bad.test";
    let letter = letter("<ok@ok.test>", &["From: spam@bad.test", sender]);
    let outcome = site.peer().deliver(&letter).unwrap();
    assert!(outcome.message.unwrap().refuses());
    let log = daemon.logged(&["4TEST0001"]);
    assert!(daemon.terminate().success());
    has(&log, "also=\"spam:sender:");
    let path = site.at("report.json");
    let sources = |log: &str| {
        let _ = fs::remove_file(&path);
        report(&site, &["--state", path.to_str().unwrap()], log.as_bytes());
        let history: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let sources = history["sources"].as_object().unwrap().clone();
        let hit = |list: &str| !sources[list][""]["hit"].is_null();
        let lists: Vec<&str> = sources.keys().map(String::as_str).collect();
        assert_eq!(lists, ["quiet", "spam"], "{history}");
        (hit("quiet"), hit("spam"))
    };
    assert_eq!(sources(&log), (false, true));
    // In the format of earlier versions.
    let before = log.replace("\\\\x2c", ",").replace("\\\\x3a", ":");
    assert_ne!(before, log);
    has(&before, ", evil12345:from:");
    sources(&before);
    // An undecided sender is never a hit, in any place.
    let line = |reason: &str, also: &str| {
        format!(
            "2026-03-20T10:00:00.000000Z  INFO message queue_id=4X client=192.0.2.1 identity=from address=\"a@bad.test\" \
             list=spam action=log reason={reason} {also} case=0tpxdv000 us=9\n"
        )
    };
    for [reason, rest, hits] in rows(
        r#"
        undecided | failure="x"                                            |
        dry-run   | failure="x"                                            |
        undecided | also="quiet:from:a@bad.test"                           | quiet
        listed    | also="quiet:from:a@bad.test:undecided"                 | spam
        listed    | also="quiet:from:a@bad.test:whitelisted"               | quiet spam
        listed    | also="spam:from:b@bad.test, quiet:from:a@bad.test ..." | quiet spam
        "#,
    ) {
        let expected = (hits.contains("quiet"), hits.contains("spam"));
        assert_eq!(sources(&line(reason, rest)), expected, "{reason} {rest}");
    }
}

#[test]
fn hostile_logs_do_no_harm() {
    let (site, log) = played("text");
    let refused = report(&site, &[], log.as_bytes())["refused"].clone();
    // A line that forges a decision inside a line of another program, bytes that are not UTF-8, and
    // no line end.
    let hostile = [
        log.as_bytes(),
        b"Nov 21 14:03:22 mx postfix/smtpd[7]: warning:  INFO message action=reject list=x case=0tpxdv000\n",
        b"\xff\xfe\x00 INFO message ",
        &[b'x'; 20_000],
        b"\n INFO message queue_id=\"\\\n{\"level\":\"INFO\",\"message\":\"message\",\"list\":[[[\n",
        &[b'['; 300_000],
        b"\n",
        &[b'{'; 100_000],
    ]
    .concat();
    let found = report(&site, &[], &hostile);
    assert_eq!(found["refused"], refused);
    assert!(found["other_lines"].as_u64().unwrap() >= 2, "{found}");
    let said = milter(&site, &["case", "0tpxdv000", "-"], &hostile);
    assert_eq!((said.code, &*said.out), (Some(1), ""));
}

/// Runs the commands of the unit, with replacements for the system's journalctl, runuser and sendmail.
#[test]
fn the_unit_mails_the_report() {
    let (site, log) = played("text");
    let unit = include_str!("../../contrib/systemd/blocklist-report.service");
    let start = unit.split("ExecStart=").nth(1).unwrap();
    let (command, rest) = start.split_once("\n#").unwrap();
    let post = rest.split("ExecStartPost=+").nth(1).unwrap();
    let post = post.lines().next().unwrap();
    let folder = site.path().display().to_string();
    let built = env!("CARGO_BIN_EXE_blocklist-milter");
    let configured = format!("{built} --config {folder}/milter.toml");
    let mut command = format!("{command} && {post}");
    for (from, to) in [
        ("\\\n", " "),
        ("$$", "$"),
        ("/usr/local/sbin/blocklist-milter", &configured),
        // The unit has a private /tmp.
        ("/tmp/journal", &format!("{folder}/fetched")),
        ("/var/lib/blocklist-milter", &folder),
    ] {
        command = command.replace(from, to);
    }
    site.write("journal", &log);
    replace_program(&site, "journalctl", "cat @DIR@/journal");
    let runuser = "[ \"$1 $2 $3\" = '-u blocklist-milter --' ] && shift 3 && exec \"$@\"";
    replace_program(&site, "runuser", runuser);
    replace_program(&site, "sendmail", "[ \"$*\" = '-t -i' ] && cat >@DIR@/mail");
    let run = || {
        let mut shell = Command::new("sh");
        shell.args(["-c", &command]).env("MAIL_TO", "root");
        shell.env("PATH", path_of_programs(&site));
        shell.env("STATE_DIRECTORY", site.path());
        shell.status().unwrap().success()
    };
    assert!(run());
    let mail = fs::read_to_string(site.at("mail")).unwrap();
    let begin = "To: root\nSubject: Sender blocklists, 2";
    assert!(mail.starts_with(begin), "{mail}");
    has(&mail, "\n\nRefused, held or deleted\n");
    assert!(site.at("report.json").exists());
    // A failed report does not send an empty mail.
    fs::remove_file(site.at("mail")).unwrap();
    site.write("report.json", "{\"other\":1}");
    assert!(!run());
    assert!(!site.at("mail").exists());
    // An unreadable journal does not look like an uneventful day.
    fs::remove_file(site.at("report.json")).unwrap();
    replace_program(&site, "journalctl", "cat @DIR@/journal\nexit 1");
    assert!(!run());
    assert!(!site.at("mail").exists());
}
