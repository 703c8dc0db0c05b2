//! The state that a host stores for a list: the last manifest that it has seen, and the present key of the publisher.
//!
//! The file is next to the filter: `.NAME.fetch`. Without it, a host trusts the key that it was given and the first manifest
//! that it sees; but it still refuses an older generation than that of the present filter. So a state file that cannot be
//! read is an error: only an administrator can reset the state, by removing the file.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use blocklist_filter::base::path::{beside, folder_of, if_exists};
use blocklist_filter::base::replacement::{self, Replacement};
use serde::{Deserialize, Serialize};

use crate::Error;

/// The state of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// The key that the last run was given by --key. If another key is given that is not known yet, it replaces the keys
    /// below; the other fields stay.
    pub given_key: String,
    /// The key that signed the last manifest.
    pub key: String,
    /// The announced key, which is accepted too.
    pub next_key: Option<String>,
    /// The highest number of a manifest that was seen.
    pub number: u64,
    /// When that manifest expires, in seconds since 1970.
    pub expires: u64,
    /// The tag (ETag) of that manifest, used to ask for a newer one.
    pub tag: Option<String>,
    /// The store.
    pub from: String,
    /// The list.
    pub list: String,
    /// The host.
    pub host: String,
    /// Identity of the filter after that update.
    pub identity: String,
    /// When all checksums of the filter were last checked, in seconds since 1970.
    pub checked: u64,
}

/// The state of one filter, locked against a second fetch.
#[derive(Debug)]
pub struct Kept {
    path: PathBuf,
    _lock: Lock,
    /// Its content.
    pub state: State,
}

/// Digits of a SHA-256 in the name of a hidden file.
const DIGITS: usize = 16;

/// The path of a hidden file next to this one, for the file with this SHA-256.
pub(crate) fn of_digest(file: &Path, sha256: &str, ending: &str) -> PathBuf {
    let begin = sha256.get(..DIGITS).unwrap_or_default();
    beside(file, &format!(".{begin}{ending}"))
}

/// Removes all such files with this ending, except those to keep.
pub(crate) fn remove_others(file: &Path, ending: &str, kept: &[PathBuf]) {
    let begin = beside(file, ".");
    let begin = begin.file_name().unwrap_or_default().as_encoded_bytes();
    let is_one = |name: &std::ffi::OsStr| {
        let rest = name.as_encoded_bytes().strip_prefix(begin);
        let digits = rest.and_then(|rest| rest.strip_suffix(ending.as_bytes()));
        digits.is_some_and(|digits| {
            digits.len() == DIGITS && digits.iter().all(u8::is_ascii_hexdigit)
        })
    };
    let files = fs::read_dir(folder_of(file));
    for found in files.into_iter().flatten().flatten() {
        let name = found.file_name();
        let is_kept = kept.iter().any(|kept| kept.file_name() == Some(&*name));
        if is_one(&name) && !is_kept {
            let _ = fs::remove_file(found.path());
        }
    }
}

/// A file or folder that is removed when it is no longer needed.
pub(crate) struct Removed(pub(crate) PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let removed = fs::remove_file(&self.0);
        let _ = removed.or_else(|_| fs::remove_dir_all(&self.0));
    }
}

/// A lock that excludes a second run for the same file, until it is dropped.
pub(crate) type Lock = Replacement;

/// Takes such a lock. The lock file exists only while the lock is held, and has the owner of the folder, so that a run by root
/// does not lock the service out.
///
/// # Errors
/// Another process holds the lock, or the folder is not writable.
pub(crate) fn lock(file: &Path, ending: &str, program: &str) -> Result<Lock, Error> {
    Replacement::claim(&beside(file, ending)).map_err(|error| match error {
        replacement::Error::Busy(_) => Error::Settings(format!(
            "{}: another {program} is running for this file",
            file.display()
        )),
        error => error.into(),
    })
}

/// Largest state file, in bytes.
const MAX_BYTES: u64 = 1 << 16;

impl Kept {
    /// Opens the state of a filter.
    ///
    /// # Errors
    /// Another fetch of the same filter is running, the folder is not writable, or the state cannot be read.
    pub fn open(filter: &Path, given_key: &str) -> Result<Self, Error> {
        let lock = lock(filter, ".fetch-lock", "blocklist-fetch")?;
        let path = beside(filter, ".fetch");
        // Removes leftovers of a killed run.
        drop(Replacement::claim(&path)?);
        let mut state = read(&path)?;
        if state.given_key != given_key {
            let is_known = state.key == given_key || state.next_key.as_deref() == Some(given_key);
            if !is_known {
                given_key.clone_into(&mut state.key);
                // Without the tag, the manifest is downloaded and verified again, even if it has not changed.
                (state.next_key, state.tag) = (None, None);
            }
            given_key.clone_into(&mut state.given_key);
        }
        Ok(Self {
            path,
            _lock: lock,
            state,
        })
    }

    /// Writes the state, if it has changed.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep(&mut self, state: State) -> Result<(), Error> {
        if state != self.state {
            let bytes = serde_json::to_vec_pretty(&state).expect("plain data");
            Replacement::claim(&self.path)?.commit_with(&bytes)?;
            self.state = state;
        }
        Ok(())
    }
}

fn read(path: &Path) -> Result<State, Error> {
    let Some(file) = if_exists(File::open(path)).map_err(Error::io(path, "open"))? else {
        return Ok(State::default());
    };
    let mut bytes = Vec::new();
    file.take(MAX_BYTES)
        .read_to_end(&mut bytes)
        .map_err(Error::io(path, "read"))?;
    serde_json::from_slice(&bytes).map_err(|error| {
        Error::Settings(format!(
            "{}: not a state file of blocklist-fetch ({error}): remove it; the next run then trusts --key",
            path.display()
        ))
    })
}
