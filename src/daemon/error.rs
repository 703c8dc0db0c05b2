//! Errors that prevent the start of the daemon, or end it.

use std::io;

use rustix::io::Errno;

use crate::endpoint::Endpoint;

/// Why a daemon cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No socket is configured, and systemd has passed none.
    #[error("no address to listen on: set `listen`")]
    NoEndpoint,
    /// A socket cannot be opened.
    #[error("cannot listen on {endpoint}: {cause}{}", remedy(endpoint, cause))]
    Listen {
        /// Its address.
        endpoint: Endpoint,
        /// Why.
        cause: io::Error,
    },
    /// A socket from systemd cannot be used.
    #[error(
        "cannot use socket {number} from systemd: {cause}; the socket unit must name each with ListenStream="
    )]
    Inherited {
        /// Its number, from 0.
        number: usize,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// A thread, a runtime or a signal handler cannot be created.
    #[error("cannot start: {}{}", .0, remedy_of_limit(.0))]
    Start(io::Error),
    /// A thread has ended unexpectedly.
    #[error("a worker thread has failed")]
    Worker,
}

impl Error {
    /// Why a socket cannot be opened there.
    pub(super) fn listen(endpoint: &Endpoint, cause: io::Error) -> Self {
        let endpoint = endpoint.clone();
        Self::Listen { endpoint, cause }
    }
}

/// What to do if a socket cannot be opened, as the rest of a message.
fn remedy(endpoint: &Endpoint, cause: &io::Error) -> &'static str {
    match (endpoint, cause.kind()) {
        (Endpoint::Unix(_), io::ErrorKind::NotFound) => "; create the folder of the socket",
        (
            Endpoint::Unix(_),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem,
        ) => {
            "; the user of this process must be able to write to the folder of the socket, or a socket unit passes it (docs/doors.md)"
        }
        (Endpoint::Unix(_), io::ErrorKind::AddrInUse) => {
            " (if that is systemd: the socket unit needs FileDescriptorName=, as in docs/doors.md)"
        }
        (Endpoint::Inet { .. }, _) if Errno::from_io_error(cause) == Some(Errno::AFNOSUPPORT) => {
            "; the service has no network: a socket unit must pass it, with ListenStream= and FileDescriptorName= (docs/doors.md)"
        }
        (Endpoint::Inet { .. }, io::ErrorKind::AddrInUse) => {
            "; another program listens there: stop it, or choose another port"
        }
        (Endpoint::Inet { .. }, io::ErrorKind::PermissionDenied) => "; choose a port above 1023",
        (Endpoint::Inet { .. }, io::ErrorKind::AddrNotAvailable) => {
            "; this machine does not have the address"
        }
        _ => remedy_of_limit(cause),
    }
}

/// What to do if there are too many threads or descriptors.
fn remedy_of_limit(cause: &io::Error) -> &'static str {
    match Errno::from_io_error(cause) {
        Some(Errno::MFILE) => {
            "; raise the limit of file descriptors (LimitNOFILE= of the unit, ulimit -n)"
        }
        _ if cause.kind() == io::ErrorKind::WouldBlock => {
            "; raise the limit of threads (TasksMax= of the unit, ulimit -u)"
        }
        _ => "",
    }
}
