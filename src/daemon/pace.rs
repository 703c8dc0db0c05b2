//! Which steps of a connection are long, so that they run in the [`slow_lane`](super::slow_lane).
//!
//! Asking for the processor time of a thread takes a system call. So a step is measured by the time that passed; the machine
//! may be busy, so only after one that seemed long the processor time of the next ones decides.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// A step with a longer packet counts as long. Headers of real messages are shorter.
pub(super) const LONG_PACKET_BYTES: usize = 4 << 10;
/// With less input than this, a step is never long, and its time is not measured.
pub(super) const TIMED_BYTES: usize = 1 << 10;
/// A step with more CPU time counts as long. Steps of real messages take about ten microseconds; those of messages that are
/// made to be costly take milliseconds.
pub(super) const LONG_STEP: Duration = Duration::from_micros(100);
/// For this long after a long step, further steps of the connection count as long, too. So a sender needs a new connection
/// for every two long steps in a worker.
pub(super) const SLOW_SECONDS: u32 = 10;

/// How long the steps of a connection take.
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

    pub(super) fn begin(&self, now: u32) -> Begun {
        if now < self.doubted_until {
            Begun::After(processor_time())
        } else {
            Begun::At(Instant::now())
        }
    }

    pub(super) fn note(&mut self, begun: &Begun, now: u32) {
        match begun {
            Begun::At(begun) if begun.elapsed() > LONG_STEP => {
                self.doubted_until = now.saturating_add(SLOW_SECONDS);
            }
            Begun::After(begun) if processor_time().saturating_sub(*begun) > LONG_STEP => {
                self.slow_until = now.saturating_add(SLOW_SECONDS);
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
