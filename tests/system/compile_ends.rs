//! A compilation may end by an error, a full disk, a signal, or a kill at any moment: the old
//! filter stays, and the next compilation removes everything that is left behind.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use blocklist_milter::compile::{self, Error, MIN_MEMORY_BYTES, Progress};
use blocklist_milter::filter::Filter;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::check::Random;
use crate::support::compile::{addresses, build_error, folder, names};
use crate::support::tools::{SmallDisk, installed};
use crate::support::{Said, has, has_all, words};

/// Waits until a compilation locks its output in `folder`: the system lists the locks of open
/// files. Locks in other folders belong to other tests, whose files a new child still has open.
fn wait_for_lock(child: &mut Child, folder: &Path) {
    let process = PathBuf::from(format!("/proc/{}", child.id()));
    let folder = folder.canonicalize().unwrap();
    let holds = || {
        let files = fs::read_dir(process.join("fd")).unwrap().flatten();
        { files }.any(|file| {
            let info = fs::read_to_string(process.join("fdinfo").join(file.file_name()));
            fs::read_link(file.path()).is_ok_and(|target| target.starts_with(&folder))
                && info.is_ok_and(|info| info.contains("lock:"))
        })
    };
    while !holds() {
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none(), "it held no output: {ended:?}");
        std::thread::yield_now();
    }
}

#[test]
fn two_compiles_of_one_output_exclude_each_other_and_a_kill_leaves_the_old() {
    let dir = folder(&[("list.txt", "a@b.example\n")]);
    dir.build("list.blf", &["list.txt"]);
    let old = dir.read("list.blf");

    // A build that waits for standard input has locked the output.
    let mut waiting = dir.command("build -q -o list.blf -");
    let mut waiting = waiting.stdin(Stdio::piped()).spawn().unwrap();
    wait_for_lock(&mut waiting, dir.path());
    let error = build_error(&dir.plan("list.blf", &["list.txt"]));
    has(&error, "list.blf");
    waiting.kill().unwrap();
    waiting.wait().unwrap();
    assert_eq!(dir.read("list.blf"), old);

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
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, fifo, mode, 0).unwrap();
    let run = || dir.command("build -q -o list.blf list.pipe").spawn();
    interrupt(run().unwrap(), dir.path());

    // A pipe to which somebody writes later, in pieces, is read to its end.
    let reading = run().unwrap();
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
        (plan.memory_bytes, plan.threads) = (memory, threads);
        has_all(&build_error(&plan), &[file, "os error 28"]);
        assert_eq!(dir.read("disk/list.blf"), old);
        assert_eq!(names(&dir.at("disk")), ["list.blf"]);
    }
}

#[test]
fn nobody_reading_the_report_undoes_nothing() {
    let dir = folder(&[("good.txt", "a@b.example\n")]);
    for (words, code) in [("build -o out.blf good.txt", 0), ("info good.txt", 2)] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let ended = dir.command(words).stderr(full).status();
        assert_eq!(ended.unwrap().code(), Some(code));
    }
}

/// Time between two checks of a process; short compared with its work.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Kills builds that spill, at moments spread over the whole work.
fn kill_at_random(kills: u64) {
    // Few enough to be quick, but more than the minimum of memory can hold.
    let lines: String = (0..560_000).map(|n| format!("u{n}@b.example\n")).collect();
    let dir = folder(&[("few.txt", "a@b.example\n"), ("list.txt", &lines)]);
    dir.build("list.blf", &["few.txt"]);
    let old = dir.read("list.blf");

    // Standard input is staged with its dates, and so does not fit in memory.
    let start = || {
        let build = format!("build -q --date 2026-01-31 --memory {MIN_MEMORY_BYTES} -o list.blf -");
        let list = File::open(dir.at("list.txt")).unwrap();
        dir.command(&build).stdin(list).spawn().unwrap()
    };
    // The system counts the bytes that a process reads and writes: a clock for its progress.
    let moved_bytes = |child: &Child| {
        let counts = fs::read_to_string(format!("/proc/{}/io", child.id())).unwrap_or_default();
        let number = |line: &str| line.split_once(": ")?.1.parse::<u64>().ok();
        counts.lines().take(2).filter_map(number).sum::<u64>()
    };
    let (mut whole, mut child) = (0, start());
    while child.try_wait().unwrap().is_none() {
        whole = moved_bytes(&child).max(whole);
        std::thread::sleep(LOOK_AGAIN);
    }
    let new = dir.read("list.blf");
    // The text is read; pages and records are written and read again. The rest was spilled.
    let unspilled = (lines.len() + 2 * new.len()) as u64;
    let is_spilled = new.len() > old.len() && whole > unspilled + (4 << 20);
    assert!(is_spilled, "{whole} of {unspilled} bytes");
    let all = ["few.txt", "list.blf", "list.txt"];

    let mut random = Random(0x5EED);
    let (mut killed, mut left) = (0, 0);
    for round in 0..kills {
        dir.write("list.blf", &old);
        // One kill in each part of the work, at a random point.
        let at = whole / kills * round + random.below(whole / kills);
        let mut child = start();
        while moved_bytes(&child) < at && child.try_wait().unwrap().is_none() {
            std::thread::sleep(LOOK_AGAIN);
        }
        child.kill().unwrap();
        killed += u64::from(child.wait().unwrap().signal() == Some(9));
        left += u64::from(dir.names() != all);
        let stands = dir.read("list.blf");
        let is_whole = stands == old || stands == new;
        assert!(is_whole, "killed at {at} of {whole} bytes");
        Filter::verify(&dir.at("list.blf")).unwrap();
        dir.build("list.blf", &["few.txt"]);
        assert_eq!(dir.names(), all, "killed at {at} of {whole} bytes");
    }
    // Otherwise nothing was tested.
    let is_tested = killed > kills / 2 && left > kills / 2;
    assert!(is_tested, "{killed} killed, {left} left files");
}

#[test]
fn a_kill_at_any_moment_leaves_the_old_file() {
    kill_at_random(4);
}

#[test]
#[ignore = "a minute or two: tests/run --long"]
fn many_kills_at_any_moment_leave_the_old_file() {
    kill_at_random(100);
}

/// As on a file system without locks.
#[test]
fn a_lock_that_fails_leaves_nothing_behind() {
    let dir = folder(&[("list.txt", "a@b.example\n")]);
    if !installed("strace") {
        return;
    }
    let build = dir.command("build -q -o list.blf list.txt");
    let mut strace = Command::new("strace");
    strace
        .args(words("-f -qq -o /dev/null -einject=flock:error=ENOLCK"))
        .arg(build.get_program())
        .args(build.get_args())
        .current_dir(dir.path());
    Said::of(&mut strace).ends(2, &["lock"]);
    assert_eq!(dir.names(), ["list.txt"]);
}

/// An administrator whose filter is open to everybody sees a warning after every compilation.
#[test]
fn a_filter_that_everybody_can_read_or_write_brings_a_warning() {
    let dir = folder(&[("list.txt", "a@b.example\n")]);
    dir.build("list.blf", &["list.txt"]);
    let modes = [
        (0o640, false, false),
        (0o644, true, false),
        (0o646, true, true),
    ];
    for (mode, read, write) in modes {
        fs::set_permissions(dir.at("list.blf"), fs::Permissions::from_mode(mode)).unwrap();
        let report = dir.build("list.blf", &["list.txt"]).to_string();
        let has = |what: &str| report.contains(&format!("all users can {what} "));
        assert_eq!((has("read"), has("write")), (read, write), "{mode:o}");
    }
}
