//! Why the daemon cannot start, or has to end.

use std::io;
use std::path::PathBuf;

use crate::endpoint::Endpoint;

/// Why a daemon cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No socket is configured, and none was handed over.
    #[error("no address to listen on: set `listen`")]
    NoEndpoint,
    /// A socket cannot be opened.
    #[error("cannot listen on {endpoint}")]
    Listen {
        /// Which.
        endpoint: Endpoint,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// A socket that systemd handed over is of no use.
    #[error("cannot use socket {number} from systemd")]
    Inherited {
        /// Which, from 0.
        number: usize,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// Another process listens there.
    #[error("another process listens on {}: stop it first", path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// Something else stands where the socket should be.
    #[error("{} exists and is not a socket: remove it", path.display())]
    NotASocket {
        /// What stands there.
        path: PathBuf,
    },
    /// The group for the sockets is not known.
    #[error("no group {group:?} in /etc/group: create it, or use its number")]
    NoGroup {
        /// As it was configured.
        group: String,
    },
    /// The group is known, but the socket cannot be given to it.
    #[error("cannot change the group of {} to {group:?}: the user of this process must be a member", path.display())]
    Group {
        /// The socket.
        path: PathBuf,
        /// As it was configured.
        group: String,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// A thread, a runtime or a signal handler cannot be had.
    #[error("cannot start")]
    Start(#[source] io::Error),
    /// A thread ended that should not.
    #[error("a worker thread has failed")]
    Worker,
}
