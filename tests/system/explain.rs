//! `explain` and `replay`: their answers agree with those of `query`; `messages.rs` compares them with
//! the daemon's. `tests/commands/explain.toml` has what they say.

use blocklist_milter::base::day::Day;
use blocklist_milter::explain::{Explainer, Mail};
use blocklist_milter::filter::Load;
use blocklist_milter::inspect::Query;
use serde_json::{Value, json};

use crate::support::check::packed;
use crate::support::has_all;
use crate::support::rig::Rig;
use crate::support::table::bytes;

const CONFIG: &str =
    "[[list]]\nname = 'spam'\nfilter = 'spam.blf'\n[whitelist]\nentries = ['good@bad.test']\n";

fn rig() -> Rig {
    Rig::new(&[("spam.list", "spam@bad.example\n@bad.test\n")], CONFIG)
}

/// Kilobytes of an address do not flood a terminal; its ends are shown.
#[test]
fn long_addresses_are_shortened() {
    let rig = rig();
    let long = format!("begin{}@bad.test", "x".repeat(2_000));
    rig.write("m.eml", &format!("From: <{long}>\n\n"));
    let text = rig.milter(&["explain", "--rcpt", &long, "m.eml"]).ok();
    has_all(&text, &["verdict  reject", "[...]", "xx@bad.test"]);
    let shown = text.lines().filter(|line| line.contains("beginxx"));
    assert!(shown.count() >= 2, "sender and recipient");
    let longest = text.lines().map(str::len).max();
    assert!(longest < Some(800), "{longest:?}");
}

/// More messages than are judged at once, on all processors; the circuit breaker is not applied.
#[test]
fn a_large_mailbox_is_replayed_in_its_order() {
    let rig = rig();
    let config = format!("{CONFIG}[safety]\nmax_reject_share = \"10%\"\n");
    rig.write("c.toml", &config);
    let other = config.replace("filter", "action = 'tag'\nfilter");
    rig.write("other.toml", &other);
    let mbox = (0..2_500).map(|n| {
        let domain = if n % 2 == 0 { "bad.test" } else { "ok.example" };
        format!(
            "From s{n}@{domain} Mon Jan  1 00:00:00 2026\nSubject: {n}\n\nbody\nFrom here on\n\n"
        )
    });
    rig.write("mbox", &mbox.collect::<String>());
    let words = ["replay", "--json", "--against", "other.toml", "mbox"];
    let replayed = rig.milter(&words).json();
    assert_eq!(replayed["messages"], 2_500);
    assert_eq!(
        replayed["verdicts"],
        json!([["accept", 1_250], ["reject", 1_250]])
    );
    assert_eq!(replayed["changed"], 1_250);
    let examples = (0..20).map(|n| json!([format!("mbox:{}", 2 * n + 1), "reject", "tag"]));
    assert_eq!(replayed["examples"], Value::from_iter(examples));
}

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

/// A whitelist is opened like any list: decompressed and decoded.
#[test]
fn a_whitelist_may_be_packed_or_in_utf_16() {
    let rig = rig();
    let wide = "\u{feff}spam@bad.example\r\n".encode_utf16();
    for (name, bytes, expected) in [
        ("packed.gz", packed(b"spam@bad.example\n"), "accept"),
        (
            "wide.txt",
            wide.flat_map(u16::to_le_bytes).collect(),
            "accept",
        ),
        ("other.txt", b"friend@good.example\n".to_vec(), "reject"),
    ] {
        rig.replace(name, &bytes);
        let config = CONFIG.replace(
            "entries = ['good@bad.test']",
            &format!("files = ['{name}']"),
        );
        rig.write("c.toml", &config);
        let words = ["explain", "--json", "--address", "spam@bad.example"];
        assert_eq!(rig.milter(&words).json()["verdict"], expected, "{name}");
    }
}
