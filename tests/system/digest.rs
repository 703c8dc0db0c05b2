//! Reading the daemon's log again: what `report` counts and `case` finds, in each format of the
//! log.

use crate::support;

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use blocklist_milter::demo::peer::{Peer, TestMail};
use serde_json::{Value, json};
use support::site::{Site, Socket, Transport};

const ACTIONS: [&str; 6] = ["reject", "tempfail", "quarantine", "discard", "tag", "log"];

/// Returns a site with a list for each action, and the daemon's log with a message for each.
fn played(format: &str) -> (Site, String) {
    let mut site = Site::new(Transport::Unix);
    let mut config = String::new();
    for action in ACTIONS {
        site.list(action, &[&format!("{action}@bad.test")]);
        let _ = writeln!(
            config,
            "[[list]]\nname = '{action}'\nfilter = '@DIR@/{action}.blf'\naction = '{action}'"
        );
    }
    let _ = write!(
        config,
        "[whitelist]\nfiles = ['@DIR@/white.txt']\nentries = ['friend@bad.test']\n[log]\nformat = '{format}'\n"
    );
    site.list("domain", &["@bad.test"]);
    site.write("white.txt", "");
    config =
        format!("[[list]]\nname = 'domain'\nfilter = '@DIR@/domain.blf'\naction = 'log'\n{config}");
    site.configure(&config);
    let daemon = site.serve();
    let Socket::Unix(path) = &site.socket else {
        panic!("a unix socket was asked for")
    };
    let mut peer = Peer::unix(path).unwrap();
    peer.stranger().unwrap();
    let mut send = |from: &str, to: &str| {
        let header = format!("From: {from}");
        let letter = TestMail::new("<ok@ok.test>", &[to], &[&header]);
        peer.deliver(&letter).unwrap()
    };
    for action in ACTIONS {
        send(&format!("{action}@bad.test"), "<bob@our.test>");
    }
    send(
        "\"reject\\\" action=accept\"@bad.test, reject@bad.test",
        "<bob@our.test>",
    );
    send("ok@ok.test", "<bob@our.test>");
    send("friend@bad.test", "<bob@our.test>");
    send("reject@bad.test", "<abuse@our.test>");
    peer.quit().unwrap();
    let log = daemon.logged(&["4TEST0010"]);
    drop(log);
    let log = daemon.log();
    assert!(daemon.terminate().success());
    (site, log)
}

