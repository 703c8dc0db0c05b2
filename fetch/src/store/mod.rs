//! Files by name in a folder, on a web server, or in a bucket; each read with a limit.
//!
//! A store that gives more than it should is cut off, one that stalls is given up, and one that sends us
//! elsewhere is not followed.

mod bucket;
mod http;
mod place;

pub use http::{Access, Login, Patience};

use std::error::Error as _;
use std::fmt;
use std::fs::{self, File};
use std::future::Future;
use std::io::{Read as _, Write as _};
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use blocklist_milter::filter::Digest;
use futures_util::StreamExt as _;
use object_store::buffered::BufWriter;
use object_store::path::Path;
use object_store::{
    GetOptions, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, UpdateVersion,
};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;
use tokio::runtime::Runtime;

use crate::{Error, manifest};

/// A store, and where in it the files are.
pub struct Store {
    store: Arc<dyn ObjectStore>,
    runtime: Runtime,
    patience: Patience,
    /// For messages.
    shown: String,
    /// If it is a folder.
    folder: Option<PathBuf>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.shown).finish()
    }
}

/// A small file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Small {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// What to ask with the next time.
    pub tag: Option<String>,
    /// What Google Cloud Storage knows it by.
    pub version: Option<String>,
    /// When it was written, by the clock of the store.
    pub modified: SystemTime,
}

/// What the store has under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Got {
    /// This.
    File(Small),
    /// It is the one that was asked with.
    Same,
    /// There is none.
    Missing,
}

impl Store {
    fn failed(&self, name: &str, why: impl fmt::Display) -> Error {
        // Of what a server says, one line is shown, and nothing that a terminal obeys.
        let why = why.to_string().replace(char::is_control, " ");
        Error::Store {
            name: format!("{}/{name}", self.shown),
            why: why.trim_end().chars().take(300).collect(),
        }
    }

    fn refused(&self, name: &str, error: &object_store::Error) -> Error {
        self.failed(name, why(error))
    }

    /// Waits, but not for longer than a connection of any use needs for so many bytes.
    fn wait<T>(
        &self,
        name: &str,
        bytes: u64,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let limit = self.patience.limit(bytes);
        let done = self
            .runtime
            .block_on(async { tokio::time::timeout(limit, work).await });
        done.unwrap_or_else(|_| {
            Err(self.failed(
                name,
                format!("not complete within {} seconds", limit.as_secs()),
            ))
        })
    }

    /// Reads a small file, unless it is still the one that `known` is of.
    ///
    /// # Errors
    /// When it cannot be read, or is longer than `most_bytes`.
    pub fn read(&self, name: &str, most_bytes: u64, known: Option<&str>) -> Result<Got, Error> {
        self.wait(name, most_bytes, async {
            let options = GetOptions {
                if_none_match: known.map(str::to_owned),
                ..GetOptions::default()
            };
            let got = match self.store.get_opts(&Path::from(name), options).await {
                Ok(got) => got,
                Err(object_store::Error::NotModified { .. }) => return Ok(Got::Same),
                Err(object_store::Error::NotFound { .. }) => return Ok(Got::Missing),
                Err(error) => return Err(self.refused(name, &error)),
            };
            let meta = got.meta.clone();
            let mut bytes = Vec::new();
            let mut stream = got.into_stream();
            while let Some(piece) = stream.next().await {
                let piece = piece.map_err(|error| self.refused(name, &error))?;
                bytes.extend_from_slice(&piece);
                if bytes.len() as u64 > most_bytes {
                    return Err(self.failed(name, format!("longer than {most_bytes} bytes")));
                }
            }
            Ok(Got::File(Small {
                bytes,
                tag: meta.e_tag,
                version: meta.version,
                modified: meta.last_modified.into(),
            }))
        })
    }

