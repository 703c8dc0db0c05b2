//! Threads for long steps of connections, so that other connections do not wait for them: one for two workers.
//!
//! ```text
//!   worker --step--> queue --> slow lane      one step of each connection at a time
//!     ^                            |
//!     +--------- connection -------+
//! ```
//!
//! They have a lower priority than the workers, which run first if the machine is overloaded. A connection has only one step
//! here at a time, and is not read from meanwhile, so the length of the queue is limited by the number of connections.
//! There is no timeout here: the mail server decides how long it waits for an answer, and what it does then.

use std::future::Future;
use std::io;
use std::panic::resume_unwind;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::priority;
use super::watchdog::Heartbeat;

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
/// Steps between two checks of the clock; a step takes one to five milliseconds.
const STEPS_A_LOOK: u32 = 8;

/// One of the threads. Dropping this ends it and the steps in it.
#[derive(Debug)]
pub(super) struct SlowLane {
    handle: Handle,
    heartbeat: Heartbeat,
    /// Dropping it ends the thread.
    _end: oneshot::Sender<()>,
}

impl SlowLane {
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

    /// A handle to run steps in it.
    pub(super) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Shows that it makes progress.
    pub(super) fn heartbeat(&self) -> Heartbeat {
        Heartbeat::clone(&self.heartbeat)
    }
}

/// Runs a step in a slow lane, and panics if the step does. `None`: the lane has ended. Dropping this cancels the step.
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
