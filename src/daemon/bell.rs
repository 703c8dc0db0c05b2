//! Wakes a worker from another thread: an answer is there, a connection comes back, the daemon stops. Many that ring before
//! it hears them cost one system call together. It also shows the others the time of the worker.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Acquire};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Wake, Waker};

use rustix::event::{EventfdFlags, eventfd};

use super::shutdown::Stop;
use super::watchdog::Heartbeat;
use blocklist_filter::base::lock::lock;

pub(super) struct Bell {
    /// Readable again after each ring. The worker watches for the edge, so nobody has to read it.
    event: OwnedFd,
    is_rung: AtomicBool,
    news: Mutex<News>,
    /// The seconds that the worker has counted.
    pub(super) heartbeat: Heartbeat,
}

#[derive(Default)]
pub(super) struct News {
    /// Connections to continue, by their place.
    pub(super) woken: Vec<usize>,
    pub(super) stop: Option<Stop>,
}

impl Bell {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            is_rung: AtomicBool::new(false),
            news: Mutex::default(),
            heartbeat: Heartbeat::default(),
        })
    }

    pub(super) fn ring(&self) {
        if !self.is_rung.swap(true, AcqRel) {
            // It fails only after 2^64 rings.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    pub(super) fn stop(&self, stop: Stop) {
        self.news().stop = Some(stop);
        self.ring();
    }

    /// Whether its worker hands over its connections, or drops them.
    pub(super) fn leaves(&self) -> bool {
        matches!(self.news().stop, Some(Stop::HandOver | Stop::Now))
    }

    /// Whether it was rung; from now on, the next ring wakes again.
    pub(super) fn is_heard(&self) -> bool {
        self.is_rung.load(Acquire) && self.is_rung.swap(false, AcqRel)
    }

    pub(super) fn news(&self) -> MutexGuard<'_, News> {
        lock(&self.news)
    }

    /// What wakes the worker for the connection in this place.
    pub(super) fn waker(self: &Arc<Self>, place: usize) -> Waker {
        let bell = Arc::clone(self);
        Waker::from(Arc::new(Rope { bell, place }))
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

struct Rope {
    bell: Arc<Bell>,
    place: usize,
}

impl Wake for Rope {
    fn wake(self: Arc<Self>) {
        self.bell.news().woken.push(self.place);
        self.bell.ring();
    }
}
