//! The milter, as far as a mail server has to know it.

use crate::config::Config;
use crate::endpoint::Endpoint;

/// What a mail server is compared with.
pub(super) struct Milter<'a> {
    pub(super) config: &'a Config,
    pub(super) sockets: &'a [Endpoint],
}
