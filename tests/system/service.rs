//! The daemon under a service manager: limits of the process, signals at bad moments.

use crate::support;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use blocklist_milter::daemon::fetch;
use blocklist_milter::demo::peer::{Peer, TestMail};
use blocklist_milter::endpoint::Endpoint;
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use support::site::{Daemon, Site, Socket, Transport};
use support::{installed, run, until};

const LIST: &str = "[[list]]\nname = \"spam\"\nfilter = \"@DIR@/spam.blf\"\n";

fn site() -> (Site, std::path::PathBuf) {
    let mut site = Site::new(Transport::Unix);
    site.list("spam", &["spammer@listed.test"]);
    site.configure(LIST);
    let Socket::Unix(path) = site.socket.clone() else {
        unreachable!("asked for a unix socket")
    };
    (site, path)
}

/// Fails without the check of the user in `src/serve.rs`.
#[test]
fn running_as_root_brings_a_warning() {
    let (site, _) = site();
    let told = |daemon: Daemon| {
        daemon.logged(&["listening"]);
        let told = daemon.log().contains("running as root");
        assert!(daemon.terminate().success());
        told
    };
    // The tests run it as another user if possible.
    assert!(!told(site.serve()));
    if rustix::process::geteuid().is_root() {
        let mut command = Command::new(env!("CARGO_BIN_EXE_blocklist-milter"));
        command.arg("--config").arg(site.path().join("milter.toml"));
        let log = site.path().join("root.log");
        assert!(told(Daemon::spawn(command, &site.socket, log)));
    }
}

/// A typing error in the configuration at boot only delays mail until it is repaired; and `--check`
/// shows why the daemon refuses a file.
#[test]
fn it_starts_with_a_faulty_configuration_and_says_what_is_wrong() {
    let (mut site, _) = site();
    let rest = format!("status_file = \"@DIR@/status\"\n{LIST}");
    site.configure(&rest.replace("filter =", "filtr ="));
    let daemon = site.serve();
    daemon.logged(&["not serving as configured", "did you mean filter?"]);
    site.configure(&rest);
    daemon.logged(&["filter in effect", "generation=1"]);
    let many: Vec<String> = (0..300).map(|n| format!("x{n}@listed.test")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    site.list("spam", &many);
    daemon.logged(&["filter in effect", "entries=300"]);
    // The compiler would refuse to shrink it this much; a copied file bypasses that.
    let few = site.write("few.txt", "spammer@listed.test\n");
    let other = site.path().join("few.blf");
    run(site
        .program("blocklist-compile")
        .args(["build", "--name", "spam", "-o"])
        .arg(&other)
        .arg(few));
    fs::rename(&other, site.path().join("spam.blf")).expect("our own folder");
    daemon.logged(&["the last good filter is in use", "max_shrink"]);
    let check = || {
        let config = site.path().join("milter.toml");
        let mut command = site.program("blocklist-milter");
        run(command.arg("--check").arg("--config").arg(config))
    };
    until("the refusal shows in --check", || {
        let report = check();
        let shown = report.contains("the running daemon") && report.contains("max_shrink");
        shown.then_some(())
    });
    assert!(daemon.terminate().success());
    assert!(!check().contains("the running daemon"));
}

/// `reload` reports the result, including what only the daemon can know, in any configuration.
#[test]
fn a_reload_that_was_asked_for_tells_its_outcome() {
    let (mut site, _) = site();
    let rest = format!("status_file = \"@DIR@/status\"\n{LIST}[status]\nlisten = \"\"\n");
    site.configure(&rest);
    let config = site.path().join("milter.toml");
    let program = |command: &str| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_blocklist-milter"));
        program.arg(command).arg("--config").arg(&config);
        program
    };
    let reload = || {
        let output = program("reload").output().expect("the program starts");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        (output.status.code(), said)
    };
    assert_eq!(reload().0, Some(2), "nothing runs");
    let daemon = site.serve();
    daemon.logged(&["filter in effect"]);
    until("the daemon writes its status", || {
        site.path().join("status").exists().then_some(())
    });
    let (code, said) = reload();
    assert_eq!(
        (code, said.as_str()),
        (Some(0), "serving 1 list, 1 entry, 0 on the whitelist\n")
    );

    site.write("white.txt", "friend@listed.test\n");
    site.configure(&format!(
        "{rest}[whitelist]\nfiles = [\"@DIR@/white.txt\"]\n"
    ));
    // The second request may come during the first reload, and gets its own result.
    std::thread::scope(|scope| {
        let both = [scope.spawn(reload), scope.spawn(reload)];
        for one in both {
            let (code, said) = one.join().expect("it does not panic");
            assert!(
                code == Some(0) && said.contains("1 on the whitelist"),
                "{said}"
            );
        }
    });

    // A file that is valid, but older than the one in effect.
    let filter = site.path().join("spam.blf");
    let old = fs::read(&filter).expect("it was compiled");
    site.list("spam", &["spammer@listed.test", "other@listed.test"]);
    assert_eq!(reload().0, Some(0));
    let aside = site.path().join("old.blf");
    fs::write(&aside, old)
        .and_then(|()| fs::rename(&aside, &filter))
        .expect("our own folder");
    run(&mut program("check"));
    for _ in 0..2 {
        let (code, said) = reload();
        assert!(
            code == Some(2)
                && said.contains("it is generation 1 (built")
                && said.contains("older than generation 2"),
            "{said}"
        );
    }
    site.write("milter.toml", "listen = 7\n");
    let (code, said) = reload();
    assert!(
        code == Some(2) && said.contains("milter.toml:1:10"),
        "{said}"
    );
    assert!(daemon.terminate().success());
}

