//! Watches folders for changes, by inotify(7).
//!
//! An event is only a hint to check the files, so its content is ignored, and several events count as one. There is a pause
//! after each hint: a million changes a second cost no more than twenty. A full queue of the kernel is reported, which is a
//! hint, too. (The crate `notify` reads as long as there are events: many changes took half a core, and a new watch waited.)

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::retry_on_intr;

/// Pause after a hint.
const REST: Duration = Duration::from_millis(50);
/// Bytes per read. The kernel usually stores at most 16,384 events, and drops further ones.
const BYTES_AT_ONCE: usize = 64 << 10;
/// Reads before a pause.
const READS_MAX: usize = 32;

/// Events that can mean a change of content. Reading is not one of them: otherwise our own reads would be hints.
const REPORTED: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ATTRIB);

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The time is over.
    Nothing,
    /// Something in a watched folder may have changed.
    Hint,
    /// The other end has sent a request.
    Request,
    /// The other end is closed.
    End,
}

/// The watched folders, and the end of a pair of sockets at which requests arrive.
pub(super) struct Changes {
    requests: UnixStream,
    /// `None`: no folder can be watched.
    inotify: Option<OwnedFd>,
    /// With the kernel's number of each watch, unless the folder cannot be watched.
    folders: BTreeMap<PathBuf, Option<i32>>,
    reports: Vec<u8>,
}

impl Changes {
    /// Starts without watches.
    pub(super) fn new(requests: UnixStream) -> Self {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC);
        let inotify = inotify.inspect_err(|error| {
            tracing::warn!(%error, "cannot watch folders, polling files instead");
        });
        Self {
            requests,
            inotify: inotify.ok(),
            folders: BTreeMap::new(),
            reports: vec![0; BYTES_AT_ONCE],
        }
    }

    /// Watches the folders in which these files are named, and those in which they are, instead of those before. Returns
    /// whether these are others.
    pub(super) fn watch(&mut self, files: &[PathBuf]) -> bool {
        let Some(inotify) = &self.inotify else {
            return false;
        };
        let mut wanted = BTreeSet::new();
        for file in files {
            wanted.extend(file.parent().map(Path::to_owned));
            if let Ok(real) = file.canonicalize() {
                wanted.extend(real.parent().map(Path::to_owned));
            }
        }
        let mut folders = BTreeMap::new();
        // Known ones too: a folder can be replaced by another one with the same name. Then its watch has another number.
        for folder in wanted {
            let watch = inotify::add_watch(inotify, &folder, REPORTED | WatchFlags::ONLYDIR);
            if let Err(error) = watch
                && !self.folders.contains_key(&folder)
            {
                tracing::warn!(folder = %folder.display(), %error, "cannot watch this folder, polling instead");
            }
            folders.insert(folder, watch.ok());
        }
        // The same folder may have several names, and one watch.
        let current: BTreeSet<i32> = folders.values().flatten().copied().collect();
        let before: BTreeSet<i32> = self.folders.values().flatten().copied().collect();
        for gone in before.difference(&current) {
            // The folder may have been removed, and its watch with it.
            let _ = inotify::remove_watch(inotify, *gone);
        }
        let is_other = !self.folders.keys().eq(folders.keys());
        self.folders = folders;
        is_other
    }

    /// Waits until something happens, for at most this long.
    pub(super) fn wait(&mut self, patience: Duration) -> Event {
        let requests = PollFd::new(&self.requests, PollFlags::IN);
        let folders = self.inotify.as_ref();
        let folders = folders.map(|inotify| PollFd::new(inotify, PollFlags::IN));
        let mut both: Vec<PollFd<'_>> = [requests].into_iter().chain(folders).collect();
        let patience = Timespec::try_from(patience).unwrap_or_default();
        if retry_on_intr(|| poll(&mut both, Some(&patience))) == Ok(0) {
            return Event::Nothing;
        }
        if !both[0].revents().is_empty() {
            return match self.requests.read(&mut self.reports) {
                Ok(0) | Err(_) => Event::End,
                Ok(_) => Event::Request,
            };
        }
        if let Some(inotify) = &self.inotify {
            let mut read =
                || retry_on_intr(|| rustix::io::read(inotify, self.reports.as_mut_slice()));
            let _ = (0..READS_MAX).try_for_each(|_| read().map(drop));
        }
        thread::sleep(REST);
        Event::Hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::Instant;

    fn watched(file: &Path) -> (Changes, UnixStream) {
        let (requests, ours) = UnixStream::pair().expect("sockets");
        let mut changes = Changes::new(requests);
        assert!(changes.watch(&[file.to_owned()]));
        (changes, ours)
    }

    fn is_quiet(changes: &mut Changes) -> bool {
        changes.wait(4 * REST) == Event::Nothing
    }

    #[test]
    fn changes_are_reported_and_reading_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let (mut changes, requests) = watched(&at("a"));
        fs::write(at("a"), "").expect("our own folder");
        assert!(!is_quiet(&mut changes));
        assert!(is_quiet(&mut changes));
        fs::read(at("a")).expect("our own folder");
        fs::read_dir(folder.path()).expect("our own folder");
        assert!(is_quiet(&mut changes));
        fs::rename(at("a"), at("b")).expect("our own folder");
        assert!(!is_quiet(&mut changes));
        // The same folder under two names, of which one goes.
        let other = at("..").join(folder.path().file_name().expect("a name"));
        let other = other.join("a");
        assert!(changes.watch(&[at("a"), other.clone()]));
        assert!(changes.watch(&[other]));
        fs::write(at("b"), "").expect("our own folder");
        assert!(!is_quiet(&mut changes));
        assert!(changes.watch(&[]));
        while !is_quiet(&mut changes) {}
        fs::write(at("a"), "").expect("our own folder");
        assert!(is_quiet(&mut changes));
        drop(requests);
        assert_eq!(changes.wait(REST), Event::End);
    }

    /// Without the pause, each read gives a hint, many thousands a second.
    #[test]
    fn many_changes_are_few_hints() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("touched");
        let (mut changes, _requests) = watched(&file);
        let begun = Instant::now();
        let (touches, hints) = thread::scope(|scope| {
            let touches = scope.spawn(|| {
                let mut touches = 0;
                while begun.elapsed() < 10 * REST || touches < 1000 {
                    fs::write(&file, "x").expect("our own folder");
                    touches += 1;
                }
                touches
            });
            let hints = (0..).take_while(|_| !is_quiet(&mut changes)).count();
            (touches.join().expect("no panic"), hints)
        });
        let most = 2 + begun.elapsed().as_millis() / REST.as_millis();
        assert!(
            (1..=most).contains(&(hints as u128)),
            "{hints} of {touches}"
        );
    }
}
