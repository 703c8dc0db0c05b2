//! The answers of `explain` agree with those of `query`; `senders.rs` compares them with the daemon's.
//! `tests/commands/explain.toml` has what it says.

use blocklist_compile::inspect::Query;
use blocklist_filter::base::day::Day;
use blocklist_filter::filter::Load;
use blocklist_milter::explain::{Explainer, Mail};

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::support::rig::Rig;
use crate::support::table::bytes;

/// `query` and `explain` give the same answer for every sender in `tests/addresses.txt`; half of
/// its groups are listed.
#[test]
fn query_and_explain_say_the_same_of_every_address() {
    /// A row of the table: as it is written, and its canonical form.
    fn row(line: &str) -> Option<(Vec<u8>, &str)> {
        let (written, rest) = line.split_once('\t').filter(|_| !line.starts_with('#'))?;
        Some((bytes(written), rest.split('\t').next()?))
    }
    let groups = include_str!("../addresses.txt").split("\n\n");
    let groups = groups.map(|group| group.lines().filter_map(row).collect());
    let groups: Vec<Vec<_>> = groups.collect();
    let listed = groups.iter().step_by(2).flatten();
    let listed = listed.filter(|(_, canonical)| !canonical.starts_with('!'));
    let listed: String = listed.map(|(_, one)| format!("{one}\n")).collect();
    let rig = Rig::new(
        &[("spam.list", &listed)],
        "[[list]]\nname = 'spam'\nfilter = 'spam.blf'\n[exempt]\nrecipients = []\n",
    );
    let today = Day::read(b"2026-01-31").unwrap();
    let mut query = Query::open(&rig.path("spam.blf"), Load::Memory, today).unwrap();
    let mut explainer = Explainer::open(&rig.path("c.toml"), &[]).unwrap();
    let (mut found, mut wrong) = ([0, 0], Vec::new());
    for (written, _) in groups.iter().flatten() {
        let asked = query.ask(written).unwrap();
        let explained = explainer.explain(&Mail {
            mail_from: Some(written.clone()),
            ..Mail::from_address(&String::from_utf8_lossy(written))
        });
        let mut identities = explained.identities;
        identities.retain(|named| named.canonical.is_some() && named.canonical == asked.canonical);
        for named in &identities {
            found[usize::from(asked.listed)] += 1;
            let entries: Vec<&str> = asked.matches.iter().map(|one| one.entry.as_str()).collect();
            let agree = match &named.entry {
                Some(entry) => named.list.is_some() && entries.contains(&entry.as_str()),
                None => named.list.is_none() && !asked.listed,
            };
            if !agree {
                let (written, entry) = (written.escape_ascii(), &named.entry);
                wrong.push(format!("{written}: query {entries:?}, explain {entry:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let is_tested = found.iter().all(|count| *count > 100);
    assert!(is_tested, "not listed, and listed: {found:?}");
}

/// A mail server passes on what a client sends, in any charset.
#[test]
fn an_envelope_of_any_bytes_is_explained() {
    let rig = Rig::new(
        &[
            ("spam.list", "@bad.example\n"),
            ("m.eml", "From: a@ok.example\n\n"),
        ],
        "[[list]]\nname = 'spam'\nfilter = 'spam.blf'\n",
    );
    let mut explain = crate::support::milter();
    explain
        .args(["explain", "--json", "--config"])
        .arg(rig.path("c.toml"));
    explain
        .arg("--mail-from")
        .arg(OsStr::from_bytes(b"<m\xfcller@bad.example>"));
    let output = explain.arg(rig.path("m.eml")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains(r#""verdict":"reject""#), "{said} {output:?}");
}
