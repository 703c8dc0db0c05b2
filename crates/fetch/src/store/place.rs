//! Opens the store for an address. Refuses addresses that would expose secrets.

use std::fmt;
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
use super::http::{Access, Connector, is_this_host, names_a_user};
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
        let unusable = |why: &dyn fmt::Display| Error::Settings(format!("{place}: {why}"));
        let is_web = |url: &Url| matches!(url.scheme(), "http" | "https");
        if access.login.is_some() && !url.as_ref().is_some_and(is_web) {
            return Err(unusable(&"a login is only for web servers"));
        }
        // The path of a folder may have a colon.
        let url = url.filter(|url| {
            let is_known = is_web(url) || url.scheme() == "file";
            is_known || Bucket::of(url.scheme()).is_some() || place.contains("://")
        });
        let (store, shown) = match &url {
            Some(url) => (remote(url, place, access, unusable)?, url.to_string()),
            None => (folder(place)?, place.to_owned()),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| unusable(&error))?;
        Ok(Self {
            store,
            runtime,
            patience: access.patience,
            folder: url.is_none().then(|| place.into()),
            shown: shown.trim_end_matches('/').to_owned(),
        })
    }
}

/// Opens a web server or a bucket.
fn remote(
    url: &Url,
    place: &str,
    access: &Access,
    unusable: impl Fn(&dyn fmt::Display) -> Error,
) -> Result<Arc<dyn ObjectStore>, Error> {
    match url.scheme() {
        "http" if !is_this_host(url) => Err(unusable(
            &"not over http: use https, because filters are secret",
        )),
        "http" | "https" => {
            let http = HttpBuilder::new()
                .with_url(place)
                .with_retry(retries())
                .with_http_connector(Connector::new(access, url.scheme() == "http"));
            Ok(Arc::new(http.build().map_err(|error| unusable(&error))?))
        }
        "file" => Err(unusable(&"name a folder by its path")),
        scheme => {
            let unknown = || unusable(&format!("unknown scheme {scheme}"));
            let kind = Bucket::of(scheme).ok_or_else(unknown)?;
            let prefix = Path::from_url_path(url.path()).map_err(|error| unusable(&error))?;
            let name = url.host_str().unwrap_or_default();
            let bucket = kind.open(name, access, retries(), unusable)?;
            Ok(Arc::new(PrefixStore::new(bucket, prefix)))
        }
    }
}

fn folder(place: &str) -> Result<Arc<dyn ObjectStore>, Error> {
    let store = LocalFileSystem::new_with_prefix(place);
    // Unlike a wrong address, this may be a mirror that is not mounted now.
    let store = store.map_err(|error| Error::Store {
        name: place.to_owned(),
        why: error.to_string(),
    })?;
    Ok(Arc::new(store.with_fsync(true)))
}

fn retries() -> RetryConfig {
    RetryConfig {
        max_retries: 2,
        retry_timeout: Duration::from_secs(30),
        ..RetryConfig::default()
    }
}
