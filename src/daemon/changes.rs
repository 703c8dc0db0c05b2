//! Watches folders for changes, by inotify(7).
//!
//! An event is only a hint to check the files, so its content is ignored, and several events count as one. The thread
//! pauses between two reads: a million changes a second in a watched folder cost no more than twenty. If the kernel's
//! queue is full, it drops events and reports this, which is a hint, too.
//! (The crate `notify` reads as long as there are events. With many changes, this took half a core, and a new watch had to
//! wait until they ended.)

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

/// Pause between two reads of events.
const REST: Duration = Duration::from_millis(50);
/// Bytes per read. The kernel usually stores at most 16,384 events, and drops further ones.
const BYTES_AT_ONCE: usize = 64 << 10;
/// Reads before a pause.
const READS_MAX: usize = 32;

/// Events that can mean a change of content. Reading is not one of them: otherwise our own reads would wake this thread.
const REPORTED: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ATTRIB);

/// The watched folders. The thread that reads events ends when this is dropped.
#[derive(Debug)]
pub(super) struct Changes {
    inotify: Arc<OwnedFd>,
    /// The kernel's watch number of each folder.
    folders: BTreeMap<PathBuf, i32>,
    _alive: PipeWriter,
}

impl Changes {
    /// Starts without watches. `hint` is called after changes, on a separate thread.
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

    /// Watches a folder. Also detects that it has replaced another folder with the same name.
    pub(super) fn watch(&mut self, folder: &Path) -> io::Result<()> {
        let number = inotify::add_watch(&self.inotify, folder, REPORTED | WatchFlags::ONLYDIR)?;
        let before = self.folders.insert(folder.to_owned(), number);
        if let Some(before) = before.filter(|before| *before != number) {
            self.forget(before);
        }
        Ok(())
    }

    /// Ends the watch of a folder.
    pub(super) fn unwatch(&mut self, folder: &Path) {
        if let Some(number) = self.folders.remove(folder) {
            self.forget(number);
        }
    }

    /// Ends a watch, unless the same folder is also watched under another name.
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
                // This does not happen with an open descriptor. If it does, polling still finds changes.
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
            // At the end of a test, the receiver may be gone.
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

    /// The same folder under two names.
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

    /// Without the pause, each read gives a hint, many thousands a second, and a new watch has to wait.
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
