//! Runs programs of this machine.

use std::path::PathBuf;
use std::process::Command;

/// Returns the output of a program; `None` if it cannot be run or fails.
pub(super) fn output_of(command: &mut Command) -> Option<String> {
    let output = command
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Finds a program, also in the folders for administrators, which a user's `PATH` may lack.
pub(super) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}
