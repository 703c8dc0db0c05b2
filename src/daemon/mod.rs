//! The running program: whatever holds a socket, a signal, a thread or a task.
//!
//! It knows nothing of blocklists. What it serves is a [`Service`]: that gives it a
//! [`Handler`] for each connection, names the files to watch, and loads them again when
//! they change.
//!
//! ```text
//!  main thread      signals, watchdog; starts and stops the others
//!  worker 1..n      accept, read, decide, write; one runtime of one thread each
//!  slow lane 1..n   long work for the workers, which make no connection wait for another
//!  reader 1..n      read files for both, which never wait for a disk
//!  watch            folders, polls; loads what changed
//!  status           pages for monitoring the daemon (see `http`)
//!  log              writes lines, or loses them (see `logging`)
//! ```
//!
//! Started in that order's reverse, stopped in this: first nobody new is let in, then
//! the connections leave or end, then the rest goes.
//!
//! A restart should cost no SMTP session its filter, and Postfix and Sendmail never give
//! one back that has lost it. So new sessions wait in a socket that systemd holds, and
//! those under way are handed to the next process (`handover`). Ways that were not taken:
//!
//! - The old process serves its sessions to their end beside the new one. A client may stay
//!   for hours; both hold the filters in memory; systemd starts nothing before the main
//!   process has ended, unless `KillMode=none` (deprecated, and a hung process is never
//!   killed) or a parent process that does nothing else hides that it has not.
//! - The old process starts the new one and hands over by itself. That is another command
//!   than `systemctl restart`, and a program that starts programs cannot be locked in.
//!
//! Without systemd's descriptor store the process ends on its own (`shutdown`).

mod accept;
mod calls;
mod changes;
mod confine;
mod connection;
mod connections;
mod descriptors;
mod error;
mod handover;
mod http;
mod listen;
pub mod logging;
mod priority;
mod readers;
#[cfg(test)]
mod rig;
mod shutdown;
mod signals;
mod slow_lane;
mod socket;
mod state;
mod traffic;
mod unix_socket;
mod watch;
mod watchdog;
mod worker;

use std::io;
use std::num::NonZeroUsize;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::sync::{mpsc, watch as latest};

pub use calls::limit_calls;
pub use confine::{Confined, Needs, keep_memory_private, limit_files};
pub use error::Error;
pub use http::{Page, fetch};
pub use listen::inherits_sockets;
pub use readers::{Deadline, Readers, Waiting};
pub use signals::{ask_for_reload, outlive_hangup};
pub use traffic::{Cut, Traffic};
pub use unix_socket::{SocketAccess, group_number};
pub use watch::Cause;

use crate::endpoint::Endpoint;
use crate::milter::Handler;
use accept::ConnectionLimit;
use descriptors::connections_max;
use handover::{CONNECTIONS, Detached};
use listen::Listeners;
use shutdown::Stop;
use signals::{Request, Signals};
use slow_lane::SlowLane;
use watch::{Watch, tell};
use watchdog::{Heartbeat, Watchdog};
use worker::Shared;

/// What a daemon serves.
pub trait Service: Send + Sync + 'static {
    /// Decides about the messages of one connection.
    type Handler: Handler + Send + 'static;

    /// A handler for a new connection. Called on the threads that serve mail: it must
    /// not wait.
    fn handler(&self) -> Self::Handler;

    /// The files whose change is to be noticed. Asked again after each reload.
    fn watched(&self) -> Vec<PathBuf>;

    /// Loads the files again; `false` if what runs is not what they say, and it is to be
    /// tried again after a while. Called on a thread of its own, which may take its
    /// time; never twice at once. The first call comes at the start, for what may have
    /// changed since the files were loaded.
    fn reload(&self, cause: Cause) -> bool;

    /// Does what is to be done now and then. Called on the same thread as
    /// [`reload`](Self::reload), after it and every half minute; `false`: again in a second.
    fn upkeep(&self) -> bool {
        true
    }

    /// Where to count connections.
    fn traffic(&self) -> Arc<Traffic> {
        Arc::default()
    }

    /// The page at a path of the status socket. Called on a thread of its own.
    fn page(&self, _path: &str) -> Page {
        Page::text(404, "not found\n")
    }

    /// Does what the pages need now and then, on the same thread, every few seconds.
    fn tick(&self) {}

    /// How it is, in one line for the service manager. Called after
    /// [`upkeep`](Self::upkeep).
    fn status(&self) -> String {
        String::new()
    }
}

