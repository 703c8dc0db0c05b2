//! What the daemon can no longer do once it serves, and what it still can.
//!
//! A process cannot regain a permission that it has given up, so forbidden operations are tried in
//! a separate process: this program again, with the test `inside`.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use blocklist_milter::daemon::{
    Confined, Needs, fetch, keep_memory_private, limit_calls, limit_files,
};
use blocklist_milter::endpoint::Endpoint;
use rustix::process::{Resource, Signal, getppid, getrlimit, kill_process};

use crate::support::site::{Daemon, SPAM, Site, Socket, Transport};
use crate::support::{has, run, until_so, usable};

/// The folder in which `inside` tries the operations.
const FOLDER: &str = "BLOCKLIST_MILTER_INSIDE";

/// Returns why nothing can be tried here: an old kernel, or a container that forbids the calls.
fn obstacle() -> Option<String> {
    // On a thread that ends, so that only this thread is limited.
    let tried = thread::spawn(|| limit_files(&Needs::default())).join();
    let tried = tried.expect("no panic");
    (tried != Confined::Fully).then(|| format!("{tried:?}"))
}

/// Fails without `restrict_self` in `limit_files`, or without `apply_filter_all_threads` in
/// `limit_calls`: the first operation succeeds.
#[test]
fn what_is_forbidden_fails() {
    if !usable("landlock", obstacle()) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut program = Command::new(std::env::current_exe().expect("this program"));
    program.args(["--exact", "sandbox::inside", "--ignored"]);
    program.args(["--test-threads=1", "--nocapture"]);
    program.env(FOLDER, folder.path());
    has(&run(&mut program), "1 passed");
}

fn is_denied<T>(what: &str, result: io::Result<T>) {
    let denied = [ErrorKind::PermissionDenied, ErrorKind::Unsupported];
    match result {
        Ok(_) => panic!("{what}: nobody prevents it"),
        Err(error) => assert!(denied.contains(&error.kind()), "{what}: {error}"),
    }
}

