//! Accepting connections, up to the limit of all workers together. No error ends it: after one, a worker pauses, and soon
//! tries again.
//!
//! At the limit, a mail server waits in the queue of the socket, which is better than a closed connection.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Resource, getrlimit, setrlimit};

use super::Options;
use super::socket::Socket;
use super::traffic::Traffic;
use crate::endpoint::Door;
use blocklist_filter::base::throttle::Throttle;

/// The number of the event of the first listening socket. Below this, it is the place of a connection.
pub(super) const SOCKETS: u64 = 1 << 32;

/// Wakes only one of the workers that wait for a socket: of those that have nothing to do, the one that was added first.
const NEW: EventFlags = EventFlags::IN.union(EventFlags::EXCLUSIVE);

/// A worker lets another one have the next connection after so many: queueing up takes two system calls.
const IN_A_ROW: u32 = 4;

/// Descriptors that a worker needs: its epoll, its bell, its copies of the sockets.
const DESCRIPTORS_A_WORKER: u64 = 8;
const DESCRIPTORS_SPARE: u64 = 32;

/// The listening sockets of a worker, which add their events to its epoll.
pub(super) struct Acceptor {
    epoll: Arc<OwnedFd>,
    sockets: Vec<(Door, Socket)>,
    limit: Arc<ConnectionLimit>,
    state: State,
    /// Connections since the worker has queued up.
    accepted: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// New connections wake the worker.
    Listening,
    /// The limit is reached, or an error must be waited out.
    Paused,
    Stopped,
}

impl Acceptor {
    pub(super) fn new(
        epoll: Arc<OwnedFd>,
        sockets: Vec<(Door, Socket)>,
        limit: Arc<ConnectionLimit>,
    ) -> io::Result<Self> {
        let mut acceptor = Self {
            epoll,
            sockets,
            limit,
            state: State::Paused,
            accepted: 0,
        };
        acceptor.listen()?;
        Ok(acceptor)
    }

    /// Accepts one connection, after the event with this number, and counts it.
    pub(super) fn accept(&mut self, event: u64) -> Option<(Socket, Door)> {
        if self.state != State::Listening {
            return None;
        }
        let number = usize::try_from(event.checked_sub(SOCKETS)?).ok()?;
        let (door, listener) = self.sockets.get(number)?;
        if !self.limit.take() {
            self.pause();
            return None;
        }
        match listener.accept() {
            Ok(stream) => {
                let door = *door;
                self.accepted += 1;
                if self.accepted >= IN_A_ROW {
                    self.accepted = 0;
                    if let Err(error) = self.queue_up(event, listener) {
                        self.wait_out(&error);
                    }
                }
                Some((stream, door))
            }
            Err(error) => {
                self.limit.give_back();
                match error.kind() {
                    // Another worker was faster, or the mail server has already closed the connection: not an error.
                    io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted => {}
                    _ => self.wait_out(&error),
                }
                None
            }
        }
    }

    /// Lets the next connection of a socket wake another worker. Otherwise the first worker would get all connections while it
    /// is not busy, and would be alone with them when all their mail servers send at once.
    fn queue_up(&self, event: u64, listener: &Socket) -> io::Result<()> {
        epoll::delete(&*self.epoll, listener)?;
        self.add(event, listener)
    }

    /// Waits for connections of a socket, behind the workers that already do. Those that are in its queue count, too.
    fn add(&self, event: u64, listener: &Socket) -> io::Result<()> {
        let data = EventData::new_u64(event);
        Ok(epoll::add(&*self.epoll, listener, data, NEW)?)
    }

    /// Notes that the connection that was accepted last could not be served.
    pub(super) fn give_up(&mut self, error: &io::Error) {
        self.limit.give_back();
        self.wait_out(error);
    }

    /// Pauses because of an error, for example a lack of descriptors or memory.
    fn wait_out(&mut self, error: &io::Error) {
        if self.limit.failing.is_due(Instant::now()) {
            tracing::error!(%error, "cannot accept connections, retrying");
        }
        self.pause();
    }

    /// Whether it would accept connections, and cannot.
    pub(super) fn is_paused(&self) -> bool {
        self.state == State::Paused
    }

    pub(super) fn try_again(&mut self) {
        if self.is_paused()
            && !self.limit.is_reached()
            && let Err(error) = self.listen()
        {
            self.wait_out(&error);
        }
    }

    pub(super) fn note_waiting(&self, now: Instant) {
        if self.is_paused() && self.limit.is_reached() && self.has_queue() {
            self.limit.note_waiting(now);
        }
    }

