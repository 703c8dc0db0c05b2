//! Signals: stop, or load everything again.
//!
//! SIGTERM and SIGINT stop the daemon in an orderly way; a second one closes the connections that are still open. SIGHUP
//! loads everything again. (libmilter ends on SIGHUP.)

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use rustix::process::{Pid, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::{Event, start_thread};

/// From now on, SIGHUP does not end the process. Needed while large filters are read, before the daemon handles the signal;
/// changes in this time are found by the reload at the start.
pub(crate) fn outlive_hangup() -> io::Result<()> {
    signal_hook::flag::register(SIGHUP, Arc::default()).map(drop)
}

/// Makes the daemon with this process ID load everything again.
pub(crate) fn ask_for_reload(process: i32) -> io::Result<()> {
    let process = Pid::from_raw(process).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(kill_process(process, rustix::process::Signal::HUP)?)
}

/// From now on, these signals do not end the process by themselves: they are events.
pub(super) fn listen(events: Sender<Event>) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    start_thread("signals", move || {
        let mut all = signals.forever().map(|signal| match signal {
            SIGHUP => Event::Reload,
            _ => Event::Stop,
        });
        let _ = all.try_for_each(|event| events.send(event));
    })
}
