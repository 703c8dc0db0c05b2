//! The messages in `tests/messages/`, evasions and innocent ones, each with its verdict.
//!
//! They are tested with [`Senders`] and the look-ups of `address`, with `explain`, and with the
//! daemon, as a mail server would pass them on.

use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use blocklist_milter::address::{Canonical, Entry, Kind, Kinds, Rules};
use blocklist_milter::demo::peer::TestMail;
use blocklist_milter::sender::{Identity, Senders};

use crate::support::rig::{Rig, verdict};
use crate::support::root;

/// One row of `expected.txt`.
pub(crate) struct Case {
    pub(crate) file: String,
    rejected: bool,
    pub(crate) identity: Option<Identity>,
    pub(crate) mail: String,
    pub(crate) reason: String,
}

impl Case {
    pub(crate) fn path(&self) -> PathBuf {
        root("tests/messages").join(&self.file)
    }

    pub(crate) fn verdict(&self) -> &'static str {
        if self.rejected { "reject" } else { "accept" }
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let text = fs::read_to_string(root("tests/messages/expected.txt")).unwrap();
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    let case = |row: &str| {
        let columns: Vec<&str> = row.split('\t').collect();
        let [file, verdict, identity, mail, reason] = columns[..] else {
            panic!("not five columns: {row}");
        };
        assert!(["reject", "accept"].contains(&verdict), "{row}");
        Case {
            file: file.to_owned(),
            rejected: verdict == "reject",
            identity: (identity != "-").then(|| named(identity)),
            mail: mail.to_owned(),
            reason: reason.to_owned(),
        }
    };
    rows.map(case).collect()
}

fn blocklist() -> BTreeSet<(Kind, Vec<u8>)> {
    let text = fs::read_to_string(root("tests/messages/blocklist.txt")).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let entries = lines.map(|line| Entry::parse(line.as_bytes(), Rules::default()).unwrap());
    entries
        .map(|entry| (entry.kind(), entry.as_bytes().to_vec()))
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
            match blocklist.contains(&(kind, entry.to_vec())) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        found.is_break()
    })
}

pub(crate) fn named(identity: &str) -> Identity {
    let mut all = Identity::ALL.into_iter();
    all.find(|known| known.name() == identity).unwrap()
}

#[test]
fn every_message_comes_to_its_verdict() {
    let blocklist = blocklist();
    let mut senders = Senders::new();
    let mut wrong = Vec::new();
    for case in cases() {
        let file = &case.file;
        senders.clear();
        senders.add_mail_from(case.mail.as_bytes());
        for (name, value) in fields(&fs::read(case.path()).unwrap()) {
            if let Some(identity) = Identity::of_header(&name) {
                senders.add_header(identity, &value);
            }
        }
        assert!(!senders.truncated(), "{file}");
        assert_eq!(case.rejected, case.identity.is_some(), "{file}");
        let hits = senders
            .iter()
            .filter(|sender| listed(&blocklist, sender.address));
        let hits: BTreeSet<Identity> = hits.map(|sender| sender.identity).collect();
        if !hits.iter().eq(&case.identity) {
            let found = senders.iter();
            let found = found.map(|sender| String::from_utf8_lossy(sender.address));
            let found: Vec<_> = found.collect();
            let reason = &case.reason;
            wrong.push(format!("{file} ({reason}): {hits:?}, senders {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn files_and_rows_belong_together() {
    let rows: BTreeSet<String> = cases().into_iter().map(|case| case.file).collect();
    let names = fs::read_dir(root("tests/messages")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_mail = |name: &String| Path::new(name).extension().is_some_and(|end| end == "eml");
    assert_eq!(rows, names.filter(is_mail).collect());
    assert!(rows.len() >= 150, "{}", rows.len());
}

/// Returns a daemon that checks every sender field.
pub(crate) fn rig() -> Rig {
    let list = fs::read_to_string(root("tests/messages/blocklist.txt")).unwrap();
    let names: Vec<String> = Identity::ALL.iter().map(|i| format!("'{i}'")).collect();
    let names = names.join(", ");
    let config = format!("[[list]]\nname = 'bad'\nfilter = 'bad.blf'\ncheck = [{names}]\n");
    Rig::new(&[("bad.list", &list)], &config)
}

#[test]
fn the_daemon_comes_to_the_same_verdicts() {
    let rig = rig();
    let mut peer = rig.peer();
    let mut wrong = Vec::new();
    for case in cases() {
        let message = fs::read(case.path()).unwrap();
        let mut letter = TestMail::new(&case.mail, &["<user@mail.example>"], &[]);
        // Mail servers remove one blank after the colon.
        let fields = fields(&message).into_iter().map(|(name, value)| {
            let value = value.strip_prefix(b" ").unwrap_or(&value).to_vec();
            (name.trim_ascii_end().to_vec(), value)
        });
        letter.headers = fields.collect();
        let verdict = verdict(&peer.deliver(&letter).unwrap());
        if verdict != case.verdict() {
            wrong.push(format!("{} ({}): {verdict}", case.file, case.reason));
        }
    }
    peer.quit().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
