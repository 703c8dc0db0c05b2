//! A compilation may end by an error, a full disk, a signal, or a kill at any moment: the old
//! filter stays, and the next compilation removes everything that is left behind.

use crate::support::compile as support;
use crate::support::tools::{SmallDisk, installed};

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use blocklist_milter::compile::{self, Error, MIN_MEMORY_BYTES, Progress};
use blocklist_milter::filter::Filter;
use blocklist_milter::list::MaxRejects;
use support::{addresses, build, command, folder, names, plan};

#[test]
fn whatever_fails_the_old_file_stands() {
    let folder = folder(&[
        ("list.txt", "a@b.example\nbad@b.example line\n"),
        ("precious.txt", "not a filter"),
    ]);
    let dir = folder.path();
    let mut lax = plan(dir, "list.blf", &["list.txt"]);
    lax.max_rejects = MaxRejects::Lines(1);
    build(&lax);
    let old = fs::read(dir.join("list.blf")).unwrap();
    let before = names(dir);

    let mut strict = plan(dir, "list.blf", &["list.txt"]);
    strict.max_rejects = MaxRejects::Lines(0);
    assert!(build(&strict).refused.is_some());
    assert!(compile::build(&plan(dir, "list.blf", &["none.txt"]), &Progress::new()).is_err());
    let interrupted = Progress::new();
    interrupted
        .stop_flag()
        .store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(matches!(
        compile::build(&plan(dir, "list.blf", &["list.txt"]), &interrupted),
        Err(Error::Interrupted)
    ));
    // A typing error must not destroy a file that is not a filter.
    let mistyped = compile::build(&plan(dir, "precious.txt", &["list.txt"]), &Progress::new());
    assert!(
        matches!(mistyped, Err(Error::NotReplaced { .. })),
        "{mistyped:?}"
    );

    assert_eq!(fs::read(dir.join("list.blf")).unwrap(), old);
    assert_eq!(names(dir), before);
}

#[test]
fn an_output_folder_that_cannot_be_written_is_an_error() {
    let folder = folder(&[("list.txt", "a@b.example\n")]);
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();
    let denied = fs::write(closed.join("try"), "").is_err();
    let built = compile::build(
        &plan(folder.path(), "closed/list.blf", &["list.txt"]),
        &Progress::new(),
    );
    // Root can write anywhere.
    assert_eq!(built.is_err(), denied);
}

/// Waits until a compilation locks its output in `folder`: the system lists the locks of open
/// files. Locks in other folders belong to other tests, whose files a new child still has open.
fn wait_for_lock(child: &mut Child, folder: &Path) {
    let process = PathBuf::from(format!("/proc/{}", child.id()));
    let folder = folder.canonicalize().unwrap();
    let holds = || {
        let files = fs::read_dir(process.join("fd")).unwrap().flatten();
        let mut ours = files.filter(|file| {
            fs::read_link(file.path()).is_ok_and(|target| target.starts_with(&folder))
        });
        ours.any(|file| {
            let info = fs::read_to_string(process.join("fdinfo").join(file.file_name()));
            info.is_ok_and(|info| info.contains("lock:"))
        })
    };
    while !holds() {
        let ended = child.try_wait().unwrap();
        assert!(
            ended.is_none(),
            "ended before it held the output: {ended:?}"
        );
        std::thread::yield_now();
    }
}

#[test]
fn two_compiles_of_one_output_exclude_each_other_and_a_kill_leaves_the_old() {
    let folder = folder(&[("list.txt", "a@b.example\n")]);
    let dir = folder.path();
    let output = dir.join("list.blf");
    build(&plan(dir, "list.blf", &["list.txt"]));
    let old = fs::read(&output).unwrap();

    // A build that waits for standard input has locked the output.
    let mut waiting = command(&["build", "-q", "-o", output.to_str().unwrap(), "-"]);
    let mut waiting = waiting.stdin(Stdio::piped()).spawn().unwrap();
    wait_for_lock(&mut waiting, folder.path());
    let busy = compile::build(&plan(dir, "list.blf", &["list.txt"]), &Progress::new());
    let busy = busy.unwrap_err().to_string();
    assert!(busy.contains("list.blf"), "{busy}");
    waiting.kill().unwrap();
    waiting.wait().unwrap();
    assert_eq!(fs::read(&output).unwrap(), old);

    // What the kill left does no harm, and the next build removes it.
    build(&plan(dir, "list.blf", &["list.txt"]));
    assert_eq!(names(dir), ["list.blf", "list.txt"]);
}

