//! If a filter is damaged or missing at the start, the daemon uses the last good copy, and reports
//! it.

use std::fs::{self, File};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use blocklist_milter::filter::Filter;
use blocklist_milter::snapshot::{Live, Start};
use blocklist_milter::status::check;

use crate::support::compile::{Dir, folder, names};
use crate::support::rig::compile;
use crate::support::site::{SPAM, Site, Transport};
use crate::support::tools::SmallDisk;
use crate::support::{has, until_so};

const CONFIG: &str =
    "state = 'state'\nstatus_file = 'status'\n[[list]]\nname = 'spam'\nfilter = 'spam.blf'\n";

/// Returns a folder with a list, a configuration, and one for copies.
fn home() -> Dir {
    let home = folder(&[("c.toml", CONFIG)]);
    fs::create_dir(home.at("state")).unwrap();
    list(&home, "spam", &["first@bad.example"]);
    home
}

fn list(home: &Dir, name: &str, entries: &[&str]) {
    compile(&home.write(&format!("{name}.list"), entries.join("\n") + "\n"));
}

fn start(home: &Dir) -> Live {
    Live::start(Start::read(&home.at("c.toml")))
}

/// Starts, and ends when copies of the filters in effect exist.
fn served(home: &Dir) {
    kept(&start(home));
}

/// Returns the names of the copies, of filters or of the configuration.
fn all_copies(home: &Dir, configurations: bool) -> Vec<String> {
    let names = names(&home.at("state")).into_iter();
    let names = names.filter(|name| name.ends_with(".toml") == configurations);
    names.map(|name| format!("state/{name}")).collect()
}

fn copies(home: &Dir) -> Vec<String> {
    all_copies(home, false)
}

fn copied_config(home: &Dir) -> String {
    all_copies(home, true).remove(0)
}

fn the_copy(home: &Dir) -> String {
    let mut copies = copies(home);
    assert_eq!(copies.len(), 1, "{copies:?}");
    copies.remove(0)
}

/// Does all the regular upkeep.
fn kept(live: &Live) {
    until_so("copies are made", || live.upkeep(Instant::now()));
}

/// Returns the entries of the list in effect; `None` if there is none, and its senders are
/// deferred.
fn entries(live: &Live) -> Option<u64> {
    let snapshot = live.snapshot();
    let list = snapshot.policy.lists().first().unwrap();
    list.filter().map(|filter: &Arc<Filter>| filter.entries())
}

#[track_caller]
fn complains(live: &Live, words: &[&str]) {
    let problems = live.problems();
    let has = |text: &str| words.iter().all(|word| text.contains(word));
    let is_said = problems.iter().any(|one| has(&one.text));
    assert!(is_said, "{problems:?} lack {words:?}");
}

/// Without the copy no list would be in effect.
#[test]
fn a_start_with_a_bad_file_uses_the_last_good_copy() {
    let home = home();
    served(&home);
    let copy = the_copy(&home);
    let good = home.read("spam.blf");
    assert_eq!(home.read(&copy), good);
    let mut page = good.clone();
    page[5000] ^= 1;
    let in_use = "the last good filter is in use, generation 1";
    for (what, bytes) in [
        ("gone", None),
        ("cut", Some(&good[..good.len() - 1])),
        ("no filter", Some(b"<html>502 Bad Gateway</html>")),
        ("a damaged page", Some(&page)),
    ] {
        home.remove("spam.blf");
        bytes.inspect(|bytes| drop(home.write("spam.blf", bytes)));
        let live = start(&home);
        assert_eq!(entries(&live), Some(1), "{what}");
        complains(&live, &[&format!("{in_use}, built 20"), "list spam: "]);
        has(&live.status(), "last good filter");
        // It stays in effect, and a reload reports it again.
        kept(&live);
        assert!(!live.reload().changed);
        assert_eq!(
            (entries(&live), &the_copy(&home)),
            (Some(1), &copy),
            "{what}"
        );
        let said = check(&home.at("c.toml"), None).unwrap_err().remove(0).text;
        has(&said, &format!("until then, {in_use}"));
        home.write("spam.blf", &good);
    }
    // A repaired file takes effect, and the warning ends.
    home.remove("spam.blf");
    let live = start(&home);
    list(&home, "spam", &["first@bad.example", "second@bad.example"]);
    assert!(live.reload().changed);
    assert_eq!(entries(&live), Some(2));
    kept(&live);
    assert_eq!(live.problems(), []);
    assert_eq!(home.read(&copy), home.read("spam.blf"));
}

/// Only a requested reload removes all lists: an emptied file may be half-written.
#[test]
fn a_start_with_an_emptied_configuration_keeps_the_lists() {
    let home = home();
    served(&home);
    home.write("c.toml", "state = 'state'\n");
    let live = start(&home);
    assert_eq!(entries(&live), Some(1));
    complains(&live, &["names no list", "last good configuration"]);
    kept(&live);
    assert!(live.reload().changed);
    assert_eq!(live.snapshot().policy.lists().len(), 0);
}

/// While a copy is in effect, other changes still take effect, and an older file in its place does
/// not.
#[test]
fn reloads_go_on_beside_a_copy() {
    let home = home();
    let before = home.read("spam.blf");
    list(&home, "spam", &["first@bad.example", "second@bad.example"]);
    served(&home);
    home.remove("spam.blf");
    let live = start(&home);
    let more = "[whitelist]\nentries = ['a@ok.example']\n";
    home.write("c.toml", format!("{CONFIG}{more}"));
    assert!(live.reload().changed);
    assert_eq!(live.snapshot().policy.whitelist.len(), 1);
    assert_eq!(entries(&live), Some(2));
    home.write("spam.blf", before);
    live.reload();
    assert_eq!(entries(&live), Some(2));
    complains(&live, &["last good filter", "older than generation 2"]);
}

