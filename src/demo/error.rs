//! Why the demo cannot run.

use std::io;

use crate::compile;
use crate::daemon;
use crate::snapshot;

/// Why the demo cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder or the socket.
    #[error("the demo: {0}")]
    Io(#[from] io::Error),
    /// The lists.
    #[error(transparent)]
    Compile(#[from] compile::Error),
    /// The configuration that the demo writes.
    #[error(transparent)]
    Snapshot(#[from] snapshot::Error),
    /// The daemon.
    #[error(transparent)]
    Daemon(#[from] daemon::Error),
}
