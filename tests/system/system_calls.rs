//! Every program that writes a file is killed at any system call, and has any system call failing:
//! the old file or the new one is there, complete; an error is reported; and the next run leaves
//! nothing else behind.
//!
//! strace(1) kills and injects errors. `tests/run` tries some calls of each kind, `tests/run
//! --long` all of them. `power_cut.rs` tests power cuts.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};

use crate::support::compile::{self as compiles, addresses};
use crate::support::{Scratch, find_program, root, rows, usable, words};

/// The commands that replace files: name, words, and the files that they replace or create.
const WRITERS: &str = "
    build          | blocklist-compile build -q --threads 2 -o out.blf list.txt more.txt           | out.blf
    part           | blocklist-compile build -q --part --seed-from out.blf -o list.part list.txt   | list.part
    merge          | blocklist-compile merge -q -o all.blf a.part b.part                           | all.blf
    update         | blocklist-compile update -q out.blf --add more.txt --remove few.txt           | out.blf
    add            | blocklist-compile add own.txt --filter own.blf one@bad.example                | own.blf own.txt
    remove         | blocklist-compile remove own.txt --filter own.blf user1@host.example          | own.blf own.txt
    delta          | blocklist-compile delta -q -o new.delta out.blf next.blf                      | new.delta
    apply          | blocklist-compile apply -q -o out.blf out.blf next.delta                      | out.blf
    junk           | blocklist-milter junk --config milter.toml --list own.txt Junk                | own.txt
    correspondents | blocklist-milter correspondents -o people.txt --own-domain our.example --sent Sent | people.txt
";

/// The build date of a new file, instead of [`compiles`]' fixed day.
const BUILT_S: &str = "1790000000";
/// Kept by every replacement.
const MODE: u32 = 0o604;

/// Calls that may fail: each error is reported, and nothing panics.
const FALLIBLE: &str = "access clone clone3 copy_file_range fadvise64 fallocate fchmod fchown fcntl \
    fdatasync flock fstat fsync ftruncate getdents64 ioctl lseek lstat newfstatat open openat \
    pread64 pwrite64 read readlink rename stat statfs statx unlink unlinkat write writev";
/// Calls after whose failure the standard library or the allocator ends the program.
const FATAL: [&str; 3] = ["close", "getrandom", "mmap"];
/// Calls that change a file. A command for parts or deltas is killed at each of them in the short
/// form, too.
const CHANGING: &str = "openat flock fchmod pwrite64 ftruncate fsync rename unlink";
/// Calls of each kind that the short form tries.
const SOME: u32 = 2;
const ERRORS: [&str; 4] = ["ENOSPC", "EIO", "EINTR", "EMFILE"];

struct Trial {
    folder: Scratch,
    words: &'static str,
    targets: Vec<&'static str>,
    old: Vec<Option<Vec<u8>>>,
    new: Vec<Vec<u8>>,
    /// The names of all files at the end.
    names: Vec<String>,
}