/// Records are read after the start; a copy then replaces a file in which they are damaged. Fails
/// without `with_copies` in `Live::check_start`: the damaged filter stays in effect.
#[test]
fn damage_that_is_found_later_brings_the_copy_too() {
    let home = home();
    served(&home);
    let mut bytes = home.read("spam.blf");
    *bytes.last_mut().unwrap() ^= 1;
    home.write("spam.blf", bytes);
    let live = start(&home);
    assert!(live.problems().is_empty());
    kept(&live);
    complains(&live, &["last good filter", "records"]);
    assert_eq!(live.problems().len(), 1, "{:?}", live.problems());
    // Its file is still damaged.
    assert!(!live.reload().changed);
    assert_eq!((entries(&live), copies(&home).len()), (Some(1), 1));
}

#[test]
fn a_start_without_a_good_copy_defers() {
    let home = home();
    served(&home);
    let copy = the_copy(&home);
    let good = home.read(&copy);
    let mut page = good.clone();
    page[5000] ^= 1;
    home.remove("spam.blf");
    let defers = |what: &str| {
        let live = start(&home);
        assert_eq!(entries(&live), None, "{what}");
        complains(&live, &["not serving as configured", "spam.blf"]);
    };
    home.write(&copy, &page);
    defers("the copy is damaged");
    home.write(&copy, &good[..good.len() / 2]);
    defers("the copy is cut");
    home.write(&copy, &good);
    let days_ago = |days: u64| SystemTime::now() - Duration::from_secs(86_400 * days);
    let file = File::options().write(true).open(home.at(&copy)).unwrap();
    file.set_modified(days_ago(8)).unwrap();
    defers("the copy is too old");
    file.set_modified(days_ago(6)).unwrap();
    assert_eq!(entries(&start(&home)), Some(1));
    home.remove(&copy);
    defers("there is no copy");
    fs::remove_dir_all(home.at("state")).unwrap();
    defers("there is no folder");
    assert!(!home.at("state").exists());
}

/// A copy belongs to a path in the configuration: no other list uses it, and a list that is removed
/// from the configuration does not come back.
#[test]
fn a_list_that_is_no_longer_wanted_does_not_come_back() {
    let home = home();
    list(&home, "other", &["x@bad.example", "y@bad.example"]);
    let other = "[[list]]\nname = 'other'\nfilter = 'other.blf'\n";
    home.write("c.toml", format!("{CONFIG}{other}"));
    served(&home);
    assert_eq!(copies(&home).len(), 2);
    home.write("c.toml", CONFIG);
    served(&home);
    let copy = the_copy(&home);
    // The same name, another file.
    list(&home, "elsewhere", &["x@bad.example", "y@bad.example"]);
    home.remove("spam.blf");
    home.write("c.toml", CONFIG.replace("spam.blf", "elsewhere.blf"));
    served(&home);
    assert_ne!(the_copy(&home), copy);
    // Without the last configuration, which named the other file.
    home.remove(&copied_config(&home));
    home.write("c.toml", CONFIG);
    assert_eq!(entries(&start(&home)), None);
    // A faulty configuration names no lists, and removes no copies.
    list(&home, "spam", &["first@bad.example"]);
    served(&home);
    home.remove(&copied_config(&home));
    home.write("c.toml", "state = 'state'\nno = 'configuration'\n");
    kept(&start(&home));
    assert_eq!(the_copy(&home), copy);
}

/// Two daemons with the same folder would treat each other's copies as those of removed lists.
/// Fails without the lock in `work`: the second removes those of the first.
#[test]
fn another_process_takes_no_copies_away() {
    let (home, other) = (home(), home());
    let shared = format!("state = '{}'\n", home.at("state").display());
    other.write("c.toml", CONFIG.replace("state = 'state'\n", &shared));
    let first = start(&home);
    kept(&first);
    let copy = the_copy(&home);
    let second = start(&other);
    kept(&second);
    complains(&second, &["cannot keep a copy", "another process"]);
    assert_eq!(the_copy(&home), copy);
    // When the first has ended, the second takes them over.
    drop(first);
    drop(second);
    served(&other);
    assert_ne!(the_copy(&home), copy);
}

/// Entries that a list has dropped do not come back: a copy that cannot be renewed is removed.
#[test]
fn a_full_disk_keeps_no_copy_and_stops_nothing() {
    let home = home();
    let state = home.at("state");
    let Some(_disk) = SmallDisk::mount(&state, "size=64k") else {
        return;
    };
    served(&home);
    assert_eq!(copies(&home).len(), 1);
    let live = start(&home);
    let many: String = (0..3_000).map(|n| format!("x{n}@bad.example\n")).collect();
    list(&home, "spam", &[&many]);
    assert!(live.reload().changed);
    kept(&live);
    complains(&live, &["cannot keep a copy", "must stay free"]);
    assert_eq!((copies(&home).len(), entries(&live)), (0, Some(3_000)));
}

/// The program itself, with all unnecessary permissions given up, is killed while it copies.
#[test]
fn the_daemon_keeps_copies_and_a_kill_leaves_nothing_behind() {
    let mut site = Site::new(Transport::Unix);
    let state = site.folder("state");
    site.long_list("spam", 20_000);
    let folders = "state = \"@DIR@/state\"\nstatus_file = \"@DIR@/status\"\n";
    site.configure(&format!("{folders}{SPAM}"));
    let names = || {
        let mut names = names(&state);
        names.retain(|name| !name.contains(".toml"));
        names
    };
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
