//! If a filter is damaged or missing at the start, the daemon uses the last good copy, and reports
//! it.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use blocklist_milter::filter::Filter;
use blocklist_milter::snapshot::{Live, Start};
use blocklist_milter::status::check;
use tempfile::TempDir;

use crate::support::compile::names;
use crate::support::rig::compile;
use crate::support::site::{SPAM, Site, Transport};
use crate::support::tools::SmallDisk;
use crate::support::{has, until_so};

const CONFIG: &str =
    "state = 'state'\nstatus_file = 'status'\n[[list]]\nname = 'spam'\nfilter = 'spam.blf'\n";

/// A folder with lists, a configuration and the copies.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        fs::create_dir(home.path("state")).unwrap();
        home.list("spam", &["first@bad.example"]);
        home.configure(CONFIG);
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn configure(&self, text: &str) {
        fs::write(self.path("c.toml"), text).unwrap();
    }

    fn list(&self, name: &str, entries: &[&str]) {
        let text = self.path(&format!("{name}.list"));
        fs::write(&text, entries.join("\n") + "\n").unwrap();
        compile(&text);
    }

    fn start(&self) -> Live {
        Live::start(Start::read(&self.path("c.toml")))
    }

    /// Starts, and ends when copies of the filters in effect exist.
    fn served(&self) {
        kept(&self.start());
    }

    /// The copies, of filters or of the configuration.
    fn all_copies(&self, configurations: bool) -> Vec<PathBuf> {
        let state = self.path("state");
        let mut names = names(&state);
        names.retain(|name| name.ends_with(".toml") == configurations);
        names.into_iter().map(|name| state.join(name)).collect()
    }

    fn copies(&self) -> Vec<PathBuf> {
        self.all_copies(false)
    }

    fn copied_config(&self) -> PathBuf {
        self.all_copies(true).remove(0)
    }

    fn copy(&self) -> PathBuf {
        let mut copies = self.copies();
        assert_eq!(copies.len(), 1, "{copies:?}");
        copies.remove(0)
    }
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
    let home = Home::new();
    home.served();
    let copy = home.copy();
    let filter = home.path("spam.blf");
    let good = fs::read(&filter).unwrap();
    assert_eq!(fs::read(&copy).unwrap(), good);
    let mut page = good.clone();
    page[5000] ^= 1;
    let in_use = "the last good filter is in use, generation 1";
    for (what, bytes) in [
        ("gone", None),
        ("cut", Some(&good[..good.len() - 1])),
        ("no filter", Some(b"<html>502 Bad Gateway</html>")),
        ("a damaged page", Some(&page)),
    ] {
        fs::remove_file(&filter).unwrap();
        bytes.inspect(|bytes| fs::write(&filter, bytes).unwrap());
        let live = home.start();
        assert_eq!(entries(&live), Some(1), "{what}");
        complains(&live, &[&format!("{in_use}, built 20"), "list spam: "]);
        has(&live.status(), "last good filter");
        // It stays in effect, and a reload reports it again.
        kept(&live);
        assert!(!live.reload().changed);
        assert_eq!((entries(&live), &home.copy()), (Some(1), &copy), "{what}");
        let said = check(&home.path("c.toml")).unwrap_err().remove(0).text;
        has(&said, &format!("until then, {in_use}"));
        fs::write(&filter, &good).unwrap();
    }
    // A repaired file takes effect, and the warning ends.
    fs::remove_file(&filter).unwrap();
    let live = home.start();
    home.list("spam", &["first@bad.example", "second@bad.example"]);
    assert!(live.reload().changed);
    assert_eq!(entries(&live), Some(2));
    kept(&live);
    assert_eq!(live.problems(), []);
    assert_eq!(fs::read(&copy).unwrap(), fs::read(&filter).unwrap());
}

/// While a copy is in effect, other changes still take effect, and an older file in its place does
/// not.
#[test]
fn reloads_go_on_beside_a_copy() {
    let home = Home::new();
    let before = fs::read(home.path("spam.blf")).unwrap();
    home.list("spam", &["first@bad.example", "second@bad.example"]);
    home.served();
    fs::remove_file(home.path("spam.blf")).unwrap();
    let live = home.start();
    home.configure(&format!(
        "{CONFIG}[whitelist]\nentries = ['a@ok.example']\n"
    ));
    assert!(live.reload().changed);
    assert_eq!(live.snapshot().policy.whitelist.len(), 1);
    assert_eq!(entries(&live), Some(2));
    fs::write(home.path("spam.blf"), before).unwrap();
    live.reload();
    assert_eq!(entries(&live), Some(2));
    complains(&live, &["last good filter", "older than generation 2"]);
}

