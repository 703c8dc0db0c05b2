//! The daemon under a service manager: limits of the process, signals at bad moments.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use blocklist_milter::daemon::fetch;
use blocklist_milter::demo::peer::Peer;
use blocklist_milter::endpoint::Endpoint;
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::site::{Daemon, SPAM, Site, Socket};
use crate::support::tools::Killed;
use crate::support::wire::Wire;
use crate::support::{Said, has, has_all, installed, run, until, until_so};

fn site() -> Site {
    Site::spam(&["spammer@listed.test"], "")
}

/// Runs a command of the program with the site's configuration, as the user of the tests.
fn by_root(site: &Site, arguments: &[&str]) -> Said {
    Said::of(&mut site.command(arguments))
}

/// Fails without the check of the user in `src/serve.rs`.
#[test]
fn running_as_root_brings_a_warning() {
    let site = site();
    let told = |daemon: Daemon| {
        daemon.logged(&["listening"]);
        let told = daemon.log().contains("running as root");
        assert!(daemon.terminate().success());
        told
    };
    // The tests run it as another user if possible.
    assert!(!told(site.serve()));
    if rustix::process::geteuid().is_root() {
        let log = site.at("root.log");
        assert!(told(Daemon::spawn(site.command(&[]), &site.socket, log)));
    }
}

/// A typing error in the configuration at boot only delays mail until it is repaired; and `--check`
/// shows why the daemon refuses a file.
#[test]
fn it_starts_with_a_faulty_configuration_and_says_what_is_wrong() {
    let mut site = site();
    let rest = format!("status_file = \"@DIR@/status\"\n{SPAM}");
    site.configure(&rest.replace("filter =", "filtr ="));
    let daemon = site.serve();
    daemon.logged(&["not serving as configured", "did you mean filter?"]);
    site.configure(&rest);
    daemon.logged(&["filter in effect", "generation=1"]);
    site.long_list("spam", 300);
    daemon.logged(&["filter in effect", "entries=300"]);
    // The compiler would refuse to shrink it this much; a copied file bypasses that.
    site.write("few.txt", "spammer@listed.test\n");
    let mut build = site.program("blocklist-compile");
    run(build.args(["build", "--name", "spam", "-o", "few.blf", "few.txt"]));
    fs::rename(site.at("few.blf"), site.at("spam.blf")).expect("our own folder");
    daemon.logged(&["the last good filter is in use", "max_shrink"]);
    let check = || site.milter(&["--check"]).ends(0, &[]);
    until_so("the refusal shows in --check", || {
        let report = check();
        report.contains("the running daemon") && report.contains("max_shrink")
    });
    assert!(daemon.terminate().success());
    assert!(!check().contains("the running daemon"));
}

/// `reload` reports the result, including what only the daemon can know, in any configuration.
#[test]
fn a_reload_that_was_asked_for_tells_its_outcome() {
    let mut site = site();
    let rest = format!("status_file = \"@DIR@/status\"\n{SPAM}[status]\nlisten = \"\"\n");
    site.configure(&rest);
    let reload = |site: &Site| by_root(site, &["reload"]);
    // Nothing runs.
    reload(&site).ends(2, &[]);
    let daemon = site.serve();
    daemon.logged(&["filter in effect"]);
    until_so("the daemon writes its status", || {
        site.at("status").exists()
    });
    let said = reload(&site).ends(0, &[]);
    assert_eq!(said, "serving 1 list, 1 entry, 0 on the whitelist\n");

    site.write("white.txt", "friend@listed.test\n");
    let white = "[whitelist]\nfiles = [\"@DIR@/white.txt\"]\n";
    site.configure(&format!("{rest}{white}"));
    // The second request may come during the first reload, and gets its own result.
    std::thread::scope(|scope| {
        let both = [scope.spawn(|| reload(&site)), scope.spawn(|| reload(&site))];
        for one in both {
            let said = one.join().expect("it does not panic");
            said.ends(0, &["1 on the whitelist"]);
        }
    });

    // A file that is valid, but older than the one in effect.
    let old = fs::read(site.at("spam.blf")).expect("it was compiled");
    site.list("spam", &["spammer@listed.test", "other@listed.test"]);
    reload(&site).ends(0, &[]);
    let aside = site.at("old.blf");
    let written = fs::write(&aside, old).and_then(|()| fs::rename(&aside, site.at("spam.blf")));
    written.expect("our own folder");
    by_root(&site, &["check"]).ends(0, &[]);
    for _ in 0..2 {
        reload(&site).ends(2, &["it is generation 1 (built", "older than generation 2"]);
    }
    site.write("milter.toml", "listen = 7\n");
    reload(&site).ends(2, &["milter.toml:1:10"]);
    assert!(daemon.terminate().success());
}

