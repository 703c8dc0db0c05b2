//! If a filter is damaged or missing at the start, the daemon uses the last good copy.
//! `tests/commands/last-good.toml` has what it says then.

use std::fs;
use std::path::Path;

use blocklist_filter::filter::Filter;

use crate::support::compile::names;
use crate::support::site::{SPAM, Site, Transport};
use crate::support::tools::SmallDisk;
use crate::support::until_so;

const FOLDERS: &str = "state = \"@DIR@/state\"\nstatus_file = \"@DIR@/status\"\n";

/// Returns the names of the copies of filters.
fn copies(state: &Path) -> Vec<String> {
    let mut names = names(state);
    names.retain(|name| !name.contains(".toml"));
    names
}

/// Entries that a list has dropped do not come back: a copy that cannot be renewed is removed.
#[test]
fn a_full_disk_keeps_no_copy_and_stops_nothing() {
    let mut site = Site::new(Transport::Unix);
    let (uid, gid) = site.user.unwrap_or_default();
    let options = format!("size=64k,uid={uid},gid={gid}");
    let state = site.at("state");
    let Some(_disk) = SmallDisk::mount(&state, &options) else {
        return;
    };
    site.list("spam", &["first@listed.test"]);
    site.configure(&format!("{FOLDERS}{SPAM}"));
    let daemon = site.serve();
    until_so("it is copied", || copies(&state).len() == 1);
    site.long_list("spam", 3_000);
    daemon.logged(&["cannot keep a copy", "must stay free"]);
    until_so("the copy is removed", || copies(&state).is_empty());
    site.is("<x7@listed.test>", "reject");
    assert!(daemon.terminate().success());
}

/// The program itself, with all unnecessary permissions given up, is killed while it copies.
#[test]
fn the_daemon_keeps_copies_and_a_kill_leaves_nothing_behind() {
    let mut site = Site::new(Transport::Unix);
    let state = site.folder("state");
    site.long_list("spam", 20_000);
    site.configure(&format!("{FOLDERS}{SPAM}"));
    let names = || copies(&state);
    let whole = fs::metadata(site.at("spam.blf")).unwrap().len();
    for part in 0..6 {
        let mut daemon = site.serve();
        // Killed when this much is written, or all.
        let is_written = |name: &String| {
            let written = fs::metadata(state.join(name)).map_or(0, |file| file.len());
            !name.starts_with('.') || written >= whole * part / 5
        };
        until_so("it is copied", || names().iter().any(is_written));
        daemon.signal(rustix::process::Signal::KILL);
        daemon.ended();
        for name in names().iter().filter(|name| !name.starts_with('.')) {
            Filter::verify(&state.join(name)).unwrap();
            fs::remove_file(state.join(name)).unwrap();
        }
    }
    // Left by a kill.
    site.write("state/.spam-0.last-good.blf.writing", "half");
    let daemon = site.serve();
    until_so("only the copy is there", || {
        let names = names();
        names.len() == 1 && !names[0].starts_with('.')
    });
    assert!(daemon.terminate().success());

    fs::write(site.at("spam.blf"), "half").unwrap();
    let daemon = site.serve();
    let last_good = "the last good filter is in use, generation 1";
    daemon.logged(&["ERROR", last_good, "list spam: "]);
    site.is("<x7@listed.test>", "reject");
    site.is("<a@ok.example>", "accept");
    assert!(daemon.terminate().success());
}
