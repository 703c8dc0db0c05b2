//! Who holds which snapshot, and who frees it.
//!
//! A message holds a [`Lease`] from MAIL to its verdict, and takes the snapshot itself only for the time
//! of a step. So a caller that replaces a snapshot can take it back, however long a client keeps its message
//! open: at most [`OLD_MAX`] old ones are kept for messages under way, and gigabytes are freed by the
//! thread that replaces them, never by one that serves mail.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption};

use super::Snapshot;

/// Old snapshots that are kept for the messages that began with them.
const OLD_MAX: usize = 1;

/// A snapshot, until it is taken back.
type Slot = ArcSwapOption<Snapshot>;

/// A message's claim to the snapshot it began with.
#[derive(Debug)]
pub struct Lease(Arc<Slot>);

impl Lease {
    /// The snapshot, to be held for a moment; `None`: it was taken back.
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.0.load_full()
    }
}

/// The snapshot in effect and the old ones that are still in use.
#[derive(Debug)]
pub(super) struct Shelf {
    current: ArcSwap<Slot>,
    old: Mutex<Old>,
}

#[derive(Debug, Default)]
struct Old {
    /// Leased to messages, the oldest first.
    leased: Vec<Arc<Slot>>,
    /// Taken back, and for a moment still in somebody's hands.
    taken: Vec<Arc<Snapshot>>,
}

impl Shelf {
    pub(super) fn new(snapshot: Snapshot) -> Self {
        Self {
            current: ArcSwap::from_pointee(Slot::from_pointee(snapshot)),
            old: Mutex::default(),
        }
    }

    pub(super) fn lease(&self) -> (Lease, Arc<Snapshot>) {
        loop {
            let slot = self.current.load_full();
            // Taken back since? Then another one is in effect.
            if let Some(snapshot) = slot.load_full() {
                return (Lease(slot), snapshot);
            }
        }
    }

    pub(super) fn replace(&self, snapshot: Arc<Snapshot>) {
        let before = self.current.swap(Arc::new(Slot::new(Some(snapshot))));
        let mut old = self.old.lock().unwrap_or_else(PoisonError::into_inner);
        old.leased.push(before);
        old.tidy(OLD_MAX);
    }

    /// Frees the old snapshots that nobody uses; `false` while there are others.
    pub(super) fn tidy(&self) -> bool {
        let mut old = self.old.lock().unwrap_or_else(PoisonError::into_inner);
        old.tidy(OLD_MAX)
    }

    /// Takes all old snapshots back and frees them; `false` while somebody is still using one.
    pub(super) fn take_back(&self) -> bool {
        let mut old = self.old.lock().unwrap_or_else(PoisonError::into_inner);
        old.tidy(0)
    }
}

impl Old {
    fn tidy(&mut self, most: usize) -> bool {
        let too_many = self.leased.len().saturating_sub(most);
        let mut number = 0;
        let taken = &mut self.taken;
        self.leased.retain(|slot| {
            number += 1;
            // The one count is ours: no message has a lease, and none can get one any more.
            let keep = number > too_many && Arc::strong_count(slot) > 1;
            if !keep {
                taken.extend(slot.swap(None));
            }
            keep
        });
        // Likewise: what only we hold stays ours, and is freed here.
        self.taken
            .retain(|snapshot| Arc::strong_count(snapshot) > 1);
        self.leased.is_empty() && self.taken.is_empty()
    }
}