#[test]
#[ignore = "part of what_is_forbidden_fails, in a process of its own"]
fn inside() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let at = |name: &str| folder.join(name);
    for made in ["lists", "own", "other", "copies"] {
        fs::create_dir(at(made)).expect("our own folder");
    }
    fs::write(at("lists/list"), "").expect("our own folder");
    fs::write(at("other/list"), "").expect("our own folder");
    let server = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let port = server.local_addr().expect("it is bound").port();
    // Another thread, which could write before.
    let (write, written) = (mpsc::channel::<PathBuf>(), mpsc::channel());
    let (paths, done) = (write.1, written.0);
    let other = thread::spawn(move || {
        for path in paths {
            fs::write(path, "").expect("this thread was there before");
            done.send(()).expect("the test waits");
        }
        Command::new("true").spawn().map(drop)
    });

    let confined = limit_files(&Needs {
        read: vec![at("lists/list")],
        replaced: vec![at("own/status")],
        kept: vec![at("copies")],
        sockets: vec![at("own/socket")],
        names: false,
    });
    assert_eq!(confined, Confined::Fully);
    File::open(at("lists/list")).expect("it may be read");
    write.0.send(at("lists/later")).expect("it listens");
    written.1.recv().expect("it was written");
    File::open(at("lists/later")).expect("it may be read, although it came later");
    is_denied("reading", File::open(at("other/list")));
    is_denied("listing", fs::read_dir(at("other")));
    is_denied("writing", fs::write(at("lists/list"), "x"));
    is_denied("making", File::create(at("lists/new")));
    is_denied("removing", fs::remove_file(at("lists/list")));
    is_denied("a folder", fs::create_dir(at("own/folder")));
    is_denied("a link", symlink("/", at("own/link")));
    is_denied("a socket", UnixListener::bind(at("lists/socket")));
    is_denied("running", Command::new("true").spawn());
    is_denied("connecting", TcpStream::connect(("127.0.0.1", port)));
    let signal = kill_process(getppid().expect("a parent"), Signal::CONT);
    is_denied("a signal", signal.map_err(io::Error::from));
    fs::write(at("own/status.new"), "x").expect("its own");
    fs::rename(at("own/status.new"), at("own/status")).expect("its own");
    fs::write(at("copies/.a.writing"), "x").expect("its own");
    fs::rename(at("copies/.a.writing"), at("copies/a")).expect("its own");
    assert_eq!(fs::read_dir(at("copies")).expect("its own").count(), 1);
    fs::remove_file(at("copies/a")).expect("its own");
    let listener = UnixListener::bind(at("own/socket")).expect("its own");
    fs::read_to_string("/proc/self/cgroup").expect("the system's");

    assert_eq!(limit_calls(), Ok(()));
    is_denied("a program", Command::new("/bin/true").spawn());
    is_denied("TCP", TcpListener::bind("127.0.0.1:0"));
    is_denied("UDP", UdpSocket::bind("127.0.0.1:0"));
    is_denied("another socket", UnixListener::bind(at("own/other")));
    let mode = fs::Permissions::from_mode(0o666);
    is_denied("a mode", fs::set_permissions(at("own/status"), mode));
    is_denied("a link", fs::hard_link(at("own/status"), at("own/link")));
    // The other threads too.
    drop(write.0);
    is_denied("a program", other.join().expect("no panic"));

    // The operations that it still needs.
    let _client = UnixStream::connect(at("own/socket")).expect("a unix socket");
    listener.accept().expect("a unix socket");
    UnixDatagram::unbound().expect("for the service manager");
    UnixStream::pair().expect("for connections that are handed over");
    thread::spawn(|| thread::sleep(Duration::from_millis(1)))
        .join()
        .expect("a thread");
    let raised = thread::spawn(|| panic!("a fault in one thread")).join();
    assert!(raised.is_err());
    fs::remove_file(at("own/socket")).expect("its own");
    File::open(at("lists/later")).expect("it may be read");

    keep_memory_private();
    assert_eq!(getrlimit(Resource::Core).current, Some(0));
}

fn site() -> Site {
    let mut site = Site::spam(&["spammer@listed.test"], "");
    site.configure(&format!("status_file = \"@DIR@/status\"\n{SPAM}"));
    site
}

/// Returns a file of `/proc/PID/task/TID/` for each thread.
fn of_tasks(daemon: &Daemon, name: &str) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", daemon.id())).expect("it runs");
    let of = |task: PathBuf| fs::read_to_string(task.join(name)).ok();
    tasks.filter_map(|task| of(task.ok()?.path())).collect()
}

/// Returns a field of the status of each thread.
fn of_threads(daemon: &Daemon, field: &str) -> Vec<String> {
    let all = of_tasks(daemon, "status");
    let value = |status: &String| {
        let value = status.lines().find_map(|line| line.strip_prefix(field));
        Some(value?.trim().to_owned())
    };
    all.iter().filter_map(value).collect()
}

/// Returns name and nice value of a thread, from its `stat` (proc_pid_stat(5), fields 2 and 19).
fn nice_of(stat: &str) -> Option<(String, i32)> {
    let (before, after) = stat.rsplit_once(") ")?;
    let name = before.split_once('(')?.1.to_owned();
    Some((name, after.split(' ').nth(16)?.parse().ok()?))
}

