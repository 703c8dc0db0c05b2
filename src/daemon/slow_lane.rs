//! Threads for long steps of connections, so that other connections do not wait for them: one for two workers.
//!
//! ```text
//!   worker --connection--> queue --> slow lane      one step of each connection at a time
//!     ^                                  |
//!     +------------ connection ----------+
//! ```
//!
//! If the machine is overloaded, the workers run first. A connection is not read from while it is here, so the number of
//! connections limits the queue. There is no timeout here: the mail server decides how long it waits for an answer.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::task::{Context, Waker};
use std::time::Duration;

use super::bell::Bell;
use super::connection::{Connection, Ended};
use super::start_patient_thread;
use super::traffic::Cut;
use super::watchdog::{ENDED, Heartbeat};
use crate::milter::Handler;

/// Workers per slow lane: long steps never use more than half of the processors.
const WORKERS_A_LANE: usize = 2;
/// How often its heartbeat advances while it has nothing to do.
const BEAT: Duration = Duration::from_secs(1);

pub(super) struct Visit<H> {
    pub(super) connection: Connection<H>,
    pub(super) place: usize,
    pub(super) waker: Waker,
    pub(super) bell: Arc<Bell>,
    pub(super) home: Sender<Return<H>>,
}

/// A place, and the connection that comes back to it, or how it has ended.
pub(super) type Return<H> = (usize, Result<Connection<H>, Ended>);

/// The way into one of the threads, which ends when the last worker has dropped it.
pub(super) struct SlowLane<H> {
    visits: Sender<Visit<H>>,
    pub(super) heartbeat: Heartbeat,
}

impl<H: Handler + Send + 'static> SlowLane<H> {
    pub(super) fn start_for(workers: usize) -> io::Result<Vec<Arc<Self>>> {
        let start = |n| {
            let (visits, received) = channel();
            let heartbeat = Heartbeat::default();
            let beats = Heartbeat::clone(&heartbeat);
            start_patient_thread(format!("slow lane {n}"), move || {
                serve(&received, &beats);
                beats.store(ENDED, Relaxed);
            })?;
            Ok(Arc::new(Self { visits, heartbeat }))
        };
        (1..=workers.div_ceil(WORKERS_A_LANE)).map(start).collect()
    }

    /// Lets a connection make its long steps there. It is lost if the thread has ended.
    pub(super) fn take(&self, visit: Visit<H>) -> bool {
        self.visits.send(visit).is_ok()
    }
}

/// Serves connections until no worker can send any.
fn serve<H: Handler + Send + 'static>(received: &Receiver<Visit<H>>, beats: &Heartbeat) {
    let mut queue = VecDeque::new();
    let mut output = Vec::new();
    loop {
        beats.fetch_add(1, Relaxed);
        queue.extend(received.try_iter());
        let Some(visit) = queue.pop_front() else {
            match received.recv_timeout(BEAT) {
                Ok(visit) => queue.push_back(visit),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            continue;
        };
        queue.extend(step(visit, &mut output));
    }
}

/// Makes one step of a connection. Returns it if it needs another one here.
fn step<H: Handler + Send + 'static>(
    mut visit: Visit<H>,
    output: &mut Vec<u8>,
) -> Option<Visit<H>> {
    let mut made = Ok(false);
    let connection = &mut visit.connection;
    // Its worker can end it or hand it over as it is.
    if !visit.bell.leaves() {
        let cx = &mut Context::from_waker(&visit.waker);
        // It may have waited here.
        let now = visit.bell.heartbeat.load(Relaxed);
        made = catch_unwind(AssertUnwindSafe(|| connection.catch_up(cx, now, output)))
            .unwrap_or(Err(Ended::Cut(Cut::Panic)));
    }
    if made == Ok(true) {
        return Some(visit);
    }
    // One that has failed is closed here, before its worker counts it.
    let back = made.map(|_| visit.connection);
    // If the worker has ended, nobody waits for it.
    let _ = visit.home.send((visit.place, back));
    visit.bell.ring();
    None
}

#[cfg(test)]
mod tests {
    use crate::daemon::connection::{SLOW_SECONDS, TIMED_BYTES};
    use crate::daemon::rig::{BUSY, Site};

    #[test]
    fn long_steps_are_made_in_the_slow_lane() {
        const IN_WORKER: u8 = b'c';
        const IN_LANE: u8 = b't';
        let packet = |code: u8, payload: &[u8]| {
            let length = u32::try_from(1 + payload.len()).expect("it is short");
            [&length.to_be_bytes(), &[code][..], payload].concat()
        };
        let rcpt = packet(b'R', b"<where>\0");
        let mut site = Site::new(10);
        let mut client = site.negotiated();
        let mut answer = |seconds, bytes: &[u8]| {
            site.wait(seconds);
            client.send(bytes);
            site.answer(&mut client)
        };
        // A long packet, which arrives in one piece or in two.
        let mail = packet(b'M', &[b'm'; 5000]);
        assert_eq!(answer(0, &[&*mail, &rcpt].concat()), IN_LANE);
        let (head, tail) = mail.split_at(4_500);
        let halves = [&*rcpt, head].concat();
        assert_eq!(answer(SLOW_SECONDS, &halves), IN_WORKER);
        assert_eq!(answer(0, &[tail, &rcpt].concat()), IN_LANE);
        // In case the machine was so slow that even this counted as long.
        assert_eq!(answer(SLOW_SECONDS, &rcpt), IN_WORKER, "this one is short");

        // A short packet that takes long to process.
        let header = packet(b'L', &[BUSY, b"\0", &[b'v'; TIMED_BYTES], b"\0"].concat());
        let long = [&*header, &rcpt].concat();
        assert_eq!(answer(0, &long), IN_WORKER);
        assert_eq!(
            answer(0, &long),
            IN_WORKER,
            "the machine may have been busy"
        );
        assert_eq!(answer(0, &rcpt), IN_LANE, "the next one may take as long");
        let begun = [&*rcpt, &rcpt[..7]].concat();
        assert_eq!(answer(0, &begun), IN_LANE);
        assert_eq!(
            answer(SLOW_SECONDS, &rcpt[7..]),
            IN_WORKER,
            "but not for ever"
        );
    }
}
