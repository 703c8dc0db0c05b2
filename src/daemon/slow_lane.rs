//! Threads for the steps of connections that take their time, so that no other connection waits
//! for them: one for two workers.
//!
//! ```text
//!   worker --step--> queue --> slow lane      one step of each connection in turn
//!     ^                            |
//!     +--------- connection -------+
//! ```
//!
//! They have a lower priority than the workers, which come first where processors are short. A connection
//! has one step here at a time and is not read from meanwhile, so that the queue is as bounded
//! as the connections are. Nobody gives up waiting: how long an answer may take is the mail server's
//! rule, and what it does then, too.

use std::future::Future;
use std::io;
use std::panic::resume_unwind;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::priority;
use super::watchdog::Heartbeat;

/// A packet of more than this makes a long step. The headers of real messages are shorter.
pub(super) const LONG_PACKET_BYTES: usize = 4 << 10;
/// A step that takes more of the processor's time was long. Those of real messages take some ten
/// microseconds, those of messages that were made to be costly take milliseconds.
pub(super) const LONG_STEP: Duration = Duration::from_micros(100);
/// For so long after a long step the next ones are taken for long, too: a sender needs a new connection
/// for each that a worker makes.
pub(super) const SLOW_SECONDS: u32 = 10;
/// So long work has no more than half of the processors.
const WORKERS_A_LANE: usize = 2;
/// Steps between two looks at the time, one to five milliseconds each.
const STEPS_A_LOOK: u32 = 8;

/// One of the threads. Dropping this ends it, and the steps that are in it.
#[derive(Debug)]
pub(super) struct SlowLane {
    handle: Handle,
    heartbeat: Heartbeat,
    /// Dropped, it ends the thread.
    _end: oneshot::Sender<()>,
}

impl SlowLane {
    /// Starts the threads for so many workers.
    ///
    /// # Errors
    /// One cannot be had.
    pub(super) fn start_for(workers: usize) -> io::Result<Vec<Self>> {
        (1..=workers.div_ceil(WORKERS_A_LANE))
            .map(Self::start)
            .collect()
    }

    /// Starts the thread of this number.
    fn start(n: usize) -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .event_interval(STEPS_A_LOOK)
            .build()?;
        let handle = runtime.handle().clone();
        let heartbeat = Heartbeat::default();
        let beats = Heartbeat::clone(&heartbeat);
        let (end, mut ended) = oneshot::channel();
        let run = async move {
            let mut second = interval(Duration::from_secs(1));
            second.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    _ = second.tick() => beats.fetch_add(1, Relaxed),
                    _ = &mut ended => break,
                };
            }
        };
        thread::Builder::new()
            .name(format!("slow lane {n}"))
            .spawn(move || {
                priority::lower("slow lane");
                runtime.block_on(run);
            })?;
        Ok(Self {
            handle,
            heartbeat,
            _end: end,
        })
    }

    /// To make steps in it.
    pub(super) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Shows that it is alive.
    pub(super) fn heartbeat(&self) -> Heartbeat {
        Heartbeat::clone(&self.heartbeat)
    }
}

/// Makes a step in a slow lane, and panics if that does. `None`: the lane is gone. Dropping this gives
/// the step up.
pub(super) async fn step_in<T: Send + 'static>(
    lane: &Handle,
    step: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let mut steps = JoinSet::new();
    steps.spawn_on(step, lane);
    match steps.join_next().await? {
        Ok(made) => Some(made),
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        Err(_) => None,
    }
}

/// Whether the steps of a connection are long.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Up to this second of its worker.
    slow_until: u32,
}

impl Pace {
    /// Whether the next step may be long.
    pub(super) fn is_slow(&self, now: u32) -> bool {
        now < self.slow_until
    }

    /// Notes a step that began at this [`processor_time`], and has just ended.
    pub(super) fn note(&mut self, begun: Duration, now: u32) {
        if processor_time().saturating_sub(begun) > LONG_STEP {
            self.slow_until = now + SLOW_SECONDS;
        }
    }
}

/// What this thread has had of the processor: how busy the machine is does not count.
pub(super) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
