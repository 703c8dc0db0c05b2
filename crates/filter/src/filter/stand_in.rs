//! The copy that stands in for the file of an open filter.
//!
//! A file can be cut off, or written over, while it is open. Each read is checked, so this is noticed, and the same is then
//! read from a copy. Its header is the same, and with it the sums of all sections: it says what the file said before, and
//! the look-up that finds the damage has its answer at once.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;

use super::{Answer, Error, Filter, FilterFile, Key, Load, StandIn};
use crate::base::lock::lock;

impl StandIn {
    pub(super) fn of(file: &FilterFile) -> Self {
        Self {
            seen: Mutex::new(written(file)),
            ..Self::default()
        }
    }
}

fn written(file: &FilterFile) -> Option<(u64, SystemTime)> {
    let file = file.handle.metadata().ok()?;
    Some((file.len(), file.modified().ok()?))
}

impl Filter {
    /// Names the path at which a copy of this filter may be.
    #[doc(hidden)]
    #[must_use]
    pub fn with_copy(mut self, path: PathBuf) -> Self {
        self.stand_in.path = Some(path);
        self
    }

    /// Returns whether a read of its file has failed.
    #[doc(hidden)]
    pub fn is_damaged(&self) -> bool {
        self.stand_in.is_damaged.load(Relaxed)
    }

    /// Returns whether some look-ups have no answer: the file is damaged, and nothing stands in for it.
    #[doc(hidden)]
    pub fn is_lost(&self) -> bool {
        let has_copy = || self.copy().is_some_and(|copy| !copy.is_damaged());
        self.is_damaged() && !self.needs_no_file() && !has_copy()
    }

    /// Reads the whole file again if somebody has written to it since.
    #[doc(hidden)]
    pub fn look_again(&self) {
        let mut seen = lock(&self.stand_in.seen);
        let now = written(&self.file);
        if *seen != now && !self.is_damaged() {
            // With one thread only, because mail is served at the same time.
            let is_damaged = self.check(true, 1).is_err();
            self.stand_in.is_damaged.store(is_damaged, Relaxed);
        }
        *seen = now;
    }

    /// Looks a key up where the file has failed.
    #[cold]
    pub(super) fn look_up_in_copy(&self, key: Key, failure: Error) -> Result<Answer, Error> {
        self.stand_in.is_damaged.store(true, Relaxed);
        self.copy().ok_or(failure)?.look_up(key)
    }

    /// Opens the copy at its first use. It is not looked for again: who reads the damaged file again opens it anew.
    fn copy(&self) -> Option<&Self> {
        let open = || {
            let copy = Self::open(self.stand_in.path.as_ref()?, Load::Disk).ok()?;
            (copy.header() == self.header()).then(|| Box::new(copy))
        };
        self.stand_in.copy.get_or_init(open).as_deref()
    }
}
