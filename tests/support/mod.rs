//! What the tests with real programs share: a folder, a daemon under test, mail servers, an SMTP
//! client.
//!
//! * [`site`]: a folder with blocklists, a configuration and the daemon that uses them; [`manager`]
//!   restarts it
//! * [`mta`]: what any mail server under test can do; [`postfix`] and [`sendmail`] implement it
//! * [`smtp`]: the client that delivers mail to them; [`wire`] talks to the daemon in their place
//! * [`scenario`]: plays the scenarios of `tests/scenarios/` against each server, and against
//!   [`player`], which takes messages without SMTP; [`scene`]: the site of all of them
//! * [`check`]: short forms of what most tests do
//! * [`tools`]: waiting, and what a machine may lack; the tests of `fetch` use it, too
//! * [`booted`]: a separate machine; [`markdown`]: the code in a guide
//! * [`arguments`]: strange arguments of MAIL and RCPT, and their results
//!
//! Nothing sleeps for a guessed time: [`until`] waits for a condition. Each server and each folder
//! is removed when its value is dropped, also if a test fails, and then shows its log first.
#![allow(
    dead_code,
    unused_imports,
    reason = "each test program uses its own part of the helpers"
)]

pub(crate) mod arguments;
pub(crate) mod booted;
pub(crate) mod check;
pub(crate) mod command_lines;
pub(crate) mod compile;
pub(crate) mod exim;
pub(crate) mod filters;
pub(crate) mod kills;
pub(crate) mod manager;
pub(crate) mod manual;
pub(crate) mod markdown;
pub(crate) mod mta;
pub(crate) mod pieces;
pub(crate) mod player;
pub(crate) mod postfix;
pub(crate) mod rig;
pub(crate) mod rspamd;
pub(crate) mod scenario;
pub(crate) mod scene;
pub(crate) mod sendmail;
pub(crate) mod site;
pub(crate) mod smtp;
pub(crate) mod table;
pub(crate) mod tools;
pub(crate) mod wire;

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) use check::{Said, has, has_all, rows, words};
use tempfile::TempDir;
pub(crate) use tools::{find_program, installed, is_root, until, until_so, usable};

/// Returns the number that `id` prints for a user or group, for example for `["-u", "postfix"]`.
pub(crate) fn id(arguments: [&str; 2]) -> Option<u32> {
    let output = Command::new("id").args(arguments).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

/// A folder for one test, which users other than root can enter; removed when dropped.
pub(crate) struct Scratch(TempDir);

impl Scratch {
    pub(crate) fn new() -> Self {
        let parent = std::env::var_os("BLOCKLIST_MILTER_SCRATCH")
            .map_or_else(std::env::temp_dir, PathBuf::from);
        let folder = tempfile::Builder::new()
            .prefix("t")
            .tempdir_in(parent)
            .expect("a temporary folder can be made");
        open_to_all(folder.path());
        Self(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Leaves the folder to somebody else, who removes it.
    pub(crate) fn keep(self) -> PathBuf {
        self.0.keep()
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file below the folder, and creates the folders above it.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.join(name);
        let parent = path.parent().expect("a joined path has a parent");
        fs::create_dir_all(parent).expect("a folder can be made");
        fs::write(&path, text).expect("a file can be written");
        path
    }
}

fn open_to_all(folder: &Path) {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("our own folder");
}

/// Returns the daemon's program as it was built, or the compiler's.
pub(crate) fn milter() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_blocklist-milter"));
    command.env("TZ", "UTC");
    command
}

pub(crate) fn compiler() -> Command {
    Command::new(env!("CARGO_BIN_EXE_blocklist-compile"))
}

/// Returns a path in the repository.
pub(crate) fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Returns a port of 127.0.0.1 on which nobody listens now.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
    listener
        .local_addr()
        .expect("a bound socket has an address")
        .port()
}

/// Returns whether somebody listens on a port of 127.0.0.1. Asks the kernel, because a connection
/// would reach the milter as a client.
pub(crate) fn port_listens(port: u16) -> bool {
    const LISTEN: &str = "0A";
    let local = format!(":{port:04X}");
    fs::read_to_string("/proc/net/tcp")
        .unwrap_or_default()
        .lines()
        .any(|line| {
            let mut fields = line.split_whitespace().skip(1);
            fields
                .next()
                .is_some_and(|address| address.ends_with(&local))
                && fields.nth(1) == Some(LISTEN)
        })
}

/// Returns whether somebody listens on a unix socket, from the kernel's table for the same reason.
pub(crate) fn socket_listens(path: &Path) -> bool {
    const ACCEPTS: &str = "00010000";
    let Some(path) = path.to_str() else {
        return false;
    };
    fs::read_to_string("/proc/net/unix")
        .unwrap_or_default()
        .lines()
        .any(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            fields.get(3) == Some(&ACCEPTS) && fields.last() == Some(&path)
        })
}

/// Ends every process that works in `folder` or below it, because children of servers outlive them.
pub(crate) fn end_processes_in(folder: &Path) {
    until("the processes of a server end", || {
        let mut left = false;
        for entry in fs::read_dir("/proc").expect("Linux has /proc").flatten() {
            let Some(pid) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            let Ok(cwd) = fs::read_link(entry.path().join("cwd")) else {
                continue;
            };
            if cwd.starts_with(folder) && pid != std::process::id().cast_signed() {
                left = true;
                if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                }
            }
        }
        (!left).then_some(())
    });
}

/// Returns whether a program with this name works in a folder or below it.
pub(crate) fn works_in(folder: &Path, name: &str) -> bool {
    let processes = fs::read_dir("/proc").expect("Linux has /proc").flatten();
    processes.map(|entry| entry.path()).any(|process| {
        fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder))
            && fs::read_to_string(process.join("comm")).is_ok_and(|comm| comm.trim() == name)
    })
}

/// Runs a command to its end and returns its output.
///
/// # Panics
/// If it cannot be started or fails.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        output.status.success(),
        "{command:?}: {}\n{said}",
        output.status
    );
    said
}

/// Shows a log if the test is failing.
pub(crate) fn show_on_failure(name: &str, log: &str) {
    if std::thread::panicking() {
        eprintln!("---- {name} ----\n{log}");
    }
}
