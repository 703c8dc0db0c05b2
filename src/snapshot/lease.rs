//! Which message uses which snapshot, and which thread frees old snapshots.
//!
//! A message holds a [`Lease`] from MAIL to its verdict, and an `Arc` of the snapshot only during each step. So the
//! thread that replaces a snapshot can revoke leases, however long a client keeps its message open. At most
//! [`OLD_MAX`] old snapshots are kept for messages in progress. Gigabytes of memory are freed by the thread that
//! replaces the snapshot, never by a thread that serves mail.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption};

use super::Snapshot;

/// How many old snapshots are kept for the messages that began with them.
const OLD_MAX: usize = 1;

/// A snapshot, empty after it was revoked.
type Slot = ArcSwapOption<Snapshot>;

/// A message's claim to the snapshot it began with.
#[derive(Debug)]
pub struct Lease(Arc<Slot>);

impl Lease {
    /// The snapshot, to be held only for a moment; `None`: the lease was revoked.
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
    /// Revoked, but still used by some step in progress.
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
            // If it has been revoked in between, another snapshot is in effect: try again.
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

    /// Frees the old snapshots that are no longer used; `false` while others are still in use.
    pub(super) fn tidy(&self) -> bool {
        let mut old = self.old.lock().unwrap_or_else(PoisonError::into_inner);
        old.tidy(OLD_MAX)
    }

    /// Revokes all leases of old snapshots and frees them; `false` while one is still in use.
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
            // A count of one is this vector's own: no message has a lease, and none can get one any more.
            let keep = number > too_many && Arc::strong_count(slot) > 1;
            if !keep {
                taken.extend(slot.swap(None));
            }
            keep
        });
        // Likewise: a snapshot with a count of one is used nowhere else, and is freed here.
        self.taken
            .retain(|snapshot| Arc::strong_count(snapshot) > 1);
        self.leased.is_empty() && self.taken.is_empty()
    }
}
