//! Notices that files have changed, and has them loaded again.
//!
//! What is watched are the *folders* of the files: a watched file reports nothing more as soon as
//! another is renamed into its place, and Kubernetes swaps a link (`..data`) beside
//! them. What the kernel reports is only a hint to look. Whether there is something new
//! is seen by comparing size, time and inode of each file, and the files are compared
//! every 30 s without any hint too, for file systems that report nothing.
//!
//! ```text
//!  folder event --> wait until it is quiet --+
//!  30 s passed -----------------------------+--> a file differs? --> Service::reload
//!  SIGHUP -------> wait until it is quiet --------------------------> Service::reload
//! ```
//!
//! A reload that failed is tried again when a watched file has changed, or after 30 s. Other
//! events in the same folders do not count: there may be many, and each try may read gigabytes.
//!
//! All of it runs on a thread of its own: loading takes as long as it takes, and no mail
//! waits.

use std::collections::BTreeSet;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Release};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

use super::Service;
use super::changes::Changes;
use super::priority;
use crate::file_state::FileState;

/// Between two looks at the files when nothing hints at a change.
const POLL: Duration = Duration::from_secs(30);
/// The same while something waits to be tidied up.
const SOON: Duration = Duration::from_secs(1);
/// A change is over when nothing more has come for this long ...
const QUIET: Duration = Duration::from_millis(200);
/// ... or, where something comes all the time, after this.
const QUIET_MAX: Duration = Duration::from_secs(2);

/// Why files are loaded again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Somebody asked for it, by SIGHUP.
    Asked,
    /// A watched file is not the one that was loaded, or the last try failed.
    Changed,
}

/// A message to the thread.
enum Message {
    Hint,
    Reload,
    Stop,
}

/// The thread that watches. It ends when this is dropped, after a reload under way; nobody
/// waits for that, since it only reads.
#[derive(Debug)]
pub(super) struct Watch {
    messages: Sender<Message>,
}

impl Watch {
    pub(super) fn start<S: Service>(service: Arc<S>) -> std::io::Result<Self> {
        let (messages, received) = mpsc::channel();
        let hints = Hints::new(messages.clone());
        thread::Builder::new()
            .name("watch".to_owned())
            .spawn(move || {
                // It reads gigabytes while mail is served.
                priority::lower("watch");
                watch(&*service, &hints, &received);
            })?;
        Ok(Self { messages })
    }

    /// Has everything loaded again, changed or not.
    pub(super) fn reload(&self) {
        // Without the thread there is nothing left to load for.
        let _ = self.messages.send(Message::Reload);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.messages.send(Message::Stop);
    }
}

fn watch<S: Service>(service: &S, hints: &Hints, received: &Receiver<Message>) {
    let mut folders = Folders::new(hints.clone());
    let mut loaded = folders.look(service);
    // Files may have changed since they were loaded, before anybody looked.
    let mut unsure = (!reload(service, Cause::Changed)).then(Instant::now);
    let mut status = String::new();
    loop {
        let patience = match upkeep(service, &mut status) {
            true => POLL,
            false => SOON,
        };
        let Some(cause) = reason_to_look(received, hints, patience) else {
            return;
        };
        let mut found = folders.look(service);
        let retry = unsure.is_some_and(|since| since.elapsed() >= POLL);
        if cause == Cause::Changed && found == loaded && !retry {
            continue;
        }
        tell(&[NotifyState::Reloading, monotonic_now()]);
        loop {
            unsure = (!reload(service, cause)).then(Instant::now);
            // As the files were before the reload: a change during it is not missed.
            loaded = found;
            if loaded.are(&service.watched()) {
                break;
            }
            // Nobody has looked yet at files that it names only now.
            found = folders.look(service);
        }
        tell(&[NotifyState::Ready]);
    }
}

/// Loads the files again. A fault of the program there, which the log tells of, must not
/// end the only thread that ever loads any.
fn reload<S: Service>(service: &S, cause: Cause) -> bool {
    panic::catch_unwind(AssertUnwindSafe(|| service.reload(cause))).unwrap_or(false)
}

/// Has the service do what is to be done now and then, and tells the service manager how it is,
/// where that has changed.
fn upkeep<S: Service>(service: &S, status: &mut String) -> bool {
    let done = panic::catch_unwind(AssertUnwindSafe(|| {
        let done = service.upkeep();
        (done, service.status())
    }));
    let Ok((done, now)) = done else { return true };
    if *status != now {
        tell(&[NotifyState::Status(&now)]);
        *status = now;
    }
    done
}

