//! Notices changed files and loads them again.
//!
//! The *folders* of the files are watched: a watch on a file reports nothing more after another file was renamed to its
//! name, and Kubernetes replaces a link (`..data`) next to the files. An event is only a hint to check: the service
//! compares the files with those that it has loaded. It is also asked every 30 s without any hint, because some file
//! systems report no events.
//!
//! ```text
//!  folder event --> wait until it is quiet --+
//!  30 s passed -----------------------------+--> Service::is_out_of_date? --> Service::reload
//!  SIGHUP -------> wait until it is quiet ----------------------------------> Service::reload
//! ```
//!
//! All of this runs on a separate thread, so mail does not wait while files are loaded.

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

/// A message to the thread.
enum Message {
    Hint,
    Reload,
    Stop,
}

/// The watching thread. It ends when this is dropped, after a reload in progress; dropping does not wait for that, because the
/// thread only reads.
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
                // It may read gigabytes while mail is served.
                priority::lower("watch");
                watch(&*service, &hints, &received);
            })?;
        Ok(Self { messages })
    }

    /// Loads everything again, changed or not.
    pub(super) fn reload(&self) {
        // If the thread has ended, the daemon is stopping.
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
    let mut status = String::new();
    let mut cause = Cause::Changed;
    loop {
        folders.watch(&service.watched());
        if cause == Cause::Asked || attempt(|| service.is_out_of_date()) {
            tell(&[NotifyState::Reloading, monotonic_now()]);
            attempt(|| {
                service.reload(cause);
                true
            });
            tell(&[NotifyState::Ready]);
            // Files may be named now that have changed while nobody watched their folder.
            if folders.watch(&service.watched()) {
                cause = Cause::Changed;
                continue;
            }
        }
        let patience = match upkeep(service, &mut status) {
            true => POLL,
            false => SOON,
        };
        cause = match reason_to_look(received, hints, patience) {
            Some(cause) => cause,
            None => return,
        };
    }
}

/// Calls the service. A panic in there, which is logged, must not end the only thread that loads files.
fn attempt(call: impl FnOnce() -> bool) -> bool {
    panic::catch_unwind(AssertUnwindSafe(call)).unwrap_or(false)
}

/// Calls the service's regular work, and sends the service manager the state, if it has changed.
fn upkeep<S: Service>(service: &S, status: &mut String) -> bool {
    let mut done = true;
    attempt(|| {
        done = service.upkeep();
        let now = service.status();
        if *status != now {
            tell(&[NotifyState::Status(&now)]);
            *status = now;
        }
        done
    });
    done
}

/// Waits for an event and until the events that follow it have ended, or until the next regular check. `None`: stop.
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

/// Sends hints, but no further one before the last one was received.
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

    /// The last hint was received: the next event is sent again.
    fn heard(&self) {
        self.unheard.store(false, Release);
    }
}

/// The watched folders.
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

    /// Watches the folders in which the files are named, and those in which they are. Returns whether these are
    /// others than before.
    fn watch(&mut self, paths: &[PathBuf]) -> bool {
        let Some(changes) = &mut self.changes else {
            return false;
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
        // Known ones too: a folder can be replaced by another one with the same name; watching one twice does no harm.
        for folder in &wanted {
            if let Err(error) = changes.watch(folder)
                && !self.watched.contains(folder)
            {
                tracing::warn!(folder = %folder.display(), %error, "cannot watch this folder, polling instead");
            }
        }
        let is_other = self.watched != wanted;
        self.watched = wanted;
        is_other
    }
}

/// Notifies systemd, if it is present.
pub(super) fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "cannot notify systemd");
    }
}

/// The time stamp that systemd needs with "reloading".
fn monotonic_now() -> NotifyState<'static> {
    NotifyState::monotonic_usec_now().unwrap_or(NotifyState::Status("reloading"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Acquire;

    /// Each event delays the check, not only the first one: otherwise a file that is written in place would be loaded before
    /// it is complete.
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
        // Should be none, unless this thread was delayed.
        assert!(looks.join().expect("no panic") < EVENTS / 2);
    }
}
