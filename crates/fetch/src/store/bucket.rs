//! Buckets of S3, Google Cloud Storage and Azure. Their settings come from the environment variables that the providers'
//! own command-line tools use.

use std::fmt::Display;
use std::sync::Arc;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{ObjectStore, RetryConfig};
use url::Url;

use super::http::{Access, Connector, is_this_host, names_a_user};
use crate::Error;

/// The provider of a bucket.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bucket {
    Amazon,
    Google,
    Azure,
}

impl Bucket {
    /// The provider for the scheme of a URL.
    pub(super) fn of(scheme: &str) -> Option<Self> {
        match scheme {
            "s3" => Some(Self::Amazon),
            "gs" => Some(Self::Google),
            "az" => Some(Self::Azure),
            _ => None,
        }
    }

    /// Opens the bucket (for Azure: the container) with this name.
    ///
    /// # Errors
    /// The environment lacks a setting, or names a server that is not allowed (see [`check_endpoint`]).
    pub(super) fn open(
        self,
        name: &str,
        access: &Access,
        retries: RetryConfig,
        unusable: impl Fn(&dyn Display) -> Error,
    ) -> Result<Arc<dyn ObjectStore>, Error> {
        let failed = |error: object_store::Error| unusable(&error);
        Ok(match self {
            Self::Amazon => {
                let builder = AmazonS3Builder::from_env()
                    .with_bucket_name(name)
                    .with_retry(retries);
                let mut is_plain = false;
                for (key, variable) in [
                    (AmazonS3ConfigKey::Endpoint, "AWS_ENDPOINT_URL"),
                    (AmazonS3ConfigKey::S3Endpoint, "AWS_ENDPOINT_URL_S3"),
                    (AmazonS3ConfigKey::StsEndpoint, "AWS_ENDPOINT_URL_STS"),
                ] {
                    is_plain |= check_endpoint(variable, builder.get_config_value(&key))?;
                }
                let builder = builder.with_http_connector(Connector::new(access, is_plain));
                Arc::new(builder.build().map_err(failed)?)
            }
            Self::Google => {
                let builder = GoogleCloudStorageBuilder::from_env()
                    .with_bucket_name(name)
                    .with_retry(retries);
                let endpoint = builder.get_config_value(&GoogleConfigKey::BaseUrl);
                let is_plain = check_endpoint("GOOGLE_BASE_URL", endpoint)?;
                let builder = builder.with_http_connector(Connector::new(access, is_plain));
                Arc::new(builder.build().map_err(failed)?)
            }
            Self::Azure => {
                let builder = MicrosoftAzureBuilder::from_env()
                    .with_container_name(name)
                    .with_retry(retries);
                let endpoint = builder.get_config_value(&AzureConfigKey::Endpoint);
                let authority = builder.get_config_value(&AzureConfigKey::AuthorityHost);
                let emulator = std::env::var("AZURITE_BLOB_STORAGE_URL").ok();
                let is_plain = check_endpoint("AZURE_STORAGE_ENDPOINT", endpoint)?
                    | check_endpoint("AZURE_STORAGE_AUTHORITY_HOST", authority)?
                    | check_endpoint("AZURITE_BLOB_STORAGE_URL", emulator)?;
                let builder = builder.with_http_connector(Connector::new(access, is_plain));
                Arc::new(builder.build().map_err(failed)?)
            }
        })
    }
}

/// Checks a server that the environment names instead of the provider's. Returns whether it is used without TLS, which is
/// allowed only on this host.
fn check_endpoint(variable: &str, place: Option<String>) -> Result<bool, Error> {
    let Some(place) = place else {
        return Ok(false);
    };
    match Url::parse(&place) {
        Ok(url) if url.scheme() == "https" && !names_a_user(&url) => Ok(false),
        Ok(url) if url.scheme() == "http" && !names_a_user(&url) && is_this_host(&url) => Ok(true),
        _ => Err(Error::Settings(format!(
            "{variable}: must be https, without a user and a password, because filters are secret"
        ))),
    }
}
