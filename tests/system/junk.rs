//! Reported messages: who is listed, who never is, how a report is undone, and when it takes
//! effect.

use crate::support;

use std::fs;
use std::path::Path;
use std::process::Command;

use blocklist_milter::demo::peer::{Peer, TestMail};
use serde_json::{Value, json};
use support::site::{Site, Socket, Transport};
use support::until;

fn junk(folder: &Path, arguments: &[&str]) -> Value {
    let done = Command::new(env!("CARGO_BIN_EXE_blocklist-milter"))
        .args(["junk", "--json", "--config"])
        .arg(folder.join("milter.toml"))
        .arg("--list")
        .arg(folder.join("reported.txt"))
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    serde_json::from_slice(&done.stdout).unwrap()
}

/// Returns a folder with a configuration and reported messages.
fn reported(config: &str, messages: &[&str]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("milter.toml"), config).unwrap();
    fs::write(
        folder.path().join("people.txt"),
        "bob@else.test # seen 2026-11-21\n",
    )
    .unwrap();
    let mailbox = folder.path().join("Junk");
    fs::create_dir_all(mailbox.join("cur")).unwrap();
    for (number, message) in messages.iter().enumerate() {
        let results = match message.starts_with("Authentication") {
            true => "X: x",
            false => RESULTS,
        };
        let text =
            format!("Message-ID: <{number}@mail.test>\n{results}\n{message}\nSubject: x\n\nspam\n");
        fs::write(mailbox.join("cur").join(number.to_string()), text).unwrap();
    }
    let mailbox = mailbox.to_str().unwrap().to_owned();
    (folder, mailbox)
}

const CONFIG: &str = "[whitelist]\nentries = ['friend@good.test', '@partner.test']\ncorrespondents = ['people.txt']\nauthserv_ids = ['mx.our.test']\n";
/// Confirms all that the tests list.
const RESULTS: &str = "Authentication-Results: mx.our.test; dkim=pass header.d=bad.test; dkim=pass header.d=gmail.com; dkim=pass header.d=our.test";

#[test]
fn a_sender_is_listed_unless_that_could_hurt_somebody() {
    let (folder, mailbox) = reported(
        CONFIG,
        &[
            "From: Spammer <Spam@Bad.test>",
            "From: spam@bad.test",
            "From: someone@gmail.com",
            "From: bob@else.test",
            "From: friend@good.test",
            "From: anyone@partner.test",
            "From: boss@our.test",
            "From: boss@mail.our.test",
            "From: colleague@site.test\nDelivered-To: alice@site.test",
            "From: postmaster@bad.test",
            "From: mailer-daemon@bad.test",
            "From: one@bad.test, two@bad.test",
            "From: \"hidden@bad.test\"",
            "From: \"a # b\"@bad.test",
            "From:",
            "From: \u{202e}\u{0}<x\n y@bad.test",
        ],
    );
    let own = [
        "--own-domain",
        "our.test",
        "--by",
        "alice",
        mailbox.as_str(),
    ];
    let outcome = junk(folder.path(), &own);
    assert_eq!(
        outcome["added"],
        json!(["\"a # b\"@bad.test", "someone@gmail.com", "spam@bad.test"]),
        "{outcome}"
    );
    assert_eq!(
        outcome["left_out"].as_array().unwrap().len(),
        12,
        "{outcome}"
    );
    let list = fs::read_to_string(folder.path().join("reported.txt")).unwrap();
    let line = list.lines().nth(2).unwrap();
    assert!(line.starts_with("spam@bad.test # expires 2"), "{list}");
    assert!(line.ends_with(" reported by alice <0@mail.test>"), "{list}");
    assert_eq!(list.lines().count(), 3);
    // Reported again: nothing new.
    let outcome = junk(folder.path(), &own);
    assert_eq!(
        outcome["known"],
        json!(["\"a # b\"@bad.test", "someone@gmail.com", "spam@bad.test"])
    );
    assert_eq!(
        fs::read_to_string(folder.path().join("reported.txt")).unwrap(),
        list
    );
}