/// How a daemon runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// The sockets to open, unless systemd hands some over.
    pub listen: Vec<Endpoint>,
    /// Who may connect to the unix sockets among them.
    pub access: SocketAccess,
    /// Where to serve pages, unless systemd hands over a socket for that, and to whom.
    pub status: Option<(Endpoint, SocketAccess)>,
    /// Threads that serve connections; `None`: one per processor.
    pub workers: Option<NonZeroUsize>,
    /// Connections at a time; above that mail servers wait to be accepted.
    pub connections_max: usize,
    /// How long messages under way may take when the daemon ends.
    pub drain: Duration,
    /// Whether [`run`] gives up, once all sockets are open, the system calls that it does not need.
    pub limit_calls: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            access: SocketAccess::default(),
            status: None,
            workers: None,
            connections_max: 10_000,
            drain: Duration::from_secs(5),
            limit_calls: false,
        }
    }
}

impl Options {
    fn worker_count(&self) -> usize {
        self.workers
            .or_else(|| thread::available_parallelism().ok())
            .map_or(1, NonZeroUsize::get)
    }
}

/// A running daemon. Dropping it ends it without waiting for anything.
#[derive(Debug)]
pub struct Daemon {
    listeners: Listeners,
    _status: Option<http::Server>,
    stop: latest::Sender<Option<Stop>>,
    workers: Vec<JoinHandle<io::Result<Vec<Detached>>>>,
    /// Of the workers, then of the slow lanes.
    heartbeats: Vec<Heartbeat>,
    /// They end after the workers.
    _slow_lanes: Vec<SlowLane>,
    /// One message from each worker that ends; closed when all have.
    ended: mpsc::UnboundedReceiver<()>,
    watch: Watch,
}

impl Daemon {
    /// Opens the sockets and begins to serve. Signals are left alone.
    ///
    /// # Errors
    /// [`Error`], when a socket cannot be opened or a thread cannot be had.
    pub fn start<S: Service>(options: &Options, service: &Arc<S>) -> Result<Self, Error> {
        let mut listeners = Listeners::open(&options.listen, &options.access)?;
        let mut taken = take_over(&std::mem::take(&mut listeners.left_behind));
        let status = serve_pages(&mut listeners, options.status.as_ref(), service);
        let watch = Watch::start(Arc::clone(service)).map_err(Error::Start)?;
        let (stop, stopped) = latest::channel(None);
        let (ending, ended) = mpsc::unbounded_channel();
        let limit = Arc::new(ConnectionLimit::new(
            options.connections_max,
            service.traffic(),
        ));
        let mut workers = Vec::new();
        let mut heartbeats = Vec::new();
        let worker_count = options.worker_count();
        let slow_lanes = SlowLane::start_for(worker_count).map_err(Error::Start)?;
        let lanes = slow_lanes.iter().cycle();
        for (n, slow_lane) in (1..=worker_count).zip(lanes) {
            // The last one takes the rest.
            let share = taken.len() / (worker_count - n + 1);
            let share = taken.split_off(taken.len() - share);
            let heartbeat = Heartbeat::default();
            heartbeats.push(Arc::clone(&heartbeat));
            let shared = Shared {
                service: Arc::clone(service),
                heartbeat: Arc::clone(&heartbeat),
                limit: Arc::clone(&limit),
                slow_lane: slow_lane.handle(),
                stop: stopped.clone(),
                drain: options.drain,
            };
            let sockets = listeners.open.iter().map(listen::Listener::try_clone);
            let sockets = sockets
                .collect::<io::Result<Vec<_>>>()
                .map_err(Error::Start)?;
            let ending = Ending {
                heartbeat,
                ended: ending.clone(),
            };
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(Error::Start)?;
            let work = move || {
                let _ending = ending;
                runtime.block_on(worker::run(sockets, share, shared))
            };
            let thread = thread::Builder::new()
                .name(format!("worker {n}"))
                .spawn(work);
            workers.push(thread.map_err(Error::Start)?);
        }
        heartbeats.extend(slow_lanes.iter().map(SlowLane::heartbeat));
        Ok(Self {
            listeners,
            _status: status,
            stop,
            workers,
            heartbeats,
            _slow_lanes: slow_lanes,
            ended,
            watch,
        })
    }

    /// Where it listens: with the port that was chosen, where 0 was asked for.
    #[must_use]
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.listeners.endpoints
    }

    /// Lets nobody new in. Connections may finish, or detach.
    fn drain(&mut self) {
        let (stop, what) = match (handover::is_possible(), self.listeners.inherited) {
            (true, _) => (Stop::HandOver, "handing over connections"),
            (false, true) => (Stop::Stay, "waiting for connections to close"),
            (false, false) => (Stop::Finish, "finishing messages in progress"),
        };
        tracing::info!("ending, {what}");
        self.stop.send_replace(Some(stop));
        let listeners = std::mem::take(&mut self.listeners);
        if stop == Stop::HandOver {
            listeners.hand_over();
        }
    }

    /// Ends it in order: connections are handed to the next process; where there is nobody
    /// to keep them meanwhile, finishing messages in progress, but for no longer than
    /// [`Options::drain`].
    ///
    /// # Errors
    /// [`Error::Worker`], when a thread that served mail had failed.
    pub fn stop(mut self) -> Result<(), Error> {
        if self.stop.borrow().is_none() {
            self.drain();
        }
        let mut detached = Vec::new();
        let mut failed = false;
        for worker in self.workers.drain(..) {
            match worker.join() {
                Ok(Ok(connections)) => detached.extend(connections),
                Ok(Err(_)) | Err(_) => failed = true,
            }
        }
        if !detached.is_empty() {
            match handover::give(&detached) {
                Ok(()) => tracing::info!(connections = detached.len(), "handed over"),
                Err(error) => tracing::error!(
                    connections = detached.len(),
                    %error,
                    "cannot hand over connections, closing them"
                ),
            }
        }
        if failed { Err(Error::Worker) } else { Ok(()) }
    }
}

