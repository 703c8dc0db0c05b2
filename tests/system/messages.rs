//! The messages in `tests/messages/`, evasions and innocent ones, each with its verdict.
//!
//! They are tested with `explain`, and with the daemon, as a mail server would pass them on.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use blocklist_milter::demo::peer::TestMail;
use blocklist_milter::explain::{Explainer, Mail};
use blocklist_milter::sender::Identity;

use crate::support::rig::{Rig, verdict};
use crate::support::root;

/// Returns the rows of `expected.txt`: file, verdict, listed field or `-`, envelope sender, reason.
fn cases() -> Vec<[&'static str; 5]> {
    let rows = include_str!("../messages/expected.txt").lines();
    let rows = rows.filter(|line| !line.starts_with('#'));
    let columns = |row: &'static str| row.split('\t').collect::<Vec<_>>().try_into();
    rows.map(|row| columns(row).expect("five columns"))
        .collect()
}

#[test]
fn files_and_rows_belong_together() {
    let rows: BTreeSet<String> = cases().iter().map(|case| case[0].to_owned()).collect();
    let names = fs::read_dir(root("tests/messages")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_mail = |name: &String| Path::new(name).extension().is_some_and(|end| end == "eml");
    assert_eq!(rows, names.filter(is_mail).collect());
    assert!(rows.len() >= 150, "{}", rows.len());
}

/// Returns a daemon that checks every sender field.
fn rig() -> Rig {
    let list = fs::read_to_string(root("tests/messages/blocklist.txt")).unwrap();
    let names: Vec<String> = Identity::ALL.iter().map(|i| format!("'{i}'")).collect();
    let names = names.join(", ");
    let config = format!("[[list]]\nname = 'bad'\nfilter = 'bad.blf'\ncheck = [{names}]\n");
    Rig::new(&[("bad.list", &list)], &config)
}

/// The daemon and `explain` say the same, and find the listed sender in the same place.
#[test]
fn every_message_comes_to_its_verdict() {
    let rig = rig();
    let mut explainer = Explainer::open(&rig.path("c.toml"), &[]).unwrap();
    let mut peer = rig.peer();
    let mut wrong = Vec::new();
    for [file, expected, field, mail_from, reason] in cases() {
        let mut mail = Mail::open(&root("tests/messages").join(file)).unwrap();
        mail.mail_from = Some(mail_from.into());
        mail.recipients = vec![b"<user@mail.example>".to_vec()];
        let explained = explainer.explain(&mail);
        let named = explained.identities.iter();
        let listed: BTreeSet<&str> = named
            .filter(|named| named.list.is_some())
            .map(|named| named.identity)
            .collect();
        let is_right = listed
            .into_iter()
            .eq(Some(field).filter(|field| *field != "-"));
        let mut letter = TestMail::new(mail_from, &["<user@mail.example>"], &[]);
        letter.headers.clone_from(&mail.headers.fields);
        let served = verdict(&peer.deliver(&letter).unwrap());
        let explained = explained.decision.verdict;
        if explained != expected || served != expected || !is_right {
            let said = format!("explain says {explained}, the daemon {served}");
            wrong.push(format!("{file} ({reason}): {expected}, {said}"));
        }
    }
    peer.quit().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
