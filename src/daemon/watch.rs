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

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

use super::changes::{Changes, Event};
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
#[derive(Debug)]
pub(super) struct Watch {
    requests: UnixStream,
}

impl Watch {
    pub(super) fn start<S: Service>(service: Arc<S>) -> std::io::Result<Self> {
        let (requests, received) = UnixStream::pair()?;
        requests.set_nonblocking(true)?;
        // It may read gigabytes while mail is served.
        start_patient_thread("watch", move || {
            watch(&*service, Changes::new(received));
        })?;
        Ok(Self { requests })
    }

    /// Loads everything again, changed or not.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
