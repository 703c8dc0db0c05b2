//! The circuit breaker: how large a share of the messages of the last five minutes was refused.
//!
//! A list that someone poisoned, or a wrong file in the right place, must not stop a site's mail.
//! Counted in slots of ten seconds; what would have been refused counts as refused also while the
//! breaker is on, so that it does not switch on and off in turn.
//!
//! ```text
//!  now % 31  ...  |slot|slot|slot| 30 slots = 300 s are counted, the 31st is being cleared
//! ```

use std::sync::Mutex;

const SLOT_S: u64 = 10;
const SLOTS: usize = 30;
/// Below this many messages in the window a share means nothing.
const MESSAGES_MIN: u64 = 100;

#[derive(Clone, Copy, Default)]
struct Slot {
    number: u64,
    messages: u64,
    refused: u64,
}

/// Counts of the last five minutes, and whether the circuit breaker is on.
#[derive(Default)]
pub struct CircuitBreaker {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    slots: [Slot; SLOTS],
    on: bool,
}

/// The circuit breaker has just changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// Refusals become tags from now on; the share that was reached.
    On(f64),
    /// Refusals are refusals again.
    Off(f64),
}

impl CircuitBreaker {
    /// Counts one decided message at `now_s` (seconds on any steady scale). With `limit` 1 the circuit breaker stays off.
    pub fn count(&self, refused: bool, now_s: u64, limit: f64) -> Option<Change> {
        let mut state = self
            .state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let number = now_s / SLOT_S;
        let index = usize::try_from(number % SLOTS as u64).unwrap_or(0);
        let slot = &mut state.slots[index];
        if slot.number != number {
            *slot = Slot {
                number,
                ..Slot::default()
            };
        }
        slot.messages += 1;
        slot.refused += u64::from(refused);
        let recent = || {
            state
                .slots
                .iter()
                .filter(|slot| slot.number + SLOTS as u64 > number)
        };
        let messages: u64 = recent().map(|slot| slot.messages).sum();
        let refused: u64 = recent().map(|slot| slot.refused).sum();
        #[allow(
            clippy::cast_precision_loss,
            reason = "counts of five minutes are far below 2^53"
        )]
        let share = refused as f64 / messages.max(1) as f64;
        let on = limit < 1.0 && messages >= MESSAGES_MIN && share > limit;
        let was = std::mem::replace(&mut state.on, on);
        match (was, on) {
            (false, true) => Some(Change::On(share)),
            (true, false) => Some(Change::Off(share)),
            (true, true) | (false, false) => None,
        }
    }

    /// Whether refusals are to become tags.
    pub fn is_on(&self) -> bool {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_messages_and_a_share() {
        let share = CircuitBreaker::default();
        for _ in 0..99 {
            assert_eq!(share.count(true, 1_000, 0.5), None);
        }
        assert_eq!(share.count(true, 1_000, 0.5), Some(Change::On(1.0)));
        assert!(share.is_on());
        for _ in 0..99 {
            assert_eq!(share.count(false, 1_100, 0.5), None);
        }
        assert_eq!(share.count(false, 1_100, 0.5), Some(Change::Off(0.5)));
        // The refused ones are five minutes old now.
        assert_eq!(share.count(true, 1_310, 0.5), None);
        assert!(!share.is_on());
    }

    #[test]
    fn is_off_at_one() {
        let share = CircuitBreaker::default();
        for _ in 0..1_000 {
            assert_eq!(share.count(true, 5, 1.0), None);
        }
    }
}