    /// Writes a file of exactly so many bytes and this SHA-256 to `to`.
    ///
    /// # Errors
    /// When it cannot be read, or is another one.
    pub fn download(
        &self,
        name: &str,
        (bytes, sha256): (u64, &str),
        to: &mut File,
    ) -> Result<(), Error> {
        self.wait(name, bytes, async {
            let got = self.store.get(&Path::from(name)).await;
            let got = got.map_err(|error| self.refused(name, &error))?;
            let mut stream = got.into_stream();
            let mut sha = Sha256::new();
            let mut count = 0;
            while let Some(piece) = stream.next().await {
                let piece = piece.map_err(|error| self.refused(name, &error))?;
                count += piece.len() as u64;
                if count > bytes {
                    return Err(self.failed(
                        name,
                        format!("longer than the {bytes} bytes it should have"),
                    ));
                }
                sha.update(&piece);
                to.write_all(&piece)
                    .map_err(|error| self.failed(name, format!("cannot be stored: {error}")))?;
            }
            if count < bytes {
                return Err(self.failed(name, format!("only {count} of {bytes} bytes")));
            }
            if Digest(sha.finalize().into()).to_string() != sha256 {
                return Err(self.failed(name, "its SHA-256 is not the one in the manifest"));
            }
            Ok(())
        })
    }

    /// Puts a small file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.wait(name, bytes.len() as u64, async {
            let put = self
                .store
                .put(&Path::from(name), bytes.to_vec().into())
                .await;
            put.map(drop).map_err(|error| self.refused(name, &error))
        })
    }

    /// Puts a small file in place of another, or where there was none. A bucket makes sure that nobody else has
    /// replaced it meanwhile; other stores are only read once more.
    ///
    /// # Errors
    /// [`Error::Refused`] when it is not that one any more, and when it cannot be written.
    pub fn replace(&self, name: &str, old: Option<&Small>, bytes: &[u8]) -> Result<(), Error> {
        let changed = || {
            Err(Error::Refused(format!(
                "{name}: somebody else has published meanwhile; nothing was published: do it again"
            )))
        };
        let mode = old.map_or(PutMode::Create, |old| {
            PutMode::Update(UpdateVersion {
                e_tag: old.tag.clone(),
                version: old.version.clone(),
            })
        });
        let put = self.wait(name, bytes.len() as u64, async {
            let options = PutOptions::from(mode);
            let payload = bytes.to_vec().into();
            Ok(self
                .store
                .put_opts(&Path::from(name), payload, options)
                .await)
        })?;
        match put {
            Ok(_) => return Ok(()),
            Err(
                object_store::Error::AlreadyExists { .. }
                | object_store::Error::Precondition { .. },
            ) => return changed(),
            Err(object_store::Error::NotImplemented { .. }) => {}
            Err(error) => return Err(self.refused(name, &error)),
        }
        let most_bytes = old.map_or(0, |old| old.bytes.len() as u64);
        let is_same = match (self.read(name, most_bytes.max(1), None), old) {
            (Ok(Got::File(now)), Some(old)) => now.bytes == old.bytes,
            (Ok(Got::Missing), None) => true,
            _ => false,
        };
        if !is_same {
            return changed();
        }
        self.put(name, bytes)
    }

    /// The folder, if it is one: publishers exclude each other there by a lock.
    #[must_use]
    pub fn folder(&self) -> Option<&FilePath> {
        self.folder.as_deref()
    }

    /// Whether it has a file of this name and size.
    ///
    /// # Errors
    /// When the store takes too long.
    pub fn has(&self, name: &str, bytes: u64) -> Result<bool, Error> {
        self.wait(name, 0, async {
            let there = self.store.head(&Path::from(name)).await;
            Ok(there.is_ok_and(|there| there.size == bytes))
        })
    }

    /// Puts a file of this SHA-256, piece by piece.
    ///
    /// # Errors
    /// When it cannot be read or written, or is another one; the store has no such file then.
    pub fn upload(&self, name: &str, from: &FilePath, sha256: &str) -> Result<(), Error> {
        let mut file = File::open(from).map_err(Error::io(from, "open"))?;
        let bytes = file.metadata().map_err(Error::io(from, "read"))?.len();
        self.wait(name, bytes, async {
            let path = Path::from(name);
            let mut sha = Sha256::new();
            let mut writer = BufWriter::new(Arc::clone(&self.store), path);
            let mut piece = Vec::new();
            while next_piece(&mut file, &mut piece).map_err(Error::io(from, "read"))? {
                sha.update(&piece);
                let put = writer.write_all(&piece).await;
                put.map_err(|error| self.failed(name, of_io(&error)))?;
            }
            if Digest(sha.finalize().into()).to_string() != sha256 {
                let _ = writer.abort().await;
                return Err(replaced(from));
            }
            let done = writer.shutdown().await;
            done.map_err(|error| self.failed(name, of_io(&error)))
        })
    }

    /// Removes the files of a list that were written before `before` and are not to be kept, and what a publisher to this
    /// folder left that was killed. Files with other names than ours are somebody else's: the folder of a list may hold its text. What cannot be removed stays for the next time.
    pub fn prune(&self, list: &str, before: SystemTime, keep: impl Fn(&str) -> bool) {
        let _ = self.wait(list, 0, async {
            let prefix = Path::from(list);
            let mut files = self.store.list(Some(&prefix));
            while let Some(Ok(file)) = files.next().await {
                // A later one may be of a publisher who is at work.
                let is_old = SystemTime::from(file.last_modified) < before;
                let is_ours = file.location.filename().is_some_and(manifest::is_file_name);
                if is_old && is_ours && !keep(file.location.as_ref()) {
                    let _ = self.store.delete(&file.location).await;
                }
            }
            Ok(())
        });
        // Files that are being written have a # and a number behind their names, and are not listed.
        let manifest = manifest::name(list);
        let of_manifest = [manifest.clone(), format!("{manifest}.minisig")];
        for folder in self
            .folder
            .iter()
            .flat_map(|folder| [folder.join(list), folder.clone()])
        {
            for file in fs::read_dir(folder).into_iter().flatten().flatten() {
                let name = file.file_name();
                let name = name.to_string_lossy();
                let is_half = name.rsplit_once('#').is_some_and(|(name, number)| {
                    let is_ours =
                        manifest::is_file_name(name) || of_manifest.iter().any(|of| of == name);
                    is_ours && number.bytes().all(|byte| byte.is_ascii_digit())
                });
                if is_half {
                    let _ = fs::remove_file(file.path());
                }
            }
        }
    }
}

