//! Signals: stop, or load everything again.
//!
//! SIGTERM and SIGINT stop the daemon in an orderly way; a second one closes the connections that are still open. SIGHUP
//! loads configuration, lists and whitelist again. (libmilter ends on SIGHUP; this daemon does not.)

use std::io;
use std::sync::Arc;

use rustix::process::{Pid, kill_process};
use signal_hook::consts::SIGHUP;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A request by signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Stop,
    Reload,
}

/// From now on, SIGHUP does not end the process. Needed while large filters are read, before the daemon handles the signal;
/// changes in this time are found by the reload at the start.
///
/// # Errors
/// The handler cannot be installed.
pub fn outlive_hangup() -> io::Result<()> {
    signal_hook::flag::register(SIGHUP, Arc::default()).map(drop)
}

/// Makes the daemon with this process ID load everything again.
///
/// # Errors
/// There is no such process, or it belongs to another user.
pub fn ask_for_reload(process: i32) -> io::Result<()> {
    let process = Pid::from_raw(process).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(kill_process(process, rustix::process::Signal::HUP)?)
}

/// The signals that the daemon handles.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// From now on, these signals do not end the process by themselves.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) -> Request {
        tokio::select! {
            _ = self.terminate.recv() => Request::Stop,
            _ = self.interrupt.recv() => Request::Stop,
            _ = self.hangup.recv() => Request::Reload,
        }
    }
}