fn milter(site: &Site, arguments: &[&str], input: &[u8]) -> (Option<i32>, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_blocklist-milter"))
        .args(arguments)
        .arg("--config")
        .arg(site.path().join("milter.toml"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(input);
    let done = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (done.status.code(), text(done.stdout), text(done.stderr))
}

fn report(site: &Site, arguments: &[&str], log: &[u8]) -> Value {
    let arguments = [&["report", "--json"], arguments, &["-"]].concat();
    let (code, out, err) = milter(site, &arguments, log);
    assert_eq!(code, Some(0), "{err}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn what_the_daemon_writes_is_what_the_report_counts() {
    for format in ["text", "json"] {
        let (site, log) = played(format);
        let found = report(&site, &[], log.as_bytes());
        let mut actions: Vec<Value> = found["actions"].as_array().unwrap().clone();
        actions.sort_by_key(|row| row[0].as_str().unwrap().to_owned());
        assert_eq!(
            Value::from(actions),
            json!([
                ["accept", 3],
                ["discard", 1],
                ["log", 1],
                ["quarantine", 1],
                ["reject", 2],
                ["tag", 1],
                ["tempfail", 1]
            ]),
            "{log}"
        );
        assert_eq!(found["decisions"], 10);
        assert_eq!(found["other_lines"], 0);
        assert_eq!(
            found["refused"],
            json!([
                ["reject", "reject", "reject", 2],
                ["discard", "discard", "discard", 1],
                ["quarantine", "quarantine", "quarantine", 1],
                ["tempfail", "tempfail", "tempfail", 1]
            ])
        );
        assert_eq!(found["tagged"], json!([["tag", "listed", 1]]));
        assert_eq!(found["most_refused"][0]["entry"], "reject@bad.test");
        assert_eq!(found["errors"], 0);

        // In the format of the journal.
        let journal: String = log
            .lines()
            .map(|line| {
                let line = json!({"MESSAGE": line, "SYSLOG_IDENTIFIER": "blocklist-milter", "_PID": "7",
                    "__REALTIME_TIMESTAMP": "1795269802123456"});
                format!("{line}\n")
            })
            .collect();
        let of_journal = report(&site, &[], journal.as_bytes());
        assert_eq!(of_journal["refused"], found["refused"]);
        assert_eq!(of_journal["from"], "2026-11-21");

        // The text form fits into a mail.
        let (_, text, _) = milter(
            &site,
            &["report", "--mail-to", "root@our.test", "-"],
            log.as_bytes(),
        );
        assert!(text.starts_with("To: root@our.test\nSubject: "), "{text}");
        assert!(text.contains("reject / reject  reject"), "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 78),
            "{text}"
        );
    }
}

#[test]
fn a_case_is_found_and_explained() {
    for format in ["text", "json"] {
        let (site, log) = played(format);
        let found = report(&site, &[], log.as_bytes());
        let case = found["most_refused"][0]["case"]
            .as_str()
            .unwrap()
            .to_owned();
        let file = site.write("daemon-copy.log", &log);
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(log.as_bytes()).unwrap();
        let gz = site.path().join("daemon-copy.log.1.gz");
        fs::write(&gz, packed.finish().unwrap()).unwrap();
        for (log_file, input) in [
            (file.to_str().unwrap(), ""),
            (gz.to_str().unwrap(), ""),
            ("-", log.as_str()),
        ] {
            let (code, text, err) = milter(&site, &["case", &case, log_file], input.as_bytes());
            assert_eq!(code, Some(0), "{err}");
            let white = site.path().join("white.txt");
            for part in [
                "was refused for good (5xx)".to_owned(),
                "Sender:    reject@bad.test in the header From".to_owned(),
                "Listed:    as reject@bad.test on reject, from reject".to_owned(),
                format!("blocklist-compile add {} reject@bad.test", white.display()),
            ] {
                assert!(text.contains(&part), "{part}\n{text}");
            }
        }
        // The advice works.
        let add = site.path().join("white.txt");
        let added = Command::new(env!("CARGO_BIN_EXE_blocklist-compile"))
            .args(["add", add.to_str().unwrap(), "reject@bad.test"])
            .status()
            .unwrap();
        assert!(added.success());
        let (_, explained, _) = milter(&site, &["explain", "reject@bad.test"], b"");
        assert!(explained.contains("whitelist"), "{explained}");

        let (code, _, err) = milter(&site, &["case", "0tpxdv000", "-"], log.as_bytes());
        assert_eq!(code, Some(1));
        assert!(err.contains("it dates from 2026-"), "{err}");
        // What the reply shows, as it is or with what stands around it.
        for shown in [
            format!("(case {case})"),
            format!("550 5.7.1 a@b.test is on the sender blocklist reject (case {case})"),
        ] {
            let (code, text, err) = milter(&site, &["case", &shown, "-"], log.as_bytes());
            assert!(
                code == Some(0) && text.contains("reject@bad.test"),
                "{shown}: {err}"
            );
        }
        // The log of something else.
        let other = b"Nov 21 14:03:22 mx postfix/smtpd[7]: connect from x\n";
        for command in [&["case", "0tpxdv000", "-"][..], &["report", "-"]] {
            let (code, out, err) = milter(&site, command, other);
            assert_eq!((code, &*out), (Some(2), ""), "{err}");
            assert!(err.contains("no line of blocklist-milter in it"), "{err}");
        }
        let (code, _, err) = milter(&site, &["case", "x y"], b"");
        assert_eq!((code, err.lines().count()), (Some(2), 1), "{err}");
    }
}

/// Without a log, the journal is read. A program with its name replaces journalctl.
#[test]
fn the_journal_is_read_by_default() {
    let (site, log) = played("text");
    let found = report(&site, &[], log.as_bytes());
    let case = found["most_refused"][0]["case"].as_str().unwrap();
    let run = |journalctl: &str, arguments: &[&str]| {
        let program = site.write("bin/journalctl", &format!("#!/bin/sh\n{journalctl}\n"));
        fs::set_permissions(program, PermissionsExt::from_mode(0o755)).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_blocklist-milter"))
            .args(arguments)
            .arg("--config")
            .arg(site.path().join("milter.toml"))
            .env(
                "PATH",
                format!("{}:/usr/bin:/bin", site.path().join("bin").display()),
            )
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            output.status.code(),
            text(output.stdout),
            text(output.stderr),
        )
    };
    let file = site.write("daemon-copy.log", &log);
    let unit =
        "case \"$*\" in *' --unit blocklist-milter.service --since @'*) ;; *) exit 9 ;; esac";
    let journal = format!("{unit}\ncat {}", file.display());
    let (code, text, err) = run(&journal, &["case", case]);
    assert!(code == Some(0) && text.contains("reject@bad.test"), "{err}");
    let (code, text, err) = run(&journal, &["report", "--json"]);
    assert_eq!(
        (code, serde_json::from_str(&text).ok()),
        (Some(0), Some(found.clone())),
        "{err}"
    );
    let (code, _, err) = run(unit, &["report"]);
    assert!(
        code == Some(2) && err.contains("journal: no line of blocklist-milter in it"),
        "{err}"
    );
    let (code, _, err) = run(unit, &["case", "0tpxdv000"]);
    assert!(
        code == Some(1) && err.contains("is not in the journal; it dates from 2026-"),
        "{err}"
    );
    let (code, _, err) = run("echo no permission >&2; exit 1", &["report"]);
    assert_eq!(code, Some(2));
    assert!(
        err.contains("no permission\n") && err.contains("journal: journalctl: exit status: 1"),
        "{err}"
    );
}

#[test]
fn the_state_tells_what_is_new_and_what_has_no_hits() {
    let mut site = Site::new(Transport::Unix);
    site.list("spam", &["one@bad.test", "two@bad.test"]);
    site.list("quiet", &["never@bad.test"]);
    site.configure(
        "[[list]]\nname = 'spam'\nfilter = '@DIR@/spam.blf'\n[[list]]\nname = 'quiet'\nfilter = '@DIR@/quiet.blf'\n",
    );
    let line = |day: &str, entry: &str| {
        format!(
            "{day}T10:00:00.000000Z  INFO message queue_id=4X client=192.0.2.1 identity=from address=\"{entry}\" \
             entry=\"{entry}\" list=spam source=\"spam.txt\" action=reject reason=listed case=0tpxdv000 us=9\n"
        )
    };
    let state = site.path().join("report.json");
    let state = ["--state", state.to_str().unwrap()];
    let first = report(&site, &state, line("2026-01-10", "one@bad.test").as_bytes());
    assert_eq!(first["has_history"], false);
    let log = line("2026-03-20", "one@bad.test") + &line("2026-03-20", "two@bad.test");
    for _ in 0..2 {
        // The same report again says the same.
        let second = report(&site, &state, log.as_bytes());
        assert_eq!(second["first_refused_total"], 1, "{second}");
        assert_eq!(second["first_refused"][0]["entry"], "two@bad.test");
    }
    // A longer log is also a history.
    let log = line("2026-01-10", "one@bad.test") + &log;
    let from_log = report(&site, &["--since", "2026-03-20"], log.as_bytes());
    assert_eq!(from_log["first_refused"][0]["entry"], "two@bad.test");
    assert_eq!(from_log["decisions"], 2);
    assert_eq!(from_log["from"], "2026-03-20");
    // Both lists had their last hit, or none, long before today; the quiet one is known only since
    // today.
    let (_, text, _) = milter(&site, &["report", "-"], log.as_bytes());
    assert!(text.contains("spam, last hit: 2026-03-20"), "{text}");
}

/// A sender writes text into an address that looks like another hit of some list.
#[test]
fn a_sender_plants_no_list_in_the_history() {
    let mut site = Site::new(Transport::Unix);
    site.list("spam", &["@bad.test"]);
    site.list("quiet", &["never@bad.test"]);
    site.configure(
        "[[list]]\nname = 'spam'\nfilter = '@DIR@/spam.blf'\n[[list]]\nname = 'quiet'\nfilter = '@DIR@/quiet.blf'\n",
    );
    let daemon = site.serve();
    let Socket::Unix(path) = &site.socket else {
        panic!("a unix socket was asked for")
    };
    let mut peer = Peer::unix(path).unwrap();
    peer.stranger().unwrap();
    let sender = "Sender: \"a, quiet:from:b, evil12345:from:c:undecided\"@bad.test";
    let headers = ["From: spam@bad.test", sender];
    let letter = TestMail::new("<ok@ok.test>", &["<bob@our.test>"], &headers);
    assert!(peer.deliver(&letter).unwrap().message.unwrap().refuses());
    peer.quit().unwrap();
    let log = daemon.logged(&["4TEST0001"]);
    assert!(daemon.terminate().success());
    assert!(log.contains("also=\"spam:sender:"), "{log}");
    let path = site.path().join("report.json");
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
    assert!(before.contains(", evil12345:from:"), "{before}");
    sources(&before);
    // An undecided sender is never a hit, in any place.
    let line = |reason: &str, also: &str| {
        format!(
            "2026-03-20T10:00:00.000000Z  INFO message queue_id=4X client=192.0.2.1 identity=from address=\"a@bad.test\" \
             list=spam action=log reason={reason} {also} case=0tpxdv000 us=9\n"
        )
    };
    for (line, expected) in [
        (line("undecided", "failure=\"x\""), (false, false)),
        (line("dry-run", "failure=\"x\""), (false, false)),
        (
            line("undecided", "also=\"quiet:from:a@bad.test\""),
            (true, false),
        ),
        (
            line("listed", "also=\"quiet:from:a@bad.test:undecided\""),
            (false, true),
        ),
        (
            line("listed", "also=\"quiet:from:a@bad.test:whitelisted\""),
            (true, true),
        ),
        (
            line(
                "listed",
                "also=\"spam:from:b@bad.test, quiet:from:a@bad.test ...\"",
            ),
            (true, true),
        ),
    ] {
        assert_eq!(sources(&line), expected, "{line}");
    }
}

#[test]
fn hostile_logs_do_no_harm() {
    let (site, log) = played("text");
    let refused = report(&site, &[], log.as_bytes())["refused"].clone();
    let mut hostile = log.into_bytes();
    // A line that forges a decision inside a line of another program, bytes that are not UTF-8, and
    // no line end.
    hostile.extend(b"Nov 21 14:03:22 mx postfix/smtpd[7]: warning:  INFO message action=reject list=x case=0tpxdv000\n");
    hostile.extend(
        [
            b"\xff\xfe\x00 INFO message ".as_slice(),
            &[b'x'; 20_000],
            b"\n",
        ]
        .concat(),
    );
    hostile.extend(
        b" INFO message queue_id=\"\\\n{\"level\":\"INFO\",\"message\":\"message\",\"list\":[[[\n",
    );
    hostile.extend(vec![b'['; 300_000]);
    hostile.extend(b"\n");
    hostile.extend(vec![b'{'; 100_000]);
    let found = report(&site, &[], &hostile);
    assert_eq!(found["refused"], refused);
    assert!(found["other_lines"].as_u64().unwrap() >= 2, "{found}");
    let (code, out, _) = milter(&site, &["case", "0tpxdv000", "-"], &hostile);
    assert_eq!((code, &*out), (Some(1), ""));
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
    let command = format!("{command} && {post}")
        .replace("\\\n", " ")
        .replace("$$", "$");
    let built = env!("CARGO_BIN_EXE_blocklist-milter");
    let config = site.path().join("milter.toml");
    let with_config = format!("{built} --config {}", config.display());
    // The unit has a private /tmp.
    let own = format!("{}/fetched", site.path().display());
    let command = command
        .replace("/usr/local/sbin/blocklist-milter", &with_config)
        .replace("/tmp/journal", &own)
        .replace(
            "/var/lib/blocklist-milter",
            &site.path().display().to_string(),
        );
    let script = |name: &str, text: &str| {
        let path = site.write(name, text);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    site.write("journal", &log);
    script("bin/journalctl", "#!/bin/sh\ncat @DIR@/journal\n");
    script(
        "bin/runuser",
        "#!/bin/sh\n[ \"$1 $2 $3\" = '-u blocklist-milter --' ] && shift 3 && exec \"$@\"\n",
    );
    script(
        "bin/sendmail",
        "#!/bin/sh\n[ \"$*\" = '-t -i' ] && cat >@DIR@/mail\n",
    );
    let run = || {
        let status = Command::new("sh")
            .args(["-c", &command])
            .env(
                "PATH",
                format!("{}/bin:/usr/bin:/bin", site.path().display()),
            )
            .env("STATE_DIRECTORY", site.path())
            .env("MAIL_TO", "root")
            .status();
        status.unwrap().success()
    };
    assert!(run());
    let mail = fs::read_to_string(site.path().join("mail")).unwrap();
    assert!(
        mail.starts_with("To: root\nSubject: Sender blocklists, 2"),
        "{mail}"
    );
    assert!(mail.contains("\n\nRefused, held or deleted\n"), "{mail}");
    assert!(site.path().join("report.json").exists());
    // A failed report does not send an empty mail.
    fs::remove_file(site.path().join("mail")).unwrap();
    site.write("report.json", "not a state");
    assert!(!run());
    assert!(!site.path().join("mail").exists());
    // An unreadable journal does not look like an uneventful day.
    fs::remove_file(site.path().join("report.json")).unwrap();
    script("bin/journalctl", "#!/bin/sh\ncat @DIR@/journal\nexit 1\n");
    assert!(!run());
    assert!(!site.path().join("mail").exists());
}
