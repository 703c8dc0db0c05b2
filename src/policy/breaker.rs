//! The circuit breaker: limits the share of refused messages in the last five minutes.
//!
//! A list that somebody poisoned, or a wrong file, must not stop a site's mail. The breaker counts
//! in slots of ten seconds: the current one, and the 29 before it (290 to 300 s). While it is on, it
//! still counts as refused what would have been refused, so that it does not switch on and off
//! repeatedly.
//!
//! Its state is computed from these counts and the time at each call. So it switches off after five
//! minutes without mail, and a new limit applies at once.

use std::sync::Mutex;

use blocklist_filter::base::lock::lock;

const SLOT_S: u64 = 10;
const SLOTS: usize = 30;
/// With fewer messages than this in the window, the share has no meaning.
const MESSAGES_MIN: u64 = 100;

#[derive(Clone, Copy, Default)]
struct Slot {
    number: u64,
    messages: u64,
    refused: u64,
}

/// The counts of the last five minutes, which decide whether the circuit breaker is on.
#[derive(Default)]
pub struct CircuitBreaker(Mutex<Window>);

#[derive(Default)]
struct Window {
    slots: [Slot; SLOTS],
    /// The state that was reported last, so that each change is reported once.
    reported_on: bool,
}

impl CircuitBreaker {
    /// Counts one decided message at `now_s` (seconds on any steady scale), unless the `limit` is 1.
    /// If the breaker switches on or off, returns which, and the share of refused messages.
    pub fn count(&self, refused: bool, now_s: u64, limit: f64) -> Option<(bool, f64)> {
        if limit >= 1.0 {
            return None;
        }
        let mut window = lock(&self.0);
        let number = now_s / SLOT_S;
        let index = usize::try_from(number % SLOTS as u64).unwrap_or(0);
        let slot = &mut window.slots[index];
        if slot.number != number {
            *slot = Slot {
                number,
                ..Slot::default()
            };
        }
        slot.messages += 1;
        slot.refused += u64::from(refused);
        let (on, share) = window.is_on(now_s, limit);
        let was = std::mem::replace(&mut window.reported_on, on);
        (was != on).then_some((on, share))
    }

    /// Returns whether refusals become tags at `now_s`; never with a `limit` of 1.
    pub fn is_on(&self, now_s: u64, limit: f64) -> bool {
        limit < 1.0 && lock(&self.0).is_on(now_s, limit).0
    }
}

impl Window {
    /// Returns whether the breaker is on, and the share of messages refused.
    fn is_on(&self, now_s: u64, limit: f64) -> (bool, f64) {
        let number = now_s / SLOT_S;
        let recent = || {
            let slots = self.slots.iter();
            slots.filter(|slot| slot.number + SLOTS as u64 > number)
        };
        let messages: u64 = recent().map(|slot| slot.messages).sum();
        let refused: u64 = recent().map(|slot| slot.refused).sum();
        let share = refused as f64 / messages.max(1) as f64;
        (messages >= MESSAGES_MIN && share > limit, share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Many messages in the evening, and the next one in the morning.
    #[test]
    fn lapses_without_mail() {
        let share = CircuitBreaker::default();
        for _ in 0..100 {
            share.count(true, 1_000, 0.5);
        }
        assert!(share.is_on(1_000, 0.5));
        assert!(share.is_on(1_299, 0.5));
        assert!(!share.is_on(1_300, 0.5));
        assert!(!share.is_on(30_000, 0.5));
        assert_eq!(share.count(true, 30_000, 0.5), Some((false, 1.0)));
    }
}
