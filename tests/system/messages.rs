//! The messages in `tests/messages/`, evasions and innocent ones, each with its verdict.
//!
//! They are tested with [`Senders`] and the look-ups of `address`, with `explain`, and with the
//! daemon, as a mail server would pass them on.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use crate::support;

use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use blocklist_milter::address::{Canonical, Entry, Kind, Kinds, Rules};
use blocklist_milter::demo::peer::TestMail;
use blocklist_milter::explain::{Explainer, Mail};
use blocklist_milter::sender::{Identity, Senders};
use support::rig::{Rig, verdict};

/// One row of `expected.txt`.
struct Case {
    file: String,
    rejected: bool,
    identity: Option<Identity>,
    mail: String,
    reason: String,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/messages")
}

fn cases() -> Vec<Case> {
    let text = fs::read_to_string(folder().join("expected.txt")).unwrap();
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.map(|row| {
        let columns: Vec<&str> = row.split('\t').collect();
        let [file, verdict, identity, mail, reason] = columns[..] else {
            panic!("not five columns: {row}");
        };
        Case {
            file: file.to_owned(),
            rejected: match verdict {
                "reject" => true,
                "accept" => false,
                other => panic!("{file}: verdict {other}"),
            },
            identity: (identity != "-").then(|| named(identity)),
            mail: mail.to_owned(),
            reason: reason.to_owned(),
        }
    })
    .collect()
}

fn blocklist() -> BTreeSet<(Kind, Vec<u8>)> {
    let text = fs::read_to_string(folder().join("blocklist.txt")).unwrap();
    let entries = text.lines().filter(|line| !line.starts_with('#'));
    entries
        .map(|line| {
            let entry = Entry::parse(line.as_bytes(), Rules::default()).unwrap();
            (entry.kind(), entry.as_bytes().to_vec())
        })
        .collect()
}

/// Returns name and value of each field of a header section, as a milter gets them.
fn fields(message: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut fields: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for line in message.split(|&byte| byte == b'\n') {
        match line {
            [] => break,
            [b' ' | b'\t', ..] => {
                let (_, value) = fields.last_mut().unwrap();
                value.push(b'\n');
                value.extend_from_slice(line);
            }
            line => {
                let colon = line.iter().position(|&byte| byte == b':').unwrap();
                fields.push((line[..colon].to_vec(), line[colon + 1..].to_vec()));
            }
        }
    }
    fields
}

fn listed(blocklist: &BTreeSet<(Kind, Vec<u8>)>, address: &[u8]) -> bool {
    Canonical::parse(address, Rules::default()).is_ok_and(|canonical| {
        let found = canonical.lookups(Kinds::ALL, |kind, entry| {
            if blocklist.contains(&(kind, entry.to_vec())) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        found.is_break()
    })
}

fn named(identity: &str) -> Identity {
    let mut all = Identity::ALL.into_iter();
    all.find(|known| known.name() == identity).unwrap()
}

#[test]
fn every_message_comes_to_its_verdict() {
    let blocklist = blocklist();
    let mut senders = Senders::new();
    let mut wrong = Vec::new();
    for case in cases() {
        let message = fs::read(folder().join(&case.file)).unwrap();
        senders.clear();
        senders.add_mail_from(case.mail.as_bytes());
        for (name, value) in fields(&message) {
            if let Some(identity) = Identity::of_header(&name) {
                senders.add_header(identity, &value);
            }
        }
        assert!(!senders.truncated(), "{}", case.file);
        let hits: BTreeSet<Identity> = senders
            .iter()
            .filter(|sender| listed(&blocklist, sender.address))
            .map(|sender| sender.identity)
            .collect();
        let expected: BTreeSet<Identity> = case.identity.into_iter().collect();
        assert_eq!(case.rejected, case.identity.is_some(), "{}", case.file);
        if hits != expected {
            let found: Vec<String> = senders
                .iter()
                .map(|sender| String::from_utf8_lossy(sender.address).into_owned())
                .collect();
            wrong.push(format!(
                "{} ({}): {hits:?}, senders {found:?}",
                case.file, case.reason
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn files_and_rows_belong_together() {
    let rows: BTreeSet<String> = cases().into_iter().map(|case| case.file).collect();
    let files: BTreeSet<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| Path::new(name).extension().is_some_and(|end| end == "eml"))
        .collect();
    assert_eq!(rows, files);
    assert!(rows.len() >= 150, "{}", rows.len());
}

/// Returns a daemon that checks every sender field.
fn rig() -> Rig {
    let list = fs::read_to_string(folder().join("blocklist.txt")).unwrap();
    let names: Vec<String> = Identity::ALL.iter().map(|i| format!("'{i}'")).collect();
    let config = format!(
        "[[list]]\nname = 'bad'\nfilter = 'bad.blf'\ncheck = [{}]\n",
        names.join(", ")
    );
    Rig::new(&[("bad.list", &list)], &config)
}

#[test]
fn explain_comes_to_the_same_verdicts() {
    let rig = rig();
    let mut explainer = Explainer::open(&rig.path("c.toml")).unwrap();
    let mut wrong = Vec::new();
    for case in cases() {
        let mut mail = Mail::open(&folder().join(&case.file)).unwrap();
        mail.mail_from = Some(case.mail.clone().into_bytes());
        mail.recipients = vec![b"<user@mail.example>".to_vec()];
        let explanation = explainer.explain(&mail);
        let listed: BTreeSet<Identity> = explanation
            .identities
            .iter()
            .filter(|named| named.list.is_some())
            .map(|sender| named(&sender.identity))
            .collect();
        let expected: BTreeSet<Identity> = case.identity.into_iter().collect();
        let verdict = if case.rejected { "reject" } else { "accept" };
        if explanation.verdict != verdict || listed != expected {
            wrong.push(format!(
                "{} ({}): {}, {listed:?}",
                case.file, case.reason, explanation.verdict
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_daemon_comes_to_the_same_verdicts() {
    let rig = rig();
    let mut peer = rig.peer();
    let mut wrong = Vec::new();
    for case in cases() {
        let message = fs::read(folder().join(&case.file)).unwrap();
        let mut letter = TestMail::new(&case.mail, &["<user@mail.example>"], &[]);
        // Mail servers remove one blank after the colon.
        letter.headers = fields(&message)
            .into_iter()
            .map(|(name, value)| {
                let value = value
                    .strip_prefix(b" ")
                    .map(<[u8]>::to_vec)
                    .unwrap_or(value);
                (name.trim_ascii_end().to_vec(), value)
            })
            .collect();
        let outcome = peer.deliver(&letter).unwrap();
        let expected = if case.rejected { "reject" } else { "accept" };
        let verdict = verdict(&outcome);
        if verdict != expected {
            wrong.push(format!("{} ({}): {verdict}", case.file, case.reason));
        }
    }
    peer.quit().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
