//! Runs programs of this machine.

use std::io;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// A program that takes longer hangs.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the output of a program; or why there is none: the last line of its error output.
pub(super) fn output_of(command: &mut Command) -> Result<String, String> {
    let output = output_within(command, TIMEOUT).map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let said = text(&output.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    Err(last.map_or_else(|| output.status.to_string(), str::to_owned))
}

fn output_within(command: &mut Command, timeout: Duration) -> io::Result<Output> {
    command.stdin(Stdio::null());
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (send, receive) = mpsc::channel();
    // The receiver is gone if the program was too slow.
    let wait = move || drop(send.send(child.wait_with_output()));
    thread::Builder::new().spawn(wait)?;
    receive.recv_timeout(timeout).unwrap_or_else(|_| {
        if let Some(id) = id {
            let _ = kill_process(id, Signal::KILL);
        }
        let seconds = timeout.as_secs();
        Err(io::Error::other(format!(
            "no answer within {seconds} seconds"
        )))
    })
}

/// Finds a program, also in the folders for administrators, which a user's `PATH` may lack.
pub(super) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_answers_fails_or_hangs() {
        let run = |script: &str| output_of(Command::new("/bin/sh").args(["-c", script]));
        assert_eq!(run("echo yes; echo no >&2"), Ok("yes\n".to_owned()));
        assert_eq!(run("echo 1 >&2; echo 2 >&2; exit 1"), Err("2".to_owned()));
        assert_eq!(run("exit 3"), Err("exit status: 3".to_owned()));
        let mut hanging = Command::new("/bin/sh");
        hanging.args(["-c", "exec sleep 1000"]);
        let error = output_within(&mut hanging, Duration::from_millis(20)).unwrap_err();
        assert!(error.to_string().starts_with("no answer within"), "{error}");
    }
}
