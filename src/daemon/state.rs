//! The state that a worker shares with one of its connections.
//!
//! A connection stores its deadline, and whether it is inside a message. Once a second, the worker ends connections whose
//! deadline has passed. So connections need no timers, and do not read the clock for each packet.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

/// From accept to the end of the negotiation.
const NEGOTIATION_SECONDS: u32 = 30;
/// From the first byte of a packet to its last.
pub(super) const PACKET_SECONDS: u32 = 60;
/// Between commands, as in libmilter: an SMTP client may be as slow as its mail server allows.
pub(super) const IDLE_SECONDS: u32 = 7210;
/// For the mail server to accept an answer.
pub(super) const WRITE_SECONDS: u32 = 30;

/// The deadline of a connection, in seconds of the worker's own count, and whether it is inside a message. The worker can ask
/// the connection to detach.
#[derive(Debug)]
pub(super) struct ConnectionState {
    /// The worker's seconds, incremented once a second.
    now: Arc<AtomicU32>,
    deadline: AtomicU32,
    last_active: AtomicU32,
    inside_message: AtomicBool,
    detaches: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl ConnectionState {
    /// The state of a connection that has just been accepted.
    pub(super) fn new(now: Arc<AtomicU32>) -> Self {
        let second = now.load(Relaxed);
        Self {
            now,
            deadline: AtomicU32::new(second + NEGOTIATION_SECONDS),
            last_active: AtomicU32::new(second),
            inside_message: AtomicBool::new(false),
            detaches: AtomicBool::new(false),
            waker: Mutex::new(None),
        }
    }

    /// Sets the task that serves the connection now, which is woken to detach. Call it before
    /// [`detaches`](Self::detaches).
    pub(super) fn wake_by(&self, cx: &Context<'_>) {
        let mut waker = self.waker();
        match &mut *waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => *waker = Some(cx.waker().clone()),
        }
    }

    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the connection to detach for another process.
    pub(super) fn detach(&self) {
        self.detaches.store(true, Relaxed);
        if let Some(waker) = &*self.waker() {
            waker.wake_by_ref();
        }
    }

    /// Whether it was asked to detach.
    pub(super) fn detaches(&self) -> bool {
        self.detaches.load(Relaxed)
    }

    /// The present second.
    pub(super) fn now(&self) -> u32 {
        self.now.load(Relaxed)
    }

    /// Whether its deadline has passed.
    pub(super) fn is_over(&self) -> bool {
        self.now.load(Relaxed) > self.deadline.load(Relaxed)
    }

    /// Whether it has been silent, and outside of a message, for this long.
    pub(super) fn is_idle_for(&self, seconds: u32) -> bool {
        !self.inside_message.load(Relaxed)
            && self.now.load(Relaxed) >= self.last_active.load(Relaxed) + seconds
    }

    /// Stores whether it is inside a message.
    pub(super) fn note_message(&self, inside: bool) {
        self.inside_message.store(inside, Relaxed);
    }

    /// Sets the deadline to this long from now.
    pub(super) fn extend(&self, seconds: u32) {
        let now = self.now.load(Relaxed);
        self.deadline.store(now + seconds, Relaxed);
        self.last_active.store(now, Relaxed);
    }
}
