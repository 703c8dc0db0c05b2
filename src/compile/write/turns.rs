//! Pages that several workers encode at once, appended in their order.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::compile::Error;
use crate::filter::{EncodedPage, Shape, Writer};

/// A file that grows at its end, by turns.
pub(crate) struct Turns {
    appending: Mutex<Appending>,
    turn: Condvar,
}

struct Appending {
    writer: Writer,
    turn: u64,
    /// A worker failed; nobody's turn will come.
    failed: bool,
}

impl Turns {
    /// The first turn is 0.
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

    /// The shape of the file's pages, and whether it has records.
    pub(crate) fn layout(&self) -> (Shape, bool) {
        let writer = &self.held().writer;
        (writer.shape(), writer.spec().records)
    }

    /// Waits for a turn, and appends the pages. Nothing happens when it will not come.
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

    /// Does the work of one worker. When it fails or panics, those who wait for a turn that will
    /// not come go on, after `stop`, which keeps them from taking more work.
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

    /// The file, which is still to be finished.
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

/// Wakes those who wait for a turn that will not come.
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