/// A process that now has the id of an ended daemon does not get SIGHUP, which would end it.
#[test]
fn a_reload_harms_no_other_process() {
    let (mut site, _) = site();
    site.configure(&format!("status_file = \"@DIR@/status\"\n{LIST}"));
    let other = Command::new("sleep")
        .arg("60")
        .spawn()
        .expect("sleep is there");
    let mut other = Killed(other);
    let id = other.0.id();
    let running = format!("{{\"process\":{id},\"status\":\"serving\",\"problems\":[]}}");
    site.write("status", &running);
    let config = site.path().join("milter.toml");
    let number = other.0.id().to_string();
    for arguments in [&[][..], &["--pid", &number]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_blocklist-milter"));
        let output = command
            .args(["reload", "--config"])
            .arg(&config)
            .args(arguments)
            .output()
            .expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(other.0.try_wait().expect("our own child").is_none());
    }
}

/// Connections never take the descriptor that a new list needs.
#[test]
fn a_list_is_loaded_while_as_many_are_connected_as_can_be() {
    let (site, path) = site();
    let limited = "ulimit -n 64; exec \"$0\" \"$@\"";
    let command = site.program_under("sh", &["-c", limited]);
    let daemon = Daemon::spawn(command, &site.socket, site.path().join("daemon.log"));
    let connected: Vec<_> = (0..200)
        .map(|_| UnixStream::connect(&path).expect("the queue of the socket is long"))
        .collect();
    daemon.logged(&["connection limit reached"]);
    site.list("spam", &["spammer@listed.test", "other@listed.test"]);
    daemon.logged(&["filter in effect", "generation=2"]);
    let log = daemon.log();
    assert!(!log.contains("Too many open files"));
    // Logged once, not for each connection.
    assert_eq!(log.matches("connection limit reached").count(), 1);
    drop(connected);
    assert!(daemon.terminate().success());
}

/// The first signal lets messages finish, however long they take; the second does not.
#[test]
fn a_second_signal_ends_it_at_once() {
    let (mut site, path) = site();
    site.configure(&format!("{LIST}[limits]\ndrain_s = 3600\n"));
    let mut daemon = site.serve();
    let mut peer = UnixStream::connect(&path).expect("the daemon listens");
    peer.write_all(b"\0\0\0\x0dO\0\0\0\x06\0\0\x01\xff\0\x1f\xff\xff")
        .and_then(|()| peer.write_all(b"\0\0\0\x05M<a>\0\0\0\0\x05R<b>\0"))
        .expect("the daemon reads");
    let mut answers = Vec::new();
    while !answers.ends_with(b"\0\0\0\x01c") {
        let mut byte = [0];
        peer.read_exact(&mut byte).expect("the daemon answers");
        answers.extend(byte);
    }
    daemon.signal(Signal::TERM);
    daemon.logged(&["finishing messages in progress"]);
    daemon.signal(Signal::TERM);
    assert!(daemon.ended().success());
}