/// Serves the status pages. What goes wrong there must not keep mail waiting.
fn serve_pages<S: Service>(
    listeners: &mut Listeners,
    wanted: Option<&(Endpoint, SocketAccess)>,
    service: &Arc<S>,
) -> Option<http::Server> {
    if let Some((endpoint, access)) = wanted
        && let Err(error) = listeners.open_status(endpoint, access)
    {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        tracing::warn!(%error, cause, "no status pages: see [status] in the configuration");
    }
    let sockets = std::mem::take(&mut listeners.status);
    if sockets.is_empty() {
        return None;
    }
    let server = http::Server::start(sockets, service);
    server
        .inspect_err(|error| tracing::error!(%error, "no status pages"))
        .ok()
}

/// The connections of the previous process, and of one before it that nobody has taken over.
fn take_over(left_behind: &[UnixStream]) -> Vec<Detached> {
    if left_behind.is_empty() {
        return Vec::new();
    }
    let mut taken = Vec::new();
    for store in left_behind {
        match handover::take(store) {
            Ok(connections) => taken.extend(connections),
            Err(error) => {
                tracing::error!(%error, "cannot take over the connections of the previous process");
            }
        }
    }
    handover::forget(CONNECTIONS);
    tracing::info!(connections = taken.len(), "taken over");
    taken
}

/// Says so when it is dropped, in whatever way its thread ends.
struct Ending {
    heartbeat: Heartbeat,
    ended: mpsc::UnboundedSender<()>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.heartbeat.store(watchdog::ENDED, Relaxed);
        // Nobody listens any more when the daemon is gone as a whole.
        let _ = self.ended.send(());
    }
}

/// Runs a daemon until SIGTERM or SIGINT, then lets it finish what it is doing. A second
/// signal closes the connections that are still open.
///
/// # Errors
/// [`Error`], when it cannot start, or one of its threads fails.
pub fn run<S: Service>(options: &Options, service: &Arc<S>) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::Start)?;
    let mut signals = {
        let _inside = runtime.enter();
        Signals::listen().map_err(Error::Start)?
    };
    let options = Options {
        connections_max: connections_max(options),
        ..options.clone()
    };
    let mut daemon = Daemon::start(&options, service)?;
    if options.limit_calls
        && let Confined::Not(why) = calls::limit_calls()
    {
        tracing::warn!(why, "system calls are not limited");
    }
    for endpoint in daemon.endpoints() {
        tracing::info!(%endpoint, "listening");
    }
    tell(&[NotifyState::Ready, NotifyState::Status(&service.status())]);
    let mut watchdog = {
        let _inside = runtime.enter();
        Watchdog::from_env()
    };
    let failed = runtime.block_on(async {
        loop {
            tokio::select! {
                request = signals.next() => match request {
                    Request::Stop => break false,
                    Request::Reload => daemon.watch.reload(),
                },
                _ = daemon.ended.recv() => break true,
                () = watchdog.watch(&daemon.heartbeats, daemon.workers.len()) => {}
            }
        }
    });
    if failed {
        return Err(Error::Worker);
    }
    tell(&[NotifyState::Stopping]);
    daemon.drain();
    let cut = runtime.block_on(async {
        loop {
            tokio::select! {
                request = signals.next() => match request {
                    Request::Stop => break true,
                    Request::Reload => {}
                },
                // `None`: all workers have ended.
                ended = daemon.ended.recv() => if ended.is_none() { break false },
                () = watchdog.watch(&daemon.heartbeats, daemon.workers.len()) => {}
            }
        }
    });
    if cut {
        tracing::warn!("second signal to stop, closing connections at once");
        daemon.stop.send_replace(Some(Stop::Now));
        // Those that have detached are still handed over; a thread that hangs is not waited for.
        let ended = async { while daemon.ended.recv().await.is_some() {} };
        let ended = runtime.block_on(async { tokio::time::timeout(CUT_PATIENCE, ended).await });
        if ended.is_err() {
            return Err(Error::Worker);
        }
    }
    daemon.stop()
}

/// For the threads to end after a second signal.
const CUT_PATIENCE: Duration = Duration::from_secs(2);
