//! Kills a command at each of its system calls that changes a file.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;

use super::installed;

const CALLS: [&str; 8] = [
    "openat",
    "flock",
    "fchmod",
    "pwrite64",
    "ftruncate",
    "fsync",
    "rename",
    "unlink",
];

/// When the files are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Killed,
    Finished,
}

/// How often the command was killed, and how often that left the old file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kills {
    pub(crate) killed: u32,
    pub(crate) kept: u32,
}

/// Runs `blocklist-compile` repeatedly in `folder`, each time after `prepare`, and kills it at the
/// next system call. `is_old` returns whether the old file is there, not the new one, and panics if
/// it is neither. After a kill that left the old file, the command must succeed. `None` if strace
/// is not installed.
pub(crate) fn at_each_call(
    folder: &Path,
    words: &[&str],
    prepare: impl Fn(),
    is_old: impl Fn(When) -> bool,
) -> Option<Kills> {
    if !installed("strace") {
        return None;
    }
    let program = env!("CARGO_BIN_EXE_blocklist-compile");
    let mut kills = Kills::default();
    for call in CALLS {
        for number in 1.. {
            prepare();
            let done = Command::new("strace")
                .args(["-f", "-qq", "-o", "/dev/null"])
                .arg(format!("-einject={call}:signal=KILL:when={number}"))
                .arg(program)
                .args(words)
                .current_dir(folder)
                .output()
                .unwrap();
            if done.status.success() {
                assert!(!is_old(When::Finished), "{call} {number}");
                break;
            }
            // strace ends by the same signal as its child.
            assert_eq!(done.status.signal(), Some(9), "{call} {number}: {done:?}");
            kills.killed += 1;
            if is_old(When::Killed) {
                kills.kept += 1;
                let mut next = Command::new(program);
                let next = next.args(words).current_dir(folder).output().unwrap();
                assert!(next.status.success(), "{call} {number}: {next:?}");
                assert!(!is_old(When::Finished), "{call} {number}");
            }
        }
    }
    println!("{}: {kills:?}", words[0]);
    Some(kills)
}
