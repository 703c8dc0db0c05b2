//! What a mail server must know about the milter.

use std::time::Duration;

use crate::config::{Config, DRAIN};
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

/// Returns why a mail server must wait longer for an answer, if it must. A read takes less time than a restart.
pub(super) fn answers_too_late(timeout: Duration) -> Option<String> {
    let seconds = DRAIN.as_secs();
    (timeout <= DRAIN).then(|| {
        format!("is not more than {seconds} seconds: a restart of the milter loses sessions")
    })
}
