//! Pages that several workers encode at the same time, appended in order.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::compile::Error;
use crate::filter::{EncodedPage, Layout, Writer};

/// A file to which workers append in turns.
pub(crate) struct Turns {
    appending: Mutex<Appending>,
    turn: Condvar,
}

struct Appending {
    writer: Writer,
    turn: u64,
    /// A worker failed: further turns will not come.
    failed: bool,
}

impl Turns {
    /// Returns a file whose first turn is 0.
    pub(crate) fn new(writer: Writer) -> Self {
        Self {
            appending: Mutex::new(Appending {
                writer,
                turn: 0,
                failed: false,
            }),
            turn: Condvar::new(),
        }
    }

    /// Returns what must be encoded for each page.
    pub(crate) fn layout(&self) -> Layout {
        self.held().writer.layout()
    }

    /// Waits for a turn, and appends the pages. If the turn will not come, appends nothing.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn append(&self, turn: u64, pages: &[EncodedPage]) -> Result<(), Error> {
        let mut appending = self.held();
        while appending.turn != turn && !appending.failed {
            appending = self
                .turn
                .wait(appending)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if !appending.failed {
            appending.writer.append(pages)?;
            appending.turn += 1;
            self.turn.notify_all();
        }
        Ok(())
    }

    /// Does the work of one worker. If it fails or panics, calls `stop`, which keeps the others
    /// from taking more work, and wakes those that wait for a turn that will not come.
    ///
    /// # Errors
    /// Those of `work`.
    pub(crate) fn run(
        &self,
        stop: impl Fn(),
        work: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut ended = EndOthers {
            turns: self,
            stop,
            armed: true,
        };
        let done = work();
        ended.armed = done.is_err();
        done
    }

    /// Returns the file, which the caller must finish.
    pub(crate) fn into_writer(self) -> Writer {
        let appending = self.appending.into_inner();
        appending.unwrap_or_else(PoisonError::into_inner).writer
    }

    fn held(&self) -> MutexGuard<'_, Appending> {
        self.appending
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the workers that wait for a turn that will not come.
struct EndOthers<'a, S: Fn()> {
    turns: &'a Turns,
    stop: S,
    armed: bool,
}

impl<S: Fn()> Drop for EndOthers<'_, S> {
    fn drop(&mut self) {
        if self.armed {
            self.turns.held().failed = true;
            (self.stop)();
            self.turns.turn.notify_all();
        }
    }
}
