//! Notifies systemd as long as every worker makes progress.
//!
//! A worker that hangs accepts connections and does not answer. Each worker increments a heartbeat once a second, in the loop
//! that serves mail, and each slow lane between two steps. systemd is notified only while all heartbeats advance; without a
//! notification for `WatchdogSec`, it replaces the process.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use sd_notify::NotifyState;

use super::start_thread;
use super::watch::tell;

/// The seconds that a worker has counted; [`ENDED`] when it has ended.
pub(super) type Heartbeat = Arc<AtomicU32>;

/// The heartbeat of a thread that has ended normally.
pub(super) const ENDED: u32 = u32::MAX;

/// Minimum interval between two checks: longer than one heartbeat.
const TICK_MIN: Duration = Duration::from_secs(2);

/// If systemd has enabled the watchdog, checks the heartbeats until all threads have ended, so that an end that hangs is
/// noticed, too. The first `workers` belong to workers, the others to slow lanes.
pub(super) fn start(heartbeats: Vec<Heartbeat>, workers: usize) -> io::Result<()> {
    let Some(limit) = sd_notify::watchdog_enabled() else {
        return Ok(());
    };
    start_thread("watchdog", move || {
        let mut seen = Vec::new();
        while is_any_working(&heartbeats) {
            match stuck(&mut seen, &heartbeats) {
                None => tell(&[NotifyState::Watchdog]),
                Some(worker) if worker <= workers => {
                    tracing::error!(worker, "a worker thread hangs");
                }
                Some(other) => {
                    tracing::error!(slow_lane = other - workers, "a slow lane hangs");
                }
            }
            thread::sleep((limit / 3).max(TICK_MIN));
        }
    })
}

fn is_any_working(heartbeats: &[Heartbeat]) -> bool {
    let mut now = heartbeats.iter().map(|heartbeat| heartbeat.load(Relaxed));
    now.any(|now| now != ENDED)
}

/// The number of a thread, from 1, that has made no progress since the last check.
fn stuck(seen: &mut Vec<u32>, heartbeats: &[Heartbeat]) -> Option<usize> {
    let now = heartbeats.iter().map(|heartbeat| heartbeat.load(Relaxed));
    let before = std::mem::replace(seen, now.collect());
    let mut both = before.iter().zip(&*seen);
    let stuck = both.position(|(before, now)| before == now && *now != ENDED);
    stuck.map(|index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_worker_that_hangs_is_enough() {
        let heartbeats: Vec<Heartbeat> = (0..3).map(|_| Arc::default()).collect();
        let mut seen = Vec::new();
        for (now, expected) in [
            // At first, there is nothing to compare with.
            ([0, 0, 0], None),
            ([1, 1, 1], None),
            ([2, 1, 2], Some(2)),
            // One that has ended does not hang.
            ([ENDED, 2, 3], None),
            ([ENDED, 3, 4], None),
            ([ENDED; 3], None),
        ] {
            for (heartbeat, now) in heartbeats.iter().zip(now) {
                heartbeat.store(now, Relaxed);
            }
            assert_eq!(stuck(&mut seen, &heartbeats), expected, "{now:?}");
            assert_eq!(is_any_working(&heartbeats), now != [ENDED; 3]);
        }
    }
}
