//! Files by name in a folder, on a web server, or in a bucket; each is read with a limit.
//!
//! If a store sends more than it should, stalls, or redirects, the request fails.

mod bucket;
mod http;
mod place;

pub use http::{Access, Login, Patience};

use std::error::Error as _;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::future::Future;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use blocklist_filter::filter::Digest;
use futures_util::StreamExt as _;
use object_store::buffered::BufWriter;
use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, UpdateVersion,
};
use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;
use tokio::runtime::Runtime;

use crate::{Error, manifest};

/// A store, and the prefix of the files in it.
pub struct Store {
    store: Arc<dyn ObjectStore>,
    runtime: Runtime,
    patience: Patience,
    /// The address, for messages.
    shown: String,
    /// The path, if it is a folder; publishers lock it.
    pub(crate) folder: Option<PathBuf>,
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
    /// The tag (ETag), for the next request.
    pub tag: Option<String>,
    /// The version in Google Cloud Storage.
    pub version: Option<String>,
    /// When it was written, according to the store's clock.
    pub modified: SystemTime,
}

/// The store's answer to a request for a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Got {
    /// The file.
    File(Small),
    /// The file still has the tag of the request.
    Same,
    /// There is no such file.
    Missing,
}

impl Store {
    fn failed(&self, name: &str, why: impl fmt::Display) -> Error {
        // A server's text is shown as one line, without control characters.
        let why = why.to_string().replace(char::is_control, " ");
        Error::Store {
            name: format!("{}/{name}", self.shown),
            why: why.trim_end().chars().take(300).collect(),
        }
    }

    fn refused(&self, name: &str, error: &object_store::Error) -> Error {
        let failed = self.failed(name, why(error));
        let mut cause = error.source();
        while let Some(error) = cause {
            if error.is::<http::Unusable>() {
                return Error::Refused(failed.to_string());
            }
            cause = error.source();
        }
        failed
    }

    /// Waits, but no longer than the slowest useful connection needs for so many bytes.
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

    /// Reads a small file, unless it still has the tag `known`.
    ///
    /// # Errors
    /// It cannot be read, or is longer than `most_bytes`.
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

    /// Does the work of [`download_to`](Self::download_to). An interrupted download goes on where it stopped, as long as
    /// there is progress.
    fn download(
        &self,
        name: &str,
        (bytes, sha256): (u64, &str),
        to: &mut File,
    ) -> Result<u64, Error> {
        let mut part = Part::begun(to, bytes).map_err(|error| self.not_stored(name, &error))?;
        let begun = part.count;
        let mut tries_left = TRIES;
        let mut most = begun;
        while part.count < bytes {
            let before = part.count;
            let got = self.wait(name, bytes - before, self.rest(name, bytes, &mut part));
            match got {
                Ok(()) if part.count == bytes => break,
                Err(error) if !matches!(error, Error::Store { .. }) => return Err(error),
                got => {
                    tries_left = match part.count > most {
                        true => TRIES,
                        false => tries_left - 1,
                    };
                    most = most.max(part.count);
                    if tries_left == 0 {
                        let short = format!("only {} of {bytes} bytes", part.count);
                        return Err(got.err().unwrap_or_else(|| self.failed(name, short)));
                    }
                    std::thread::sleep(self.patience.pause);
                }
            }
        }
        if part.digest() != sha256 {
            let why = "its SHA-256 is not the one in the manifest";
            return Err(Error::Refused(format!("{}/{name}: {why}", self.shown)));
        }
        Ok(bytes - begun)
    }

