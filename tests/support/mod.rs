//! What the tests with real programs share: a folder, a daemon under test, mail servers, an SMTP
//! client.
//!
//! * [`site`]: a folder with blocklists, a configuration and the daemon that uses them; [`manager`]
//!   restarts it
//! * [`mta`]: what any mail server under test can do; [`postfix`] and [`sendmail`] implement it
//! * [`smtp`]: the client that delivers mail to them; [`sink`]: a server to which they pass it on; [`wire`] talks to
//!   the daemon in their place
//! * [`corpus`]: spelled senders, with their verdicts
//! * [`readers`]: what mail programs show of a delivered message
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
pub(crate) mod corpus;
pub(crate) mod exim;
pub(crate) mod filters;
pub(crate) mod manager;
pub(crate) mod manual;
pub(crate) mod markdown;
pub(crate) mod mta;
pub(crate) mod pieces;
pub(crate) mod player;
pub(crate) mod postfix;
pub(crate) mod readers;
pub(crate) mod rig;
pub(crate) mod rspamd;
pub(crate) mod scenario;
pub(crate) mod scene;
pub(crate) mod sendmail;
pub(crate) mod sink;
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
use std::time::Duration;

pub(crate) use check::{Said, has, has_all, rows, words};
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
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

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.at(name)).expect("our own file")
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).expect("our own text")
    }

    /// Writes a file below the folder, and creates the folders above it.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(name);
        let parent = path.parent().expect("a joined path has a parent");
        fs::create_dir_all(parent).expect("a folder can be made");
        fs::write(&path, content).expect("a file can be written");
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

/// Returns all files and folders below a folder.
pub(crate) fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut found: Vec<_> = entries
        .map(|entry| entry.expect("it can be read").path())
        .collect();
    let folders: Vec<_> = found.iter().filter(|path| path.is_dir()).cloned().collect();
    found.extend(folders.iter().flat_map(|folder| below(folder)));
    found
}

/// Returns a port of 127.0.0.1 on which nobody listens now.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
    listener.local_addr().expect("bound").port()
}

/// Returns whether the kernel's table of sockets has a line with such fields. A connection would
/// reach the milter as a client.
fn has_socket(table: &str, is_it: impl Fn(&[&str]) -> bool) -> bool {
    let table = fs::read_to_string(table).unwrap_or_default();
    table.lines().any(|line| is_it(&words(line)))
}

/// Returns whether somebody listens on a port of 127.0.0.1.
pub(crate) fn port_listens(port: u16) -> bool {
    const LISTEN: &str = "0A";
    let local = format!(":{port:04X}");
    has_socket("/proc/net/tcp", |fields| {
        fields[1].ends_with(&local) && fields[3] == LISTEN
    })
}

/// Returns whether somebody listens on a unix socket.
pub(crate) fn socket_listens(path: &Path) -> bool {
    const ACCEPTS: &str = "00010000";
    has_socket("/proc/net/unix", |fields| {
        fields[3] == ACCEPTS && fields.last().copied() == path.to_str()
    })
}

/// Returns the processes that work in a folder or below it, as folders in `/proc`.
fn processes_in(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let processes = fs::read_dir("/proc").expect("Linux has /proc").flatten();
    let processes = processes.map(|entry| entry.path());
    processes.filter(move |process| {
        fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder))
    })
}

/// Ends every process that works in `folder` or below it, because children of servers outlive them.
pub(crate) fn end_processes_in(folder: &Path) {
    until("the processes of a server end", || {
        let mut left = false;
        for process in processes_in(folder) {
            let pid = process
                .file_name()
                .and_then(|name| name.to_str()?.parse().ok());
            let pid = pid.filter(|pid| *pid != std::process::id().cast_signed());
            if let Some(pid) = pid.and_then(Pid::from_raw) {
                left = true;
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        (!left).then_some(())
    });
}

/// Returns whether a program with this name works in a folder or below it.
pub(crate) fn works_in(folder: &Path, name: &str) -> bool {
    processes_in(folder).any(|process| {
        fs::read_to_string(process.join("comm")).is_ok_and(|comm| comm.trim() == name)
    })
}

/// Returns the processor time of this thread so far, to which other programs do not add.
pub(crate) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("it began at 0")
}

/// Runs a command to its end and returns its output.
///
/// # Panics
/// If it cannot be started or fails.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> String {
    let said = Said::of(command);
    assert_eq!(said.code, Some(0), "{command:?}\n{}", said.all());
    said.all()
}

/// Shows a log if the test is failing.
pub(crate) fn show_on_failure(name: &str, log: &str) {
    if std::thread::panicking() {
        eprintln!("---- {name} ----\n{log}");
    }
}