/// A process that now has the id of an ended daemon does not get SIGHUP, which would end it.
#[test]
fn a_reload_harms_no_other_process() {
    let mut site = site();
    site.configure(&format!("status_file = \"@DIR@/status\"\n{SPAM}"));
    let other = Command::new("sleep").arg("60").spawn();
    let mut other = Killed(other.expect("sleep is there"));
    let id = other.0.id().to_string();
    let running = format!("{{\"process\":{id},\"status\":\"serving\",\"problems\":[]}}");
    site.write("status", &running);
    for arguments in [&["reload"][..], &["reload", "--pid", &id]] {
        by_root(&site, arguments).ends(2, &[]);
        assert!(other.0.try_wait().expect("our own child").is_none());
    }
}

/// Connections never take the descriptor that a new list needs.
#[test]
fn a_list_is_loaded_while_as_many_are_connected_as_can_be() {
    let site = site();
    let limited = "ulimit -n 64; exec \"$0\" \"$@\"";
    let command = site.program_under("sh", &["-c", limited]);
    let daemon = Daemon::spawn(command, &site.socket, site.at("daemon.log"));
    let connected = (0..200).map(|_| UnixStream::connect(site.unix()));
    let connected: Result<Vec<_>, _> = connected.collect();
    daemon.logged(&["connection limit reached"]);
    site.list("spam", &["spammer@listed.test", "other@listed.test"]);
    daemon.logged(&["filter in effect", "generation=2"]);
    let log = daemon.log();
    assert!(!log.contains("Too many open files"));
    // Logged once, not for each connection.
    assert_eq!(log.matches("connection limit reached").count(), 1);
    drop(connected.expect("the queue of the socket is long"));
    assert!(daemon.terminate().success());
}

/// The first signal lets messages finish; the second does not.
#[test]
fn a_second_signal_ends_it_at_once() {
    let site = site();
    let mut daemon = site.serve();
    let mut peer = Wire::negotiated(site.unix());
    assert_eq!(peer.ask(&[(b'M', b"<a>\0"), (b'R', b"<b>\0")]), b'c');
    daemon.signal(Signal::TERM);
    daemon.logged(&["finishing messages in progress"]);
    daemon.signal(Signal::TERM);
    assert!(daemon.ended().success());
    let waited = "the time for messages in progress is over";
    assert!(!daemon.log().contains(waited));
}

/// Reading large filters takes a while; a SIGHUP during that time must not end the daemon.
#[test]
fn a_hangup_at_the_start_is_not_the_end() {
    let site = site();
    // Reading this configuration blocks until somebody writes it.
    let config = site.at("pipe.toml");
    run(Command::new("mkfifo").arg(&config));
    let log = File::create(site.at("daemon.log")).expect("our own folder");
    let mut command = site.program("blocklist-milter");
    command.arg("--config").arg(&config);
    command.stdin(Stdio::null()).stderr(log);
    let mut child = Killed(command.spawn().expect("the program starts"));
    let pid = Pid::from_raw(child.0.id().cast_signed()).expect("a child has a number");
    until_so("the program is ready for signals", || catches_hangup(pid));
    kill_process(pid, Signal::HUP).expect("our own child");
    let text = fs::read(site.at("milter.toml")).expect("just written");
    let mut lives = || {
        let ended = child.0.try_wait().expect("our own child");
        assert!(ended.is_none(), "{ended:?}");
    };
    // Wait for a reader: data written to a pipe that nobody has open is lost.
    let mut pipe = until("the program reads its configuration", || {
        lives();
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let mut options = File::options();
        options.write(true).custom_flags(flags).open(&config).ok()
    });
    pipe.write_all(&text).expect("our own pipe");
    drop(pipe);
    until_so("the daemon listens", || {
        lives();
        site.socket.listens()
    });
    kill_process(pid, Signal::TERM).expect("our own child");
    let status = child.0.wait().expect("our own child");
    assert!(status.success(), "{status}");
}

