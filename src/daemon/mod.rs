//! The running program: all sockets, signals, threads and tasks.
//!
//! This module knows nothing about blocklists. It serves a [`Service`], which provides a [`Handler`] for each connection,
//! names the files to watch, and loads them again when they change.
//!
//! ```text
//!  main thread      starts and stops the others, when a signal says so
//!  watchdog         tells systemd that the workers and slow lanes make progress
//!  worker 1..n      accept, read, decide, write; each waits for all its connections at once
//!  slow lane 1..n   long steps, so that other connections of the worker do not wait
//!  reader 1..n      read files, so that workers and slow lanes never wait for a disk
//!  watch            watches folders, polls; loads changed files
//!  status           pages for monitoring the daemon (see `http`)
//!  log              writes lines, or drops them (see `logging`)
//! ```
//!
//! They are started in the reverse order, and stopped in this order: first no new connections are accepted, then the
//! connections are handed over or end, then the readers, the pages and the log end.
//!
//! During a restart, no SMTP session should lose its filter, because Postfix and Sendmail never reconnect within a session.
//! So new sessions wait in a socket that systemd holds, and those in progress are handed to the next process
//! (`handover`). Without systemd's descriptor store, the process ends as described in `shutdown`. Rejected alternatives:
//!
//! - The old process serves its sessions to their end. But a client may stay for hours, both processes have the filters in
//!   memory, and systemd starts the new process only when the old one has ended.
//! - The old process starts the new one. But then an upgrade is not `systemctl restart`, and a program that starts programs
//!   cannot be confined.

mod accept;
mod bell;
mod calls;
mod confine;
mod connection;
mod connections;
mod error;
mod handover;
mod http;
mod listen;
pub mod logging;
mod readers;
#[cfg(test)]
mod rig;
mod shutdown;
mod signals;
mod slow_lane;
mod socket;
mod traffic;
mod unix_socket;
mod watch;
mod watchdog;
mod worker;

use std::io;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

pub use calls::limit_calls;
pub use confine::{Confined, Needs, keep_memory_private, limit_files};
pub use error::Error;
pub use http::{Asker, Page, fetch};
pub(crate) use listen::{inherits_sockets, obstacle};
pub use readers::{Job, Readers};
pub(crate) use signals::{ask_for_reload, outlive_hangup};
pub use traffic::{Cut, Traffic};
pub use watch::Cause;

use crate::endpoint::{Door, DoorState, Endpoint, Listen};
use crate::milter::Handler;
use accept::{ConnectionLimit, connections_max};
use bell::Bell;
use blocklist_filter::base::lock::lock;
use connections::Means;
use handover::{CONNECTIONS, Detached};
use listen::{Listeners, Open};
use shutdown::Stop;
use slow_lane::SlowLane;
use watch::{Watch, tell};
use watchdog::Heartbeat;
use worker::Worker;

/// What a daemon serves.
pub trait Service: Send + Sync + 'static {
    /// Decides about the messages of one connection.
    type Handler: Handler + Send + 'static;

    /// A handler for a new connection at a door. Called on the threads that serve mail: it must
    /// not wait.
    fn handler(&self, door: Door) -> Self::Handler;

    /// The files to watch. Called again after each reload.
    fn watched(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Whether a file has changed since it was loaded, or must be loaded again now. Called after changes in the folders of
    /// the watched files, and regularly.
    fn is_out_of_date(&self) -> bool {
        false
    }

    /// Loads the files again. Called on a separate thread, on which it may take any time; never twice at once.
    fn reload(&self, _cause: Cause) {}

    /// Regular work. Called on the same thread as [`reload`](Self::reload), after it and every half minute; `false`: call
    /// again in a second, [`is_out_of_date`](Self::is_out_of_date) too.
    fn upkeep(&self) -> bool {
        true
    }

    /// Takes which sockets for mail servers are open. Called once, before mail is served.
    fn note_doors(&self, _doors: &[DoorState]) {}

    /// Where to count connections.
    fn traffic(&self) -> Arc<Traffic> {
        Arc::default()
    }

    /// The page at a path of the status socket. Called on a separate thread.
    fn page(&self, _path: &str, _asker: Asker) -> Page {
        Page::text(404, "not found\n")
    }

    /// Regular work for the pages. Called on the same thread, every few seconds.
    fn tick(&self) {}

    /// The state, in one line for the service manager. Called after [`upkeep`](Self::upkeep).
    fn status(&self) -> String {
        String::new()
    }
}

/// How a daemon runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// The sockets to open, unless systemd passes some.
    pub listen: Vec<Listen>,
    /// Address of the status socket, unless systemd passes one.
    pub status: Option<Endpoint>,
    /// Threads that serve connections.
    pub workers: usize,
    /// Connections at a time; above that mail servers wait to be accepted.
    pub connections_max: usize,
    /// How long messages in progress may take when the daemon stops.
    pub drain: Duration,
    /// Whether [`run`] gives up the system calls that it does not need, when all sockets are open.
    pub limit_calls: bool,
}

