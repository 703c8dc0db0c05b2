//! A fetch is killed at any system call, or its system calls fail: the filter in place is the old
//! one or the new one, complete, and the next run finishes.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Output, Stdio};

use blocklist_fetch::{Fetch, fetch, publish};

use crate::check::has;
use crate::support::{Server, Site};
use crate::tools::{SmallDisk, installed};

/// A host with the first generation and a store with the second, as a delta or as a whole file.
struct Scene {
    site: Site,
    server: Server,
    old: Vec<u8>,
    state: Vec<u8>,
    new: Vec<u8>,
}

impl Scene {
    fn new(with_delta: bool) -> Self {
        let site = Site::new();
        let (server, mut wanted) = site.over_http();
        fs::create_dir(site.path("lib")).unwrap();
        wanted.output = site.path("lib/host.blf");
        site.release(0..1_000);
        fetch(&wanted).unwrap();
        let old = fs::read(&wanted.output).unwrap();
        let state = fs::read(site.path("lib/.host.blf.fetch")).unwrap();
        site.build(1..1_001);
        let mut second = site.to_publish_for_years();
        second.keep = usize::from(with_delta);
        publish(&second, &site.signer).unwrap();
        let new = fs::read(site.path("spammers.blf")).unwrap();
        Self {
            site,
            server,
            old,
            state,
            new,
        }
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.site.path("lib"));
        command
    }

    fn words(&self) -> [&str; 8] {
        let url = &self.server.url;
        let key = &self.site.signer.public;
        [
            "--from", url, "--list", "spammers", "--key", key, "-o", "host.blf",
        ]
    }

    /// Returns the paths for strace. Of writes, only those to files are disturbed: others wake a
    /// thread, and cannot fail.
    fn paths(&self, inject: &str) -> Vec<String> {
        let files = [
            ".host.blf.writing",
            ".host.blf.fetching/0.delta",
            "..host.blf.fetch.writing",
        ];
        let files = files.iter().filter(|_| inject.starts_with("write:error"));
        let path = |file| format!("-P{}", self.site.path("lib").join(file).display());
        files.map(path).collect()
    }

    /// Restores the host to its first state.
    fn begin(&self) {
        fs::write(self.site.path("lib/host.blf"), &self.old).unwrap();
        fs::write(self.site.path("lib/.host.blf.fetch"), &self.state).unwrap();
    }

    /// Runs it from the first state, with an instruction for strace. `None` if there is no strace.
    fn traced(&self, inject: &str) -> Option<Output> {
        if !installed("strace") {
            return None;
        }
        self.begin();
        self.command("strace")
            .args(self.paths(inject))
            .args([
                "-f",
                "-qq",
                "-o",
                "/dev/null",
                &format!("-einject={inject}"),
            ])
            .arg(env!("CARGO_BIN_EXE_blocklist-fetch"))
            .args(self.words())
            .stdin(Stdio::null())
            .output()
            .ok()
    }

    /// Returns whether the old filter is in place, and not the new one; any other is an error. Then
    /// runs again, to the end.
    fn finish(&self, what: &str) -> bool {
        let output = self.site.path("lib/host.blf");
        let found = fs::read(&output).unwrap();
        assert!(found == self.old || found == self.new, "{what}");
        let state = fs::read(self.site.path("lib/.host.blf.fetch")).unwrap();
        serde_json::from_slice::<blocklist_fetch::state::State>(&state).expect(what);
        let next = self.command(env!("CARGO_BIN_EXE_blocklist-fetch"));
        let next = { next }.args(self.words()).output().unwrap();
        assert!(next.status.success(), "{what}: {next:?}");
        assert!(fs::read(&output).unwrap() == self.new, "{what}");
        let mut names: Vec<_> = fs::read_dir(self.site.path("lib"))
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, [".host.blf.fetch", "host.blf"], "{what}");
        found == self.old
    }
}

/// Calls that change a file, or communicate with the store.
const CALLS: [&str; 16] = [
    "openat",
    "flock",
    "fchmod",
    "write",
    "pwrite64",
    "ftruncate",
    "fsync",
    "rename",
    "unlink",
    "mkdir",
    "unlinkat",
    "socket",
    "connect",
    "sendto",
    "recvfrom",
    "pread64",
];