/// What went wrong, without the layers between.
fn why(error: &object_store::Error) -> String {
    let text = match error {
        object_store::Error::PermissionDenied { .. } => "access denied".to_owned(),
        object_store::Error::Unauthenticated { .. } => {
            "the store asks for a user and a password, or knows others".to_owned()
        }
        object_store::Error::NotFound { .. } => "the store does not have it".to_owned(),
        error => error.to_string(),
    };
    // "Error performing GET URL in 1 ms - cause".
    let text = match text.split_once("Error performing ") {
        Some((_, rest)) => rest.split_once(" - ").map_or(rest, |(_, cause)| cause),
        None => &text,
    };
    let text = text.trim_start_matches("Generic HTTP error: ");
    let text = text.trim_start_matches("HTTP error: ").trim();
    let mut root = error.source();
    while let Some(cause) = root.and_then(|at| at.source()) {
        root = Some(cause);
    }
    match root.map(ToString::to_string) {
        Some(root) if !text.contains(&root) && text.len() < 100 => format!("{text}: {root}"),
        Some(_) | None => text.to_owned(),
    }
}

fn of_io(error: &std::io::Error) -> String {
    let inner = error.get_ref();
    inner
        .and_then(|inner| inner.downcast_ref())
        .map_or_else(|| error.to_string(), why)
}

/// Reads the next mebibyte of a file, or what is left of it. `false`: nothing.
pub(crate) fn next_piece(file: &mut File, piece: &mut Vec<u8>) -> std::io::Result<bool> {
    const BYTES: u64 = 1 << 20;
    piece.clear();
    // Unlike `read`, this goes on after a signal.
    file.take(BYTES).read_to_end(piece)?;
    Ok(!piece.is_empty())
}

/// A file that is not the one it was.
pub(crate) fn replaced(path: &FilePath) -> Error {
    Error::Settings(format!(
        "{}: was replaced while it was published: publish again",
        path.display()
    ))
}
