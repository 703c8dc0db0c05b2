//! The daemon under a service manager: limits of the process, signals at bad moments.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use blocklist_milter::daemon::fetch;
use blocklist_milter::demo::peer::Peer;
use blocklist_milter::endpoint::Endpoint;
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::compile::names;
use crate::support::site::{Daemon, SPAM, Site, Socket};
use crate::support::tools::Killed;
use crate::support::wire::Wire;
use crate::support::{Said, has, installed, run, until, until_so};

fn site() -> Site {
    Site::spam(&["spammer@listed.test"], "")
}

/// Runs a command of the program with the site's configuration, as the user of the tests.
fn by_root(site: &Site, arguments: &[&str]) -> Said {
    Said::of(&mut site.command(arguments))
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

    chown(&filter, Some(0), Some(0)).expect("root may");
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

/// Without systemd, the last good configuration says where to listen, even if the file is gone. A
/// configuration that comes back takes effect at once.
#[test]
fn a_start_without_the_configuration_listens_where_it_did() {
    struct Made<'a>(&'a Path);
    impl Drop for Made<'_> {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(self.0);
        }
    }
    let mut site = site();
    // Where a configuration that cannot be read at all is found: in the default folder.
    let default = Path::new("/var/lib/blocklist-milter-daemon");
    let Some((uid, gid)) = site.user.filter(|_| !default.exists()) else {
        println!("left out: {} is not ours", default.display());
        return;
    };
    fs::create_dir(default).expect("root may");
    let _made = Made(default);
    chown(default, Some(uid), Some(gid)).expect("root may");
    let settings = format!("state = \"{}\"\n{SPAM}", default.display());
    site.configure(&settings);
    let daemon = site.serve();
    until_so("two copies", || {
        let copies = names(default).into_iter();
        copies.filter(|name| !name.starts_with('.')).count() == 2
    });
    fs::remove_file(site.at("milter.toml")).expect("our own file");
    assert!(daemon.terminate().success());
    let command = site.program_under("env", &[]);
    let _daemon = Daemon::spawn(command, &site.socket, site.at("daemon.log"));
    site.is("<spammer@listed.test>", "reject");
    site.is("<a@ok.example>", "accept");
    site.configure(&format!("{settings}action = \"tempfail\"\n"));
    site.becomes("<spammer@listed.test>", "tempfail");
}
