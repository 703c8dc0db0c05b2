//! Files by name in a folder, on a web server, or in S3; each read with a limit.
//!
//! A store that gives more than it should is cut off, one that stalls is given up, and one that sends us
//! elsewhere is not followed.

use std::fmt;
use std::fs::File;
use std::future::Future;
use std::io::{Read as _, Write as _};
use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::Duration;

use blocklist_milter::filter::Digest;
use futures_util::StreamExt as _;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::buffered::BufWriter;
use object_store::client::{HttpClient, HttpConnector};
use object_store::http::HttpBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ClientOptions, GetOptions, ObjectStore, ObjectStoreExt as _, RetryConfig};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;
use tokio::runtime::Runtime;
use url::{Host, Url};

use crate::Error;

/// To connect, and between two pieces of an answer.
const CONNECT: Duration = Duration::from_secs(20);
const STALL: Duration = Duration::from_secs(60);
/// For each request on top of what the slowest useful connection needs.
const REQUEST: Duration = Duration::from_secs(120);
const SLOWEST_BYTES_A_SECOND: u64 = 32 << 10;

/// A store, and where in it the files are.
pub struct Store {
    store: Arc<dyn ObjectStore>,
    runtime: Runtime,
    /// For messages.
    shown: String,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.shown).finish()
    }
}

/// A small file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Got {
    /// Its bytes, and what to ask with the next time.
    File(Vec<u8>, Option<String>),
    /// It is the one that was asked with.
    Same,
    /// There is none.
    Missing,
}

impl Store {
    /// Opens a folder, `http(s)://HOST/PATH` or `s3://BUCKET/PATH`. S3 takes its settings from the
    /// variables that the AWS command line has (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, ...).
    ///
    /// # Errors
    /// When it can be none of these. Over `http` only this host itself is asked: filters hold their seed.
    pub fn open(place: &str) -> Result<Self, Error> {
        let url = Url::parse(place).ok();
        let is_broken = url.is_none() && place.contains("://");
        if is_broken || url.as_ref().is_some_and(names_a_user) {
            // Not shown, as it may hold a password.
            return Err(Error::Settings(
                "the store must be a folder or a URL without a user and a password".to_owned(),
            ));
        }
        let unusable = |why: &dyn fmt::Display| Error::Settings(format!("{place}: {why}"));
        let store: Arc<dyn ObjectStore> = match url.as_ref().map(Url::scheme) {
            Some("http" | "https") => {
                let url = url.as_ref().expect("it has a scheme");
                if url.scheme() == "http" && !is_this_host(url) {
                    return Err(unusable(&"not over http: use https, as filters are secret"));
                }
                let http = HttpBuilder::new()
                    .with_url(place)
                    .with_retry(retries())
                    .with_http_connector(Connector);
                Arc::new(http.build().map_err(|error| unusable(&error))?)
            }
            Some("s3") => {
                let url = url.as_ref().expect("it has a scheme");
                let bucket = AmazonS3Builder::from_env()
                    .with_bucket_name(url.host_str().unwrap_or_default())
                    .with_retry(retries())
                    .with_http_connector(Connector);
                check_endpoints(&bucket)?;
                let bucket = bucket.build().map_err(|error| unusable(&error))?;
                let prefix = Path::from_url_path(url.path()).map_err(|error| unusable(&error))?;
                Arc::new(PrefixStore::new(bucket, prefix))
            }
            Some("file") => return Err(unusable(&"name a folder by its path")),
            Some(scheme) if place.contains("://") => {
                return Err(unusable(&format!("{scheme} is not known")));
            }
            Some(_) | None => {
                let folder = LocalFileSystem::new_with_prefix(place);
                Arc::new(folder.map_err(|error| unusable(&error))?.with_fsync(true))
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| unusable(&error))?;
        let shown = url.map_or_else(
            || place.to_owned(),
            |url| {
                if url.cannot_be_a_base() {
                    place.to_owned()
                } else {
                    url.to_string()
                }
            },
        );
        Ok(Self {
            store,
            runtime,
            shown: shown.trim_end_matches('/').to_owned(),
        })
    }

    fn failed(&self, name: &str, why: impl fmt::Display) -> Error {
        // Causes follow each other on lines of their own; one line is what people read.
        let why = why.to_string().replace(['\n', '\r'], " ");
        Error::Store {
            name: format!("{}/{name}", self.shown),
            why: why.chars().take(300).collect(),
        }
    }

    /// Waits, but not for longer than a connection of any use needs for so many bytes.
    fn wait<T>(
        &self,
        name: &str,
        bytes: u64,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let limit = REQUEST + Duration::from_secs(bytes / SLOWEST_BYTES_A_SECOND);
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
                Err(error) => return Err(self.failed(name, error)),
            };
            let tag = got.meta.e_tag.clone();
            let mut bytes = Vec::new();
            let mut stream = got.into_stream();
            while let Some(piece) = stream.next().await {
                let piece = piece.map_err(|error| self.failed(name, error))?;
                bytes.extend_from_slice(&piece);
                if bytes.len() as u64 > most_bytes {
                    return Err(self.failed(name, format!("longer than {most_bytes} bytes")));
                }
            }
            Ok(Got::File(bytes, tag))
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
            let got = got.map_err(|error| self.failed(name, error))?;
            let mut stream = got.into_stream();
            let mut sha = Sha256::new();
            let mut count = 0;
            while let Some(piece) = stream.next().await {
                let piece = piece.map_err(|error| self.failed(name, error))?;
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
            put.map(drop).map_err(|error| self.failed(name, error))
        })
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
            let mut buffer = vec![0; 1 << 20];
            loop {
                let count = file
                    .read(&mut buffer)
                    .map_err(|error| self.failed(name, error))?;
                if count == 0 {
                    break;
                }
                sha.update(&buffer[..count]);
                let put = writer.write_all(&buffer[..count]).await;
                put.map_err(|error| self.failed(name, error))?;
            }
            if Digest(sha.finalize().into()).to_string() != sha256 {
                let _ = writer.abort().await;
                return Err(replaced(from));
            }
            let done = writer.shutdown().await;
            done.map_err(|error| self.failed(name, error))
        })
    }

    /// Removes the files below `folder` that are not to be kept. A store that cannot tell what it has keeps all.
    ///
    /// # Errors
    /// When the store takes too long.
    pub fn prune(&self, folder: &str, keep: impl Fn(&str) -> bool) -> Result<(), Error> {
        self.wait(folder, 0, async {
            let prefix = Path::from(folder);
            let mut files = self.store.list(Some(&prefix));
            while let Some(Ok(file)) = files.next().await {
                if !keep(file.location.as_ref()) {
                    let _ = self.store.delete(&file.location).await;
                }
            }
            Ok(())
        })
    }
}

