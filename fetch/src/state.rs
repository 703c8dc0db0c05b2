//! What a host remembers of a list: the manifest it saw last, and which key signs now.
//!
//! It lies next to the filter, as `.NAME.fetch`. Without it a host believes the key that it was given, and
//! the newest manifest it is shown; the generation of the filter in use still is no less than before. So one that
//! cannot be read is an error: only a person makes a host forget, by removing it.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use blocklist_milter::replacement::{self, Replacement};
use serde::{Deserialize, Serialize};

use crate::Error;

/// What a host remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// The key that it was given. With another one it believes no other any more; what it has seen it still knows.
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
    _lock: Lock,
    /// What it holds.
    pub state: State,
}

/// A file next to another, hidden.
pub(crate) fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(file.file_name().unwrap_or_default());
    name.push(ending);
    file.with_file_name(name)
}

/// Keeps a second run of the same program away from a file, until it is dropped.
pub(crate) type Lock = Replacement;

/// Takes such a lock. Its file is there only while it is held, and belongs to whom the folder belongs: what root runs
/// by hand must not lock the service out.
///
/// # Errors
/// When another has it, or the folder cannot be written.
pub(crate) fn lock(file: &Path, ending: &str, program: &str) -> Result<Lock, Error> {
    Replacement::claim(&beside(file, ending)).map_err(|error| match error {
        replacement::Error::Busy { .. } => Error::Settings(format!(
            "{}: another {program} is at work on it",
            file.display()
        )),
        error => error.into(),
    })
}

/// Longest file of a state.
const MAX_BYTES: u64 = 1 << 16;

impl Kept {
    /// Opens the state of a filter.
    ///
    /// # Errors
    /// When another fetch of the same filter runs, the folder cannot be written, or the state cannot be read.
    pub fn open(filter: &Path, given_key: &str) -> Result<Self, Error> {
        let lock = lock(filter, ".fetch-lock", "blocklist-fetch")?;
        let path = beside(filter, ".fetch");
        // What a killed one left goes.
        drop(Replacement::claim(&path)?);
        let mut state = read(&path)?;
        if state.given_key != given_key {
            let is_known = state.key == given_key || state.next_key.as_deref() == Some(given_key);
            if !is_known {
                given_key.clone_into(&mut state.key);
                // Nor is it enough that the manifest is the same.
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

fn read(path: &Path) -> Result<State, Error> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(State::default()),
        Err(error) => return Err(Error::io(path, "open")(error)),
    };
    let mut bytes = Vec::new();
    file.take(MAX_BYTES)
        .read_to_end(&mut bytes)
        .map_err(Error::io(path, "read"))?;
    serde_json::from_slice(&bytes).map_err(|error| {
        Error::Settings(format!(
            "{}: not what blocklist-fetch has written ({error}): remove it, and the next run begins anew with --key",
            path.display()
        ))
    })
}
