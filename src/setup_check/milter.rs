//! What a mail server must know about the milter.

use crate::config::Config;
use crate::endpoint::Endpoint;

/// The milter, to compare the mail server's settings with.
pub(super) struct Milter<'a> {
    pub(super) config: &'a Config,
    pub(super) sockets: &'a [Endpoint],
    /// How to start the daemon.
    pub(super) start: &'a str,
    /// Whether systemd manages its sockets.
    pub(super) has_units: bool,
}