    /// Downloads a file with exactly this size and SHA-256 to a path, which may have its beginning. If the download fails
    /// but the beginning is good, it stays there for the next try. Returns the bytes that were read.
    ///
    /// # Errors
    /// [`Error::Store`] if it cannot be read: what is there is good for another try. [`Error::Refused`] if it has another
    /// size or SHA-256.
    pub fn download_to(&self, name: &str, of: (u64, &str), path: &FilePath) -> Result<u64, Error> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o600);
        options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        let mut file = options.open(path).map_err(Error::io(path, "create"))?;
        self.download(name, of, &mut file).inspect_err(|error| {
            // Whatever it is, it is not the beginning of this file.
            if !matches!(error, Error::Store { .. }) {
                let _ = fs::remove_file(path);
            }
        })
    }

    /// Reads what is missing of a file.
    async fn rest(&self, name: &str, bytes: u64, part: &mut Part<'_>) -> Result<(), Error> {
        let range = (part.count > 0).then_some(GetRange::Offset(part.count));
        let options = GetOptions {
            range,
            ..GetOptions::default()
        };
        let got = self.store.get_opts(&Path::from(name), options).await;
        if let Err(object_store::Error::NotSupported { .. }) = got {
            // A server that sends only whole files.
            let restarted = part.restart();
            restarted.map_err(|error| self.not_stored(name, &error))?;
        }
        let got = got.map_err(|error| self.refused(name, &error))?;
        let mut stream = got.into_stream();
        while let Some(piece) = stream.next().await {
            let piece = piece.map_err(|error| self.refused(name, &error))?;
            if part.count + piece.len() as u64 > bytes {
                let why = format!("longer than the {bytes} bytes it should have");
                return Err(Error::Refused(format!("{}/{name}: {why}", self.shown)));
            }
            let stored = part.add(&piece);
            stored.map_err(|error| self.not_stored(name, &error))?;
        }
        Ok(())
    }

    fn not_stored(&self, name: &str, error: &std::io::Error) -> Error {
        Error::Settings(format!("{}/{name}: cannot be stored: {error}", self.shown))
    }

    /// Writes a small file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.wait(name, bytes.len() as u64, async {
            let put = self
                .store
                .put(&Path::from(name), bytes.to_vec().into())
                .await;
            put.map(drop).map_err(|error| self.refused(name, &error))
        })
    }

    /// Replaces the small file `old`, or creates it if there was none. A bucket guarantees that nobody else has replaced it
    /// in between; for other stores, this is only checked once more before the write.
    ///
    /// # Errors
    /// [`Error::Refused`] if the file is no longer `old`; others if it cannot be written.
    pub fn replace(&self, name: &str, old: Option<&Small>, bytes: &[u8]) -> Result<(), Error> {
        let changed = || {
            Err(Error::Refused(format!(
                "{name}: another publisher was faster; nothing was published: try again"
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

    /// Whether the store has a file with this name and size.
    ///
    /// # Errors
    /// The store takes too long.
    pub fn has(&self, name: &str, bytes: u64) -> Result<bool, Error> {
        self.wait(name, 0, async {
            let there = self.store.head(&Path::from(name)).await;
            Ok(there.is_ok_and(|there| there.size == bytes))
        })
    }

    /// Uploads a file with this SHA-256, piece by piece.
    ///
    /// # Errors
    /// It cannot be read or written, or has another SHA-256. The store then does not have the file.
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

    /// Removes the files of a list that were written before `before` and are no longer needed, and in a folder also the
    /// leftovers of a killed publisher. Files with other kinds of names stay, because they belong to somebody else: the
    /// folder of a list may contain its text, for example. Errors are ignored; the next run tries again.
    pub fn prune(&self, list: &str, before: SystemTime, keep: impl Fn(&str) -> bool) {
        let _ = self.wait(list, 0, async {
            let prefix = Path::from(list);
            let mut files = self.store.list(Some(&prefix));
            while let Some(Ok(file)) = files.next().await {
                // A newer file may belong to a publisher that is still running.
                let is_old = SystemTime::from(file.last_modified) < before;
                let is_ours = file.location.filename().is_some_and(manifest::is_file_name);
                if is_old && is_ours && !keep(file.location.as_ref()) {
                    let _ = self.store.delete(&file.location).await;
                }
            }
            Ok(())
        });
        // Files that are being written have a # and a number after their names, and are not listed.
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

/// How often a download is tried without progress.
const TRIES: u32 = 3;

/// A file of which the beginning is there.
struct Part<'f> {
    file: &'f mut File,
    count: u64,
    sha: Sha256,
}

impl<'f> Part<'f> {
    /// Reads what there is of a file of so many bytes. A longer one is emptied.
    fn begun(file: &'f mut File, bytes: u64) -> std::io::Result<Self> {
        if file.metadata()?.len() > bytes {
            file.set_len(0)?;
        }
        file.rewind()?;
        let (count, sha) = hashed(file)?;
        Ok(Self { file, count, sha })
    }

    fn restart(&mut self) -> std::io::Result<()> {
        (self.count, self.sha) = (0, Sha256::new());
        self.file.set_len(0)?;
        self.file.rewind()
    }

    fn add(&mut self, piece: &[u8]) -> std::io::Result<()> {
        self.file.write_all(piece)?;
        self.count += piece.len() as u64;
        self.sha.update(piece);
        Ok(())
    }

    fn digest(&self) -> String {
        Digest(self.sha.clone().finalize().into()).to_string()
    }
}

/// The cause of an error, without the layers in between.
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

/// The number of bytes of a file, and their SHA-256.
pub(crate) fn hashed(file: &mut File) -> std::io::Result<(u64, Sha256)> {
    let (mut count, mut sha) = (0, Sha256::new());
    let mut piece = Vec::new();
    while next_piece(file, &mut piece)? {
        count += piece.len() as u64;
        sha.update(&piece);
    }
    Ok((count, sha))
}

/// Reads the next mebibyte of a file, or the rest of it. `false`: the end was reached.
fn next_piece(file: &mut File, piece: &mut Vec<u8>) -> std::io::Result<bool> {
    const BYTES: u64 = 1 << 20;
    piece.clear();
    // Unlike `read`, this continues after a signal.
    file.take(BYTES).read_to_end(piece)?;
    Ok(!piece.is_empty())
}

/// The error for a file that has changed in between.
pub(crate) fn replaced(path: &FilePath) -> Error {
    Error::Settings(format!(
        "{}: was replaced during the publication: publish again",
        path.display()
    ))
}
