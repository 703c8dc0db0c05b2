//! Files change all the time, in every way, right and wrong, while mail is served: no listed sender passes, no
//! innocent one is refused, and nobody goes without an answer.
//!
//! What a message gets during a change is a question of luck, and of the order in which threads run: so it is
//! tried often. `tests/run` does the short form; the long form is that of docs/promises.md.

mod support;

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, symlink};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use blocklist_milter::demo::peer::{Peer, TestMail};
use blocklist_milter::snapshot::Reloaded;
use support::rig::{Rig, verdict};

/// Listed in every version of the list.
const LISTED: &str = "<always@bad.example>";
/// Listed in none.
const INNOCENT: &str = "<never@ok.example>";

const CONFIG: &str = "[[list]]\nname = 'spam'\nfilter = 'spam.blf'\n\
    [whitelist]\nfiles = ['white.txt']\n[safety]\nmax_shrink = '90%'\n";

/// What is done to the filter in effect.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A new build, as the compiler replaces a file.
    Build,
    /// The same bytes in a new file.
    Rename,
    /// Half of it, in a new file.
    Half,
    /// A flipped bit, in a new file.
    Flip,
    /// Something else, in a new file.
    Text,
    /// Gone, and put back.
    Away,
    /// A link to it, swapped beside it.
    Link,
    /// Another time.
    Touch,
    /// Written again in its place, with the same bytes.
    InPlace,
    /// Cut off in its place, and written again.
    Truncate,
    /// Zeros over some of it, in its place, and written again.
    Zeros,
}

const ALL: [Event; 11] = [
    Event::Build,
    Event::Rename,
    Event::Half,
    Event::Flip,
    Event::Text,
    Event::Away,
    Event::Link,
    Event::Touch,
    Event::InPlace,
    Event::Truncate,
    Event::Zeros,
];
const IN_USE: [Event; 5] = [
    Event::Rename,
    Event::Half,
    Event::InPlace,
    Event::Truncate,
    Event::Zeros,
];

/// The site and what was done to it.
struct Site {
    rig: Rig,
    random: u64,
    builds: u32,
}

impl Site {
    fn new(load: &str) -> Self {
        let rig = Rig::new(
            &[("spam.list", &list(0)), ("white.txt", "# nobody\n")],
            &CONFIG.replace("filter =", &format!("load = '{load}'\nfilter =")),
        );
        Self {
            rig,
            random: 0x5EED,
            builds: 0,
        }
    }

    fn path(&self) -> PathBuf {
        self.rig.path("spam.blf")
    }

    /// Splitmix64: the same events in every run.
    fn below(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed ^ (mixed >> 27)) % end
    }

    fn replace(&self, bytes: &[u8]) {
        let aside = self.rig.path("aside");
        fs::write(&aside, bytes).expect("our own folder");
        fs::rename(aside, self.path()).expect("our own folder");
    }

    /// In the middle of it.
    fn damaged(&self) {
        let letter = TestMail::new(LISTED, &["<bob@our.example>"], &["From: a@ok.example"]);
        let verdict = verdict(&self.rig.deliver(&letter));
        assert!(verdict == "reject" || verdict == "tempfail", "{verdict}");
    }

    /// Does it, has everything loaded again, and mends it.
    fn happens(&mut self, event: Event) {
        let good = fs::read(self.path()).expect("a good filter between two events");
        let reload = |site: &Self| site.rig.live.reload();
        match event {
            Event::Build => {
                self.builds += 1;
                self.rig.write("spam.list", &list(self.builds));
            }
            Event::Rename => self.replace(&good),
            Event::Half => {
                let end = usize::try_from(self.below(good.len() as u64)).expect("below a length");
                self.replace(&good[..end]);
            }
            Event::Flip => {
                let at = usize::try_from(self.below(good.len() as u64)).expect("below a length");
                let mut bytes = good.clone();
                bytes[at] ^= 1 << self.below(8);
                self.replace(&bytes);
            }
            Event::Text => self.replace(b"<html>404</html>\n"),
            Event::Away => {
                fs::remove_file(self.path()).expect("our own folder");
            }
            Event::Link => {
                let number = self.below(1 << 40);
                let version = self.rig.path(&format!("version{number}"));
                fs::write(&version, &good).expect("our own folder");
                symlink(&version, self.rig.path("link")).expect("our own folder");
                fs::rename(self.rig.path("link"), self.path()).expect("our own folder");
                reload(self);
                self.replace(&good);
                fs::remove_file(version).expect("our own folder");
            }
            Event::Touch => {
                let file = OpenOptions::new().append(true).open(self.path());
                let now = std::time::SystemTime::now();
                file.and_then(|file| file.set_modified(now))
                    .expect("our own");
            }
            Event::InPlace => fs::write(self.path(), &good).expect("our own folder"),
            Event::Truncate => {
                let file = OpenOptions::new()
                    .write(true)
                    .open(self.path())
                    .expect("our own");
                file.set_len(self.below(good.len() as u64))
                    .expect("our own");
                self.damaged();
                reload(self);
                file.set_len(0).expect("our own");
                (&file).write_all(&good).expect("our own");
            }
            Event::Zeros => {
                let at = self.below(good.len() as u64);
                let length = usize::try_from(self.below(good.len() as u64 - at)).expect("short");
                let file = OpenOptions::new()
                    .write(true)
                    .open(self.path())
                    .expect("our own");
                file.write_all_at(&vec![0; length], at).expect("our own");
                self.damaged();
                reload(self);
                file.write_all_at(&good, 0).expect("our own");
            }
        }
        reload(self);
        if matches!(event, Event::Half | Event::Flip | Event::Text | Event::Away) {
            self.replace(&good);
            let mended = reload(self);
            assert!(
                !matches!(mended, Reloaded::Kept(_)),
                "after {event:?}: {mended:?}"
            );
        }
    }
}

