//! Files that are read whole or refused, and the error that names the file.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::path::if_exists;

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct FileError {
    path: PathBuf,
    source: io::Error,
}

impl FileError {
    pub fn of<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        path: &Path,
    ) -> impl Fn(E) -> Self {
        let path = path.to_owned();
        move |source| Self {
            path: path.clone(),
            source: io::Error::other(source),
        }
    }
}

/// Reads a file of at most so many bytes; `None` if there is no file. `what` follows "too large for".
pub fn read(path: &Path, most: u64, what: &str) -> Result<Option<Vec<u8>>, FileError> {
    let Some(file) = if_exists(File::open(path)).map_err(FileError::of(path))? else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    let read = file.take(most + 1).read_to_end(&mut bytes);
    read.map_err(FileError::of(path))?;
    if bytes.len() as u64 > most {
        return Err(FileError::of(path)(format!("too large for {what}")));
    }
    Ok(Some(bytes))
}
