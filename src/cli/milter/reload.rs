//! `blocklist-milter reload`: makes the running daemon load its files again, and waits for the
//! result.

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;

use crate::cli::{Done, Output, whole_number};
use crate::config::{self, Config};
use crate::daemon::ask_for_reload;
use crate::status::{Running, is_running, monotonic_us};

/// Time between two reads of the daemon's status file.
const PAUSE: Duration = Duration::from_millis(50);
/// Name of the program in the kernel, which cuts it to 15 bytes.
const COMMAND: &str = "blocklist-milte";

/// Arguments of `reload`.
#[derive(Debug, Args)]
pub struct Reload {
    /// Process ID of the daemon [default: that of the daemon that wrote `status_file`].
    #[arg(long, value_name = "PID", value_parser = process)]
    pub pid: Option<i32>,
    /// Give up after this many seconds; reading large filters takes a while.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = whole_number::<u32>)]
    pub timeout: u32,
}

fn process(text: &str) -> Result<i32, String> {
    let id = text.parse().ok().filter(|id| *id > 0);
    id.ok_or_else(|| "must be a process ID, such as 1234".to_owned())
}

pub(super) fn reload(path: &Path, args: &Reload, out: &mut Output) -> Done {
    // The daemon says what is wrong with the configuration, but a faulty one may not say where its status is.
    let (settings, mut fault) = Config::load_what_is_good(path);
    let file = settings.status_file;
    let process = match args.pid {
        Some(process) if command_of(process).is_none_or(|command| command == COMMAND) => process,
        Some(process) => return Err(format!("process {process} is not a blocklist-milter").into()),
        None => match fault.take_if(|fault| matches!(fault, config::Error::Unreadable { .. })) {
            Some(unreadable) => return Err(unreadable.into()),
            None => known_process(&file).map_err(|unknown| match fault.take() {
                Some(fault) => fault.into(),
                None => unknown,
            })?,
        },
    };
    let is_it = |running: &Running| running.process == process;
    fault.take_if(|_| Running::read(&file).as_ref().is_some_and(is_it));
    let asked_us = monotonic_us();
    let end = Instant::now() + Duration::from_secs(args.timeout.into());
    ask_for_reload(process).map_err(|error| format!("process {process}: {error}"))?;
    if let Some(fault) = fault {
        return Err(fault.into());
    }
    let running = loop {
        sleep(PAUSE);
        let named = Running::read(&file).filter(is_it);
        let began = |running: &Running| running.reload.as_ref().map(|reload| reload.began_us);
        match named {
            Some(running) if began(&running) >= Some(asked_us) => break running,
            _ if !is_running(process) => {
                return Err(format!("process {process} has ended").into());
            }
            _ if Instant::now() > end => {
                let seconds = args.timeout;
                let text = "the daemon has not reported the result of the reload; see its log";
                return Err(format!("{}: after {seconds} s {text}", file.display()).into());
            }
            _ => {}
        }
    };
    match running.reload.and_then(|reload| reload.refused) {
        Some(reason) => Err(format!("not every file is in effect as it is: {reason}").into()),
        None => {
            writeln!(out, "{}", running.status)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Returns the process id of the daemon that writes this file.
fn known_process(file: &Path) -> Result<i32, Box<dyn Error>> {
    let unknown = || {
        let file = file.display();
        format!(
            "{file}: names no running daemon; start it (restart it if status_file was changed), or name its process \
             with --pid"
        )
    };
    let process = Running::read(file).ok_or_else(unknown)?.process;
    match command_of(process).as_deref() {
        Some(COMMAND) => Ok(process),
        _ => Err(unknown().into()),
    }
}

/// Returns the program of a process: its number may now belong to another program, which SIGHUP
/// could end. `None` if there is no such process, or if `/proc` is hidden, as in our units, where
/// systemd knows the process.
fn command_of(process: i32) -> Option<String> {
    let command = fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
    Some(command.trim_end().to_owned())
}
