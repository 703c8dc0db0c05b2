//! Threads for long steps of connections, so that other connections do not wait for them: one for two workers.
//!
//! ```text
//!   worker --connection--> queue --> slow lane      one step of each connection at a time
//!     ^                                  |
//!     +------------ connection ----------+
//! ```
//!
//! They have a lower priority than the workers, which run first if the machine is overloaded. A connection is not read from
//! while it is here, so the length of the queue is limited by the number of connections. There is no timeout here: the mail
//! server decides how long it waits for an answer, and what it does then.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::bell::Bell;
use super::connection::{Connection, Ended};
use super::priority;
use super::watchdog::Heartbeat;
use crate::milter::Handler;

/// A step with a longer packet counts as long. Headers of real messages are shorter.
pub(super) const LONG_PACKET_BYTES: usize = 4 << 10;
/// A step with more CPU time counts as long. Steps of real messages take about ten microseconds; those of messages that are
/// made to be costly take milliseconds.
pub(super) const LONG_STEP: Duration = Duration::from_micros(100);
/// For this long after a long step, further steps of the connection count as long, too. So a sender needs a new connection
/// for every two long steps in a worker, see [`Pace`].
pub(super) const SLOW_SECONDS: u32 = 10;
/// Workers per slow lane: long steps never use more than half of the processors.
const WORKERS_A_LANE: usize = 2;
/// How often its heartbeat advances while it has nothing to do.
const BEAT: Duration = Duration::from_secs(1);

/// A connection on its way through a slow lane.
pub(super) struct Visit<H> {
    pub(super) connection: Connection<H>,
    pub(super) place: usize,
    /// The second of its worker.
    pub(super) now: u32,
    pub(super) waker: Waker,
    pub(super) home: Arc<Home<H>>,
}

/// A connection that comes back to its place; or how it ended.
pub(super) struct Return<H> {
    pub(super) place: usize,
    pub(super) connection: Result<Connection<H>, Ended>,
}

/// Where connections of a worker come back to.
pub(super) struct Home<H> {
    pub(super) bell: Arc<Bell>,
    returns: Mutex<Vec<Return<H>>>,
}

impl<H> Home<H> {
    pub(super) fn new(bell: Arc<Bell>) -> Self {
        let returns = Mutex::default();
        Self { bell, returns }
    }

    pub(super) fn returns(&self) -> MutexGuard<'_, Vec<Return<H>>> {
        self.returns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A way into one of the threads, which ends when all of these are dropped.
pub(super) struct SlowLane<H> {
    visits: Sender<Visit<H>>,
    /// Shows that the thread makes progress.
    pub(super) heartbeat: Heartbeat,
}

impl<H> Clone for SlowLane<H> {
    fn clone(&self) -> Self {
        Self {
            visits: self.visits.clone(),
            heartbeat: Arc::clone(&self.heartbeat),
        }
    }
}

impl<H: Handler + Send + 'static> SlowLane<H> {
    /// Starts the threads for this many workers.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(super) fn start_for(workers: usize) -> io::Result<Vec<Self>> {
        (1..=workers.div_ceil(WORKERS_A_LANE))
            .map(Self::start)
            .collect()
    }

    /// Starts the thread with this number.
    fn start(n: usize) -> io::Result<Self> {
        let (visits, received) = channel();
        let heartbeat = Heartbeat::default();
        let beats = Heartbeat::clone(&heartbeat);
        thread::Builder::new()
            .name(format!("slow lane {n}"))
            .spawn(move || {
                priority::lower("slow lane");
                serve(&received, &beats);
            })?;
        Ok(Self { visits, heartbeat })
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
pub(super) fn step<H: Handler + Send + 'static>(
    mut visit: Visit<H>,
    output: &mut Vec<u8>,
) -> Option<Visit<H>> {
    let mut made = Ok(false);
    // One that its worker wants to hand over has no time for that.
    if !visit.home.bell.leaves() {
        let connection = &mut visit.connection;
        let cx = &mut Context::from_waker(&visit.waker);
        made = catch_unwind(AssertUnwindSafe(|| {
            connection.catch_up(cx, visit.now, output)
        }))
        .unwrap_or(Err(Ended::Failed));
    }
    let connection = match made {
        Ok(true) => return Some(visit),
        Ok(false) => Ok(visit.connection),
        Err(ended) => Err(ended),
    };
    let place = visit.place;
    visit.home.returns().push(Return { place, connection });
    visit.home.bell.ring();
    None
}

/// Whether the steps of a connection count as long.
///
/// The processor time of a thread takes a system call. So a step is first measured by the time that passed, which takes
/// none, and only after a step that seemed long the processor time of the next ones decides: the machine may be busy.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Until this second of its worker's clock, steps are long.
    slow_until: u32,
    /// Until this second, they are measured by processor time.
    doubted_until: u32,
}

/// When a step began.
pub(super) enum Begun {
    At(Instant),
    /// The processor time of this thread until then.
    After(Duration),
}

impl Pace {
    /// Whether the next step may be long.
    pub(super) fn is_slow(&self, now: u32) -> bool {
        now < self.slow_until
    }

    /// Begins to measure a step.
    pub(super) fn begin(&self, now: u32) -> Begun {
        if now < self.doubted_until {
            Begun::After(processor_time())
        } else {
            Begun::At(Instant::now())
        }
    }

    /// Records a step that has just ended.
    pub(super) fn note(&mut self, begun: &Begun, now: u32) {
        match begun {
            Begun::At(begun) if begun.elapsed() > LONG_STEP => {
                self.doubted_until = now + SLOW_SECONDS;
            }
            Begun::After(begun) if processor_time().saturating_sub(*begun) > LONG_STEP => {
                self.slow_until = now + SLOW_SECONDS;
            }
            Begun::At(_) | Begun::After(_) => {}
        }
    }
}

/// The CPU time of this thread, which does not depend on how busy the machine is.
pub(super) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