/// Records are read after the start; a copy then replaces a file in which they are damaged. Fails
/// without `with_copies` in `Live::check_start`: the damaged filter stays in effect.
#[test]
fn damage_that_is_found_later_brings_the_copy_too() {
    let home = Home::new();
    home.served();
    let filter = home.path("spam.blf");
    let mut bytes = fs::read(&filter).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&filter, bytes).unwrap();
    let live = home.start();
    assert!(live.problems().is_empty());
    kept(&live);
    complains(&live, &["last good filter", "records"]);
    assert_eq!(live.problems().len(), 1, "{:?}", live.problems());
    // Its file is still damaged.
    assert!(!live.reload().changed);
    assert_eq!((entries(&live), home.copies().len()), (Some(1), 1));
}

#[test]
fn a_start_without_a_good_copy_defers() {
    let home = Home::new();
    let filter = home.path("spam.blf");
    home.served();
    let copy = home.copy();
    let good = fs::read(&copy).unwrap();
    let mut page = good.clone();
    page[5000] ^= 1;
    fs::remove_file(&filter).unwrap();
    let defers = |what: &str| {
        let live = home.start();
        assert_eq!(entries(&live), None, "{what}");
        complains(&live, &["not serving as configured", "spam.blf"]);
    };
    fs::write(&copy, &page).unwrap();
    defers("the copy is damaged");
    fs::write(&copy, &good[..good.len() / 2]).unwrap();
    defers("the copy is cut");
    fs::write(&copy, &good).unwrap();
    let days_ago = |days: u64| SystemTime::now() - Duration::from_secs(86_400 * days);
    let file = File::options().write(true).open(&copy).unwrap();
    file.set_modified(days_ago(8)).unwrap();
    defers("the copy is too old");
    file.set_modified(days_ago(6)).unwrap();
    assert_eq!(entries(&home.start()), Some(1));
    fs::remove_file(&copy).unwrap();
    defers("there is no copy");
    fs::remove_dir_all(home.path("state")).unwrap();
    defers("there is no folder");
    assert!(!home.path("state").exists());
}

/// A copy belongs to a path in the configuration: no other list uses it, and a list that is removed
/// from the configuration does not come back.
#[test]
fn a_list_that_is_no_longer_wanted_does_not_come_back() {
    let home = Home::new();
    home.list("other", &["x@bad.example", "y@bad.example"]);
    let other = "[[list]]\nname = 'other'\nfilter = 'other.blf'\n";
    home.configure(&format!("{CONFIG}{other}"));
    home.served();
    assert_eq!(home.copies().len(), 2);
    home.configure(CONFIG);
    home.served();
    let copy = home.copy();
    // The same name, another file.
    home.list("elsewhere", &["x@bad.example", "y@bad.example"]);
    fs::remove_file(home.path("spam.blf")).unwrap();
    home.configure(&CONFIG.replace("spam.blf", "elsewhere.blf"));
    home.served();
    assert_ne!(home.copy(), copy);
    // Without the last configuration, which named the other file.
    fs::remove_file(home.copied_config()).unwrap();
    home.configure(CONFIG);
    assert_eq!(entries(&home.start()), None);
    // A faulty configuration names no lists, and removes no copies.
    home.list("spam", &["first@bad.example"]);
    home.served();
    fs::remove_file(home.copied_config()).unwrap();
    home.configure("state = 'state'\nno = 'configuration'\n");
    kept(&home.start());
    assert_eq!(home.copy(), copy);
}

/// Two daemons with the same folder would treat each other's copies as those of removed lists.
/// Fails without the lock in `work`: the second removes those of the first.
#[test]
fn another_process_takes_no_copies_away() {
    let (home, other) = (Home::new(), Home::new());
    let shared = format!("state = '{}'\n", home.path("state").display());
    other.configure(&CONFIG.replace("state = 'state'\n", &shared));
    let first = home.start();
    kept(&first);
    let copy = home.copy();
    let second = other.start();
    kept(&second);
    complains(&second, &["cannot keep a copy", "another process"]);
    assert_eq!(home.copy(), copy);
    // When the first has ended, the second takes them over.
    drop(first);
    drop(second);
    other.served();
    assert_ne!(home.copy(), copy);
}

/// Entries that a list has dropped do not come back: a copy that cannot be renewed is removed.
#[test]
fn a_full_disk_keeps_no_copy_and_stops_nothing() {
    let home = Home::new();
    let state = home.path("state");
    let Some(_disk) = SmallDisk::mount(&state, "size=64k") else {
        return;
    };
    home.served();
    assert_eq!(home.copies().len(), 1);
    let live = home.start();
    let many: String = (0..3_000).map(|n| format!("x{n}@bad.example\n")).collect();
    home.list("spam", &[&many]);
    assert!(live.reload().changed);
    kept(&live);
    complains(&live, &["cannot keep a copy", "must stay free"]);
    assert_eq!((home.copies().len(), entries(&live)), (0, Some(3_000)));
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
