//! Limits of the system on threads and file sizes end commands of the compiler only by an error,
//! and leave only the old file.

use crate::support::compile as support;
use crate::support::installed;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use blocklist_milter::filter::Filter;
use support::{addresses, build, folder, names, plan};

/// Returns a program that runs with a limit of the system, as a user to whom limits apply.
fn limited(folder: &Path, limit: &str, arguments: &[&str]) -> Option<Command> {
    const NOBODY: u32 = 54_321;
    let program = folder.join("program");
    // In a process of its own: another test may fork while a file is open here for writing, and
    // what is open for writing cannot be run.
    let mut copy = Command::new("cp");
    copy.arg(env!("CARGO_BIN_EXE_blocklist-compile"));
    assert!(copy.arg(&program).status().unwrap().success());
    if !installed("prlimit") {
        return None;
    }
    let mut command = Command::new("prlimit");
    if rustix::process::geteuid().is_root() {
        for path in [folder, &program] {
            std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        command.uid(NOBODY).gid(NOBODY);
    }
    command.arg(limit).arg(&program).args(arguments);
    command.current_dir(folder).stdin(Stdio::null());
    Some(command)
}

/// Panics with `thread::spawn` in `on_threads`, in the progress bar or in `query`.
#[test]
fn without_threads_it_is_slower_and_no_more() {
    let folder = folder(&[("list.txt", &addresses(0..2_000))]);
    let dir = folder.path();
    let arguments = ["build", "--threads", "4", "-o", "list.blf", "list.txt"];
    let Some(mut build) = limited(dir, "--nproc=1:1", &arguments) else {
        return;
    };
    let built = build.output().unwrap();
    assert!(built.status.success(), "{built:?}");
    fs::remove_file(dir.join("program")).unwrap();
    let asked = ["query", "list.blf", "-"];
    let asked = limited(dir, "--nproc=1:1", &asked).unwrap().output();
    let asked = asked.unwrap();
    let said = String::from_utf8_lossy(&asked.stderr);
    assert_eq!(asked.status.code(), Some(1), "{said}");
}

/// Fails without the handler of SIGXFSZ: the signal ends the program, and `.list.blf.writing`
/// stays.
#[test]
fn a_limit_of_file_sizes_is_an_error_like_a_full_disk() {
    let folder = folder(&[
        ("few.txt", "a@b.example\n"),
        ("many.txt", &addresses(0..20_000)),
    ]);
    let dir = folder.path();
    build(&plan(dir, "list.blf", &["few.txt"]));
    let old = fs::read(dir.join("list.blf")).unwrap();
    let arguments = ["build", "-q", "-o", "list.blf", "many.txt"];
    let Some(mut limited) = limited(dir, "--fsize=30000:30000", &arguments) else {
        return;
    };
    if rustix::process::geteuid().is_root() {
        for name in ["list.blf", "many.txt"] {
            std::os::unix::fs::chown(dir.join(name), Some(54_321), Some(54_321)).unwrap();
        }
    }
    let done = limited.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{done:?}");
    assert!(
        said.contains("list.blf") && said.contains("os error 27"),
        "{said}"
    );
    assert_eq!(fs::read(dir.join("list.blf")).unwrap(), old);
    assert_eq!(names(dir), ["few.txt", "list.blf", "many.txt", "program"]);
}

/// Commands that write, and their outputs.
const COMMANDS: [(&str, &str); 6] = [
    (
        "build -q --threads 4 --part --seed 5eed -o list.part many.txt",
        "list.part",
    ),
    (
        "merge -q --threads 4 -o all.blf few.blf many.blf",
        "all.blf",
    ),
    (
        "merge -q --threads 4 --date 2026-10-01 -o joined.blf many.part",
        "joined.blf",
    ),
    ("update -q --threads 4 few.blf --add many.txt", "few.blf"),
    ("delta -q -o new.delta many.blf more.blf", "new.delta"),
    (
        "apply -q --threads 4 -o few.blf many.blf next.delta",
        "few.blf",
    ),
];

/// Returns a folder with the input of the commands; it belongs to the user who runs them.
fn prepared() -> support::Dir {
    let folder = folder(&[
        ("few.txt", &addresses(0..20)),
        ("many.txt", &addresses(0..20_000)),
        ("more.txt", &addresses(0..24_000)),
    ]);
    let dir = folder.path();
    for name in ["few", "many", "more"] {
        build(&plan(
            dir,
            &format!("{name}.blf"),
            &[&format!("{name}.txt")],
        ));
    }
    for words in [
        "delta -q -o next.delta many.blf more.blf",
        "build -q --part --seed 5eed --date 2026-10-01 -o many.part many.txt",
    ] {
        let words: Vec<_> = words.split(' ').collect();
        let done = support::command(&words).current_dir(dir).status();
        assert!(done.unwrap().success(), "{words:?}");
    }
    folder
}

fn run_limited(dir: &Path, limit: &str, words: &str) -> Option<std::process::Output> {
    let words: Vec<_> = words.split(' ').collect();
    let mut limited = limited(dir, limit, &words)?;
    if rustix::process::geteuid().is_root() {
        for name in names(dir) {
            std::os::unix::fs::chown(dir.join(name), Some(54_321), Some(54_321)).unwrap();
        }
    }
    let done = limited.output().unwrap();
    fs::remove_file(dir.join("program")).unwrap();
    Some(done)
}

/// Panics with `thread::spawn` in `on_threads`.
#[test]
fn every_command_that_writes_does_without_threads() {
    for (words, output) in COMMANDS {
        let folder = prepared();
        let Some(done) = run_limited(folder.path(), "--nproc=1:1", words) else {
            return;
        };
        assert!(done.status.success(), "{words}: {done:?}");
        if output.ends_with(".blf") {
            Filter::verify(&folder.path().join(output)).unwrap();
        }
    }
}

/// Fails without the handler of SIGXFSZ: the signal ends each command.
#[test]
fn a_limit_of_file_sizes_leaves_the_old_file_of_every_command() {
    for (words, output) in COMMANDS {
        let folder = prepared();
        let dir = folder.path();
        let (old, before) = (fs::read(dir.join(output)).ok(), names(dir));
        let Some(done) = run_limited(dir, "--fsize=4096:4096", words) else {
            return;
        };
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{words}: {done:?}");
        assert!(said.contains("os error 27"), "{words}: {said}");
        assert_eq!(fs::read(dir.join(output)).ok(), old, "{words}");
        assert_eq!(names(dir), before, "{words}");
    }
}