/// Root may read everything; the service, as another user, may not. `--check` run by root detects
/// that, and the daemon's error says what to do.
#[test]
fn a_filter_that_the_service_cannot_read_is_named_with_its_remedy() {
    let mut site = site();
    if site.user.is_none() {
        println!("left out: only root has files that another user cannot read");
        return;
    }
    site.configure(&format!("status_file = \"@DIR@/run/status\"\n{SPAM}"));
    site.folder("run");
    let filter = site.at("spam.blf");
    let good = by_root(&site, &["--check"]);
    assert_eq!((good.code, &*good.err), (Some(0), ""));

    std::os::unix::fs::chown(&filter, Some(0), Some(0)).expect("root may");
    let remedy = format!("chmod g+r {}", filter.display());
    let owner = "(mode 0640, owner root, group root)";
    let said = by_root(&site, &["--check"]).ends(2, &[&remedy]);
    has(&said, &format!("spam.blf {owner}"));

    let daemon = site.serve();
    let log = daemon.logged(&["not serving as configured", "cannot open", &remedy]);
    has(&log, owner);
}

/// Returns whether a process has a handler for SIGHUP, the first bit of the kernel's mask.
fn catches_hangup(pid: Pid) -> bool {
    let status = format!("/proc/{}/status", pid.as_raw_nonzero());
    let status = fs::read_to_string(status).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught.is_some_and(|mask| {
        u64::from_str_radix(mask.trim(), 16).expect("a mask in hexadecimal") & 1 == 1
    })
}

/// The status pages use the socket that systemd marks for them; it serves no mail, and no other one
/// is opened.
#[test]
fn a_status_socket_from_systemd() {
    if !installed("systemd-socket-activate") {
        return;
    }
    let status = "[status]\nlisten = \"unix:@DIR@/configured.sock\"\n";
    let site = Site::spam(&["spammer@listed.test"], status);
    let [mail, pages] = ["mail", "pages"].map(|name| site.at(name));
    let [mail_name, pages_name] = [&mail, &pages].map(|path| path.to_str().expect("a plain path"));
    let arguments = ["-l", mail_name, "-l", pages_name, "--fdname=mail:status"];
    let command = site.program_under("systemd-socket-activate", &arguments);
    let _daemon = Daemon::spawn(command, &Socket::Unix(mail.clone()), site.at("daemon.log"));
    // It creates one socket after the other, and lets nobody connect before it listens.
    let page = || fetch(&Endpoint::Unix(pages.clone()), "/readyz").ok();
    let page = until("the second socket", page);
    assert_eq!(page, (200, b"ok\n".to_vec()));
    Peer::unix(&mail).expect("it speaks the milter protocol");
    assert!(!site.at("configured.sock").exists());
}

/// `debug` and `trace` log what this program does, not what its libraries do. The log is in a
/// watched folder, so a line about each event would cause another event.
#[test]
fn a_detailed_log_shows_each_look_up_and_does_not_feed_itself() {
    let site = Site::spam(&["spammer@listed.test"], "[log]\nlevel = \"trace\"\n");
    let daemon = site.serve();
    site.is("<spammer@listed.test>", "reject");
    let line = daemon.logged(&["looked up", "identity=\"mail-from\""]);
    has_all(
        &line,
        &["address=spammer@listed.test", "outcome=\"listed\""],
    );
    site.list("spam", &["spammer@listed.test", "other@listed.test"]);
    daemon.logged(&["filter in effect", "generation=2"]);
    let log = daemon.log();
    let feeds_itself = log.contains("inotify") || log.contains("registering event source");
    assert!(!feeds_itself, "{log}");
}
