//! The identity and state of the file at a path, and which files have changed since they were read:
//! a file that is replaced or written to has another state.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Device, inode, size and change time (ctime) of the file at a path. The modification time is not
/// used, since a copy can take it over from the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileState {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl FileState {
    pub fn of(path: &Path) -> io::Result<Self> {
        Ok(Self::read(&std::fs::metadata(path)?))
    }

    /// Returns the state of an open file. Its change time is also that of losing its name.
    pub fn of_open(file: &File) -> io::Result<Self> {
        Ok(Self::read(&file.metadata()?))
    }

    fn read(file: &Metadata) -> Self {
        Self {
            device: file.dev(),
            inode: file.ino(),
            size: file.size(),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }
}

/// The states of the files that were read last, each as it was just before the file was read: a
/// change during the reading is a change after it.
#[derive(Debug, Default)]
pub struct FileStates {
    files: BTreeMap<PathBuf, Known>,
    before: BTreeMap<PathBuf, Known>,
}

/// The state of a file, if there is one, and since when it is known to be in this state.
#[derive(Clone, Copy, Debug)]
struct Known {
    state: Option<FileState>,
    since: Instant,
}

impl FileStates {
    /// Begins another round of reading files. Files that are not looked at in it are forgotten.
    pub fn begin(&mut self) {
        self.before = std::mem::take(&mut self.files);
    }

    /// Returns the state of a file when it was first looked at in this round, and for how long it
    /// had been in this state.
    pub fn look(&mut self, path: &Path, now: Instant) -> (Option<FileState>, Duration) {
        let known = *self.files.entry(path.to_owned()).or_insert_with(|| {
            let state = FileState::of(path).ok();
            let before = self.before.get(path).filter(|known| known.state == state);
            let since = before.map_or(now, |known| known.since);
            Known { state, since }
        });
        (known.state, now.saturating_duration_since(known.since))
    }

    /// Returns the files of this round.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.files.keys().cloned().collect()
    }

    /// Returns whether a file is no longer as it was in the last round.
    pub fn have_changed(&self) -> bool {
        let mut files = self.files.iter();
        files.any(|(path, known)| FileState::of(path).ok() != known.state)
    }
}
