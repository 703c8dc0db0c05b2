//! Waiting for a condition, and what a machine may lack: programs, the right to mount.
#![allow(dead_code, reason = "each test program takes what it needs")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// The time limit for a condition: no test should need a tenth of it, and a machine that is busy
/// with other work must not make one fail.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `ready` returns something, and calls it again every few milliseconds.
///
/// # Panics
/// After a minute, with the name of the condition, `what`.
pub(crate) fn until<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until something holds.
///
/// # Panics
/// After a minute, as [`until`].
pub(crate) fn until_so(what: &str, mut holds: impl FnMut() -> bool) {
    until(what, || holds().then_some(()));
}

/// Returns whether a real program can be used that a test needs.
///
/// `tests/run` sets `BLOCKLIST_MILTER_NEEDED` to the programs that must not be missing. A test of
/// another missing program is skipped, with the reason on standard error.
///
/// # Panics
/// If the program cannot be used although it is needed.
pub(crate) fn usable(program: &str, obstacle: Option<String>) -> bool {
    let Some(obstacle) = obstacle else {
        return true;
    };
    let needed = std::env::var("BLOCKLIST_MILTER_NEEDED").unwrap_or_default();
    assert!(
        !needed.split_whitespace().any(|name| name == program),
        "{program} is needed here, but cannot be used: {obstacle}"
    );
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    // Not with a macro, whose output is hidden for a test that passes.
    let _ = writeln!(std::io::stderr(), "left out: {test}: {program}: {obstacle}");
    false
}

/// Returns whether a program is installed; if not, says that the test is left out, as [`usable`].
pub(crate) fn installed(program: &str) -> bool {
    let missing = find_program(program).is_none();
    usable(program, missing.then(|| "not installed".to_owned()))
}

/// Returns the path of a program in the search path, or in the folders for servers.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// Returns whether this process may start servers under other users' names.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A program that runs on, ended with its test.
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // An error means that it has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sets a flag when it is dropped, also if the test fails.
pub(crate) struct End<'a>(pub(crate) &'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// A small file system of its own, in memory; unmounted when dropped.
pub(crate) struct SmallDisk(pub(crate) PathBuf);

impl SmallDisk {
    /// Mounts one with these options on a folder, which is made. `None` if that is not possible
    /// here, which is then reported.
    pub(crate) fn mount(path: &Path, options: &str) -> Option<Self> {
        std::fs::create_dir_all(path).expect("our own folder");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]);
        let done = mount.arg(path).stderr(Stdio::null()).status();
        let mounted = done.is_ok_and(|status| status.success());
        let obstacle = (!mounted).then(|| "no file system can be mounted here".to_owned());
        usable("mount", obstacle).then(|| Self(path.to_path_buf()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}
