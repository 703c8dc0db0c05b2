//! Access to a store over HTTP: redirects are not followed, all waiting times are limited, and only the unmodified file is
//! accepted as an answer. Which servers may be asked: filters contain their seed.

use std::fmt;
use std::net::Ipv6Addr;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::StreamExt as _;
use http_body_util::BodyExt as _;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use reqwest::header::{AUTHORIZATION, CONTENT_ENCODING, HeaderMap, HeaderValue};

use url::{Host, Url};

use crate::Error;

/// Most bytes that are read from an error page.
const MAX_ERROR_BYTES: usize = 16 << 10;

/// How to access a store.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// User and password, only for a web server.
    pub login: Option<Login>,
    /// How long to wait.
    pub patience: Patience,
}

/// User and password for a web server. They are never shown.
#[derive(Clone)]
pub struct Login(HeaderValue);

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login")
    }
}

impl Login {
    /// Parses `USER:PASSWORD`.
    ///
    /// # Errors
    /// There is no colon.
    pub fn new(written: &str) -> Result<Self, Error> {
        if !written.contains(':') {
            return Err(Error::Settings(
                "the login for the store must be USER:PASSWORD".to_owned(),
            ));
        }
        let text = format!("Basic {}", BASE64_STANDARD.encode(written));
        let mut value = HeaderValue::try_from(text).expect("base64 is a header");
        value.set_sensitive(true);
        Ok(Self(value))
    }
}

/// How long to wait for a store.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// To connect.
    pub connect: Duration,
    /// Until an answer begins, and between two pieces of it.
    pub stall: Duration,
    /// For each request, in addition to the time for its bytes.
    pub request: Duration,
    /// Before a download is tried again.
    pub pause: Duration,
    /// The slowest useful connection.
    pub bytes_a_second: u64,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(20),
            stall: Duration::from_secs(60),
            request: Duration::from_secs(120),
            pause: Duration::from_secs(5),
            bytes_a_second: 64 << 10,
        }
    }
}

impl Patience {
    /// The time limit for a request of so many bytes.
    pub(super) fn limit(&self, bytes: u64) -> Duration {
        self.request + Duration::from_secs(bytes / self.bytes_a_second.max(1))
    }
}

/// Creates HTTP clients.
#[derive(Debug)]
pub(super) struct Connector {
    access: Access,
    /// Without TLS, only to this host: never through a proxy.
    is_plain: bool,
}

impl Connector {
    pub(super) fn new(access: &Access, is_plain: bool) -> Self {
        Self {
            access: access.clone(),
            is_plain,
        }
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        // It fails if another part of the process has already set one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut headers = HeaderMap::new();
        if let Some(login) = &self.access.login {
            headers.insert(AUTHORIZATION, login.0.clone());
        }
        let mut client = reqwest::Client::builder()
            .user_agent(concat!("blocklist-fetch/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(self.access.patience.connect)
            .read_timeout(self.access.patience.stall);
        if self.is_plain {
            client = client.no_proxy();
        }
        let client = client
            .build()
            .map_err(|error| object_store::Error::Generic {
                store: "HTTP",
                source: Box::new(error),
            })?;
        Ok(HttpClient::new(Bounded(client)))
    }
}

/// A client that limits the size of error pages, and explains why an answer cannot be used.
#[derive(Debug)]
struct Bounded(reqwest::Client);

/// Whether a URL contains a user or a password, which logs and error messages would show.
pub(super) fn names_a_user(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// Whether a URL names this host, the only one that is asked without TLS.
pub(super) fn is_this_host(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Whether a request would cross a network in clear text. For example, a Google key file may name another server. Some
/// services are allowed without TLS: those that give virtual machines their credentials, at link-local addresses and at
/// two other addresses of Amazon.
fn is_open_to_readers(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else {
        return true;
    };
    let is_service = match url.host() {
        Some(Host::Ipv4(address)) => address.is_link_local(),
        Some(Host::Ipv6(address)) => {
            let of_amazon =
                [0x254, 0x23].map(|host| Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, host));
            address.is_unicast_link_local() || of_amazon.contains(&address)
        }
        Some(Host::Domain(name)) => name == "metadata.google.internal",
        None => false,
    };
    url.scheme() != "https" && !is_service && !is_this_host(&url)
}

/// Why an answer cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unusable(String);

#[async_trait]
impl HttpService for Bounded {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let unusable = |why: String| Err(HttpError::new(HttpErrorKind::Decode, Unusable(why)));
        if is_open_to_readers(&request.uri().to_string()) {
            return unusable("not over http: use https, because filters are secret".to_owned());
        }
        let response = self.0.call(request).await?;
        let header = |name: &str| {
            let value = response.headers().get(name)?;
            Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let status = response.status();
        if status.is_redirection() && status.as_u16() != 304 {
            let place = header("location").unwrap_or_default();
            return unusable(format!("redirects to {place}, which is not followed"));
        }
        if let Some(encoding) = header(CONTENT_ENCODING.as_str())
            && !encoding.eq_ignore_ascii_case("identity")
        {
            return unusable(format!(
                "sent with Content-Encoding {encoding}: turn compression off for these files"
            ));
        }
        if status.is_success() || status.as_u16() == 304 {
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        let mut body = body.into_data_stream();
        let mut said = Vec::new();
        while let Some(Ok(piece)) = body.next().await {
            said.extend_from_slice(&piece);
            if said.len() >= MAX_ERROR_BYTES {
                said.truncate(MAX_ERROR_BYTES);
                break;
            }
        }
        let said = String::from_utf8_lossy(&said).into_owned();
        Ok(HttpResponse::from_parts(parts, said.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clear_text_goes_to_this_host_and_its_own_services_alone() {
        for near in [
            "https://lists.your.example/a",
            "http://localhost:9000/a",
            "http://127.0.0.1/a",
            "http://[::1]/a",
            "http://169.254.169.254/latest/meta-data",
            "http://[fd00:ec2::254]/latest",
            "http://metadata.google.internal/a",
        ] {
            assert!(!is_open_to_readers(near), "{near}");
        }
        for far in [
            "http://lists.your.example/a",
            "http://192.0.2.1/a",
            "http://10.0.0.1/a",
            "http://[fd00::1]/a",
            "http://[2001:db8::1]/a",
            "http://localhost.evil.example/a",
            "http://metadata/a",
            "ftp://lists.your.example/a",
            "no URL",
        ] {
            assert!(is_open_to_readers(far), "{far}");
        }
    }
}
