//! Runs programs of this machine, and waits for what may hang.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// A program that needs longer hangs, and so does a server.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Waits for the result of something, but not for ever; it goes on until the program ends.
pub(super) fn within<T: Send + 'static>(
    patience: Duration,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (send, receive) = mpsc::channel();
    // The receiver is gone if this took too long.
    thread::Builder::new().spawn(move || drop(send.send(work())))?;
    receive.recv_timeout(patience).unwrap_or_else(|_| {
        let seconds = patience.as_secs();
        Err(io::Error::other(format!(
            "no answer within {seconds} seconds"
        )))
    })
}

/// A program, and the arguments before all others.
pub(super) struct Program(PathBuf, Vec<OsString>);

impl Program {
    /// Finds a program, also in the folders for administrators, which a user's `PATH` may lack.
    pub(super) fn find(name: &str) -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
        let mut files = folders.map(|folder| folder.join(name));
        let file = files.find(|file| file.is_file())?;
        Some(Self(file, Vec::new()))
    }

    /// Adds an option, if it has a value.
    pub(super) fn with(mut self, option: &str, value: Option<&Path>) -> Self {
        let both = value.map(|value| [option.into(), value.into()]);
        self.1.extend(both.into_iter().flatten());
        self
    }

    /// Returns the output of a call; or why there is none: the last line of its error output.
    pub(super) fn output(&self, arguments: &[&str]) -> io::Result<String> {
        self.output_within(PATIENCE, arguments)
    }

    fn output_within(&self, patience: Duration, arguments: &[&str]) -> io::Result<String> {
        let mut command = Command::new(&self.0);
        command.args(&self.1).args(arguments).stdin(Stdio::null());
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn()?;
        let id = Pid::from_child(&child);
        let output = within(patience, move || child.wait_with_output());
        let output = output.inspect_err(|_| {
            let _ = kill_process(id, Signal::KILL);
        })?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            return Ok(text(&output.stdout));
        }
        let said = text(&output.stderr);
        let last = said.lines().rev().find(|line| !line.trim().is_empty());
        let why = last.map_or_else(|| output.status.to_string(), str::to_owned);
        Err(io::Error::other(why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_answers_fails_or_hangs() {
        let shell = Program("/bin/sh".into(), vec!["-c".into()]);
        let run = |script| shell.output(&[script]).map_err(|error| error.to_string());
        assert_eq!(run("echo yes; echo no >&2"), Ok("yes\n".to_owned()));
        assert_eq!(run("echo 1 >&2; echo 2 >&2; exit 1"), Err("2".to_owned()));
        assert_eq!(run("exit 3"), Err("exit status: 3".to_owned()));
        let hanging = shell.output_within(Duration::from_millis(20), &["exec sleep 1000"]);
        let error = hanging.unwrap_err().to_string();
        assert!(error.starts_with("no answer within"), "{error}");
    }
}