fn kill_at(calls: &[&str], with_delta: bool) -> Option<(u32, u32)> {
    let scene = Scene::new(with_delta);
    let (mut killed, mut before) = (0, 0);
    for call in calls {
        for number in 1.. {
            let done = scene.traced(&format!("{call}:signal=KILL:when={number}"))?;
            let what = format!("{call} {number}: {done:?}");
            before += u32::from(scene.finish(&what));
            if done.status.success() {
                break;
            }
            // strace ends by the same signal as its child.
            assert_eq!(done.status.signal(), Some(9), "{what}");
            killed += 1;
        }
    }
    Some((killed, before))
}

#[test]
fn a_kill_at_any_system_call_leaves_a_whole_filter() {
    for with_delta in [true, false] {
        let Some((killed, before)) = kill_at(&CALLS, with_delta) else {
            return;
        };
        println!(
            "delta {with_delta}: killed at {killed} system calls, {before} times before the rename"
        );
        assert!(killed > 50 && before > 30, "{killed} {before}");
    }
}

/// Calls that change nothing.
const OTHERS: [&str; 14] = [
    "read",
    "close",
    "mmap",
    "munmap",
    "lseek",
    "statx",
    "fstat",
    "newfstatat",
    "epoll_wait",
    "epoll_ctl",
    "getsockopt",
    "clone3",
    "futex",
    "getdents64",
];

#[test]
#[ignore = "minutes; tests/run --long runs it"]
fn a_kill_at_any_other_system_call_leaves_a_whole_filter() {
    println!("by a delta: {:?}", kill_at(&OTHERS, true));
}

#[test]
#[ignore = "minutes; tests/run --long runs it"]
fn a_kill_at_any_other_system_call_while_the_whole_file_is_read() {
    println!("whole file: {:?}", kill_at(&OTHERS, false));
}

/// Returns how often a whole run makes this call.
fn count(scene: &Scene, call: &str) -> Option<u32> {
    let log = scene.site.path("calls");
    scene.begin();
    let done = scene
        .command("strace")
        .args(scene.paths(&format!("{call}:error")))
        .args(["-f", "-qq", "-e", &format!("trace={call}"), "-o"])
        .arg(&log)
        .arg(env!("CARGO_BIN_EXE_blocklist-fetch"))
        .args(scene.words())
        .output()
        .ok()?;
    assert!(done.status.success(), "{done:?}");
    let log = fs::read_to_string(log).unwrap();
    Some(u32::try_from(log.matches(&format!("{call}(")).count()).unwrap())
}

/// Injects errors of every kind, one at each call; if there are many calls, at some in equal
/// distances.
fn fail_at(cases: &[(&str, &str)], with_delta: bool) -> Option<(u32, u32)> {
    const MOST: usize = 12;
    let scene = Scene::new(with_delta);
    let (mut failed, mut went_on) = (0, 0);
    for (call, error) in cases {
        let count = count(&scene, call)?;
        let step = (count as usize / MOST).max(1);
        for number in (1..=count).rev().step_by(step) {
            let done = scene.traced(&format!("{call}:error={error}:when={number}"))?;
            let said = String::from_utf8_lossy(&done.stderr);
            let what = format!("{call} {error} {number}: {said}");
            let is_old = scene.finish(&what);
            // 127: the dynamic linker's own error.
            if done.status.success() {
                assert!(!is_old, "{what}");
                went_on += 1;
            } else if done.status.code() != Some(127) {
                assert!(matches!(done.status.code(), Some(1 | 2)), "{what} {done:?}");
                assert_eq!(said.lines().count(), 1, "{what}");
                assert!(said.starts_with("blocklist-fetch: "), "{what}");
                failed += 1;
            }
        }
    }
    Some((failed, went_on))
}

#[test]
fn an_error_of_any_system_call_leaves_a_whole_filter() {
    const ERRORS: [(&str, &str); 17] = [
        ("openat", "EMFILE"),
        ("openat", "EINTR"),
        ("flock", "ENOLCK"),
        ("fchmod", "EPERM"),
        ("write", "ENOSPC"),
        ("write", "EINTR"),
        ("pwrite64", "EIO"),
        ("pwrite64", "EINTR"),
        ("ftruncate", "EIO"),
        ("fsync", "EIO"),
        ("rename", "ENOSPC"),
        ("mkdir", "ENOSPC"),
        ("socket", "EMFILE"),
        ("connect", "ENETUNREACH"),
        ("recvfrom", "ECONNRESET"),
        ("sendto", "EPIPE"),
        ("pread64", "EIO"),
    ];
    for with_delta in [true, false] {
        let Some((failed, went_on)) = fail_at(&ERRORS, with_delta) else {
            return;
        };
        println!("delta {with_delta}: {failed} errors were reported, {went_on} times it went on");
        assert!(failed > 15, "{failed} {went_on}");
    }
}

