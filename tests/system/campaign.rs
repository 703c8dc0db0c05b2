//! Files change in every way, right and wrong, while mail is served: no listed sender is accepted,
//! no innocent one is refused, and every message gets an answer.
//!
//! The result during a change depends on chance, because it depends on the order in which threads
//! run. So each change is tried often. `tests/run` runs the short form; docs/promises.md names the
//! long form.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, symlink};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use blocklist_milter::demo::peer::Peer;

use crate::support::check::Random;
use crate::support::rig::{OK, Rig, letter, verdict};

/// On every version of the list.
const LISTED: &str = "<always@bad.example>";
/// On none.
const INNOCENT: &str = "<never@ok.example>";

const CONFIG: &str = "[[list]]\nname = 'spam'\nfilter = 'spam.blf'\n\
    [whitelist]\nfiles = ['white.txt']\n[safety]\nmax_shrink = '90%'\n";

/// A change to the filter in effect.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    /// A new build replaces the file, as the compiler does it.
    Build,
    /// A new file with the same bytes.
    Rename,
    /// A new file with half of the bytes.
    Half,
    /// A new file with a flipped bit.
    Flip,
    /// A new file with other content.
    Text,
    /// The file is removed, and put back.
    Away,
    /// A link to the file is swapped.
    Link,
    /// The file gets another time.
    Touch,
    /// The file is overwritten in place with the same bytes.
    InPlace,
    /// The file is truncated in place, and written again.
    Truncate,
    /// Part of the file is overwritten with zeros in place, and written again.
    Zeros,
}

use Event::{Away, Build, Flip, Half, InPlace, Link, Rename, Text, Touch, Truncate, Zeros};

const ALL: [Event; 11] = [
    Build, Rename, Half, Flip, Text, Away, Link, Touch, InPlace, Truncate, Zeros,
];
const BUILD: [Event; 1] = [Build];
const IN_USE: [Event; 5] = [Rename, Half, InPlace, Truncate, Zeros];

/// The site, and the state of its random numbers and builds.
struct Site {
    rig: Rig,
    random: Random,
    builds: u32,
}

impl Site {
    fn new(load: &str) -> Self {
        let files = [("spam.list", &*list(0)), ("white.txt", "# nobody\n")];
        let config = CONFIG.replace("filter =", &format!("load = '{load}'\nfilter ="));
        let rig = Rig::new(&files, &config);
        Self {
            rig,
            random: Random(0x5EED),
            builds: 0,
        }
    }

    fn path(&self) -> PathBuf {
        self.rig.path("spam.blf")
    }

    fn below(&mut self, end: usize) -> usize {
        self.random.index(end)
    }

    fn open(&self) -> File {
        File::options().write(true).open(self.path()).unwrap()
    }

    fn replace(&self, bytes: &[u8]) {
        self.rig.replace("spam.blf", bytes);
    }

    /// Checks the verdict while the file is damaged.
    fn damaged(&self) {
        let verdict = self.rig.gets(LISTED);
        assert!(verdict == "reject" || verdict == "tempfail", "{verdict}");
    }

    /// Applies a change, reloads, and repairs the file.
    fn happens(&mut self, event: Event) {
        let good = fs::read(self.path()).expect("a good filter between two events");
        let reload = |site: &Self| site.rig.live.reload();
        match event {
            Build => {
                self.builds += 1;
                self.rig.write("spam.list", &list(self.builds));
            }
            Rename => self.replace(&good),
            Half => {
                let end = self.below(good.len());
                self.replace(&good[..end]);
            }
            Flip => {
                let at = self.below(good.len());
                let mut bytes = good.clone();
                bytes[at] ^= 1 << self.below(8);
                self.replace(&bytes);
            }
            Text => self.replace(b"<html>404</html>\n"),
            Away => fs::remove_file(self.path()).unwrap(),
            Link => {
                let number = self.random.next();
                let version = self.rig.path(&format!("version{number}"));
                fs::write(&version, &good).unwrap();
                symlink(&version, self.rig.path("link")).unwrap();
                fs::rename(self.rig.path("link"), self.path()).unwrap();
                reload(self);
                self.replace(&good);
                fs::remove_file(version).unwrap();
            }
            Touch => {
                let now = std::time::SystemTime::now();
                self.open().set_modified(now).unwrap();
            }
            InPlace => fs::write(self.path(), &good).unwrap(),
            Truncate => {
                let mut file = self.open();
                let length = self.below(good.len());
                file.set_len(length as u64).unwrap();
                self.damaged();
                reload(self);
                file.set_len(0).unwrap();
                file.write_all(&good).unwrap();
            }
            Zeros => {
                let at = self.below(good.len());
                let zeros = vec![0; self.below(good.len() - at)];
                let file = self.open();
                file.write_all_at(&zeros, at as u64).unwrap();
                self.damaged();
                reload(self);
                file.write_all_at(&good, 0).unwrap();
            }
        }
        let reloaded = reload(self);
        if matches!(event, Build) {
            assert!(reloaded.refused.is_empty(), "{reloaded:?}");
        }
        if matches!(event, Half | Flip | Text | Away) {
            self.replace(&good);
            let mended = reload(self);
            assert!(mended.refused.is_empty(), "after {event:?}: {mended:?}");
        }
    }
}

