//! Folders that the kernel reports changes of, by inotify(7).
//!
//! A report is only a hint to look, so what it says is not read, and many are one. Between two reads the thread
//! rests: somebody who changes files in a watched folder a million times a second costs no more than one who
//! does it twenty times. What the kernel cannot keep meanwhile it drops, and reports that: a hint as well.
//! (The crate `notify` reads as long as there is something to read. So this took half a core, and
//! watching another folder waited until it was over.)

use std::collections::BTreeMap;
use std::io::{self, PipeWriter};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::{Errno, retry_on_intr};

/// Between two reads of what the kernel has to report.
const REST: Duration = Duration::from_millis(50);
/// Read at once: more than the kernel keeps, 16,384 reports as a rule, is dropped there anyway.
const BYTES_AT_ONCE: usize = 64 << 10;
/// Reads before a rest.
const READS_MAX: usize = 32;

/// What can mean another content. Reading a file is none, or our own look at the files would wake us again.
const REPORTED: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ATTRIB);

/// Watched folders. The thread that listens ends when this is dropped.
#[derive(Debug)]
pub(super) struct Changes {
    inotify: Arc<OwnedFd>,
    /// What the kernel calls each folder.
    folders: BTreeMap<PathBuf, i32>,
    _alive: PipeWriter,
}

impl Changes {
    /// Watches nothing yet. `hint` is called after changes, on a thread of its own.
    pub(super) fn new(hint: impl Fn() + Send + 'static) -> io::Result<Self> {
        let flags = CreateFlags::NONBLOCK | CreateFlags::CLOEXEC;
        let inotify = Arc::new(inotify::init(flags)?);
        let (ended, alive) = io::pipe()?;
        let listened = Arc::clone(&inotify);
        thread::Builder::new()
            .name("changes".to_owned())
            .spawn(move || listen(&listened, &OwnedFd::from(ended), hint))?;
        Ok(Self {
            inotify,
            folders: BTreeMap::new(),
            _alive: alive,
        })
    }

    /// Watches a folder, also one that has taken the place of another of its name.
    pub(super) fn watch(&mut self, folder: &Path) -> io::Result<()> {
        let number = inotify::add_watch(&self.inotify, folder, REPORTED | WatchFlags::ONLYDIR)?;
        let before = self.folders.insert(folder.to_owned(), number);
        if let Some(before) = before.filter(|before| *before != number) {
            self.forget(before);
        }
        Ok(())
    }

    /// Watches it no longer.
    pub(super) fn unwatch(&mut self, folder: &Path) {
        if let Some(number) = self.folders.remove(folder) {
            self.forget(number);
        }
    }

    /// Ends a watch, unless the folder is watched by another name too.
    fn forget(&self, number: i32) {
        if !self.folders.values().any(|other| *other == number) {
            // The folder may have been removed, and its watch with it.
            let _ = inotify::remove_watch(&self.inotify, number);
        }
    }
}

fn listen(inotify: &OwnedFd, ended: &OwnedFd, hint: impl Fn()) {
    let mut reports = vec![0; BYTES_AT_ONCE];
    loop {
        let mut both = [
            PollFd::new(inotify, PollFlags::IN),
            PollFd::new(ended, PollFlags::empty()),
        ];
        let waited = retry_on_intr(|| poll(&mut both, None));
        if waited.is_err() || !both[1].revents().is_empty() {
            return;
        }
        for _ in 0..READS_MAX {
            match retry_on_intr(|| rustix::io::read(inotify, &mut reports)) {
                Ok(_) => {}
                Err(Errno::AGAIN) => break,
                // It does not happen to a descriptor that is open; the files are polled, too.
                Err(_) => return,
            }
        }
        hint();
        thread::sleep(REST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::sync::mpsc::{self, Receiver};
    use std::time::Instant;

    fn watched(folder: &Path) -> (Changes, Receiver<()>) {
        let (send, hints) = mpsc::channel();
        let hint = move || {
            // Nobody may listen any more at the end of a test.
            let _ = send.send(());
        };
        let mut changes = Changes::new(hint).expect("inotify");
        changes.watch(folder).expect("a folder");
        (changes, hints)
    }

    fn is_quiet(hints: &Receiver<()>) -> bool {
        hints.recv_timeout(4 * REST).is_err()
    }

    #[test]
    fn changes_are_reported_and_reading_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let (mut changes, hints) = watched(folder.path());
        fs::write(at("a"), "").expect("our own folder");
        hints.recv().expect("a hint");
        while !is_quiet(&hints) {}
        fs::read(at("a")).expect("our own folder");
        fs::read_dir(folder.path()).expect("our own folder");
        assert!(is_quiet(&hints));
        fs::rename(at("a"), at("b")).expect("our own folder");
        hints.recv().expect("a hint");
        changes.unwatch(folder.path());
        while !is_quiet(&hints) {}
        fs::write(at("a"), "").expect("our own folder");
        assert!(is_quiet(&hints));
        drop(changes);
        assert!(hints.recv().is_err(), "the thread has ended");
    }

    /// By one name and by another.
    #[test]
    fn a_folder_is_watched_as_long_as_one_name_of_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut changes, hints) = watched(folder.path());
        let other = folder.path().join(".");
        changes.watch(&other).expect("a folder");
        let other = folder
            .path()
            .join("..")
            .join(folder.path().file_name().expect("a name"));
        changes.watch(&other).expect("a folder");
        changes.unwatch(folder.path());
        fs::write(folder.path().join("a"), "").expect("our own folder");
        hints.recv().expect("a hint");
    }

    /// Without the rest there are as many hints as reads, many thousands a second, and another folder waits.
    #[test]
    fn many_changes_are_few_hints() {
        let folder = tempfile::tempdir().expect("a folder");
        let other = tempfile::tempdir().expect("a folder");
        let (mut changes, hints) = watched(folder.path());
        let file = folder.path().join("touched");
        let begun = Instant::now();
        let mut touches = 0;
        while begun.elapsed() < 10 * REST || touches < 1000 {
            fs::write(&file, "x").expect("our own folder");
            touches += 1;
        }
        let asked = Instant::now();
        changes.watch(other.path()).expect("a folder");
        assert!(
            asked.elapsed() < begun.elapsed(),
            "nobody waits for the others"
        );
        let took = begun.elapsed();
        let heard = hints.try_iter().count() as u128;
        assert!(
            heard >= 1 && heard <= 2 + took.as_millis() / REST.as_millis(),
            "{heard} of {touches}"
        );
    }
}
