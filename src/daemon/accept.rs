//! Accepting connections up to the limit. Errors never end this loop.
//!
//! At the limit, no connections are accepted: a mail server then waits in the queue of the socket, which is better than a
//! closed connection.
//!
//! A worker takes a permit before it accepts. So one worker may be without a permit while an idle one has the last, and no
//! mail server waits. A wait is counted only if the limit is reached and a mail server is in the queue.

use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};

use super::socket::{Socket, Stream};
use super::traffic::Traffic;
use crate::endpoint::Door;

/// How long accepting pauses when the process has no descriptors or no memory left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often the queue is checked while the limit is reached.
const QUEUE_LOOK: Duration = Duration::from_millis(100);
/// A repeated message is logged again after this time.
const LOGGED_AGAIN: Duration = Duration::from_secs(60);

/// The connection limit of all workers together.
pub(super) struct ConnectionLimit {
    /// One permit for each allowed connection.
    permits: Arc<Semaphore>,
    connections_max: u64,
    /// A mail server is waiting, and was counted.
    is_waited: AtomicBool,
    full: Throttle,
    failing: Throttle,
    pub(super) traffic: Arc<Traffic>,
}

impl ConnectionLimit {
    pub(super) fn new(connections_max: usize, traffic: Arc<Traffic>) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(connections_max)),
            connections_max: connections_max as u64,
            is_waited: AtomicBool::new(false),
            full: Throttle::default(),
            failing: Throttle::default(),
            traffic,
        }
    }

    /// A permit, if one is available now.
    pub(super) fn try_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).try_acquire_owned().ok()
    }

    /// Waits for a permit.
    async fn permit(&self, sockets: &[(Door, Socket)]) -> OwnedSemaphorePermit {
        if let Some(permit) = self.try_permit() {
            self.is_waited.store(false, Relaxed);
            return permit;
        }
        loop {
            self.look_at_queue(sockets);
            let permit = Arc::clone(&self.permits).acquire_owned();
            if let Ok(permit) = timeout(QUEUE_LOOK, permit).await {
                self.is_waited.store(false, Relaxed);
                return permit.expect("this semaphore is never closed");
            }
        }
    }

    /// Counts a mail server that must wait: once until the next connection is allowed, and again each minute.
    fn look_at_queue(&self, sockets: &[(Door, Socket)]) {
        let is_reached = self.traffic.open() >= self.connections_max;
        if !is_reached || !sockets.iter().any(|(_, socket)| socket.has_queue()) {
            return;
        }
        let is_new = !self.is_waited.swap(true, Relaxed);
        let is_due = self.full.is_due();
        if is_new || is_due {
            self.traffic.full.increment();
        }
        if is_due {
            tracing::warn!("connection limit reached, mail servers must wait");
        }
    }
}

/// Limits a log message to once a minute.
#[derive(Default)]
struct Throttle(Mutex<Option<Instant>>);

impl Throttle {
    /// Whether it is to be logged now.
    fn is_due(&self) -> bool {
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = logged.is_none_or(|at| at.elapsed() >= LOGGED_AGAIN);
        if due {
            *logged = Some(Instant::now());
        }
        due
    }
}

/// The next connection, as soon as one is allowed. Never fails: after an error it waits and tries again.
pub(super) async fn accept(
    sockets: &[(Door, Socket)],
    limit: &ConnectionLimit,
) -> (Stream, Door, OwnedSemaphorePermit) {
    let permit = limit.permit(sockets).await;
    loop {
        let accepted = poll_fn(|cx| {
            let mut ready = sockets
                .iter()
                .map(|(door, socket)| socket.poll_accept(cx).map_ok(|stream| (stream, *door)));
            ready.find(Poll::is_ready).unwrap_or(Poll::Pending)
        });
        match accepted.await {
            Ok((stream, door)) => return (stream, door, permit),
            // The mail server has already closed the connection: not an error.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                if limit.failing.is_due() {
                    tracing::error!(%error, "cannot accept connections, retrying");
                }
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::listen::Listener;
    use crate::daemon::rig::{OFFER, Site};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test(start_paused = true)]
    async fn what_goes_on_is_logged_once_a_minute() {
        let throttle = Throttle::default();
        assert!(throttle.is_due());
        assert!(!throttle.is_due());
        sleep(LOGGED_AGAIN - Duration::from_secs(1)).await;
        assert!(!throttle.is_due());
        sleep(Duration::from_secs(1)).await;
        assert!(throttle.is_due());
        assert!(!throttle.is_due());
    }

    #[tokio::test(start_paused = true)]
    async fn above_the_limit_mail_servers_wait() {
        let site = Site::new(2);
        let first = site.negotiated().await;
        let _second = site.negotiated().await;
        let mut third = site.connect().await;
        third.write_all(OFFER).await.expect("written");
        sleep(Duration::from_secs(10)).await;
        assert!(third.try_read(&mut [0; 1]).is_err(), "nothing to read yet");
        drop(first);
        let mut answer = [0; 17];
        third.read_exact(&mut answer).await.expect("an answer");
        assert_eq!(site.limit.permits.available_permits(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_is_counted_once_where_somebody_waits() {
        let site = Site::new(2);
        let waits = || site.limit.traffic.full.get();
        let first = site.negotiated().await;
        let second = site.negotiated().await;
        // The limit is reached, and the queue is empty.
        sleep(Duration::from_secs(300)).await;
        assert_eq!(waits(), 0);
        let third = site.connect().await;
        // The worker's wait is interrupted each second.
        sleep(Duration::from_secs(50)).await;
        assert_eq!(waits(), 1);
        sleep(Duration::from_secs(60)).await;
        assert_eq!(waits(), 2);
        drop(first);
        sleep(Duration::from_secs(5)).await;
        assert_eq!(waits(), 2);
        let _fourth = site.connect().await;
        sleep(Duration::from_secs(5)).await;
        assert_eq!(waits(), 3);
        drop((second, third));
    }

    /// Two workers and one permit: the worker without a permit does not count as a waiting mail server.
    #[tokio::test(start_paused = true)]
    async fn an_idle_worker_keeps_nobody_waiting() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("m");
        let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
        listener.set_nonblocking(true).expect("a socket");
        let listener = Listener::Unix(listener);
        let sockets = [&listener, &listener].map(|listener| {
            let other = listener.try_clone().expect("a descriptor");
            [(Door::Milter, Socket::new(other).expect("a socket"))]
        });
        let limit = ConnectionLimit::new(1, Arc::default());
        let [first, second] = sockets.each_ref().map(|sockets| accept(sockets, &limit));
        let both = async { tokio::join!(first, second) };
        assert!(timeout(Duration::from_secs(30), both).await.is_err());
        assert_eq!(limit.traffic.full.get(), 0);
    }
}
