//! The log of the program itself: a line for each decision, whatever the sender wrote.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use blocklist_milter::demo::peer::{Letter, Peer};
use serde_json::Value;
use support::site::{Site, Socket, Transport};

/// The decision is never lost behind a sender who writes long or oddly.
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
        let letter = Letter::new("<a@ok.test>", &["<bob@our.example>"], &headers);
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
