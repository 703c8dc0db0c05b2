//! Configurations and whitelists that lose content: half-written files look the same.

use crate::support;

use std::fs;
use std::time::{Duration, Instant};

use blocklist_milter::demo::peer::TestMail;
use blocklist_milter::snapshot::Reloaded;
use support::rig::{Rig, verdict};

const LISTS: &str =
    "[[list]]\nname = 'spam'\nfilter = 'spam.blf'\n[[list]]\nname = 'more'\nfilter = 'more.blf'\n";
const WHITELIST: &str =
    "[whitelist]\nfiles = ['white.txt']\n[exempt]\nrecipients = ['postmaster@', 'abuse@']\n";
/// Longer than the files must be unchanged.
const LATER: Duration = Duration::from_secs(11);

fn rig() -> Rig {
    Rig::new(
        &[
            ("spam.list", "first@bad.example\nsecond@bad.example\n"),
            ("more.list", "third@bad.example\n"),
            ("white.txt", "first@bad.example\n@ok.example\n"),
        ],
        &config(LISTS),
    )
}

fn config(lists: &str) -> String {
    format!("{lists}{WHITELIST}")
}

fn is(rig: &Rig, sender: &str, expected: &str) {
    let mail = TestMail::new(sender, &["<bob@our.example>"], &["From: a@ok.example"]);
    assert_eq!(verdict(&rig.deliver(&mail)), expected, "{sender}");
}

/// Fails without `Loss::is_total` in `Live::reload_changed`: the first sender is refused, and the
/// third is accepted.
#[test]
fn what_is_emptied_waits_for_somebody_to_ask() {
    for (name, text, sender, before, after) in [
        ("white.txt", "", "<first@bad.example>", "accept", "reject"),
        (
            "white.txt",
            "# nobody\n",
            "<first@bad.example>",
            "accept",
            "reject",
        ),
        (
            "c.toml",
            WHITELIST,
            "<third@bad.example>",
            "reject",
            "accept",
        ),
    ] {
        let rig = rig();
        rig.write(name, text);
        let Reloaded::Kept(why) = rig.live.reload_changed() else {
            panic!("{name} is taken");
        };
        assert!(why.contains("run blocklist-milter reload"), "{why}");
        rig.live.upkeep(Instant::now() + LATER);
        is(&rig, sender, before);
        assert_eq!(rig.live.reload(), Reloaded::Changed);
        is(&rig, sender, after);
    }
}

/// Fails without `Live::have_rested`: files take effect while they are written.
#[test]
fn what_is_taken_away_waits_until_the_files_have_rested() {
    let (one, fewer) = LISTS.split_at(LISTS.rfind("[[list]]").expect("two lists"));
    assert!(fewer.contains("more"));
    for (name, text, sender, before, after) in [
        (
            "white.txt",
            "@ok.example\n".to_owned(),
            "<first@bad.example>",
            "accept",
            "reject",
        ),
        (
            "c.toml",
            config(one),
            "<third@bad.example>",
            "reject",
            "accept",
        ),
    ] {
        let rig = rig();
        rig.write(name, &text);
        assert_eq!(rig.live.reload_changed(), Reloaded::Waits);
        assert!(!rig.live.upkeep(Instant::now()), "it comes again soon");
        is(&rig, sender, before);
        rig.live.upkeep(Instant::now() + LATER);
        is(&rig, sender, after);
        assert!(rig.live.complaints().is_empty());
    }
}

/// If everything is back in time, nothing has happened.
#[test]
fn what_comes_back_was_never_away() {
    let rig = rig();
    rig.write("white.txt", "@ok.example\n");
    assert_eq!(rig.live.reload_changed(), Reloaded::Waits);
    rig.write(
        "white.txt",
        "@ok.example\nfirst@bad.example\n@also.example\n",
    );
    rig.live.reload_changed();
    is(&rig, "<first@bad.example>", "accept");
    rig.live.upkeep(Instant::now());
    assert_eq!(rig.live.snapshot().policy.whitelist.len(), 3);
}

/// A disabled list, another action, more entries: nothing to wait for.
#[test]
fn what_is_switched_off_is_off_at_once() {
    let rig = rig();
    let off = LISTS.replace("more.blf'", "more.blf'\nenabled = false");
    rig.write("c.toml", &config(&off));
    rig.live.reload_changed();
    is(&rig, "<third@bad.example>", "accept");
}

/// Fails without `Tried::last`: an older file of a list that was away for a moment is loaded.
#[test]
fn a_list_that_comes_back_is_compared_with_what_it_was() {
    let rig = rig();
    let old = fs::read(rig.path("spam.blf")).expect("our own file");
    rig.write(
        "spam.list",
        "first@bad.example\nsecond@bad.example\nfourth@bad.example\n",
    );
    rig.live.reload();
    is(&rig, "<fourth@bad.example>", "reject");
    rig.write("c.toml", WHITELIST);
    assert_eq!(rig.live.reload(), Reloaded::Changed);
    fs::write(rig.path("aside"), old).expect("our own folder");
    fs::rename(rig.path("aside"), rig.path("spam.blf")).expect("our own folder");
    rig.write("c.toml", &config(LISTS));
    let Reloaded::Kept(why) = rig.live.reload() else {
        panic!("an older generation is taken");
    };
    assert!(why.contains("older than generation 2"), "{why}");
}
