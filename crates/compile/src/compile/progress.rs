//! The progress of a compilation, for a thread that draws it, and the flag that ends it early. All
//! counts are relaxed atomics: they are shown, and nothing depends on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use super::error::Error;
use blocklist_filter::base::named::named;

named! {
    /// What a compile is doing.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Phase {
        /// Not begun.
        Waiting = "waiting",
        /// Text (or the records of old filters) is read; measured in bytes.
        Reading = "reading",
        /// Keys are sorted and duplicates dropped; measured in entries.
        Sorting = "sorting",
        /// The records of filters are counted; measured in entries.
        Counting = "counting",
        /// Pages and records are written; measured in entries.
        Writing = "writing",
        /// The new file is synced, read back and checked.
        Checking = "checking",
    }
}

impl Phase {
    /// Returns whether [`State::done`] counts bytes rather than entries.
    pub fn in_bytes(self) -> bool {
        self == Self::Reading
    }
}

/// The counters that the workers, the drawing thread and the signal handler share.
#[derive(Debug, Default)]
pub struct Progress {
    phase: AtomicU8,
    done: Arc<AtomicU64>,
    total: AtomicU64,
    entries: AtomicU64,
    stop: Arc<AtomicBool>,
}

/// The state of a [`Progress`] at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The current phase.
    pub phase: Phase,
    /// Bytes or entries done in this phase.
    pub done: u64,
    /// Bytes or entries of the whole phase; 0 if unknown (a pipe).
    pub total: u64,
    /// Entries read so far, duplicates included.
    pub entries: u64,
}

impl Progress {
    /// Returns counters at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the stop flag. When it is set, the compilation ends with [`Error::Interrupted`].
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Returns the current state.
    pub fn state(&self) -> State {
        State {
            phase: Phase::ALL[usize::from(self.phase.load(Ordering::Relaxed))],
            done: self.done.load(Ordering::Relaxed),
            total: self.total.load(Ordering::Relaxed),
            entries: self.entries.load(Ordering::Relaxed),
        }
    }

    /// Starts a phase of `total` bytes or entries (0: unknown).
    pub(crate) fn begin(&self, phase: Phase, total: u64) {
        self.done.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// Returns the counter of [`add`](Self::add), for a reader that outlives a borrow.
    pub(crate) fn done_counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.done)
    }

    pub(crate) fn add(&self, done: u64) {
        self.done.fetch_add(done, Ordering::Relaxed);
    }

    pub(crate) fn add_entries(&self, entries: u64) {
        self.entries.fetch_add(entries, Ordering::Relaxed);
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn go_on(&self) -> Result<(), Error> {
        match self.stopped() {
            true => Err(Error::Interrupted),
            false => Ok(()),
        }
    }
}