/// Waits for an event and the end of those that come with it, or until it is time for a
/// look without any. `None`: stop.
fn reason_to_look(
    received: &Receiver<Message>,
    hints: &Hints,
    patience: Duration,
) -> Option<Cause> {
    let mut cause = Cause::Changed;
    let mut begun = None;
    while begun.is_none_or(|begun: Instant| begun.elapsed() < QUIET_MAX) {
        let patience = if begun.is_none() { patience } else { QUIET };
        match received.recv_timeout(patience) {
            Ok(Message::Hint) => hints.heard(),
            Ok(Message::Reload) => cause = Cause::Asked,
            Err(RecvTimeoutError::Timeout) => break,
            Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return None,
        }
        begun.get_or_insert_with(Instant::now);
    }
    Some(cause)
}

/// What tells one state of a file from another; `None` when there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
struct File {
    path: PathBuf,
    state: Option<FileState>,
}

/// The watched files as they were found.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Files(Vec<File>);

impl Files {
    fn look(paths: &[PathBuf]) -> Self {
        Self(
            paths
                .iter()
                .map(|path| File {
                    path: path.clone(),
                    state: FileState::of(path).ok(),
                })
                .collect(),
        )
    }

    fn are(&self, paths: &[PathBuf]) -> bool {
        self.0.iter().map(|file| &file.path).eq(paths)
    }
}

/// Sends hints, one at a time: one that was not heard yet is enough.
#[derive(Clone)]
struct Hints {
    messages: Sender<Message>,
    unheard: Arc<AtomicBool>,
}

impl Hints {
    fn new(messages: Sender<Message>) -> Self {
        Self {
            messages,
            unheard: Arc::default(),
        }
    }

    fn send(&self) {
        if !self.unheard.swap(true, AcqRel) {
            // The thread may have ended.
            let _ = self.messages.send(Message::Hint);
        }
    }

    /// The next event is news again.
    fn heard(&self) {
        self.unheard.store(false, Release);
    }
}

/// The folders that the kernel reports on.
struct Folders {
    changes: Option<Changes>,
    watched: BTreeSet<PathBuf>,
}

impl Folders {
    fn new(hints: Hints) -> Self {
        let changes = Changes::new(move || hints.send())
            .inspect_err(|error| {
                tracing::warn!(%error, "cannot watch folders, polling files instead");
            })
            .ok();
        Self {
            changes,
            watched: BTreeSet::new(),
        }
    }

    /// The files as they are now; a change from here on is reported.
    fn look<S: Service>(&mut self, service: &S) -> Files {
        let paths = service.watched();
        // Folders come and go; watching one twice is nothing.
        self.watch(&paths);
        Files::look(&paths)
    }

    /// Watches the folders in which the files are named, and those in which they are.
    fn watch(&mut self, paths: &[PathBuf]) {
        let Some(changes) = &mut self.changes else {
            return;
        };
        let mut wanted = BTreeSet::new();
        for path in paths {
            wanted.extend(path.parent().map(Path::to_owned));
            if let Ok(real) = path.canonicalize() {
                wanted.extend(real.parent().map(Path::to_owned));
            }
        }
        for gone in self.watched.difference(&wanted) {
            changes.unwatch(gone);
        }
        // Known ones too: a folder can be replaced by another of its name.
        for folder in &wanted {
            if let Err(error) = changes.watch(folder)
                && !self.watched.contains(folder)
            {
                tracing::warn!(folder = %folder.display(), %error, "cannot watch this folder, polling instead");
            }
        }
        self.watched = wanted;
    }
}

/// Tells systemd, if it is there.
pub(super) fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "cannot notify systemd");
    }
}

/// The time stamp that systemd wants with "reloading".
fn monotonic_now() -> NotifyState<'static> {
    NotifyState::monotonic_usec_now().unwrap_or(NotifyState::Status("reloading"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Acquire;

    /// Each event puts off the look, not only the first: a file that is written in place
    /// would be loaded before it is whole.
    #[test]
    fn every_event_is_heard_until_it_is_quiet() {
        const EVENTS: u32 = 50;
        let (messages, received) = mpsc::channel();
        let hints = Hints::new(messages.clone());
        let heard = hints.clone();
        let looks = thread::spawn(move || {
            let mut looks = 0;
            while reason_to_look(&received, &heard, POLL).is_some() {
                looks += 1;
            }
            looks
        });
        for _ in 0..EVENTS {
            hints.send();
            while hints.unheard.load(Acquire) {
                thread::yield_now();
            }
        }
        messages.send(Message::Stop).expect("it listens");
        // None, unless this thread was kept waiting.
        assert!(looks.join().expect("no panic") < EVENTS / 2);
    }
}