/// A reported forgery must not list its victim.
#[test]
fn only_a_sender_that_our_server_has_authenticated_is_listed() {
    let results =
        |results: &str, from: &str| format!("Authentication-Results: {results}\nFrom: {from}");
    let forged = "ceo@partner.example";
    let messages = [
        results("mx.our.test; none", forged),
        results("mx.other.test; dkim=pass header.d=partner.example", forged),
        results("mx.our.test; dkim=pass header.d=bad.test", forged),
        results(
            "mx.our.test; spf=pass smtp.mailfrom=partner.example",
            forged,
        ),
        results("mx.our.test; dmarc=pass header.from=bad.test", forged),
        results(
            "mx.our.test; dmarc=fail header.from=partner.example",
            forged,
        ),
        // A list that changes a message and signs it; or a forged field that was not removed.
        results(
            "mx.our.test; dkim=pass header.d=partner.example; dmarc=fail header.from=partner.example",
            forged,
        ),
        results(
            "mx.our.test; dmarc=fail\nAuthentication-Results: mx.our.test; dmarc=pass header.from=partner.example",
            forged,
        ),
        results(
            "mx.our.test; dkim=pass header.d=bad.test",
            "real@mail.bad.test",
        ),
        results(
            "mx.our.test; dmarc=pass header.from=spf.test",
            "other@spf.test",
        ),
    ];
    let messages = messages.each_ref().map(String::as_str);
    let (folder, mailbox) = reported(CONFIG, &messages);
    let outcome = junk(folder.path(), &[&mailbox]);
    assert_eq!(
        outcome["added"],
        json!(["other@spf.test", "real@mail.bad.test"]),
        "{outcome}"
    );
    let said = outcome["left_out"].to_string();
    assert_eq!(
        said.matches("DMARC failed, probably forged").count(),
        3,
        "{said}"
    );

    let refuses = |config: &str| {
        fs::write(folder.path().join("milter.toml"), config).unwrap();
        let done = Command::new(env!("CARGO_BIN_EXE_blocklist-milter"))
            .args(["junk", "--config"])
            .arg(folder.path().join("milter.toml"))
            .arg("--list")
            .arg(folder.path().join("new.txt"))
            .arg(&mailbox)
            .output()
            .unwrap();
        assert_eq!(done.status.code(), Some(2));
        assert!(!folder.path().join("new.txt").exists());
        String::from_utf8(done.stderr).unwrap()
    };
    // Without servers that are trusted, every sender may be forged; without a whitelist, an innocent.
    let said = refuses("[whitelist]\ncorrespondents = ['people.txt']\n");
    assert!(
        said.contains("set authserv_ids under [whitelist]"),
        "{said}"
    );
    fs::remove_file(folder.path().join("people.txt")).unwrap();
    assert!(refuses(CONFIG).contains("people.txt"));
}

#[test]
fn no_report_goes_to_a_whitelist() {
    let (folder, mailbox) = reported(
        "[whitelist]\nfiles = ['allowed.txt']\ncorrespondents = ['people.txt']\n",
        &["From: spam@bad.test"],
    );
    let path = folder.path();
    fs::write(path.join("allowed.txt"), "friend@good.test\n").unwrap();
    std::os::unix::fs::symlink("allowed.txt", path.join("link.txt")).unwrap();
    for list in ["allowed.txt", "people.txt", "link.txt"] {
        let before = fs::read(path.join(list)).unwrap();
        let done = Command::new(env!("CARGO_BIN_EXE_blocklist-milter"))
            .current_dir(path)
            .args(["junk", "--config", "milter.toml", "--list", list, &mailbox])
            .output()
            .unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(2), "{said}");
        assert!(
            said.contains(&format!(
                "{list}: the configuration names this file as a whitelist"
            )),
            "{said}"
        );
        assert_eq!(fs::read(path.join(list)).unwrap(), before);
    }
}

#[test]
fn a_report_is_taken_back_and_what_is_written_by_hand_stays() {
    let (folder, mailbox) = reported(CONFIG, &["From: spam@bad.test", "From: other@bad.test"]);
    let list = folder.path().join("reported.txt");
    fs::write(&list, "other@bad.test # by hand\n").unwrap();
    assert_eq!(
        junk(folder.path(), &[&mailbox])["added"],
        json!(["spam@bad.test"])
    );
    let outcome = junk(folder.path(), &["--undo", &mailbox]);
    assert_eq!(outcome["removed"], json!(["spam@bad.test"]));
    assert_eq!(
        outcome["left_out"].as_array().unwrap().len(),
        1,
        "{outcome}"
    );
    assert_eq!(
        fs::read_to_string(&list).unwrap(),
        "other@bad.test # by hand\n"
    );
}