/// A fetch neither fills the disk nor downloads a file that does not fit: as the filter grows, and
/// as others write.
#[test]
fn a_full_disk_is_said_before_anything_is_read() {
    let site = Site::new();
    site.release(0..1_000);
    let Some(disk) = SmallDisk::mount(&site.path("disk"), "size=200k") else {
        return;
    };
    let (server, mut wanted) = site.over_http();
    wanted.output = disk.0.join("host.blf");
    fetch(&wanted).unwrap();
    let old = fs::read(&wanted.output).unwrap();
    site.release(0..40_000);
    server.log.lock().unwrap().clear();
    site.refused(
        &wanted,
        &[
            "host.blf: needs ",
            " bytes, but its disk has only ",
            " free",
        ],
    );
    assert!(!server.log.lock().unwrap().join(" ").contains(".blf"));
    // Through a link, from a disk with space.
    let link = site.path("link.blf");
    std::os::unix::fs::symlink(&wanted.output, &link).unwrap();
    let linked = Fetch {
        output: link,
        ..wanted.clone()
    };
    site.refused(
        &linked,
        &["link.blf: needs ", " bytes, but its disk has only "],
    );
    assert!(!server.log.lock().unwrap().join(" ").contains(".blf"));
    // A publisher that states too small a size, so that the disk gets full during a write.
    let bytes = fs::read(site.path("store/spammers.json")).unwrap();
    let mut manifest = blocklist_fetch::manifest::Manifest::read(&bytes, "spammers").unwrap();
    let size = manifest.filter.bytes;
    manifest.number += 1;
    fs::write(disk.0.join("ballast"), vec![0; 60 << 10]).unwrap();
    manifest.filter.bytes = 40 << 10;
    assert!(size > 200 << 10);
    site.put(&manifest);
    let error = site.refused(&wanted, &[".blf: "]).to_string();
    assert!(
        error.contains("longer than") || error.contains("No space"),
        "{error}"
    );
    assert!(fs::read(&wanted.output).unwrap() == old);
}

/// A folder that nobody can write to, not even root.
#[test]
fn a_folder_that_is_read_only_is_said_before_anything_is_read() {
    let site = Site::new();
    site.release(0..1_000);
    let Some(disk) = SmallDisk::mount(&site.path("disk"), "size=1m") else {
        return;
    };
    let (server, mut wanted) = site.over_http();
    wanted.output = disk.0.join("host.blf");
    fetch(&wanted).unwrap();
    site.release(1..1_000);
    let remount = Command::new("mount")
        .args(["-o", "remount,ro"])
        .arg(&disk.0)
        .status();
    assert!(remount.unwrap().success());
    server.log.lock().unwrap().clear();
    site.refused(
        &wanted,
        &["disk: cannot create a file in this folder", "Read-only"],
    );
    assert!(server.log.lock().unwrap().is_empty());
}

/// Fails without the handler of SIGXFSZ, and with `eprintln`.
#[test]
fn a_limit_of_file_sizes_is_an_error_and_a_full_standard_error_is_none() {
    let site = Site::new();
    site.build(0..1_000);
    publish(&site.to_publish_for_years(), &site.signer).unwrap();
    let (_server, wanted) = site.over_http();
    let fetch = |before: &[&str], stderr: Stdio| {
        let program = env!("CARGO_BIN_EXE_blocklist-fetch");
        let mut words = before.iter().copied().chain([program]);
        let mut command = Command::new(words.next().unwrap());
        command.args(words).arg("--from").arg(&wanted.from);
        command.args(["--list", "spammers", "--key", &site.signer.public, "-o"]);
        command.arg(&wanted.output).stderr(stderr).output().unwrap()
    };
    if !installed("prlimit") {
        return;
    }
    let limit = ["prlimit", "--fsize=4096:4096"];
    let done = fetch(&limit, Stdio::piped());
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{said}");
    has(&said, "File too large");
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let done = fetch(&limit, full.into());
    assert_eq!(done.status.code(), Some(2), "{:?}", done.status);
    site.assert_clean();
}
