//! Programs of this machine, and what they print.

use std::path::PathBuf;
use std::process::Command;

/// What a program prints; `None` if it cannot be run or fails.
pub(super) fn output_of(command: &mut Command) -> Option<String> {
    let output = command
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A program, also in the folders of administrators' programs, which a user's `PATH` may lack.
pub(super) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}