/// A file that is not the one it was.
pub(crate) fn replaced(path: &FilePath) -> Error {
    Error::Settings(format!(
        "{}: was replaced while it was published: publish again",
        path.display()
    ))
}

fn retries() -> RetryConfig {
    RetryConfig {
        max_retries: 2,
        retry_timeout: Duration::from_secs(30),
        ..RetryConfig::default()
    }
}

fn names_a_user(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// Refuses what the environment names instead of Amazon's servers if it is asked in clear text. The connector knows
/// nothing of this: credentials come from a service that has http only.
fn check_endpoints(bucket: &AmazonS3Builder) -> Result<(), Error> {
    for (key, variable) in [
        (AmazonS3ConfigKey::Endpoint, "AWS_ENDPOINT_URL"),
        (AmazonS3ConfigKey::S3Endpoint, "AWS_ENDPOINT_URL_S3"),
        (AmazonS3ConfigKey::StsEndpoint, "AWS_ENDPOINT_URL_STS"),
    ] {
        let Some(place) = bucket.get_config_value(&key) else {
            continue;
        };
        let is_safe = |url: &Url| match url.scheme() {
            "https" => !names_a_user(url),
            "http" => !names_a_user(url) && is_this_host(url),
            _ => false,
        };
        if !Url::parse(&place).as_ref().is_ok_and(is_safe) {
            return Err(Error::Settings(format!(
                "{variable}: must be https, without a user and a password, as filters are secret"
            )));
        }
    }
    Ok(())
}

fn is_this_host(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Makes clients that follow no redirect and wait for nobody for ever.
#[derive(Debug)]
struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        // Another part of the process may have chosen one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT)
            .read_timeout(STALL)
            .build();
        let client = client.map_err(|error| object_store::Error::Generic {
            store: "HTTP",
            source: Box::new(error),
        })?;
        Ok(HttpClient::new(client))
    }
}
