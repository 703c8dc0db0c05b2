//! Limits of the system on threads and file sizes end commands of the compiler only by an error,
//! and leave only the old file.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use blocklist_milter::filter::Filter;

use crate::support::compile::{Dir, addresses, folder};
use crate::support::{Said, installed, is_root, rows, words};

/// A user to whom limits apply.
const NOBODY: u32 = 54_321;

/// Runs the compiler with a limit of the system, as a user to whom limits apply.
fn run_limited(dir: &Dir, limit: &str, line: &str) -> Option<Said> {
    if !installed("prlimit") {
        return None;
    }
    let program = dir.at("program");
    // In a process of its own: another test may fork while a file is open here for writing, and
    // what is open for writing cannot be run.
    let mut copy = Command::new("cp");
    copy.arg(env!("CARGO_BIN_EXE_blocklist-compile"));
    assert!(copy.arg(&program).status().unwrap().success());
    let mut command = Command::new("prlimit");
    if is_root() {
        let own = |path: &Path| std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        own(dir.path());
        dir.names().iter().for_each(|name| own(&dir.at(name)));
        command.uid(NOBODY).gid(NOBODY);
    }
    command.arg(limit).arg(&program).args(words(line));
    let said = Said::of(command.current_dir(dir.path()).stdin(Stdio::null()));
    fs::remove_file(program).unwrap();
    Some(said)
}

/// Commands that write, and their outputs.
const COMMANDS: &str = "
    // Without -q: the progress bar has a thread, too.
    build --threads 4 -o few.blf many.txt                         | few.blf
    build -q --threads 4 --part --seed 5eed -o list.part many.txt  | list.part
    merge -q --threads 4 -o all.blf few.blf many.blf               | all.blf
    merge -q --threads 4 --date 2026-10-01 -o joined.blf many.part | joined.blf
    update -q --threads 4 few.blf --add many.txt                   | few.blf
    delta -q -o new.delta many.blf more.blf                        | new.delta
    apply -q --threads 4 -o few.blf many.blf next.delta            | few.blf
";

/// Returns a folder with the input of the commands; it belongs to the user who runs them.
fn prepared() -> Dir {
    let dir = folder(&[
        ("few.txt", &addresses(0..20)),
        ("many.txt", &addresses(0..20_000)),
        ("more.txt", &addresses(0..24_000)),
    ]);
    for name in ["few", "many", "more"] {
        dir.build(&format!("{name}.blf"), &[&format!("{name}.txt")]);
    }
    for words in [
        "delta -q -o next.delta many.blf more.blf",
        "build -q --part --seed 5eed --date 2026-10-01 -o many.part many.txt",
    ] {
        dir.run(words).ok();
    }
    dir
}

/// Panics with `thread::spawn` in `on_threads` or in the progress bar.
#[test]
fn every_command_does_without_threads() {
    for [words, output] in rows(COMMANDS) {
        let dir = prepared();
        let Some(said) = run_limited(&dir, "--nproc=1:1", words) else {
            return;
        };
        said.ok();
        if output.ends_with(".blf") {
            Filter::verify(&dir.at(output)).unwrap();
            let asked = run_limited(&dir, "--nproc=1:1", &format!("query {output} -"));
            asked.unwrap().ends(1, &[]);
        }
    }
}

/// Fails without the handler of SIGXFSZ: the signal ends each command, and `.list.blf.writing` stays.
#[test]
fn a_limit_of_file_sizes_leaves_the_old_file_of_every_command() {
    for [words, output] in rows(COMMANDS) {
        let dir = prepared();
        let (old, before) = (fs::read(dir.at(output)).ok(), dir.names());
        let Some(said) = run_limited(&dir, "--fsize=4096:4096", words) else {
            return;
        };
        said.ends(2, &[output, "os error 27"]);
        assert_eq!(fs::read(dir.at(output)).ok(), old, "{words}");
        assert_eq!(dir.names(), before, "{words}");
    }
}