#[test]
fn an_interrupt_leaves_nothing() {
    let folder = folder(&[("list.txt", "a@b.example\n")]);
    let output = folder.path().join("list.blf");
    let mut waiting = command(&["build", "-o", output.to_str().unwrap(), "-"]);
    let mut waiting = waiting.stdin(Stdio::piped()).spawn().unwrap();
    wait_for_lock(&mut waiting, folder.path());
    let pid = rustix::process::Pid::from_raw(waiting.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    // Its standard input stays open, so only the signal ends it.
    let input = waiting.stdin.take();
    let done = waiting.wait_with_output().unwrap();
    drop(input);
    assert_eq!(done.status.code(), Some(2), "{done:?}");
    assert!(String::from_utf8_lossy(&done.stderr).contains("interrupted"));
    assert_eq!(names(folder.path()), ["list.txt"]);
}

#[test]
fn an_interrupt_ends_the_wait_for_a_pipe_that_nobody_writes_to() {
    let folder = folder(&[]);
    let pipe = folder.path().join("list.pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let output = folder.path().join("list.blf");
    let run = || {
        let words = [
            "build",
            "-q",
            "-o",
            output.to_str().unwrap(),
            pipe.to_str().unwrap(),
        ];
        command(&words).spawn().unwrap()
    };
    let mut waiting = run();
    wait_for_lock(&mut waiting, folder.path());
    let pid = rustix::process::Pid::from_raw(waiting.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let done = waiting.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(2), "{done:?}");
    assert!(String::from_utf8_lossy(&done.stderr).contains("interrupted"));

    // A pipe to which somebody writes later, in pieces, is read to its end.
    let reading = run();
    let mut writer = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    for part in ["a@b.exa", "mple\nc@d.example\n"] {
        writer.write_all(part.as_bytes()).unwrap();
    }
    drop(writer);
    let done = reading.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert_eq!(support::records(&output).len(), 2);
}

#[test]
fn a_full_disk_is_said_and_the_old_file_stands() {
    let folder = folder(&[
        ("few.txt", "a@b.example\n"),
        ("many.txt", &addresses(0..200_000)),
    ]);
    let Some(disk) = SmallDisk::mount(&folder.path().join("disk"), "size=1m") else {
        return;
    };
    build(&plan(folder.path(), "disk/list.blf", &["few.txt"]));
    let old = fs::read(disk.0.join("list.blf")).unwrap();
    let full = compile::build(
        &plan(folder.path(), "disk/list.blf", &["many.txt"]),
        &Progress::new(),
    );
    let said = full.unwrap_err().to_string();
    assert!(
        said.contains("list.blf") && said.contains("os error 28"),
        "{said}"
    );
    assert_eq!(fs::read(disk.0.join("list.blf")).unwrap(), old);
    assert_eq!(names(&disk.0), ["list.blf"]);

    // While keys are spilled, by several workers or by one that reads a whole list.
    let all: Vec<String> = (0..1_200_000).map(|n| format!("u{n}@x.example")).collect();
    fs::write(folder.path().join("all.txt"), all.join("\n")).unwrap();
    fs::write(
        folder.path().join("all.json"),
        format!("[\"{}\"]", all.join("\",\"")),
    )
    .unwrap();
    for (list, threads) in [("all.txt", 4), ("all.json", 1)] {
        let mut plan = plan(folder.path(), "disk/list.blf", &[list]);
        (plan.memory_bytes, plan.threads) = (MIN_MEMORY_BYTES, threads);
        let full = compile::build(&plan, &Progress::new());
        let said = full.unwrap_err().to_string();
        assert!(
            said.contains(".list.blf.spill") && said.contains("os error 28"),
            "{said}"
        );
        assert_eq!(fs::read(disk.0.join("list.blf")).unwrap(), old);
        assert_eq!(names(&disk.0), ["list.blf"]);
    }
}

#[test]
fn nobody_reading_the_report_undoes_nothing() {
    let folder = folder(&[("good.txt", "a@b.example\n")]);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    let (list, output) = (path("good.txt"), path("out.blf"));
    let built = command(&["build", "-o", &output, &list])
        .stderr(full())
        .status();
    assert_eq!(built.unwrap().code(), Some(0));
    let failed = command(&["info", &list]).stderr(full()).status();
    assert_eq!(failed.unwrap().code(), Some(2));
}

/// Time between two checks of a process; short compared with its work.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Kills builds that spill, at moments spread over the whole work.
fn kill_at_random(kills: u64) {
    let few = folder(&[("few.txt", "a@b.example\n")]);
    let dir = few.path();
    let list = dir.join("list.txt");
    // Few enough to be quick, but more than the minimum of memory can hold.
    let lines = (0..560_000).map(|n| format!("u{n}@b.example\n"));
    fs::write(&list, lines.collect::<String>()).unwrap();
    let output = dir.join("list.blf");
    build(&plan(dir, "list.blf", &["few.txt"]));
    let old = fs::read(&output).unwrap();

    // Standard input is staged with its dates, and so does not fit in memory.
    let start = || {
        let memory = compile::MIN_MEMORY_BYTES.to_string();
        let words = ["build", "-q", "--date", "2026-01-31", "--memory", &memory];
        let mut build = command(&words);
        build.arg("-o").arg(&output).arg("-");
        build.stdin(fs::File::open(&list).unwrap()).spawn().unwrap()
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
    let new = fs::read(&output).unwrap();
    // The text is read; pages and records are written and read again. The rest was spilled.
    let unspilled = fs::metadata(&list).unwrap().len() + 2 * new.len() as u64;
    assert!(
        new.len() > old.len() && whole > unspilled + (4 << 20),
        "{whole} of {unspilled} bytes"
    );
    let all = ["few.txt", "list.blf", "list.txt"];

    let mut random = 0x5EED_u64;
    let (mut killed, mut left) = (0, 0);
    for round in 0..kills {
        fs::write(&output, &old).unwrap();
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        // One kill in each part of the work, at a random point.
        let at = whole / kills * round + (random >> 16) % (whole / kills);
        let mut child = start();
        while moved_bytes(&child) < at && child.try_wait().unwrap().is_none() {
            std::thread::sleep(LOOK_AGAIN);
        }
        child.kill().unwrap();
        killed += u64::from(child.wait().unwrap().signal() == Some(9));
        left += u64::from(names(dir) != all);
        let stands = fs::read(&output).unwrap();
        assert!(
            stands == old || stands == new,
            "killed at {at} of {whole} bytes"
        );
        Filter::verify(&output).unwrap();
        build(&plan(dir, "list.blf", &["few.txt"]));
        assert_eq!(names(dir), all, "killed at {at} of {whole} bytes");
    }
    // Otherwise nothing was tested.
    assert!(
        killed > kills / 2 && left > kills / 2,
        "{killed} killed, {left} left files"
    );
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
    let folder = folder(&[("list.txt", "a@b.example\n")]);
    let dir = folder.path();
    let program = env!("CARGO_BIN_EXE_blocklist-compile");
    if !installed("strace") {
        return;
    }
    let done = Command::new("strace")
        .args([
            "-f",
            "-qq",
            "-o",
            "/dev/null",
            "-e",
            "inject=flock:error=ENOLCK",
        ])
        .args([program, "build", "-q", "-o", "list.blf", "list.txt"])
        .current_dir(dir)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.contains("lock"), "{said}");
    assert_eq!(names(dir), ["list.txt"]);
}

/// An administrator whose filter is open to everybody sees a warning after every compilation.
#[test]
fn a_filter_that_everybody_can_read_or_write_brings_a_warning() {
    let folder = folder(&[("list.txt", "a@b.example\n")]);
    let plan = plan(folder.path(), "list.blf", &["list.txt"]);
    let warned = |mode| {
        let file = folder.path().join("list.blf");
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
        let report = build(&plan).to_string();
        let has = |what: &str| report.contains(&format!("all users can {what} "));
        (has("read"), has("write"))
    };
    build(&plan);
    assert_eq!(warned(0o640), (false, false));
    assert_eq!(warned(0o644), (true, false));
    assert_eq!(warned(0o646), (true, true));
}