enum Event {
    Stop,
    Reload,
    /// A worker has ended, with the connections that have detached; `None`: it has failed.
    Ended(Option<Vec<Detached>>),
}

/// A running daemon. Dropping it ends it without waiting.
pub struct Daemon {
    listeners: Listeners,
    _status: Option<http::Server>,
    /// Of the workers.
    bells: Vec<Arc<Bell>>,
    /// Of the workers, then of the slow lanes.
    heartbeats: Vec<Heartbeat>,
    /// In a mutex, because a receiver by itself cannot be shared.
    events: Mutex<Receiver<Event>>,
    watch: Watch,
}

impl Daemon {
    /// Opens the sockets and begins to serve. Does not handle signals.
    ///
    /// # Errors
    /// It has no socket, or cannot start a thread.
    pub fn start<S: Service>(options: &Options, service: &Arc<S>) -> Result<Self, Error> {
        Self::start_with(options, service, channel())
    }

    fn start_with<S: Service>(
        options: &Options,
        service: &Arc<S>,
        (sender, events): (Sender<Event>, Receiver<Event>),
    ) -> Result<Self, Error> {
        let mut listeners = Listeners::open(&options.listen)?;
        service.note_doors(&listeners.doors);
        let mut taken = take_over(&std::mem::take(&mut listeners.left_behind));
        let status = serve_pages(&mut listeners, options.status.as_ref(), service);
        let watch = Watch::start(Arc::clone(service)).map_err(Error::Start)?;
        let limit = ConnectionLimit::new(options.connections_max, service.traffic());
        let limit = Arc::new(limit);
        let slow_lanes = SlowLane::start_for(options.workers).map_err(Error::Start)?;
        let mut daemon = Self {
            listeners,
            _status: status,
            bells: Vec::new(),
            heartbeats: Vec::new(),
            events: Mutex::new(events),
            watch,
        };
        for (n, slow_lane) in (1..=options.workers).zip(slow_lanes.iter().cycle()) {
            // The last worker takes the rest.
            let share = taken.len() / (options.workers - n + 1);
            let share = taken.split_off(taken.len() - share);
            let bell = Arc::new(Bell::new().map_err(Error::Start)?);
            let means = Means {
                bell: Arc::clone(&bell),
                service: Arc::clone(service),
                limit: Arc::clone(&limit),
                slow_lane: Arc::clone(slow_lane),
                drain: options.drain,
            };
            let sockets = daemon.listeners.try_clone().map_err(Error::Start)?;
            let mut worker = Worker::new(sockets, means).map_err(Error::Start)?;
            for connection in share {
                worker.connections.resume(connection);
            }
            daemon.heartbeats.push(Arc::clone(&bell.heartbeat));
            daemon.bells.push(Arc::clone(&bell));
            let events = sender.clone();
            let work = move || {
                let ended = catch_unwind(AssertUnwindSafe(|| worker.run()));
                bell.heartbeat.store(watchdog::ENDED, Relaxed);
                // If the whole daemon is gone, there is no receiver.
                let _ = events.send(Event::Ended(ended.ok().and_then(Result::ok)));
            };
            start_thread(format!("worker {n}"), work).map_err(Error::Start)?;
        }
        let beats = slow_lanes.iter().map(|lane| Arc::clone(&lane.heartbeat));
        daemon.heartbeats.extend(beats);
        Ok(daemon)
    }

    /// The addresses on which it listens. If port 0 was configured, with the port that the system has chosen.
    pub fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.listeners.mail.iter().map(|open| &open.endpoint)
    }

    /// Stops accepting connections. Open ones may finish, or detach.
    fn drain(&mut self) {
        let (stop, what) = match (handover::is_possible(), self.listeners.inherited) {
            (true, _) => (Stop::HandOver, "handing over connections"),
            (false, true) => (Stop::Stay, "waiting for connections to close"),
            (false, false) => (Stop::Finish, "finishing messages in progress"),
        };
        tracing::info!("stopping, {what}");
        self.tell_workers(stop);
        let listeners = std::mem::take(&mut self.listeners);
        if stop == Stop::HandOver {
            listeners.hand_over();
        }
    }

    fn tell_workers(&self, stop: Stop) {
        self.bells.iter().for_each(|bell| bell.stop(stop));
    }

    /// Stops the daemon in an orderly way. Connections are handed to the next process. If there is no descriptor store,
    /// messages in progress may finish, for at most [`Options::drain`].
    ///
    /// # Errors
    /// [`Error::Worker`], if a thread that served mail has failed.
    pub fn stop(mut self) -> Result<(), Error> {
        self.drain();
        let (mut ended, mut failed, mut detached) = (0, false, Vec::new());
        let mut until: Option<Instant> = None;
        while ended < self.bells.len() {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            match lock(&self.events).recv_timeout(left.unwrap_or(Duration::MAX)) {
                Ok(Event::Stop) if until.is_none() => {
                    tracing::warn!("second signal to stop, closing connections at once");
                    // Detached connections are still handed over.
                    self.tell_workers(Stop::Now);
                    until = Some(Instant::now() + CUT_PATIENCE);
                }
                Ok(Event::Stop | Event::Reload) => {}
                Ok(Event::Ended(connections)) => {
                    ended += 1;
                    failed |= connections.is_none();
                    detached.extend(connections.into_iter().flatten());
                }
                // A thread hangs.
                Err(_) => return Err(Error::Worker),
            }
        }
        if !detached.is_empty() {
            let mut given = 0;
            if let Err(error) = handover::give(&detached, &mut given) {
                let connections = detached.len() - given;
                tracing::error!(connections, %error, "cannot hand over connections, closing them");
            }
            tracing::info!(connections = given, "handed over");
        }
        if failed { Err(Error::Worker) } else { Ok(()) }
    }
}

