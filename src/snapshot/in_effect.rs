//! The snapshot in effect, the old ones that messages began with, and which thread frees them.
//!
//! A message keeps a [`Weak`](std::sync::Weak) reference to its snapshot from MAIL to its verdict, and an `Arc` only
//! during each step. So the thread that replaces a snapshot can free old ones, however long a client keeps its message
//! open. At most [`OLD_MAX`] old snapshots are kept for messages in progress. Gigabytes of memory are freed by the
//! thread that replaces the snapshot, never by a thread that serves mail.

use std::sync::{Arc, Mutex};

use super::Snapshot;
use blocklist_filter::base::lock::lock;

/// How many old snapshots are kept for the messages that began with them.
pub(super) const OLD_MAX: usize = 1;

/// The snapshot in effect and the old ones that are still in use.
#[derive(Debug)]
pub(super) struct InEffect(Mutex<Snapshots>);

#[derive(Debug)]
struct Snapshots {
    current: Arc<Snapshot>,
    /// The oldest first.
    old: Vec<Arc<Snapshot>>,
}

impl InEffect {
    pub(super) fn new(snapshot: Snapshot) -> Self {
        Self(Mutex::new(Snapshots {
            current: Arc::new(snapshot),
            old: Vec::new(),
        }))
    }

    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&lock(&self.0).current)
    }

    pub(super) fn replace(&self, snapshot: Arc<Snapshot>) {
        let mut all = lock(&self.0);
        let before = std::mem::replace(&mut all.current, snapshot);
        all.old.push(before);
        drop(all);
        self.free(OLD_MAX);
    }

    /// Frees the old snapshots that are no longer used, and those beyond the newest `most` that no step in progress uses;
    /// `false` while there are others.
    pub(super) fn free(&self, most: usize) -> bool {
        let mut all = lock(&self.0);
        let old = std::mem::take(&mut all.old);
        let too_many = old.len().saturating_sub(most);
        let mut unused = Vec::new();
        for (number, snapshot) in old.into_iter().enumerate() {
            // In this order, because a message makes its weak reference while it has a strong one.
            let is_used = Arc::strong_count(&snapshot) > 1 || Arc::weak_count(&snapshot) > 0;
            if is_used && number >= too_many {
                all.old.push(snapshot);
                continue;
            }
            match Arc::try_unwrap(snapshot) {
                Ok(snapshot) => unused.push(snapshot),
                Err(snapshot) => all.old.push(snapshot),
            }
        }
        let is_done = all.old.is_empty();
        // Freeing takes long, and mail must not wait for the lock meanwhile.
        drop(all);
        drop(unused);
        is_done
    }
}