/// Reading large filters takes a while; a SIGHUP during that time must not end the daemon.
#[test]
fn a_hangup_at_the_start_is_not_the_end() {
    let (site, _) = site();
    // Reading this configuration blocks until somebody writes it.
    let config = site.path().join("pipe.toml");
    run(Command::new("mkfifo").arg(&config));
    let log = site.path().join("daemon.log");
    let child = site
        .program("blocklist-milter")
        .arg("--config")
        .arg(&config)
        .stdin(Stdio::null())
        .stderr(File::create(&log).expect("our own folder"))
        .spawn();
    let mut child = Killed(child.expect("the program starts"));
    let pid = Pid::from_raw(child.0.id().cast_signed()).expect("a child has a number");
    until("the program is ready for signals", || {
        catches_hangup(pid).then_some(())
    });
    kill_process(pid, Signal::HUP).expect("our own child");
    let text = fs::read(site.path().join("milter.toml")).expect("just written");
    // Wait for a reader: data written to a pipe that nobody has open is lost.
    let mut pipe = until("the program reads its configuration", || {
        let ended = child.0.try_wait().expect("our own child");
        assert!(ended.is_none(), "{ended:?}");
        let mut options = File::options();
        options
            .write(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        options.open(&config).ok()
    });
    pipe.write_all(&text).expect("our own pipe");
    drop(pipe);
    until("the daemon listens", || {
        let ended = child.0.try_wait().expect("our own child");
        assert!(ended.is_none(), "{ended:?}");
        site.socket.listens().then_some(())
    });
    kill_process(pid, Signal::TERM).expect("our own child");
    let status = child.0.wait().expect("our own child");
    assert!(status.success(), "{status}");
}

/// Root may read everything; the service, as another user, may not. `--check` run by root detects
/// that, and the daemon's error says what to do.
#[test]
fn a_filter_that_the_service_cannot_read_is_named_with_its_remedy() {
    let (mut site, _) = site();
    let Some((uid, _)) = site.user else {
        println!("left out: only root has files that another user cannot read");
        return;
    };
    site.configure(&format!("status_file = \"@DIR@/run/status\"\n{LIST}"));
    fs::create_dir(site.path().join("run")).expect("our own folder");
    std::os::unix::fs::chown(site.path().join("run"), Some(uid), None).expect("root may");
    let filter = site.path().join("spam.blf");
    let by_root = || {
        let config = site.path().join("milter.toml");
        let mut check = Command::new(env!("CARGO_BIN_EXE_blocklist-milter"));
        let output = check.arg("--config").arg(config).arg("--check").output();
        let output = output.expect("the program starts");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    assert_eq!(by_root(), (Some(0), String::new()));

    std::os::unix::fs::chown(&filter, Some(0), Some(0)).expect("root may");
    let remedy = format!("chmod g+r {}", filter.display());
    let (code, said) = by_root();
    assert_eq!(code, Some(2), "{said}");
    let words = ["spam.blf (mode 0640, owner root, group root)", &remedy];
    assert!(words.iter().all(|word| said.contains(word)), "{said}");

    let daemon = site.serve();
    let log = daemon.logged(&["not serving as configured", "cannot open", &remedy]);
    assert!(log.contains("(mode 0640, owner root, group root)"), "{log}");
    drop(daemon);
}

/// A child that is killed if a failing test leaves it.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // An error means that it has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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
    let (mut site, _) = site();
    let configured = site.path().join("configured.sock");
    let status = format!("[status]\nlisten = \"unix:{}\"\n", configured.display());
    site.configure(&format!("{LIST}{status}"));
    let [mail, pages] = ["mail", "pages"].map(|name| site.path().join(name));
    let text = |path: &std::path::Path| path.to_str().expect("a plain path").to_owned();
    let arguments = [
        "-l",
        &text(&mail),
        "-l",
        &text(&pages),
        "--fdname=mail:status",
    ];
    let command = site.program_under("systemd-socket-activate", &arguments);
    let log = site.path().join("daemon.log");
    let _daemon = Daemon::spawn(command, &Socket::Unix(mail.clone()), log);
    // It creates one socket after the other.
    until("the second socket", || pages.exists().then_some(()));
    let (code, body) = fetch(&Endpoint::Unix(pages), "/readyz").expect("it is served");
    assert_eq!((code, body.as_slice()), (200, &b"ok\n"[..]));
    Peer::unix(&mail).expect("it speaks the milter protocol");
    assert!(!configured.exists());
}

/// `debug` and `trace` log what this program does, not what its libraries do. The log is in a
/// watched folder, so a line about each event would cause another event.
#[test]
fn a_detailed_log_shows_each_look_up_and_does_not_feed_itself() {
    let (mut site, path) = site();
    site.configure(&format!("{LIST}[log]\nlevel = \"trace\"\n"));
    let daemon = site.serve();
    let mut peer = Peer::unix(&path).expect("it listens");
    peer.stranger().expect("it answers");
    let mail = TestMail::new("<spammer@listed.test>", &["<bob@our.example>"], &[]);
    peer.deliver(&mail).expect("it answers");
    let found = [
        "looked up",
        "identity=\"mail-from\"",
        "address=spammer@listed.test",
        "outcome=\"listed\"",
    ];
    daemon.logged(&found);
    site.list("spam", &["spammer@listed.test", "other@listed.test"]);
    daemon.logged(&["filter in effect", "generation=2"]);
    let log = daemon.log();
    assert!(
        !log.contains("inotify") && !log.contains("registering event source"),
        "{log}"
    );
}