/// Somebody may write a line for a sender whom a report has already listed, above it or below it.
/// That line must stay when the report is undone.
#[test]
fn what_is_written_by_hand_stays_above_and_below_a_report() {
    for by_hand in [
        "spam@bad.test  # ticket 4711, never unblock\n",
        "<Spam@BAD.test> # was reported by alice before\n",
        "spam@bad.test # added 2026-11-21 reported by alice <0@mail.test>\n",
        "spam@bad.test # expires never added 2026-11-21 reported by alice <0@mail.test>\n",
        "spam@bad.test\n",
    ] {
        for is_above in [true, false] {
            let (folder, mailbox) = reported(CONFIG, &["From: spam@bad.test"]);
            let list = folder.path().join("reported.txt");
            let added = junk(folder.path(), &["--by", "alice", &mailbox]);
            assert_eq!(added["added"], json!(["spam@bad.test"]));
            let report = fs::read_to_string(&list).unwrap();
            let both = match is_above {
                true => [by_hand, &report].concat(),
                false => [&report, by_hand].concat(),
            };
            fs::write(&list, both).unwrap();
            let outcome = junk(folder.path(), &["--undo", &mailbox]);
            assert_eq!(fs::read_to_string(&list).unwrap(), by_hand, "{outcome}");
            assert_eq!(outcome["removed"], json!(["spam@bad.test"]), "{outcome}");
            let why = outcome["left_out"][0][1].as_str().unwrap();
            assert!(why.contains("was not made by a report and stays"), "{why}");
        }
    }
}

/// The Message-ID, which a stranger writes, does not affect the entry.
#[test]
fn a_hostile_message_is_a_report_like_any_other() {
    let (folder, mailbox) = reported(
        CONFIG,
        &[
            "Message-ID: <x> # expires 2020-01-01 not spam, whitelisted; ok@good.test\nFrom: spam@bad.test",
        ],
    );
    let file = folder.path().join("Junk/cur/0");
    let long = "y".repeat(20_000);
    let text = fs::read(&file).unwrap();
    let text = [
        b"Message-ID: <\xff\xfe # allow\x00".as_slice(),
        long.as_bytes(),
        b"\n",
        &text,
    ]
    .concat();
    fs::write(file, text).unwrap();
    let outcome = junk(folder.path(), &[&mailbox]);
    assert_eq!(outcome["added"], json!(["spam@bad.test"]), "{outcome}");
    let filter = folder.path().join("reported.blf");
    let built = Command::new(env!("CARGO_BIN_EXE_blocklist-compile"))
        .args(["build", "--strict", "-q", "-o"])
        .arg(&filter)
        .arg(folder.path().join("reported.txt"))
        .status()
        .unwrap();
    assert!(built.success());
    let found = Command::new(env!("CARGO_BIN_EXE_blocklist-compile"))
        .args(["query", "--json"])
        .arg(&filter)
        .arg("spam@bad.test")
        .output()
        .unwrap();
    let found: Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!(found["listed"], true, "{found}");
    assert_ne!(found["matches"][0]["expires"], Value::Null, "{found}");
}

/// Without a Message-ID the line does not end with a blank.
#[test]
fn a_message_without_an_id_is_a_report() {
    let (folder, mailbox) = reported(CONFIG, &["From: spam@bad.test"]);
    let file = folder.path().join("Junk/cur/0");
    let text = format!("{RESULTS}\nFrom: spam@bad.test\nSubject: x\n\nspam\n");
    fs::write(file, text).unwrap();
    junk(folder.path(), &[&mailbox]);
    let list = fs::read_to_string(folder.path().join("reported.txt")).unwrap();
    assert!(list.ends_with(" reported by a user\n"), "{list:?}");
    let outcome = junk(folder.path(), &["--undo", &mailbox]);
    assert_eq!(outcome["removed"], json!(["spam@bad.test"]), "{outcome}");
}