impl Trial {
    fn new(writer: &str) -> Self {
        let mut writers = rows(WRITERS).into_iter();
        let [_, line, targets] = writers.find(|row| row[0] == writer).unwrap();
        let authserv =
            "[whitelist]\nentries = ['friend@good.example']\nauthserv_ids = ['mx.our.example']\n";
        let mail =
            |head: &str| format!("Message-ID: <1@bad.example>\n{head}\nSubject: x\n\nspam\n");
        let junk = "Authentication-Results: mx.our.example; dkim=pass header.d=bad.example\nFrom: spam@bad.example";
        let sent =
            "From: a@our.example\nTo: eve@else.example\nDate: Mon, 21 Sep 2026 10:00:00 +0000";
        let folder = compiles::folder(&[
            ("few.txt", &addresses(0..20)),
            ("list.txt", &addresses(0..900)),
            ("more.txt", &addresses(5_000..5_100)),
            ("own.txt", &addresses(0..5)),
            ("people.txt", "bob@else.example # seen 2026-09-20\n"),
            ("milter.toml", authserv),
            ("Junk/cur/1", &mail(junk)),
            ("Sent/cur/1", &mail(sent)),
        ]);
        for line in [
            "build -q --seed 4711 -o out.blf list.txt",
            "build -q --seed 4711 -o next.blf list.txt",
            "build -q --seed 4711 -o next.blf list.txt more.txt",
            "build -q --seed 4711 -o own.blf own.txt",
            "build -q --part --seed 4711 -o a.part few.txt",
            "build -q --part --seed 4711 -o b.part list.txt",
            "build -q --part --seed 4711 -o list.part few.txt",
            "merge -q -o all.blf a.part",
            "delta -q -o next.delta out.blf next.blf",
            "delta -q -o new.delta next.blf out.blf",
        ] {
            let mut command = folder.command(line);
            let done = command.env("SOURCE_DATE_EPOCH", BUILT_S).output();
            assert!(done.unwrap().status.success(), "{line}");
        }
        let targets = words(targets);
        for target in &targets {
            let _ = fs::set_permissions(folder.at(target), Permissions::from_mode(MODE));
        }
        let mut trial = Self {
            old: Vec::new(),
            new: Vec::new(),
            names: Vec::new(),
            folder,
            words: line,
            targets,
        };
        trial.old = trial.read();
        let done = trial.run(&[]);
        assert!(done.status.success(), "{done:?}");
        trial.new = trial.read().into_iter().map(Option::unwrap).collect();
        trial.names = trial.folder.names();
        trial.restore();
        trial
    }

    fn read(&self) -> Vec<Option<Vec<u8>>> {
        let targets = self.targets.iter();
        let read = targets.map(|target| fs::read(self.folder.at(target)).ok());
        read.collect()
    }

    /// Restores the old files, without any other change.
    fn restore(&self) {
        for (target, old) in self.targets.iter().zip(&self.old) {
            let path = self.folder.at(target);
            match old {
                Some(old) => {
                    fs::write(&path, old).unwrap();
                    fs::set_permissions(&path, Permissions::from_mode(MODE)).unwrap();
                }
                None => {
                    let _ = fs::remove_file(&path);
                }
            }
        }
    }

