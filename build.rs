//! What `--version` shows beside the version: the commit and the target.
//!
//! Only a release names its commit, that of the packaged sources or of the work tree: a development build
//! would be compiled anew after each commit. The same sources give the same text.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// Written by `cargo package`.
const PACKAGED_COMMIT: &str = ".cargo_vcs_info.json";
const COMMIT_DIGITS: usize = 12;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = env::var("TARGET").unwrap_or_default();
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = if is_release {
        commit_of_package().or_else(commit_of_work_tree)
    } else {
        None
    };
    let commit = commit.map_or_else(String::new, |commit| format!("{commit}, "));
    println!("cargo::rustc-env=BLOCKLIST_MILTER_BUILD={commit}{target}");
}

fn commit_of_package() -> Option<String> {
    // Naming a file that is not there would run this at each build.
    if !Path::new(PACKAGED_COMMIT).exists() {
        return None;
    }
    println!("cargo::rerun-if-changed={PACKAGED_COMMIT}");
    let info = fs::read_to_string(PACKAGED_COMMIT).ok()?;
    let (_, commit) = info.split_once("\"sha1\": \"")?;
    commit.get(..COMMIT_DIGITS).map(str::to_owned)
}

fn commit_of_work_tree() -> Option<String> {
    // Sources that lie inside another project's work tree have no commit of their own.
    if !git(&["rev-parse", "--show-prefix"])?.is_empty() {
        return None;
    }
    for changed in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", changed])?;
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let commit = git(&["rev-parse", "HEAD"])?;
    commit.get(..COMMIT_DIGITS).map(str::to_owned)
}

fn git(words: &[&str]) -> Option<String> {
    let run = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(run.stdout).ok()?;
    run.status.success().then(|| text.trim().to_owned())
}
