//! Configurations and whitelists that lose content: half-written files look the same.

use std::time::{Duration, Instant};

use blocklist_milter::snapshot::{Live, Start};

use crate::support::has;
use crate::support::rig::Rig;

const SPAM: &str = "[[list]]\nname = 'spam'\nfilter = 'spam.blf'\n";
const MORE: &str = "[[list]]\nname = 'more'\nfilter = 'more.blf'\n";
const WHITELIST: &str =
    "[whitelist]\nfiles = ['white.txt']\n[exempt]\nrecipients = ['postmaster@', 'abuse@']\n";
const FIRST: &str = "<first@bad.example>";
const THIRD: &str = "<third@bad.example>";
/// Longer than the files must be unchanged.
const LATER: Duration = Duration::from_secs(11);

fn rig() -> Rig {
    Rig::new(
        &[
            ("spam.list", "first@bad.example\nsecond@bad.example\n"),
            ("more.list", "third@bad.example\n"),
            ("white.txt", "first@bad.example\n@ok.example\n"),
        ],
        &config(MORE),
    )
}

fn config(more: &str) -> String {
    format!("{SPAM}{more}{WHITELIST}")
}

/// Fails without `Error::NoList`: no list is in effect after some seconds.
#[test]
fn a_configuration_without_lists_waits_for_somebody_to_ask() {
    let rig = rig();
    rig.write("c.toml", WHITELIST);
    for now in [Instant::now(), Instant::now() + LATER] {
        let refused = rig.live.reload_changed(now).refused.join("; ");
        has(&refused, "run blocklist-milter reload");
    }
    rig.is("<third@bad.example>", "reject");
    assert!(rig.live.reload().changed);
    rig.is("<third@bad.example>", "accept");
}

/// Fails without `Waiting`: files take effect while they are written.
#[test]
fn what_is_taken_away_waits_until_its_file_has_rested() {
    let cases = [
        ("white.txt", "@ok.example\n", FIRST, "accept", "reject"),
        ("white.txt", "# nobody\n", FIRST, "accept", "reject"),
        ("white.txt", "", FIRST, "accept", "reject"),
        ("c.toml", &*config(""), THIRD, "reject", "accept"),
    ];
    for (name, text, sender, before, after) in cases {
        let rig = rig();
        let now = Instant::now();
        rig.write(name, text);
        let waiting = rig.live.reload_changed(now).waiting.join("; ");
        has(&waiting, name);
        assert!(!rig.live.upkeep(now), "it comes again soon");
        rig.is(sender, before);
        assert!(rig.live.is_out_of_date(now + LATER));
        rig.live.reload_changed(now + LATER);
        rig.is(sender, after);
        assert_eq!(rig.live.problems(), []);
    }
}

/// Fails if a file rests only when the others do, too.
#[test]
fn each_file_rests_by_itself() {
    let rig = rig();
    // Not the daemon's, which looks at the files by itself.
    let live = Live::start(Start::read(&rig.path("c.toml")));
    let in_effect = || {
        let policy = &live.snapshot().policy;
        (policy.whitelist.len(), policy.lists().len())
    };
    let now = Instant::now();
    rig.write("white.txt", "@ok.example\n");
    live.reload_changed(now);
    rig.write("c.toml", &config(""));
    let reloaded = live.reload_changed(now + LATER);
    assert_eq!(reloaded.waiting.len(), 1, "{reloaded:?}");
    assert_eq!(in_effect(), (1, 2));
    live.reload_changed(now + 2 * LATER);
    assert_eq!(in_effect(), (1, 1));
}

/// If everything is back in time, nothing has happened.
#[test]
fn what_comes_back_was_never_away() {
    let rig = rig();
    rig.write("white.txt", "@ok.example\n");
    let now = Instant::now();
    assert_eq!(rig.live.reload_changed(now).waiting.len(), 1);
    let more = "@ok.example\nfirst@bad.example\n@also.example\n";
    rig.write("white.txt", more);
    assert_eq!(rig.live.reload_changed(now + LATER).waiting.len(), 0);
    rig.is(FIRST, "accept");
    assert_eq!(rig.live.snapshot().policy.whitelist.len(), 3);
}

/// A disabled list, another action, more entries: nothing to wait for.
#[test]
fn what_is_switched_off_is_off_at_once() {
    let rig = rig();
    let off = format!("{MORE}enabled = false\n");
    rig.write("c.toml", &config(&off));
    rig.live.reload_changed(Instant::now());
    rig.is("<third@bad.example>", "accept");
}
