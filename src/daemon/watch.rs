//! Notices that files have changed, and has them loaded again.
//!
//! What is watched are the *folders* of the files: a watched file goes deaf as soon as
//! another is renamed into its place, and Kubernetes swaps a link (`..data`) beside
//! them. What the kernel reports is only a hint to look. Whether there is something new
//! is seen by comparing size, time and inode of each file, and the files are compared
//! every 30 s without any hint too, for file systems that report nothing.
//!
//! ```text
//!  folder event --> wait until it is quiet --+
//!  30 s passed -----------------------------+--> a file differs? --> Service::reload
//!  SIGHUP ---------------------------------------------------------> Service::reload
//! ```
//!
//! All of it runs on a thread of its own: loading takes as long as it takes, and no mail
//! waits.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Release};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use sd_notify::NotifyState;

use super::Service;

/// Between two looks at the files when nothing hints at a change.
const POLL: Duration = Duration::from_secs(30);
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

/// What is told to the thread.
enum Message {
    Hint,
    Reload,
    Stop,
}

/// The thread that watches. It ends when this is dropped, after a reload under way.
#[derive(Debug)]
pub(super) struct Watch {
    messages: Sender<Message>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    pub(super) fn start<S: Service>(service: Arc<S>) -> std::io::Result<Self> {
        let (messages, received) = mpsc::channel();
        let hints = messages.clone();
        let thread = thread::Builder::new()
            .name("watch".to_owned())
            .spawn(move || watch(&*service, &hints, &received))?;
        Ok(Self {
            messages,
            thread: Some(thread),
        })
    }

    /// Has everything loaded again, changed or not.
    pub(super) fn reload(&self) {
        // Without the thread there is nothing left to load for.
        let _ = self.messages.send(Message::Reload);
    }

    /// Ends the thread and waits for it.
    pub(super) fn stop(mut self) {
        let thread = self.thread.take();
        drop(self);
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that watches the files has failed");
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.messages.send(Message::Stop);
    }
}

fn watch<S: Service>(service: &S, hints: &Sender<Message>, received: &Receiver<Message>) {
    let mut folders = Folders::new(hints.clone());
    folders.watch(&Files::look(&service.watched()));
    let mut loaded = Files::look(&service.watched());
    // Files may have changed since they were loaded, before anybody looked.
    let mut retry = !service.reload(Cause::Changed);
    loop {
        let cause = match received.recv_timeout(POLL) {
            Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            Ok(Message::Reload) => Cause::Asked,
            Err(RecvTimeoutError::Timeout) => Cause::Changed,
            Ok(Message::Hint) => match settle(received) {
                Some(cause) => cause,
                None => return,
            },
        };
        folders.heard();
        let found = Files::look(&service.watched());
        // Folders come and go; watching one twice is nothing.
        folders.watch(&found);
        if cause == Cause::Changed && found == loaded && !retry {
            continue;
        }
        tell(&[NotifyState::Reloading, monotonic_now()]);
        retry = !service.reload(cause);
        tell(&[NotifyState::Ready]);
        // As the files were before the reload: a change during it is not missed. Nobody
        // has looked at files that it names only now, so it is asked once more.
        loaded = found;
        let named = service.watched();
        if !loaded.are(&named) {
            loaded = Files::look(&named);
            folders.watch(&loaded);
            retry = true;
        }
    }
}

/// Waits until no more hints come. `None`: stop.
fn settle(received: &Receiver<Message>) -> Option<Cause> {
    let begun = Instant::now();
    let mut cause = Cause::Changed;
    while begun.elapsed() < QUIET_MAX {
        match received.recv_timeout(QUIET) {
            Ok(Message::Hint) => {}
            Ok(Message::Reload) => cause = Cause::Asked,
            Err(RecvTimeoutError::Timeout) => break,
            Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
    Some(cause)
}

/// What tells one state of a file from another; `None` when there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
struct File {
    path: PathBuf,
    state: Option<[i64; 5]>,
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
                    state: state(path),
                })
                .collect(),
        )
    }

    fn are(&self, paths: &[PathBuf]) -> bool {
        self.0.iter().map(|file| &file.path).eq(paths)
    }
}

/// Device, inode, size and time of change, of the file that a path leads to.
fn state(path: &Path) -> Option<[i64; 5]> {
    let found = fs::metadata(path).ok()?;
    let bits = |number: u64| i64::from_ne_bytes(number.to_ne_bytes());
    Some([
        bits(found.dev()),
        bits(found.ino()),
        bits(found.size()),
        found.mtime(),
        found.mtime_nsec(),
    ])
}

/// The folders that the kernel reports on.
struct Folders {
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
    /// A hint has been sent that was not heard yet: one is enough.
    hinted: Arc<AtomicBool>,
}

impl Folders {
    fn new(hints: Sender<Message>) -> Self {
        let hinted = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&hinted);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| is_change(event.kind)) && !flag.swap(true, AcqRel) {
                let _ = hints.send(Message::Hint);
            }
        });
        let watcher = watcher
            .inspect_err(|error| {
                tracing::warn!(%error, "folders cannot be watched, files are polled alone");
            })
            .ok();
        Self {
            watcher,
            watched: BTreeSet::new(),
            hinted,
        }
    }

    /// Watches the folders in which the files are named, and those in which they are.
    fn watch(&mut self, files: &Files) {
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        let mut wanted = BTreeSet::new();
        for File { path, .. } in &files.0 {
            wanted.extend(path.parent().map(Path::to_owned));
            if let Ok(real) = path.canonicalize() {
                wanted.extend(real.parent().map(Path::to_owned));
            }
        }
        for gone in self.watched.difference(&wanted) {
            // It may have been removed, and its watch with it.
            let _ = watcher.unwatch(gone);
        }
        // Known ones too: a folder can be replaced by another of its name.
        for folder in &wanted {
            if let Err(error) = watcher.watch(folder, RecursiveMode::NonRecursive)
                && !self.watched.contains(folder)
            {
                tracing::warn!(folder = %folder.display(), %error, "not watched, only polled");
            }
        }
        self.watched = wanted;
    }

    /// The next event is news again.
    fn heard(&self) {
        self.hinted.store(false, Release);
    }
}

/// Events that can mean another content. Reading a file is none, or our own look at the
/// files would wake us again.
fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(access) => access == AccessKind::Close(AccessMode::Write),
        EventKind::Any
        | EventKind::Create(_)
        | EventKind::Modify(_)
        | EventKind::Remove(_)
        | EventKind::Other => true,
    }
}

/// Tells systemd, if it is there.
pub(super) fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "systemd was not told");
    }
}

/// The time stamp that systemd wants with "reloading".
fn monotonic_now() -> NotifyState<'static> {
    NotifyState::monotonic_usec_now().unwrap_or(NotifyState::Status("reloading"))
}
