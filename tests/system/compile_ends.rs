//! A compilation may end by an error, a full disk, a signal, or a kill: the old filter stays, and
//! the next compilation removes everything that is left behind. `system_calls.rs` kills at each call.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::Ordering::Relaxed;

use blocklist_compile::compile::{self, Error, MIN_MEMORY_BYTES, Progress};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::compile::{addresses, build_error, folder, names};
use crate::support::tools::SmallDisk;
use crate::support::{has, has_all, run};

/// Waits until a compilation has such a file open in `folder`: its path, and what the system says
/// about it. Files in other folders belong to other tests, which a new child still has open.
fn wait_for_file(child: &mut Child, folder: &Path, is_it: fn(&str, &str) -> bool) {
    let process = PathBuf::from(format!("/proc/{}", child.id()));
    let folder = folder.canonicalize().unwrap();
    let is_open = || {
        let files = fs::read_dir(process.join("fd")).unwrap().flatten();
        { files }.any(|file| {
            let info = fs::read_to_string(process.join("fdinfo").join(file.file_name()));
            let target = fs::read_link(file.path()).unwrap_or_default();
            let path = target.to_string_lossy();
            target.starts_with(&folder) && info.is_ok_and(|info| is_it(&path, &info))
        })
    };
    while !is_open() {
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none(), "it had no such file: {ended:?}");
        std::thread::yield_now();
    }
}

fn wait_for_lock(child: &mut Child, folder: &Path) {
    wait_for_file(child, folder, |_, info| info.contains("lock:"));
}

#[test]
fn two_compiles_of_one_output_exclude_each_other_and_a_kill_leaves_the_old() {
    let dir = folder(&[("list.txt", "a@b.example\n")]);
    dir.build("list.blf", &["list.txt"]);
    let old = dir.read("list.blf");

    // A build that waits for standard input has locked the output. What it has read is staged with
    // its dates, and so does not fit in memory.
    let build = format!("build -q --date 2026-01-31 --memory {MIN_MEMORY_BYTES} -o list.blf -");
    let mut waiting = dir.command(&build).stdin(Stdio::piped()).spawn().unwrap();
    wait_for_lock(&mut waiting, dir.path());
    let error = build_error(&dir.plan("list.blf", &["list.txt"]));
    has(&error, "list.blf");
    let many = (0..600_000).map(|n| format!("u{n}@b.example # expires 2139-12-24\n"));
    let many: String = many.collect();
    let mut input = waiting.stdin.take().unwrap();
    input.write_all(many.as_bytes()).unwrap();
    wait_for_file(&mut waiting, dir.path(), |path, _| {
        path.ends_with(" (deleted)")
    });
    waiting.kill().unwrap();
    waiting.wait().unwrap();
    assert_eq!(dir.read("list.blf"), old);
    assert_eq!(dir.names(), [".list.blf.writing", "list.blf", "list.txt"]);

    // What the kill left does no harm, and the next build removes it.
    dir.build("list.blf", &["list.txt"]);
    assert_eq!(dir.names(), ["list.blf", "list.txt"]);
}

/// Interrupts a build that waits for its input.
fn interrupt(mut waiting: Child, folder: &Path) {
    wait_for_lock(&mut waiting, folder);
    let pid = Pid::from_raw(waiting.id().cast_signed()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    // Its standard input stays open, so only the signal ends it.
    let input = waiting.stdin.take();
    let done: Output = waiting.wait_with_output().unwrap();
    drop(input);
    assert_eq!(done.status.code(), Some(2), "{done:?}");
    has(&String::from_utf8_lossy(&done.stderr), "interrupted");
}

#[test]
fn an_interrupt_leaves_nothing() {
    let dir = folder(&[("list.txt", "a@b.example\n")]);
    dir.build("old.blf", &["list.txt"]);
    let (old, before) = (dir.read("old.blf"), dir.names());
    for output in ["old.blf", "new.blf"] {
        let mut waiting = dir.command(&format!("build -o {output} -"));
        let waiting = waiting.stdin(Stdio::piped()).spawn().unwrap();
        interrupt(waiting, dir.path());
        // Also one that does not wait.
        let interrupted = Progress::new();
        interrupted.stop_flag().store(true, Relaxed);
        let error = compile::build(&dir.plan(output, &["list.txt"]), &interrupted).unwrap_err();
        assert!(matches!(error, Error::Interrupted), "{error}");
        assert_eq!(dir.names(), before);
        assert_eq!(dir.read("old.blf"), old);
    }
}

#[test]
fn an_interrupt_ends_the_wait_for_a_pipe_that_nobody_writes_to() {
    let dir = folder(&[]);
    let pipe = dir.at("list.pipe");
    run(Command::new("mkfifo").arg(&pipe));
    let build = || dir.command("build -q -o list.blf list.pipe").spawn();
    interrupt(build().unwrap(), dir.path());

    // A pipe to which somebody writes later, in pieces, is read to its end.
    let reading = build().unwrap();
    let mut writer = File::options().write(true).open(&pipe).unwrap();
    for part in ["a@b.exa", "mple\nc@d.example\n"] {
        writer.write_all(part.as_bytes()).unwrap();
    }
    drop(writer);
    let done = reading.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert_eq!(dir.records("list.blf").len(), 2);
}

#[test]
fn a_full_disk_is_said_and_the_old_file_stands() {
    let dir = folder(&[
        ("few.txt", "a@b.example\n"),
        ("many.txt", &addresses(0..200_000)),
    ]);
    let Some(_disk) = SmallDisk::mount(&dir.at("disk"), "size=1m") else {
        return;
    };
    dir.build("disk/list.blf", &["few.txt"]);
    let old = dir.read("disk/list.blf");
    let all: Vec<String> = (0..1_200_000).map(|n| format!("u{n}@x.example")).collect();
    dir.write("all.txt", all.join("\n"));
    dir.write("all.json", format!("[\"{}\"]", all.join("\",\"")));
    for (list, memory, threads, file) in [
        ("many.txt", 1 << 30, 2, "list.blf"),
        // While keys are spilled, by several workers or by one that reads a whole list.
        ("all.txt", MIN_MEMORY_BYTES, 4, ".list.blf.spill"),
        ("all.json", MIN_MEMORY_BYTES, 1, ".list.blf.spill"),
    ] {
        let mut plan = dir.plan("disk/list.blf", &[list]);
        (plan.resources.memory_bytes, plan.resources.threads) = (memory, threads);
        has_all(&build_error(&plan), &[file, "os error 28"]);
        assert_eq!(dir.read("disk/list.blf"), old);
        assert_eq!(names(&dir.at("disk")), ["list.blf"]);
    }
}
