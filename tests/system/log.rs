//! The log of the program: one line for each decision, whatever the sender wrote.
use crate::support;

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;

use blocklist_milter::demo::peer::{Peer, TestMail};
use serde_json::Value;
use support::site::{Daemon, Site, Socket, Transport};

/// A long or odd address does not hide the decision.
#[test]
fn a_line_stays_whole_whatever_the_sender_writes() {
    let mut site = Site::new(Transport::Unix);
    site.list("spam", &["@bad.test"]);
    site.configure("[[list]]\nname = 'spam'\nfilter = '@DIR@/spam.blf'\n[log]\nformat = 'json'\n");
    let daemon = site.serve();
    let Socket::Unix(path) = &site.socket else {
        panic!("a unix socket was asked for")
    };
    let mut peer = Peer::unix(path).unwrap();
    peer.stranger().unwrap();
    let local = "x".repeat(30_000);
    let long = |field: &str| format!("{field}: {local}@bad.test");
    let odd = "From: \"a\\\"\x1b[31m\u{202e}\nqueue_id=FORGED\"@bad.test";
    let many: Vec<String> = (0..30)
        .map(|n| format!("{}{n}@bad.test", "y".repeat(1_000)))
        .collect();
    let crowd = format!("Reply-To: {}", many.join(", "));
    for (name, header) in [("long", &*long("From")), ("odd", odd), ("crowd", &*crowd)] {
        let message_id = format!("Message-ID: <{name}@ok.test>");
        let sender = long("Sender");
        let headers = [&*message_id, header, &*sender];
        let letter = TestMail::new("<a@ok.test>", &["<bob@our.example>"], &headers);
        assert!(peer.deliver(&letter).unwrap().message.unwrap().refuses());
    }
    peer.quit().unwrap();
    daemon.logged(&["4TEST0003"]);
    let log = daemon.log();
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|fault| panic!("{fault}: {line}")))
        .collect();
    let decisions: Vec<&Value> = lines
        .iter()
        .filter(|line| line["message"] == "message")
        .collect();
    assert_eq!(decisions.len(), 3, "{log}");
    for line in decisions {
        assert_eq!(line["action"], "reject", "{line}");
        assert!(
            line["case"].as_str().is_some_and(|case| case.len() == 9),
            "{line}"
        );
        let queue_id = line["queue_id"].as_str().unwrap();
        assert!(queue_id.starts_with("4TEST"), "{line}");
        assert!(line["address"].as_str().unwrap().is_ascii(), "{line}");
    }
}

/// Parses the fields of a line like a program that searches the log: `name=value`, `name="value"`.
fn fields(line: &str) -> Vec<(&str, &str)> {
    let mut fields = Vec::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('=') {
        let name = before.rsplit(' ').next().unwrap();
        let end = if after.starts_with('"') {
            let mut escaped = false;
            let quote = after.bytes().skip(1).position(|byte| {
                let ends = byte == b'"' && !escaped;
                escaped = byte == b'\\' && !escaped;
                ends
            });
            quote.unwrap() + 2
        } else {
            after.find(' ').unwrap_or(after.len())
        };
        let (value, next) = after.split_at(end);
        fields.push((name, value));
        rest = next;
    }
    fields
}