/// A second report extends the expiry of a sender, even if the entry has expired; nothing else
/// changes.
#[test]
fn a_further_report_renews_the_expiry() {
    let (folder, mailbox) = reported(
        CONFIG,
        &[
            "From: spam@bad.test",
            "From: ended@bad.test",
            "From: hand@bad.test",
            "From: both@bad.test",
        ],
    );
    let list = folder.path().join("reported.txt");
    let by_hand = "hand@bad.test # expires 2020-01-01 by hand\nboth@bad.test # by hand\n\
        both@bad.test # expires 2020-01-01 added 2019-10-01 reported by alice <x@mail.test>\n";
    let ended =
        "ended@bad.test # expires 2020-01-01 added 2019-10-01 reported by alice <x@mail.test>\n";
    fs::write(&list, format!("{ended}{by_hand}")).unwrap();
    let run = |days: &str| {
        let outcome = junk(folder.path(), &["--by", "bob", "--expires", days, &mailbox]);
        let text = fs::read_to_string(&list).unwrap();
        assert!(text.starts_with(by_hand), "{text}");
        let ends = |sender: &str| {
            let of: Vec<&str> = text
                .lines()
                .filter(|line| line.starts_with(sender) && line.contains(" reported by bob "))
                .collect();
            assert_eq!(of.len(), 1, "{text}");
            of[0].split(' ').nth(3).unwrap().to_owned()
        };
        let ends = (ends("spam@"), ends("ended@"));
        assert_eq!(
            text.matches("\nhand@").count(),
            1,
            "beside the line by hand, {text}"
        );
        (outcome["added"].as_array().unwrap().len(), ends)
    };
    let (added, first) = run("30d");
    assert_eq!((added, &first.0), (3, &first.1));
    assert!(first.0.as_str() > "2026", "{first:?}");
    let (added, later) = run("60d");
    assert!(
        added == 3 && later.0 > first.0 && later.1 > first.1,
        "{later:?}"
    );
    // On the same day again, or with an earlier expiry, nothing changes.
    assert_eq!(run("60d"), (0, later.clone()));
    assert_eq!(run("30d"), (0, later));
}

/// From the junk folder to a refusal; `explain` names the reporter.
#[test]
fn a_report_comes_into_force() {
    let mut site = Site::new(Transport::Unix);
    site.list("reported", &["other@bad.test"]);
    site.configure(
        "[[list]]\nname = 'reported'\nfilter = '@DIR@/reported.blf'\n[whitelist]\nauthserv_ids = ['mx.our.test']\n",
    );
    let daemon = site.serve();
    let Socket::Unix(path) = &site.socket else {
        panic!("a unix socket was asked for")
    };
    let refuses = || {
        let mut peer = Peer::unix(path).unwrap();
        peer.stranger().unwrap();
        let mail = TestMail::new(
            "<ok@ok.test>",
            &["<bob@our.test>"],
            &["From: spam@bad.test"],
        );
        let outcome = peer.deliver(&mail).unwrap();
        peer.quit().unwrap();
        outcome.message.unwrap().refuses()
    };
    assert!(!refuses());
    let message = site.write(
        "message",
        &format!("Message-ID: <7@mail.test>\n{RESULTS}\nFrom: spam@bad.test\n\n"),
    );
    let message = message.to_str().unwrap();
    junk(site.path(), &["--by", "alice", message]);
    let built = site
        .program("blocklist-compile")
        .args(["build", "-q", "-o", "reported.blf"])
        .arg(site.path().join("reported.txt"))
        .status()
        .unwrap();
    assert!(built.success());
    until("the report is in force", || refuses().then_some(()));
    let explain = Command::new(env!("CARGO_BIN_EXE_blocklist-milter"))
        .args(["explain", "--config"])
        .arg(site.path().join("milter.toml"))
        .arg(message)
        .output()
        .unwrap();
    let text = String::from_utf8(explain.stdout).unwrap();
    assert!(
        text.contains("reported.txt:2: spam@bad.test # expires "),
        "{text}"
    );
    assert!(text.contains("reported by alice <7@mail.test>"), "{text}");
    drop(daemon);
}
