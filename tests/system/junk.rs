//! Reported messages: who is listed, who never is, and how a report is undone.
//! `tests/commands/junk.toml` has the way to a refusal.

use std::path::PathBuf;

use blocklist_milter::base::clock;
use blocklist_milter::base::day::Day;
use serde_json::{Value, json};

use crate::support::compile::{Dir, folder};
use crate::support::{Said, has, milter, rows, words};

/// Reported messages, a configuration, and a list for them.
struct Reported {
    dir: Dir,
    mailbox: PathBuf,
}

impl Reported {
    fn new<M: AsRef<str>>(config: &str, messages: &[M]) -> Self {
        let people = "bob@else.test # seen 2026-11-21\n";
        let dir = folder(&[("milter.toml", config), ("people.txt", people)]);
        for (number, message) in messages.iter().map(M::as_ref).enumerate() {
            let results = match message.starts_with("Authentication") {
                true => "X: x",
                false => RESULTS,
            };
            let head = format!("Message-ID: <{number}@mail.test>\n{results}\n{message}");
            let text = format!("{head}\nSubject: x\n\nspam\n");
            dir.write(&format!("Junk/cur/{number}"), text);
        }
        let mailbox = dir.at("Junk");
        Self { dir, mailbox }
    }

    /// Runs the command for a list.
    fn run(&self, list: &str, arguments: &[&str]) -> Said {
        let mut command = milter();
        command.args(["junk", "--config", "milter.toml", "--list", list]);
        command.args(arguments).arg(&self.mailbox);
        Said::of(command.current_dir(self.dir.path()))
    }

    /// Runs the command for `reported.txt`; its words are split at blanks.
    fn junk(&self, arguments: &str) -> Value {
        let arguments = format!("--json {arguments}");
        self.run("reported.txt", &words(&arguments)).json()
    }

    fn list(&self) -> String {
        self.dir.text("reported.txt")
    }
}

/// Returns how many senders were left out.
fn left_out(outcome: &Value) -> usize {
    outcome["left_out"].as_array().unwrap().len()
}

const CONFIG: &str = "[whitelist]\nentries = ['friend@good.test', '@partner.test']\ncorrespondents = ['people.txt']\nauthserv_ids = ['mx.our.test']\n";
/// Confirms all that the tests list.
const RESULTS: &str = "Authentication-Results: mx.our.test; dkim=pass header.d=bad.test; dkim=pass header.d=gmail.com; dkim=pass header.d=our.test";

#[test]
fn a_sender_is_listed_unless_that_could_hurt_somebody() {
    let reported = Reported::new(
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
    let own = "--own-domain our.test --by alice";
    let listed = json!(["\"a # b\"@bad.test", "someone@gmail.com", "spam@bad.test"]);
    let outcome = reported.junk(own);
    assert_eq!(outcome["added"], listed, "{outcome}");
    assert_eq!(left_out(&outcome), 12, "{outcome}");
    let list = reported.list();
    let line = list.lines().nth(2).unwrap();
    assert!(line.starts_with("spam@bad.test # expires 2"), "{list}");
    assert!(line.ends_with(" reported by alice <0@mail.test>"), "{list}");
    assert_eq!(list.lines().count(), 3);
    // Reported again: nothing new.
    assert_eq!(reported.junk(own)["known"], listed);
    assert_eq!(reported.list(), list);
}

/// A reported forgery must not list its victim.
#[test]
fn only_a_sender_that_our_server_has_authenticated_is_listed() {
    let messages = rows(
        r"
        mx.our.test; none                                    | ceo@partner.example
        mx.other.test; dkim=pass header.d=partner.example    | ceo@partner.example
        mx.our.test; dkim=pass header.d=bad.test             | ceo@partner.example
        mx.our.test; spf=pass smtp.mailfrom=partner.example  | ceo@partner.example
        mx.our.test; dmarc=pass header.from=bad.test         | ceo@partner.example
        mx.our.test; dmarc=fail header.from=partner.example  | ceo@partner.example
        // A list that changes a message and signs it; or a forged field that was not removed.
        mx.our.test; dkim=pass header.d=partner.example; dmarc=fail header.from=partner.example | ceo@partner.example
        mx.our.test; dmarc=fail\nAuthentication-Results: mx.our.test; dmarc=pass header.from=partner.example | ceo@partner.example
        mx.our.test; dkim=pass header.d=bad.test             | real@mail.bad.test
        mx.our.test; dmarc=pass header.from=spf.test         | other@spf.test
        ",
    );
    let message =
        |[results, from]: &[&str; 2]| format!("Authentication-Results: {results}\nFrom: {from}");
    let messages: Vec<String> = messages.iter().map(message).collect();
    let reported = Reported::new(CONFIG, &messages);
    let outcome = reported.junk("");
    let listed = json!(["other@spf.test", "real@mail.bad.test"]);
    assert_eq!(outcome["added"], listed, "{outcome}");
    let said = outcome["left_out"].to_string();
    let forged = said.matches("DMARC failed, probably forged");
    assert_eq!(forged.count(), 3, "{said}");

    let refuses = |config: &str, why: &str| {
        reported.dir.write("milter.toml", config);
        reported.run("new.txt", &[]).ends(2, &[why]);
        assert!(!reported.dir.at("new.txt").exists());
    };
    // Without servers that are trusted, every sender may be forged; without a whitelist, an innocent.
    let no_servers = "[whitelist]\ncorrespondents = ['people.txt']\n";
    refuses(no_servers, "set authserv_ids under [whitelist]");
    reported.dir.remove("people.txt");
    refuses(CONFIG, "people.txt");
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
            let reported = Reported::new(CONFIG, &["From: spam@bad.test"]);
            let added = reported.junk("--by alice");
            assert_eq!(added["added"], json!(["spam@bad.test"]));
            let report = reported.list();
            let both = match is_above {
                true => [by_hand, &report].concat(),
                false => [&report, by_hand].concat(),
            };
            reported.dir.write("reported.txt", both);
            let outcome = reported.junk("--undo");
            assert_eq!(reported.list(), by_hand, "{outcome}");
            assert_eq!(outcome["removed"], json!(["spam@bad.test"]), "{outcome}");
            let why = outcome["left_out"][0][1].as_str().unwrap();
            has(why, "was not made by a report and stays");
        }
    }
}

