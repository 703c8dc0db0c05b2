//! What a host remembers of a list: the manifest it saw last, and which key signs now.
//!
//! It lies next to the filter, as `.NAME.fetch`. Without it a host believes the key that it was given, and
//! the newest manifest it is shown; the generation of the filter in use still is no less than before.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use blocklist_milter::replacement::Replacement;
use serde::{Deserialize, Serialize};

use crate::Error;

/// What a host remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// The key that it was given. With another one it forgets the rest.
    pub given_key: String,
    /// The key that has signed last.
    pub key: String,
    /// The key that may sign from now on, too.
    pub next_key: Option<String>,
    /// The highest number of a manifest that was seen.
    pub number: u64,
    /// When that ceases to be believed, in seconds since 1970.
    pub expires: u64,
    /// What the store calls it, to ask whether there is a newer one.
    pub tag: Option<String>,
    /// The store, list and host that this is of.
    pub from: String,
    /// See there.
    pub list: String,
    /// See there.
    pub host: String,
    /// Identity of the filter that was in place after it.
    pub identity: String,
}

/// The state of one filter, locked against a second fetch.
#[derive(Debug)]
pub struct Kept {
    path: PathBuf,
    _lock: File,
    /// What it holds.
    pub state: State,
}

fn beside(filter: &Path, ending: &str) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(filter.file_name().unwrap_or_default());
    name.push(ending);
    filter.with_file_name(name)
}

/// Keeps a second run of the same program away from a filter, until it is dropped.
///
/// # Errors
/// When there is one, or the folder cannot be written.
pub(crate) fn lock(filter: &Path, ending: &str, program: &str) -> Result<File, Error> {
    let path = beside(filter, ending);
    let lock = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(Error::io(&path, "open"))?;
    if lock.try_lock().is_err() {
        return Err(Error::Settings(format!(
            "{}: another {program} is at work on it",
            filter.display()
        )));
    }
    Ok(lock)
}

/// Longest file of a state.
const MAX_BYTES: u64 = 1 << 16;

impl Kept {
    /// Opens the state of a filter.
    ///
    /// # Errors
    /// When another fetch of the same filter runs, or the folder cannot be written. What cannot be
    /// read as a state is one.
    pub fn open(filter: &Path, given_key: &str) -> Result<Self, Error> {
        let lock = lock(filter, ".fetch-lock", "blocklist-fetch")?;
        let path = beside(filter, ".fetch");
        let is_small = fs::metadata(&path).is_ok_and(|meta| meta.len() <= MAX_BYTES);
        let bytes = if is_small { fs::read(&path).ok() } else { None };
        let state: Option<State> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let state = state
            .filter(|state| state.given_key == given_key)
            .unwrap_or_else(|| State {
                given_key: given_key.to_owned(),
                key: given_key.to_owned(),
                ..State::default()
            });
        Ok(Self {
            path,
            _lock: lock,
            state,
        })
    }

    /// Writes it, if it has changed.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep(&mut self, state: State) -> Result<(), Error> {
        if state != self.state {
            let bytes = serde_json::to_vec_pretty(&state).expect("plain data");
            let replacement = Replacement::claim(&self.path)?;
            replacement
                .file()
                .write_all_at(&bytes, 0)
                .map_err(Error::io(&self.path, "write"))?;
            replacement.commit()?;
            self.state = state;
        }
        Ok(())
    }
}