fn list(build: u32) -> String {
    let others = (0..200).map(|n| format!("x{n}-{build}@bad.example\n"));
    let always = LISTED.trim_matches(['<', '>']);
    format!("{always}\n{}", others.collect::<String>())
}

/// So many events, one after the other, with mail all the time: at least so many messages for each event.
fn events(count: u32, kinds: &[Event], load: &str, messages_each: u64) {
    let mut site = Site::new(load);
    let (ended, messages) = (AtomicBool::new(false), AtomicU64::new(0));
    let socket = site.rig.path("m.sock");
    thread::scope(|scope| {
        for sender in [LISTED, INNOCENT] {
            let (socket, ended, messages) = (&socket, &ended, &messages);
            scope.spawn(move || {
                let letter = TestMail::new(sender, &["<bob@our.example>"], &["From: a@ok.example"]);
                let mut peer = Peer::unix(socket).expect("the daemon listens");
                peer.stranger().expect("the daemon answers");
                while !ended.load(Relaxed) {
                    let verdict = verdict(&peer.deliver(&letter).expect("the daemon answers"));
                    // While a file is being written in its place, nobody knows what it lists.
                    let is_right = match sender {
                        LISTED => verdict == "reject" || verdict == "tempfail",
                        // Pages that are read from disk may be damaged as well.
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
            let event = kinds[usize::try_from(site.below(kinds.len() as u64)).expect("a few")];
            if ended.load(Relaxed) {
                panic!("event {n} of {count}, before {event:?}");
            }
            site.happens(event);
            while messages.load(Relaxed) < u64::from(n + 1) * messages_each && !ended.load(Relaxed)
            {
                thread::sleep(Duration::from_millis(1));
            }
            let letter = TestMail::new(LISTED, &["<bob@our.example>"], &["From: a@ok.example"]);
            if n % 16 == 0 {
                assert_eq!(
                    verdict(&site.rig.deliver(&letter)),
                    "reject",
                    "after {event:?}"
                );
            }
        }
        ended.store(true, Relaxed);
    });
    let messages = messages.load(Relaxed);
    println!("{count} events, {messages} messages, all right");
}

/// Without the checks of a reload (`filter.check`), a damaged filter comes into effect.
#[test]
fn reloads_of_all_kinds_under_load() {
    events(200, &ALL, "memory", 1);
}

#[test]
#[ignore = "some minutes: tests/run --long"]
fn ten_thousand_reloads_of_all_kinds_under_load() {
    events(10_000, &ALL, "memory", 100);
}

/// Without the sums of records, what was written in place is taken for a record, or for none. The list is read from
/// disk, since the records of one so small would be in memory otherwise.
#[test]
fn files_in_use_are_replaced_cut_and_written_over() {
    events(1_000, &IN_USE, "disk", 1);
}

#[test]
#[ignore = "some minutes: tests/run --long"]
fn ten_thousand_times_files_in_use_are_replaced_cut_and_written_over() {
    events(10_000, &IN_USE, "disk", 100);
}
