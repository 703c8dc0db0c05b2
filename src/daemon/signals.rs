//! What the system tells the daemon: end, or load everything again.
//!
//! SIGTERM and SIGINT end it in order; a second one closes what is still open. SIGHUP loads configuration,
//! lists and whitelist again. (libmilter ends on SIGHUP; this daemon does not.)

use std::io;
use std::sync::Arc;

use rustix::process::{Pid, kill_process};
use signal_hook::consts::SIGHUP;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Stop,
    Reload,
}

/// From here on SIGHUP does not end the process. For the time before the daemon listens to
/// it, in which large filters are read: what has changed meanwhile is seen at the start.
///
/// # Errors
/// When no handler can be had.
pub fn outlive_hangup() -> io::Result<()> {
    signal_hook::flag::register(SIGHUP, Arc::default()).map(drop)
}

/// Has a daemon that runs in this process load everything again.
///
/// # Errors
/// There is no such process, or it belongs to somebody else.
pub fn ask_for_reload(process: i32) -> io::Result<()> {
    let process = Pid::from_raw(process).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(kill_process(process, rustix::process::Signal::HUP)?)
}

/// The signals that the daemon listens to.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// From here on these signals do not end the process by themselves.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The next of them.
    pub(super) async fn next(&mut self) -> Request {
        tokio::select! {
            _ = self.terminate.recv() => Request::Stop,
            _ = self.interrupt.recv() => Request::Stop,
            _ = self.hangup.recv() => Request::Reload,
        }
    }
}