    /// Runs the command with another one, such as strace.
    fn run(&self, below: &[&str]) -> Output {
        let (program, line) = self.words.split_once(' ').unwrap();
        let program = match program {
            "blocklist-compile" => env!("CARGO_BIN_EXE_blocklist-compile"),
            _ => env!("CARGO_BIN_EXE_blocklist-milter"),
        };
        let all = [below, &[program], &words(line)].concat();
        let (first, rest) = all.split_first().unwrap();
        Command::new(first)
            .args(rest)
            .current_dir(self.folder.path())
            .env("SOURCE_DATE_EPOCH", BUILT_S)
            // A backtrace would read many files.
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Returns how often each system call is made, by the thread that makes most of them.
    fn calls(&self) -> Option<BTreeMap<String, u32>> {
        let log = tempfile::NamedTempFile::new().unwrap();
        let obstacle = match find_program("strace") {
            None => Some("not installed".to_owned()),
            Some(_) => {
                let path = log.path().to_str().unwrap();
                let done = self.run(&["strace", "-f", "-qq", "-o", path]);
                let said = String::from_utf8_lossy(&done.stderr).into_owned();
                (!done.status.success()).then_some(said)
            }
        };
        self.restore();
        if !usable("strace", obstacle) {
            return None;
        }
        let mut by_thread = BTreeMap::<(String, String), u32>::new();
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        for line in fs::read_to_string(log.path()).unwrap().lines() {
            // `12 read(3, ...`, also with `<unfinished ...>`; not `<... read resumed>` and `+++
            // exited`.
            let (thread, call) = line.trim().split_once(' ').unwrap_or_default();
            let (name, _) = call.trim().split_once('(').unwrap_or_default();
            if !name.is_empty() && name.bytes().all(is_name) {
                let made = by_thread.entry((name.to_owned(), thread.to_owned()));
                *made.or_default() += 1;
            }
        }
        let mut calls = BTreeMap::new();
        for ((name, _), count) in by_thread {
            let most: &mut u32 = calls.entry(name).or_default();
            *most = count.max(*most);
        }
        Some(calls)
    }

    /// Runs the command with an injected kill or error, and checks the files afterwards. Returns its
    /// output, and whether the old files are still there.
    fn inject(&self, call: &str, what: &str, number: u32) -> (Output, bool) {
        let inject = format!("-einject={call}:{what}:when={number}");
        let trace = format!("-etrace={call}");
        let strace = ["strace", "-f", "-qq", "-o", "/dev/null", &trace, &inject];
        let done = self.run(&strace);
        let case = format!("{}, {what} at {call} {number}: {done:?}", self.words);
        let found = self.read();
        let targets = self.targets.iter().zip(&found);
        for ((target, found), (old, new)) in targets.zip(self.old.iter().zip(&self.new)) {
            let is_whole = found == old || found.as_ref() == Some(new);
            assert!(is_whole, "{target}: neither old nor new: {case}");
            if let (Some(_), Ok(meta)) = (old, fs::metadata(self.folder.at(target))) {
                assert_eq!(meta.permissions().mode() & 0o777, MODE, "{target}: {case}");
            }
        }
        let is_new = found.iter().flatten().eq(&self.new);
        if done.status.success() {
            assert!(is_new, "ended well, but wrote nothing: {case}");
        }
        let said = String::from_utf8_lossy(&done.stderr);
        let is_error = what.starts_with("error");
        if is_error && words(FALLIBLE).contains(&call) {
            assert!(!said.contains("panicked"), "{case}");
            assert!(matches!(done.status.code(), Some(0..=2 | 127)), "{case}");
            assert!(done.status.success() || !said.is_empty(), "{case}");
        }
        let left = self.folder.names();
        let is_left = left.iter().any(|name| !self.names.contains(name));
        // A file that could not be removed, or that nobody was left to remove.
        let may_be_left = done.status.signal().is_some() || call.starts_with("unlink");
        assert!(!is_left || may_be_left, "left {left:?}: {case}");
        self.restore();
        if is_left || !done.status.success() {
            let next = self.run(&[]);
            assert!(next.status.success(), "the next run: {next:?}: {case}");
            let now: Vec<_> = self.read().into_iter().flatten().collect();
            assert_eq!(now, self.new, "the next run: {case}");
            assert_eq!(self.folder.names(), self.names, "{case}");
            self.restore();
        }
        (done, found == self.old)
    }
}

/// Returns numbers from 1 to `last`: all, or at most `at_most`, spread evenly.
fn spread(last: u32, at_most: u32) -> impl Iterator<Item = u32> {
    let count = last.min(at_most).max(1);
    (1..=count).map(move |n| match count {
        1 => last,
        _ => 1 + (n - 1) * (last - 1) / (count - 1),
    })
}

/// Kills the command at, and injects errors into, up to `at_most` calls of each name in each
/// thread.
fn disturb(writer: &str, at_most: u32) {
    let trial = Trial::new(writer);
    let Some(calls) = trial.calls() else { return };
    let is_of_parts = ["part", "merge", "delta", "apply"].contains(&writer);
    let (mut killed, mut kept, mut failed, mut survived) = (0, 0, 0, 0);
    let mut turn = 0;
    for (call, count) in &calls {
        // The first execve is strace's own.
        if call == "execve" {
            continue;
        }
        let is_file_call = words(FALLIBLE).contains(&call.as_str());
        if at_most == u32::MAX || is_file_call {
            let is_tried = is_of_parts && words(CHANGING).contains(&call.as_str());
            let at_most = if is_tried { u32::MAX } else { at_most };
            for number in spread(*count, at_most) {
                let (done, is_old) = trial.inject(call, "signal=KILL", number);
                killed += u32::from(done.status.signal() == Some(9));
                kept += u32::from(is_old);
            }
        }
        for number in spread(*count, at_most) {
            if !is_file_call && !FATAL.contains(&call.as_str()) {
                continue;
            }
            for error in ERRORS {
                turn += 1;
                // In the short form, one error for each call.
                if at_most != u32::MAX && turn % ERRORS.len() != 0 {
                    continue;
                }
                let (done, _) = trial.inject(call, &format!("error={error}"), number);
                if done.status.success() {
                    survived += 1;
                } else {
                    failed += 1;
                }
            }
        }
    }
    println!(
        "{}: killed at {killed} calls, the old files stayed at {kept}; of the injected errors {failed} \
         ended it, {survived} did not",
        trial.words
    );
    assert!(killed > 10 && failed > 5, "{killed} {failed} {survived}");
    assert!(kept > 5 || !is_of_parts, "{kept}");
}

// These fail without the following: without the temporary file (`claim` in `crates/filter/src/base/replacement.rs`) a
// file is neither old nor new; without removing leftovers in its `lock` the next run fails; without
// its `Drop` leftovers stay.

macro_rules! disturbed {
    ($(#[test] $writer:ident: fn $short:ident(), fn $long:ident();)+) => {
        const NAMES: &[&str] = &[$(stringify!($writer)),+];
        $(
            #[test]
            fn $short() {
                disturb(stringify!($writer), SOME);
            }

            #[test]
            #[ignore = "some minutes: tests/run --long"]
            fn $long() {
                disturb(stringify!($writer), u32::MAX);
            }
        )+
    };
}

disturbed! {
    #[test] build: fn build_is_disturbed(), fn build_is_disturbed_at_every_call();
    #[test] part: fn part_is_disturbed(), fn part_is_disturbed_at_every_call();
    #[test] merge: fn merge_is_disturbed(), fn merge_is_disturbed_at_every_call();
    #[test] update: fn update_is_disturbed(), fn update_is_disturbed_at_every_call();
    #[test] add: fn add_is_disturbed(), fn add_is_disturbed_at_every_call();
    #[test] remove: fn remove_is_disturbed(), fn remove_is_disturbed_at_every_call();
    #[test] delta: fn delta_is_disturbed(), fn delta_is_disturbed_at_every_call();
    #[test] apply: fn apply_is_disturbed(), fn apply_is_disturbed_at_every_call();
    #[test] junk: fn junk_is_disturbed(), fn junk_is_disturbed_at_every_call();
    #[test] correspondents: fn correspondents_are_disturbed(), fn correspondents_are_disturbed_at_every_call();
}

/// Fails with `write` instead of `write_all` anywhere: the file then differs.
#[test]
fn short_and_interrupted_reads_and_writes_change_nothing() {
    let folder = compiles::folder(&[]);
    let library = folder.at("short.so");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library);
    let built = cc.arg(root("tests/support/short_calls.c")).output();
    let obstacle = match built {
        Ok(done) if done.status.success() => None,
        Ok(done) => Some(String::from_utf8_lossy(&done.stderr).into_owned()),
        Err(error) => Some(error.to_string()),
    };
    if !usable("cc", obstacle) {
        return;
    }
    let preload = format!("LD_PRELOAD={}", library.display());
    for writer in NAMES {
        let trial = Trial::new(writer);
        let done = trial.run(&["env", &preload]);
        assert!(done.status.success(), "{writer}: {done:?}");
        let found: Vec<_> = trial.read().into_iter().flatten().collect();
        assert!(found == trial.new, "{writer}");
        assert_eq!(trial.folder.names(), trial.names);
    }
}