/// The Message-ID, which a stranger writes, does not affect the entry. Without one the line does not
/// end with a blank.
#[test]
fn a_hostile_message_is_a_report_like_any_other() {
    let forged = "Message-ID: <x> # expires 2020-01-01 not spam, whitelisted; ok@good.test\n";
    let binary = [
        b"Message-ID: <\xff\xfe # allow\x00",
        &[b'y'; 20_000][..],
        b"\n",
    ]
    .concat();
    let rest = format!("{RESULTS}\nFrom: spam@bad.test\nSubject: x\n\nspam\n");
    for head in [b"", forged.as_bytes(), &binary] {
        let reported = Reported::new(CONFIG, &["From: spam@bad.test"]);
        let dir = &reported.dir;
        dir.write("Junk/cur/0", [head, rest.as_bytes()].concat());
        let outcome = reported.junk("");
        assert_eq!(outcome["added"], json!(["spam@bad.test"]), "{outcome}");
        let is_short = reported.list().ends_with(" reported by a user\n");
        assert_eq!(is_short, head.is_empty(), "{}", reported.list());
        let build = "build --strict -q -o reported.blf reported.txt";
        dir.run(build).ok();
        let found = dir.run("query --json reported.blf spam@bad.test").json();
        assert_eq!(found["listed"], true, "{found}");
        assert_ne!(found["matches"][0]["expires"], Value::Null, "{found}");
        assert_eq!(reported.junk("--undo")["removed"], json!(["spam@bad.test"]));
    }
}

/// A second report extends the expiry of a sender, even if the entry has expired; nothing else
/// changes.
#[test]
fn a_further_report_renews_the_expiry() {
    let senders = ["spam", "ended", "hand", "both"].map(|name| format!("From: {name}@bad.test"));
    let reported = Reported::new(CONFIG, &senders);
    let by_hand = "hand@bad.test # expires 2020-01-01 by hand\nboth@bad.test # by hand\n\
        both@bad.test # expires 2020-01-01 added 2019-10-01 reported by alice <x@mail.test>\n";
    let ended =
        "ended@bad.test # expires 2020-01-01 added 2019-10-01 reported by alice <x@mail.test>\n";
    let dir = &reported.dir;
    dir.write("reported.txt", format!("{ended}{by_hand}"));
    let today = u16::try_from(clock::now_s() / 86_400).unwrap();
    // With the same or an earlier expiry, nothing changes.
    for (days, renewed, end) in [(30, 3, 30), (60, 3, 60), (60, 0, 60), (30, 0, 60)] {
        let outcome = reported.junk(&format!("--by bob --expires {days}d"));
        let (end, today) = (Day(today + end), Day(today));
        let line = |sender, id| {
            let added = format!("added {today} reported by bob <{id}@mail.test>");
            format!("{sender}@bad.test # expires {end} {added}\n")
        };
        // One beside the line by hand.
        let reports = [line("ended", 1), line("hand", 2), line("spam", 0)];
        assert_eq!(reported.list(), format!("{by_hand}{}", reports.concat()));
        let added = outcome["added"].as_array().unwrap();
        assert_eq!(added.len(), renewed, "{outcome}");
    }
}
