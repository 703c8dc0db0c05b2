//! The log of the program: one line for each decision, whatever the sender wrote.
use std::fs;
use std::os::unix::fs::MetadataExt;

use serde_json::Value;

use crate::support::rig::letter;
use crate::support::site::{Daemon, SPAM, Site};
use crate::support::wire::Wire;

/// A long or odd address does not hide the decision.
#[test]
fn a_line_stays_whole_whatever_the_sender_writes() {
    let site = Site::spam(&["@bad.test"], "[log]\nformat = 'json'\n");
    let daemon = site.serve();
    let mut peer = site.peer();
    let local = "x".repeat(30_000);
    let long = |field: &str| format!("{field}: {local}@bad.test");
    let odd = "From: \"a\\\"\x1b[31m\u{202e}\nqueue_id=FORGED\"@bad.test";
    let many = (0..30).map(|n| format!("{}{n}@bad.test", "y".repeat(1_000)));
    let crowd = format!("Reply-To: {}", many.collect::<Vec<_>>().join(", "));
    for (name, header) in [("long", &*long("From")), ("odd", odd), ("crowd", &*crowd)] {
        let message_id = format!("Message-ID: <{name}@ok.test>");
        let letter = letter("<a@ok.test>", &[&message_id, header, &long("Sender")]);
        assert!(peer.deliver(&letter).unwrap().message.unwrap().refuses());
    }
    peer.quit().unwrap();
    daemon.logged(&["4TEST0003"]);
    let log = daemon.log();
    let lines = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let decisions: Vec<Value> = lines.filter(|line| line["message"] == "message").collect();
    assert_eq!(decisions.len(), 3, "{log}");
    for line in decisions {
        let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        assert_eq!(text("action"), "reject", "{line}");
        assert_eq!(text("case").len(), 9, "{line}");
        assert!(text("queue_id").starts_with("4TEST"), "{line}");
        assert!(text("address").is_ascii(), "{line}");
    }
}

/// Parses the fields of a line like a program that searches the log: `name=value`, `name="value"`.
fn fields(line: &str) -> Vec<(&str, &str)> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let words = line.split(|c: char| {
        is_quoted ^= c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        c == ' ' && !is_quoted
    });
    words.filter_map(|word| word.split_once('=')).collect()
}

/// The sender chooses the Message-ID, which is logged if the mail server has no queue id yet.
#[test]
fn a_message_id_forges_no_field() {
    let site = Site::spam(&["@bad.test"], "");
    let daemon = site.serve();
    let forged =
        b"Message-ID\0<x> action=accept \"reason=unlisted\" queue_id=4FORGED\\\"\n list=none\0";
    Wire::negotiated(site.unix()).send(&[
        (b'C', b"mail.test\x004\0\x19192.0.2.1\0"),
        (b'M', b"<a@ok.test>\0"),
        (b'R', b"<bob@our.example>\0"),
        (b'L', forged),
        (b'L', b"From\0x@bad.test\0"),
        (b'N', b""),
    ]);
    let line = daemon.logged(&["4FORGED"]);
    let fields = fields(&line);
    for (name, expected) in [
        ("queue_id", "NOQUEUE"),
        ("action", "reject"),
        ("reason", "listed"),
        ("list", "spam"),
    ] {
        let found: Vec<_> = fields.iter().filter(|field| field.0 == name).collect();
        assert_eq!(found, [&(name, expected)], "{line}");
    }
}

/// Mail of an exempt client has one line, with its sender and the queue id, which Postfix does not
/// know at the first RCPT. The sender is logged even if no list checks the envelope.
#[test]
fn exempt_mail_is_logged_with_queue_id_and_sender() {
    let settings = "check = ['from']\n[exempt]\nnetworks = ['192.0.2.0/24']\n";
    let site = Site::spam(&["@bad.test"], settings);
    let daemon = site.serve();
    Wire::negotiated(site.unix()).send(&[
        (b'C', b"mail.test\x004\0\x19192.0.2.1\0"),
        (b'M', b"<x@bad.test>\0"),
        (b'R', b"<bob@our.example>\0"),
        (b'D', b"Ri\x004EXEMPT\0"),
        (b'R', b"<eve@our.example>\0"),
        (b'L', b"From\0y@bad.test\0"),
        (b'N', b""),
        // The null sender.
        (b'M', b"<>\0"),
        (b'D', b"Ri\x004NULL\0"),
        (b'R', b"<bob@our.example>\0"),
        (b'N', b""),
    ]);
    let null = daemon.logged(&["queue_id=4NULL ", "reason=network"]);
    assert!(!null.contains("address="), "{null}");
    let line = daemon.logged(&["queue_id=4EXEMPT "]);
    let fields = fields(&line);
    for expected in [
        ("identity", "mail-from"),
        ("address", "\"x@bad.test\""),
        ("action", "accept"),
        ("reason", "network"),
    ] {
        assert!(fields.contains(&expected), "{line}");
    }
    let log = daemon.log();
    assert_eq!(log.matches("reason=network").count(), 2, "{log}");
}

/// journald adds the time to each line, and takes its priority from a prefix.
#[test]
fn journald_gets_priorities_and_no_second_time() {
    let mut site = Site::spam(&["@bad.test"], "");
    site.configure(&SPAM.replace("spam", "lost"));
    for (journal, stream) in [(true, "journal"), (false, "other")] {
        let log = site.at(if journal { "journal" } else { "file" });
        let stream = fs::metadata(site.write(stream, "")).unwrap();
        let stream = format!("{}:{}", stream.dev(), stream.ino());
        let mut command = site.program_under("env", &[]);
        command.env("JOURNAL_STREAM", stream);
        let daemon = Daemon::spawn(command, &site.socket, log);
        let error = daemon.logged(&["ERROR", "not serving as configured"]);
        let info = daemon.logged(&["INFO", "starting"]);
        assert_eq!(error.starts_with("<3>"), journal, "{error}");
        assert_eq!(info.starts_with("<6>"), journal, "{info}");
        for line in daemon.log().lines() {
            let text = line.get(3..).unwrap_or_default().trim_start();
            let levels = ["ERROR ", "WARN ", "INFO "];
            let bare = levels.iter().any(|level| text.starts_with(level));
            assert_eq!(bare, journal, "{line}");
        }
        assert!(daemon.terminate().success());
    }
}
