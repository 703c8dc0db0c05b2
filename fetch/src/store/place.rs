//! Opens the store for an address. Refuses addresses that would expose secrets.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use object_store::http::HttpBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, RetryConfig};
use url::Url;

use super::Store;
use super::bucket::Bucket;
use super::http::{Access, Connector};
use super::server::{is_this_host, names_a_user};
use crate::Error;

impl Store {
    /// Opens a folder, `http(s)://HOST/PATH`, or a bucket: `s3://BUCKET/PATH`, `gs://BUCKET/PATH`, `az://CONTAINER/PATH`.
    ///
    /// # Errors
    /// It is none of these, or not allowed: `http` is allowed only for this host, because filters contain their seed.
    pub fn open(place: &str, access: &Access) -> Result<Self, Error> {
        let url = Url::parse(place).ok();
        let is_broken = url.is_none() && place.contains("://");
        if is_broken || url.as_ref().is_some_and(names_a_user) {
            // The address is not shown, because it may contain a password.
            return Err(Error::Settings(
                "the store must be a folder or a URL without a user and a password".to_owned(),
            ));
        }
        let is_web = url
            .as_ref()
            .is_some_and(|url| matches!(url.scheme(), "http" | "https"));
        if access.login.is_some() && !is_web {
            return Err(Error::Settings(format!(
                "{place}: a login is only for web servers"
            )));
        }
        let unusable = |why: &dyn fmt::Display| Error::Settings(format!("{place}: {why}"));
        let mut folder = None;
        let store: Arc<dyn ObjectStore> = match url.as_ref().map(Url::scheme) {
            Some("http" | "https") => {
                let url = url.as_ref().expect("it has a scheme");
                if url.scheme() == "http" && !is_this_host(url) {
                    return Err(unusable(
                        &"not over http: use https, because filters are secret",
                    ));
                }
                let http = HttpBuilder::new()
                    .with_url(place)
                    .with_retry(retries())
                    .with_http_connector(Connector::new(access, url.scheme() == "http"));
                Arc::new(http.build().map_err(|error| unusable(&error))?)
            }
            Some(scheme) if let Some(kind) = Bucket::of(scheme) => {
                let url = url.as_ref().expect("it has a scheme");
                let prefix = Path::from_url_path(url.path()).map_err(|error| unusable(&error))?;
                let name = url.host_str().unwrap_or_default();
                let bucket = kind.open(name, access, retries(), unusable)?;
                Arc::new(PrefixStore::new(bucket, prefix))
            }
            Some("file") => return Err(unusable(&"name a folder by its path")),
            Some(scheme) if place.contains("://") => {
                return Err(unusable(&format!("unknown scheme {scheme}")));
            }
            Some(_) | None => {
                folder = Some(PathBuf::from(place));
                let store = LocalFileSystem::new_with_prefix(place);
                // Unlike a wrong address, this may be a mirror that is not mounted now.
                let store = store.map_err(|error| Error::Store {
                    name: place.to_owned(),
                    why: error.to_string(),
                })?;
                Arc::new(store.with_fsync(true))
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
            patience: access.patience,
            folder,
            shown: shown.trim_end_matches('/').to_owned(),
        })
    }
}

fn retries() -> RetryConfig {
    RetryConfig {
        max_retries: 2,
        retry_timeout: Duration::from_secs(30),
        ..RetryConfig::default()
    }
}
