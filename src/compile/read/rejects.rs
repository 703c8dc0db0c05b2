//! The file of rejects: every line that was rejected, skipped or repaired, with its file and
//! number.
//!
//! ```text
//!   lists/spammers.txt:17: a web address; list its domain: http://bad.example/
//! ```
//!
//! Blank lines and comments are left out. A worker writes the lines of a block together.
//! With several workers, blocks are in the order in which they finish.

use std::fmt::{Display, Write as _};
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::address::escaped;
use crate::compile::Error;

/// Number of bytes that a worker collects before it writes them.
const KEPT_BYTES: usize = 64 << 10;

/// The file, shared by all workers.
#[derive(Debug)]
pub(crate) struct RejectsFile {
    path: PathBuf,
    file: Mutex<File>,
}

/// Lines of one worker that are not written yet.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    input: String,
    before: u64,
    text: String,
}

impl RejectsFile {
    /// Creates an empty file.
    ///
    /// # Errors
    /// When it cannot be created.
    pub(crate) fn create(path: &Path) -> Result<Self, Error> {
        Ok(Self {
            path: path.to_path_buf(),
            file: Mutex::new(File::create(path).map_err(Error::io(path, WRITE))?),
        })
    }

    /// Empties the file, because the inputs are read again.
    ///
    /// # Errors
    /// When the file system reports an error.
    pub(crate) fn restart(&self) -> Result<(), Error> {
        self.with_file(|file| {
            // Standard output and other pipes cannot be emptied.
            if file.metadata()?.is_file() {
                file.set_len(0)?;
                file.rewind()?;
            }
            Ok(())
        })
    }

    /// Writes the lines that a worker has collected.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn write(&self, lines: &mut Lines) -> Result<(), Error> {
        if lines.text.is_empty() {
            return Ok(());
        }
        let written = self.with_file(|file| file.write_all(lines.text.as_bytes()));
        lines.text.clear();
        lines.text.shrink_to(KEPT_BYTES);
        written
    }

    fn with_file(&self, job: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), Error> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        job(&mut file).map_err(Error::io(&self.path, WRITE))
    }
}

const WRITE: &str = "write the rejects";

impl Lines {
    /// Begins a block of this input, with `before` lines of the input before it.
    pub(crate) fn begin(&mut self, input: String, before: u64) {
        (self.input, self.before) = (input, before);
    }

    /// Adds a line; returns whether it is time to write.
    pub(crate) fn add(&mut self, line: u64, text: &[u8], reason: &dyn Display) -> bool {
        let line = self.before + line;
        // Writing to a string does not fail.
        let _ = writeln!(
            self.text,
            "{}:{line}: {reason}: {}",
            self.input,
            escaped(text)
        );
        self.text.len() >= KEPT_BYTES
    }
}