/// Serves the status pages. Errors here must not affect mail.
fn serve_pages<S: Service>(
    listeners: &mut Listeners,
    wanted: Option<&Endpoint>,
    service: &Arc<S>,
) -> Option<http::Server> {
    if listeners.status.is_empty()
        && let Some(endpoint) = wanted
        && let Err(error) =
            Open::at(endpoint, Door::Milter, None).map(|open| listeners.status.push(open))
    {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        tracing::warn!(%error, cause, "no status pages: see [status] in the configuration");
    }
    if listeners.status.is_empty() {
        return None;
    }
    let sockets = listeners.status.iter();
    let sockets: io::Result<_> = sockets.map(|open| open.listener.try_clone()).collect();
    let server = sockets.and_then(|sockets| http::start(sockets, service));
    let server = server.inspect_err(|error| {
        tracing::error!(%error, "no status pages");
        // Nobody would answer there.
        listeners.status.clear();
    });
    server.ok()
}

/// The connections of the previous process, and those of an earlier process that were not taken over.
fn take_over(left_behind: &[UnixStream]) -> Vec<Detached> {
    if left_behind.is_empty() {
        return Vec::new();
    }
    let take = |store| {
        handover::take(store).unwrap_or_else(|error| {
            tracing::error!(%error, "cannot take over the connections of the previous process");
            Vec::new()
        })
    };
    let taken: Vec<Detached> = left_behind.iter().flat_map(take).collect();
    handover::forget(CONNECTIONS);
    tracing::info!(connections = taken.len(), "taken over");
    taken
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Those that have ended do not hear it.
        self.tell_workers(Stop::Finish);
    }
}

/// Runs a daemon until SIGTERM or SIGINT, then stops it in an orderly way. A second signal closes the connections that are
/// still open.
///
/// # Errors
/// It cannot start, or one of its threads fails.
pub fn run<S: Service>(options: &Options, service: &Arc<S>) -> Result<(), Error> {
    let (sender, events) = channel();
    signals::listen(sender.clone()).map_err(Error::Start)?;
    let options = Options {
        connections_max: connections_max(options),
        ..options.clone()
    };
    let daemon = Daemon::start_with(&options, service, (sender, events))?;
    watchdog::start(daemon.heartbeats.clone(), daemon.bells.len()).map_err(Error::Start)?;
    if options.limit_calls
        && let Err(why) = limit_calls()
    {
        tracing::warn!(why, "system calls are not limited");
    }
    for endpoint in daemon.endpoints() {
        tracing::info!(%endpoint, "listening");
    }
    tell(&[NotifyState::Ready, NotifyState::Status(&service.status())]);
    loop {
        match lock(&daemon.events).recv() {
            Ok(Event::Stop) => break,
            Ok(Event::Reload) => daemon.watch.reload(),
            Ok(Event::Ended(_)) | Err(_) => return Err(Error::Worker),
        }
    }
    tell(&[NotifyState::Stopping]);
    daemon.stop()
}

/// How long to wait for the threads to end after a second signal.
const CUT_PATIENCE: Duration = Duration::from_secs(2);

fn start_thread(name: impl Into<String>, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().name(name.into());
    thread.spawn(work).map(drop)
}

/// Starts a thread that may wait: it has a lower priority, so that the workers run first.
fn start_patient_thread(
    name: impl Into<String>,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    // How much lower it is (`man 7 sched`: "The nice value").
    const NICE: i32 = 10;
    start_thread(name, || {
        // Of this thread alone: on Linux, each has its own.
        if let Err(error) = rustix::process::setpriority_process(None, NICE) {
            let thread = thread::current();
            tracing::warn!(thread = thread.name(), %error, "cannot lower the priority of a thread");
        }
        work();
    })
}