    pub(super) fn has_queue(&self) -> bool {
        let sockets = self.sockets.iter();
        let mut ready: Vec<PollFd<'_>> = sockets
            .map(|(_, socket)| PollFd::new(socket, PollFlags::IN))
            .collect();
        rustix::event::poll(&mut ready, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    pub(super) fn stop(&mut self) {
        self.pause();
        self.state = State::Stopped;
    }

    /// Stops, and closes its descriptors of the sockets.
    pub(super) fn close(&mut self) {
        self.stop();
        self.sockets.clear();
    }

    fn listen(&mut self) -> io::Result<()> {
        for (event, (_, listener)) in (SOCKETS..).zip(&self.sockets) {
            self.add(event, listener)?;
        }
        self.state = State::Listening;
        Ok(())
    }

    fn pause(&mut self) {
        for (_, listener) in &self.sockets {
            // It may not have been added.
            let _ = epoll::delete(&*self.epoll, listener);
        }
        self.state = State::Paused;
    }
}

pub(super) struct ConnectionLimit {
    open: AtomicUsize,
    connections_max: usize,
    /// A mail server is waiting, and was counted.
    is_waited: AtomicBool,
    full: Throttle<60>,
    failing: Throttle<60>,
    pub(super) traffic: Arc<Traffic>,
}

impl ConnectionLimit {
    pub(super) fn new(connections_max: usize, traffic: Arc<Traffic>) -> Self {
        Self {
            open: AtomicUsize::new(0),
            connections_max,
            is_waited: AtomicBool::new(false),
            full: Throttle::default(),
            failing: Throttle::default(),
            traffic,
        }
    }

    /// Counts a connection, if it is allowed.
    fn take(&self) -> bool {
        let add = |open| (open < self.connections_max).then_some(open + 1);
        self.open.fetch_update(Relaxed, Relaxed, add).is_ok()
    }

    /// Counts a connection that was taken over, allowed or not.
    pub(super) fn take_over(&self) {
        self.open.fetch_add(1, Relaxed);
    }

    pub(super) fn give_back(&self) {
        self.open.fetch_sub(1, Relaxed);
        self.is_waited.store(false, Relaxed);
    }

    fn is_reached(&self) -> bool {
        self.open.load(Relaxed) >= self.connections_max
    }

    /// Counts a mail server that must wait: once until the next connection is allowed, and again each minute.
    fn note_waiting(&self, now: Instant) {
        let is_new = !self.is_waited.swap(true, Relaxed);
        let is_due = self.full.is_due(now);
        if is_new || is_due {
            self.traffic.full.increment();
        }
        if is_due {
            tracing::warn!("connection limit reached, mail servers must wait");
        }
    }
}

/// The configured number of connections, or fewer if there are not enough descriptors. If connections used all descriptors,
/// the daemon could not open a new list.
pub(super) fn connections_max(options: &Options) -> usize {
    let Some(limit) = raise_descriptor_limit() else {
        return options.connections_max;
    };
    let open = fs::read_dir("/proc/self/fd").map_or(0, |open| open.count() as u64);
    // Twice, because a reload opens the new lists while the old ones are open.
    let beside = 2 * open + DESCRIPTORS_A_WORKER * options.workers as u64;
    let left = limit
        .saturating_sub(beside + DESCRIPTORS_SPARE)
        .max(limit / 4);
    let possible = usize::try_from(left).unwrap_or(usize::MAX);
    if possible >= options.connections_max {
        return options.connections_max;
    }
    tracing::warn!(
        descriptors = limit,
        wanted = options.connections_max,
        connections = possible,
        "the file descriptor limit is too low for limits.connections: raise LimitNOFILE"
    );
    possible.max(1)
}

/// Raises the limit as far as the system allows, and returns it; `None`: no limit. The usual limit at the start, 1,024, is
/// low because of `select`, which is not used here.
fn raise_descriptor_limit() -> Option<u64> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "cannot raise the file descriptor limit");
    }
    getrlimit(Resource::Nofile).current
}

#[cfg(test)]
mod tests {
    use crate::daemon::rig::{OFFER, Site};

    #[test]
    fn above_the_limit_mail_servers_wait() {
        let mut site = Site::new(2);
        let first = site.negotiated();
        let second = site.negotiated();
        // The limit is reached, and the queue is empty.
        site.wait(300);
        assert_eq!(site.traffic.full.get(), 0);
        let mut third = site.connect();
        third.send(OFFER);
        site.wait(50);
        assert_eq!((site.traffic.full.get(), third.answer()), (1, None));
        site.wait(60);
        assert_eq!(site.traffic.full.get(), 2);
        drop(first);
        site.wait(5);
        assert_eq!((site.traffic.full.get(), third.answer()), (2, Some(b'O')));
        let _fourth = site.connect();
        site.wait(5);
        assert_eq!(site.traffic.full.get(), 3);
        drop((second, third));
    }
}
