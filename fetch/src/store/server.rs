//! Which servers may be asked: rules for all kinds of stores, because filters contain their seed.

use url::{Host, Url};

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
