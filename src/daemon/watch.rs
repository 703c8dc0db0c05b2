//! Notices changed files and loads them again.
//!
//! The *folders* of the files are watched: a watch on a file reports nothing more after another file was renamed to its
//! name, and Kubernetes replaces a link (`..data`) next to the files. An event is only a hint: the service compares the files
//! with those that it has loaded, also every 30 s without a hint, because some file systems report no events.
//!
//! ```text
//!  folder event --> wait until it is quiet --+
//!  30 s passed -----------------------------+--> Service::is_out_of_date? --> Service::reload
//!  SIGHUP -------> wait until it is quiet ----------------------------------> Service::reload
//! ```
//!
//! All of this runs on a separate thread, so mail does not wait while files are loaded.
//!
//! Folders are watched by inotify(7). The content of an event is ignored, and several events count as one. There is a pause
//! after each hint: a million changes a second cost no more than twenty. A full queue of the kernel is reported, which is a
//! hint, too. (The crate `notify` reads as long as there are events: many changes took half a core, and a new watch waited.)

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::retry_on_intr;
use sd_notify::NotifyState;

use super::{Service, start_patient_thread};

/// Time between two checks of the files without a hint.
const POLL: Duration = Duration::from_secs(30);
/// The same while [`Service::upkeep`] is not finished.
const SOON: Duration = Duration::from_secs(1);
/// A change is complete when there was no event for this long ...
const QUIET: Duration = Duration::from_millis(200);
/// ... or, if there are events all the time, after this.
const QUIET_MAX: Duration = Duration::from_secs(2);

/// Why files are loaded again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Somebody asked for it, by SIGHUP.
    Asked,
    /// A watched file has changed since it was loaded, or the last attempt failed.
    Changed,
}

/// The watching thread. It ends when this is dropped, after a reload in progress, for which dropping does not wait.
pub(super) struct Watch {
    requests: UnixStream,
}

impl Watch {
    pub(super) fn start<S: Service>(service: Arc<S>) -> io::Result<Self> {
        let (requests, received) = UnixStream::pair()?;
        requests.set_nonblocking(true)?;
        // It may read gigabytes while mail is served.
        start_patient_thread("watch", move || {
            watch(&*service, Changes::new(received));
        })?;
        Ok(Self { requests })
    }

    pub(super) fn reload(&self) {
        // If the thread has ended, the daemon is stopping; if there is no space, it was asked often enough.
        let _ = (&self.requests).write(b"r");
    }
}

fn watch<S: Service>(service: &S, mut changes: Changes) {
    let mut status = String::new();
    let mut cause = Cause::Changed;
    loop {
        changes.watch(&service.watched());
        if cause == Cause::Asked || attempt(|| service.is_out_of_date()) {
            tell(&[NotifyState::Reloading, monotonic_now()]);
            attempt(|| service.reload(cause));
            tell(&[NotifyState::Ready]);
            // Files may be named now that have changed while nobody watched their folder.
            if changes.watch(&service.watched()) {
                cause = Cause::Changed;
                continue;
            }
        }
        let patience = match upkeep(service, &mut status) {
            true => POLL,
            false => SOON,
        };
        cause = match reason_to_look(patience, |patience| changes.wait(patience)) {
            Some(cause) => cause,
            None => return,
        };
    }
}

/// Calls the service. A panic in there, which is logged, must not end the only thread that loads files.
fn attempt<T: Default>(call: impl FnOnce() -> T) -> T {
    panic::catch_unwind(AssertUnwindSafe(call)).unwrap_or_default()
}

/// Calls the service's regular work, and sends the service manager the state, if it has changed.
fn upkeep<S: Service>(service: &S, status: &mut String) -> bool {
    // After a panic, the next check is soon enough.
    let is_done = attempt(|| Some(service.upkeep())).unwrap_or(true);
    let now = attempt(|| Some(service.status()));
    if let Some(now) = now.filter(|now| now != status) {
        tell(&[NotifyState::Status(&now)]);
        *status = now;
    }
    is_done
}

/// Waits until the events after a first one have ended, or until the next regular check. `None`: stop.
fn reason_to_look(patience: Duration, mut wait: impl FnMut(Duration) -> Event) -> Option<Cause> {
    let mut cause = Cause::Changed;
    let mut begun = None;
    while begun.is_none_or(|begun: Instant| begun.elapsed() < QUIET_MAX) {
        match wait(if begun.is_none() { patience } else { QUIET }) {
            Event::Nothing => break,
            Event::Hint => {}
            Event::Request => cause = Cause::Asked,
            Event::End => return None,
        }
        begun.get_or_insert_with(Instant::now);
    }
    Some(cause)
}

pub(super) fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "cannot notify systemd");
    }
}

/// The time stamp that systemd needs with "reloading".
fn monotonic_now() -> NotifyState<'static> {
    NotifyState::monotonic_usec_now().unwrap_or(NotifyState::Status("reloading"))
}

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
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
struct Changes {
    requests: UnixStream,
    /// `None`: no folder can be watched.
    inotify: Option<OwnedFd>,
    /// With the kernel's number of each watch, unless the folder cannot be watched.
    folders: BTreeMap<PathBuf, Option<i32>>,
    reports: Vec<u8>,
}

impl Changes {
    fn new(requests: UnixStream) -> Self {
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
    fn watch(&mut self, files: &[PathBuf]) -> bool {
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

    fn wait(&mut self, patience: Duration) -> Event {
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

    /// Each event delays the check, not only the first one: otherwise a file that is written in place would be loaded before
    /// it is complete.
    #[test]
    fn every_event_is_heard_until_it_is_quiet() {
        use Event::{End, Hint, Nothing, Request};
        for (events, cause) in [
            (&[Nothing][..], Some(Cause::Changed)),
            (&[Hint, Hint, Nothing], Some(Cause::Changed)),
            (&[Hint, Request, Hint, Nothing], Some(Cause::Asked)),
            (&[Hint, End], None),
        ] {
            let mut coming = events.iter().copied();
            let mut patience = POLL;
            let found = reason_to_look(POLL, |waited| {
                assert_eq!(waited, std::mem::replace(&mut patience, QUIET));
                coming.next().expect("it looks then")
            });
            assert_eq!((found, coming.next()), (cause, None));
        }
    }

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
