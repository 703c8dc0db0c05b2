//! The connection limit of all workers together.
//!
//! At the limit, no connections are accepted: a mail server then waits in the queue of the socket, which is better than a
//! closed connection.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::traffic::Traffic;
use crate::base::lock::lock;

/// A repeated message is logged again after this time.
const LOGGED_AGAIN: Duration = Duration::from_secs(60);

/// Counts the open connections.
pub(super) struct ConnectionLimit {
    open: AtomicUsize,
    connections_max: usize,
    /// A mail server is waiting, and was counted.
    is_waited: AtomicBool,
    full: Throttle,
    failing: Throttle,
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
    pub(super) fn take(&self) -> bool {
        let add = |open| (open < self.connections_max).then_some(open + 1);
        self.open.fetch_update(Relaxed, Relaxed, add).is_ok()
    }

    /// Counts a connection that was taken over, allowed or not.
    pub(super) fn take_over(&self) {
        self.open.fetch_add(1, Relaxed);
    }

    /// A connection has ended.
    pub(super) fn give_back(&self) {
        self.open.fetch_sub(1, Relaxed);
        self.is_waited.store(false, Relaxed);
    }

    /// Whether another connection is not allowed.
    pub(super) fn is_reached(&self) -> bool {
        self.open.load(Relaxed) >= self.connections_max
    }

    /// Counts a mail server that must wait: once until the next connection is allowed, and again each minute.
    pub(super) fn note_waiting(&self, now: Instant) {
        let is_new = !self.is_waited.swap(true, Relaxed);
        let is_due = self.full.is_due(now);
        if is_new || is_due {
            self.traffic.full.increment();
        }
        if is_due {
            tracing::warn!("connection limit reached, mail servers must wait");
        }
    }

    /// Logs that a connection cannot be accepted.
    pub(super) fn note_failure(&self, error: &std::io::Error, now: Instant) {
        if self.failing.is_due(now) {
            tracing::error!(%error, "cannot accept connections, retrying");
        }
    }
}

/// Limits a log message to once a minute.
#[derive(Default)]
struct Throttle(Mutex<Option<Instant>>);

impl Throttle {
    /// Whether it is to be logged now.
    fn is_due(&self, now: Instant) -> bool {
        let mut logged = lock(&self.0);
        let due = logged.is_none_or(|at| now.duration_since(at) >= LOGGED_AGAIN);
        if due {
            *logged = Some(now);
        }
        due
    }
}