/// The sender chooses the Message-ID, which is logged if the mail server has no queue id yet.
#[test]
fn a_message_id_forges_no_field() {
    let mut site = Site::new(Transport::Unix);
    site.list("spam", &["@bad.test"]);
    site.configure("[[list]]\nname = 'spam'\nfilter = '@DIR@/spam.blf'\n");
    let daemon = site.serve();
    let Socket::Unix(path) = &site.socket else {
        panic!("a unix socket was asked for")
    };
    let mut stream = UnixStream::connect(path).unwrap();
    let forged =
        "Message-ID\0<x> action=accept \"reason=unlisted\" queue_id=4FORGED\\\"\n list=none\0";
    let packets = [
        (b'O', OPTIONS),
        (b'C', "mail.test\x004\0\x19192.0.2.1\0"),
        (b'M', "<a@ok.test>\0"),
        (b'R', "<bob@our.example>\0"),
        (b'L', forged),
        (b'L', "From\0x@bad.test\0"),
        (b'N', ""),
    ];
    send_packets(&mut stream, &packets);
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

/// The options that Postfix offers.
const OPTIONS: &str = "\0\0\0\x06\0\0\x01\u{7f}\0\x1f\x7f\x7f";

fn send_packets(stream: &mut UnixStream, packets: &[(u8, &str)]) {
    for (command, payload) in packets {
        let length = u32::try_from(payload.len() + 1).unwrap();
        let packet = [&length.to_be_bytes()[..], &[*command], payload.as_bytes()].concat();
        stream.write_all(&packet).unwrap();
    }
}

/// Mail of an exempt client has one line, with its sender and the queue id, which Postfix does not
/// know at the first RCPT. The sender is logged even if no list checks the envelope.
#[test]
fn exempt_mail_is_logged_with_queue_id_and_sender() {
    let mut site = Site::new(Transport::Unix);
    site.list("spam", &["@bad.test"]);
    site.configure(
        "[[list]]\nname = 'spam'\nfilter = '@DIR@/spam.blf'\ncheck = ['from']\n\
         [exempt]\nnetworks = ['192.0.2.0/24']\n",
    );
    let daemon = site.serve();
    let Socket::Unix(path) = &site.socket else {
        panic!("a unix socket was asked for")
    };
    let mut stream = UnixStream::connect(path).unwrap();
    let packets = [
        (b'O', OPTIONS),
        (b'C', "mail.test\x004\0\x19192.0.2.1\0"),
        (b'M', "<x@bad.test>\0"),
        (b'R', "<bob@our.example>\0"),
        (b'D', "Ri\x004EXEMPT\0"),
        (b'R', "<eve@our.example>\0"),
        (b'L', "From\0y@bad.test\0"),
        (b'N', ""),
        // The null sender.
        (b'M', "<>\0"),
        (b'D', "Ri\x004NULL\0"),
        (b'R', "<bob@our.example>\0"),
        (b'N', ""),
    ];
    send_packets(&mut stream, &packets);
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
    let lines = daemon
        .log()
        .lines()
        .filter(|line| line.contains("reason=network"))
        .count();
    assert_eq!(lines, 2, "{}", daemon.log());
}

/// journald adds the time to each line, and takes its priority from a prefix.
#[test]
fn journald_gets_priorities_and_no_second_time() {
    let mut site = Site::new(Transport::Unix);
    site.configure("[[list]]\nname = 'lost'\nfilter = '@DIR@/lost.blf'\n");
    for journal in [true, false] {
        let log = site.path().join(if journal { "journal" } else { "file" });
        let stream =
            fs::metadata(site.write(if journal { "journal" } else { "other" }, "")).unwrap();
        let mut command = site.program("blocklist-milter");
        command
            .arg("--config")
            .arg(site.path().join("milter.toml"))
            .env(
                "JOURNAL_STREAM",
                format!("{}:{}", stream.dev(), stream.ino()),
            );
        let daemon = Daemon::spawn(command, &site.socket, log);
        let error = daemon.logged(&["ERROR", "not serving as configured"]);
        let info = daemon.logged(&["INFO", "starting"]);
        assert_eq!(error.starts_with("<3>"), journal, "{error}");
        assert_eq!(info.starts_with("<6>"), journal, "{info}");
        for line in daemon.log().lines() {
            let text = line.get(3..).unwrap_or_default().trim_start();
            let bare = ["ERROR ", "WARN ", "INFO "]
                .iter()
                .any(|level| text.starts_with(level));
            assert_eq!(bare, journal, "{line}");
        }
        assert!(daemon.terminate().success());
    }
}
