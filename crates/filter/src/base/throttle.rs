//! What is done only now and then, such as repeating a log message.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::lock::lock;

#[derive(Debug, Default)]
pub struct Throttle<const SECONDS: u64>(Mutex<Option<Instant>>);

impl<const SECONDS: u64> Throttle<SECONDS> {
    /// Returns whether it is due now, which it then is no longer.
    pub fn is_due(&self, now: Instant) -> bool {
        let mut last = lock(&self.0);
        let pause = Duration::from_secs(SECONDS);
        let is_due = last.is_none_or(|last| now.saturating_duration_since(last) >= pause);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_stays_true_is_repeated_every_hour() {
        let (throttle, begin) = (Throttle::<3600>::default(), Instant::now());
        let minutes = [0, 1, 59, 60, 61, 119, 120, 300, 301];
        let due = minutes.map(|at| throttle.is_due(begin + Duration::from_secs(60 * at)));
        let [t, f] = [true, false];
        assert_eq!(due, [t, f, f, t, f, f, t, t, f]);
    }
}