fn list(build: u32) -> String {
    let others = (0..200).map(|n| format!("x{n}-{build}@bad.example\n"));
    let always = LISTED.trim_matches(['<', '>']);
    format!("{always}\n{}", others.collect::<String>())
}

/// Applies `count` events one after the other, while mail is sent: at least `messages_each`
/// messages for each event.
fn events(count: u32, kinds: &[Event], load: &str, messages_each: u64) {
    let mut site = Site::new(load);
    let (ended, messages) = (AtomicBool::new(false), AtomicU64::new(0));
    let socket = site.rig.path("m.sock");
    thread::scope(|scope| {
        for sender in [LISTED, INNOCENT] {
            let (socket, ended, messages) = (&socket, &ended, &messages);
            scope.spawn(move || {
                let letter = letter(sender, &[OK]);
                let mut peer = Peer::unix(socket).expect("the daemon listens");
                peer.stranger().expect("the daemon answers");
                while !ended.load(Relaxed) {
                    let verdict = verdict(&peer.deliver(&letter).expect("the daemon answers"));
                    // While a file is overwritten in place, its content is uncertain.
                    let is_right = match sender {
                        LISTED if kinds == BUILD => verdict == "reject",
                        LISTED => verdict == "reject" || verdict == "tempfail",
                        // Pages that are read from disk may also be damaged.
                        _ => verdict == "accept" || load == "disk" && verdict == "tempfail",
                    };
                    if !is_right {
                        ended.store(true, Relaxed);
                        panic!("{sender} gets {verdict}");
                    }
                    messages.fetch_add(1, Relaxed);
                }
            });
        }
        for n in 0..count {
            let event = site.random.one_of(kinds);
            let is_ended = || ended.load(Relaxed);
            assert!(!is_ended(), "event {n} of {count}, before {event:?}");
            site.happens(event);
            let enough = u64::from(n + 1) * messages_each;
            while messages.load(Relaxed) < enough && !is_ended() {
                thread::sleep(Duration::from_millis(1));
            }
            if n % 16 == 0 {
                assert_eq!(site.rig.gets(LISTED), "reject", "after {event:?}");
            }
        }
        ended.store(true, Relaxed);
    });
    let messages = messages.load(Relaxed);
    println!("{count} events, {messages} messages, all right");
}

#[test]
fn nobody_misses_a_verdict_while_filters_change() {
    events(10, &BUILD, "memory", 80);
}

/// Fails if a reload does not check a filter (`filter.check`): a damaged one then takes effect.
#[test]
fn reloads_of_all_kinds_under_load() {
    events(200, &ALL, "memory", 1);
}

#[test]
#[ignore = "some minutes: tests/run --long"]
fn ten_thousand_reloads_of_all_kinds_under_load() {
    events(10_000, &ALL, "memory", 100);
}

/// Fails without the checksums of records: overwritten bytes are then taken for a record, or for
/// none. The list is read from disk, because the records of such a small list would otherwise be in
/// memory.
#[test]
fn files_in_use_are_replaced_cut_and_written_over() {
    events(1_000, &IN_USE, "disk", 1);
}

#[test]
#[ignore = "some minutes: tests/run --long"]
fn ten_thousand_times_files_in_use_are_replaced_cut_and_written_over() {
    events(10_000, &IN_USE, "disk", 100);
}