/// Without `limit_calls` in `daemon::run` there is no filter; without `keep_memory_private` there
/// are dumps.
#[test]
fn every_thread_of_the_daemon_is_limited() {
    if !usable("landlock", obstacle()) {
        return;
    }
    let mut site = site();
    let status = "status_file = \"@DIR@/status\"\n[status]\nlisten = \"unix:@DIR@/pages\"\n";
    site.configure(&format!("{status}{SPAM}"));
    let daemon = site.serve();
    daemon.logged(&["listening"]);
    let all = |daemon: &Daemon, field: &str, value: &str| {
        of_threads(daemon, field).iter().all(|found| found == value)
    };
    until_so("every thread is limited", || all(&daemon, "Seccomp:", "2"));
    assert!(all(&daemon, "NoNewPrivs:", "1"));
    // Also what a thread requests after the calls are limited: a lower priority for work that may
    // wait.
    until_so(
        "the slow lane and the status pages have less priority",
        || {
            let stats = of_tasks(&daemon, "stat");
            let niced: Vec<_> = stats.iter().filter_map(|stat| nice_of(stat)).collect();
            ["slow lane", "status", "watch"].iter().all(|name| {
                let found = niced.iter().find(|(known, _)| known.starts_with(name));
                found.is_some_and(|(_, nice)| *nice == 10)
            })
        },
    );
    let limits = fs::read_to_string(format!("/proc/{}/limits", daemon.id())).expect("it runs");
    let core = limits.lines().find(|line| line.starts_with("Max core"));
    let core = core.expect("a limit").split_whitespace().nth(4);
    assert_eq!(core, Some("0"), "{limits}");
    until_so("the status", || site.at("status").exists());
    site.is("<spammer@listed.test>", "reject");
    let pages = site.at("pages");
    let page = fetch(&Endpoint::Unix(pages.clone()), "/healthz");
    assert_eq!(page.expect("pages are served").0, 200);
    assert!(!daemon.log().contains("WARN"), "{}", daemon.log());
    assert!(daemon.terminate().success());
    assert!(!pages.exists(), "it is removed at the end");
    assert!(!site.unix().exists(), "it is removed at the end");

    fs::remove_file(site.at("daemon.log")).expect("our own");
    site.configure(&format!("sandbox = false\n{SPAM}"));
    let daemon = site.serve();
    daemon.logged(&["listening"]);
    site.is("<spammer@listed.test>", "reject");
    assert!(all(&daemon, "Seccomp:", "0"));
    assert!(daemon.terminate().success());
}

/// The C library resolves the name of the host, and reads files of the system for that.
#[test]
fn it_listens_at_a_name() {
    let mut site = Site::new(Transport::Tcp);
    let Socket::Inet(port) = site.socket else {
        unreachable!("asked for a port")
    };
    site.list("spam", &["spammer@listed.test"]);
    site.configure(SPAM);
    let written = fs::read_to_string(site.at("milter.toml")).expect("just written");
    let named = written.replace("@127.0.0.1", "@localhost");
    has(&named, &format!("inet:{port}@localhost"));
    site.write("milter.toml", &named);
    let daemon = site.serve();
    daemon.logged(&["listening"]);
    assert!(daemon.terminate().success());
}

/// Fails without `note_confined`: the log mentions permissions, which are all correct.
#[test]
fn files_in_other_folders_need_a_restart_and_the_old_ones_stay() {
    if !usable("landlock", obstacle()) {
        return;
    }
    let mut site = site();
    let outside = Site::new(Transport::Unix);
    outside.list("other", &["other@listed.test"]);
    let daemon = site.serve();
    daemon.logged(&["filter in effect"]);
    let filter = outside.at("other.blf").display().to_string();
    let other = format!("[[list]]\nname = \"other\"\nfilter = \"{filter}\"\n");
    site.configure(&format!("status_file = \"@DIR@/status\"\n{SPAM}{other}"));
    let why = "the last good configuration is in use";
    daemon.logged(&[why, "sandbox", "restart it", &filter]);
    site.is("<spammer@listed.test>", "reject");
    site.is("<other@listed.test>", "accept");
    assert!(daemon.terminate().success());
    let daemon = site.serve();
    site.becomes("<other@listed.test>", "reject");
    site.is("<spammer@listed.test>", "reject");
    assert!(daemon.terminate().success());
}
