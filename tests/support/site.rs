//! A site under test: its blocklists, its configuration, and the daemon that uses them.
//!
//! Everything runs without privileges if possible: a test run by root compiles and serves as user
//! `nobody` in Postfix's group, as README.md tells an administrator to do.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use blocklist_milter::demo::peer::{Delivery, Peer};

use super::mta::line_with;
use super::rig::{OK, letter, verdict};
use super::{
    Said, Scratch, free_port, id, is_root, milter, port_listens, run, show_on_failure,
    socket_listens, until, until_so,
};

/// The configuration of a list `spam`.
pub(crate) const SPAM: &str = "[[list]]\nname = \"spam\"\nfilter = \"@DIR@/spam.blf\"\n";

/// Returns where the daemon listens for another door, if its milter listens here.
pub(crate) fn door_of(milter: &Path, door: &str) -> PathBuf {
    milter.with_extension(door)
}

/// Where the milter listens.
#[derive(Debug, Clone)]
pub(crate) enum Socket {
    Unix(PathBuf),
    Inet(u16),
}

impl Socket {
    /// As in the daemon's configuration, too.
    pub(crate) fn for_sendmail(&self) -> String {
        match self {
            Self::Unix(path) => format!("unix:{}", path.display()),
            Self::Inet(port) => format!("inet:{port}@127.0.0.1"),
        }
    }

    pub(crate) fn for_postfix(&self) -> String {
        match self {
            Self::Unix(path) => format!("unix:{}", path.display()),
            Self::Inet(port) => format!("inet:127.0.0.1:{port}"),
        }
    }

    pub(crate) fn listens(&self) -> bool {
        match self {
            Self::Unix(path) => socket_listens(path),
            Self::Inet(port) => port_listens(*port),
        }
    }
}

/// How the mail server connects to the milter.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Transport {
    Unix,
    Tcp,
}

pub(crate) struct Site {
    scratch: Scratch,
    pub(crate) socket: Socket,
    /// User and group of both programs, if root runs the tests.
    pub(crate) user: Option<(u32, u32)>,
    /// The other doors that the daemon opens ([`door_of`]).
    pub(crate) doors: &'static [&'static str],
    /// The configuration after the socket.
    rest: String,
}

impl Site {
    /// A site without lists and configuration.
    pub(crate) fn new(transport: Transport) -> Self {
        let scratch = Scratch::new();
        let user = is_root().then(|| {
            let nobody = id(["-u", "nobody"]).expect("every system has nobody");
            let group = id(["-g", "postfix"]).or_else(|| id(["-g", "nobody"]));
            (nobody, group.expect("nobody has a group"))
        });
        if let Some((uid, gid)) = user {
            chown(scratch.path(), Some(uid), Some(gid)).expect("root may");
        }
        let socket = match transport {
            Transport::Unix => Socket::Unix(scratch.at("milter.sock")),
            Transport::Tcp => Socket::Inet(free_port()),
        };
        Self {
            scratch,
            socket,
            user,
            doors: &[],
            rest: String::new(),
        }
    }

    /// A site with a list `spam` of these entries, and these settings after it.
    pub(crate) fn spam(entries: &[&str], settings: &str) -> Self {
        let mut site = Self::new(Transport::Unix);
        site.list("spam", entries);
        site.configure(&format!("{SPAM}{settings}"));
        site
    }

    pub(crate) fn path(&self) -> &Path {
        self.scratch.path()
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.scratch.at(name)
    }

    /// Returns the path of the milter's unix socket.
    pub(crate) fn unix(&self) -> &Path {
        match &self.socket {
            Socket::Unix(path) => path,
            Socket::Inet(_) => panic!("a unix socket was not asked for"),
        }
    }

    /// Returns a connection to the daemon, with a client somewhere on the internet.
    pub(crate) fn peer(&self) -> Peer {
        let mut peer = Peer::unix(self.unix()).expect("the daemon listens");
        peer.stranger().expect("the daemon answers");
        peer
    }

    /// Sends a message with this envelope sender.
    pub(crate) fn send(&self, mail_from: &str) -> Delivery {
        let sent = self.peer().deliver(&letter(mail_from, &[OK]));
        sent.expect("the daemon answers")
    }

    /// Checks the verdict on this envelope sender.
    #[track_caller]
    pub(crate) fn is(&self, mail_from: &str, expected: &str) {
        assert_eq!(verdict(&self.send(mail_from)), expected, "{mail_from}");
    }

    /// Waits until this envelope sender gets this verdict.
    #[track_caller]
    pub(crate) fn becomes(&self, mail_from: &str, expected: &str) {
        until_so(&format!("{mail_from} gets {expected}"), || {
            verdict(&self.send(mail_from)) == expected
        });
    }

    /// Runs a command of the daemon's program with the site's configuration, as the site's user.
    pub(crate) fn milter(&self, arguments: &[&str]) -> Said {
        let mut command = self.program("blocklist-milter");
        Said::of(
            command
                .args(arguments)
                .arg("--config")
                .arg(self.at("milter.toml")),
        )
    }

    /// Returns a command of the daemon's program with the site's configuration, as the user of the
    /// tests.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = milter();
        command.args(arguments);
        command.arg("--config").arg(self.at("milter.toml"));
        command
    }

    /// Makes a folder that belongs to the site's user.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let folder = self.at(name);
        fs::create_dir(&folder).expect("our own folder");
        if let Some((uid, gid)) = self.user {
            chown(&folder, Some(uid), Some(gid)).expect("root may");
        }
        folder
    }

    /// Writes the text list NAME.txt and compiles it to NAME.blf.
    pub(crate) fn list(&self, name: &str, entries: &[&str]) {
        let text = self.write(&format!("{name}.txt"), &(entries.join("\n") + "\n"));
        let filter = self.scratch.at(&format!("{name}.blf"));
        run(self
            .program("blocklist-compile")
            .args(["build", "--name", name, "-o"])
            .arg(filter)
            .arg(text));
    }

    /// Like [`Self::list`], with `count` entries, `x0@listed.test` and so on.
    pub(crate) fn long_list(&self, name: &str, count: usize) {
        let entries: Vec<_> = (0..count).map(|n| format!("x{n}@listed.test")).collect();
        self.list(
            name,
            &entries.iter().map(String::as_str).collect::<Vec<_>>(),
        );
    }

    /// Writes a file of the site; `@DIR@` in `text` means the site's folder.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let folder = self.path().to_str().expect("a plain path");
        let path = self.scratch.write(name, text.replace("@DIR@", folder));
        if let Some((uid, gid)) = self.user {
            chown(&path, Some(uid), Some(gid)).expect("root may");
        }
        path
    }

    /// Writes the configuration: the socket, and then `rest`.
    pub(crate) fn configure(&mut self, rest: &str) {
        rest.clone_into(&mut self.rest);
        let status = match rest.contains("[status]") {
            true => "",
            false => "\n[status]\nlisten = \"\"\n",
        };
        // Not the folder of an installed daemon.
        let state = match rest.contains("state = ") {
            true => "",
            false => "state = \"@DIR@/no-state\"\n",
        };
        let doors: String = match &self.socket {
            Socket::Unix(path) => (self.doors.iter())
                .map(|door| format!(", \"{door}:unix:{}\"", door_of(path, door).display()))
                .collect(),
            Socket::Inet(_) => String::new(),
        };
        let text = format!(
            "listen = [\"{}\"{doors}]\n{state}{rest}{status}",
            self.socket.for_sendmail()
        );
        self.write("milter.toml", &text);
    }

    /// Changes the configured socket.
    pub(crate) fn move_socket(&mut self, socket: Socket) {
        self.socket = socket;
        self.configure(&self.rest.clone());
    }

    /// Returns one of the two programs, to be run as the site's user.
    pub(crate) fn program(&self, name: &str) -> Command {
        self.as_user(self.reachable(name))
    }

    /// Returns the daemon with its configuration, started by another program.
    pub(crate) fn program_under(&self, starter: &str, arguments: &[&str]) -> Command {
        let mut command = self.as_user(starter);
        command
            .args(arguments)
            .arg(self.reachable("blocklist-milter"));
        command.arg("--config").arg(self.scratch.at("milter.toml"));
        command
    }

    /// Returns another program, to be run in the same way.
    pub(crate) fn as_user(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        command.current_dir(self.path());
        command
    }

    /// Returns a path from which the site's user can run a program: the build folder may be below a
    /// home that nobody else can enter.
    fn reachable(&self, name: &str) -> PathBuf {
        let built = match name {
            "blocklist-milter" => env!("CARGO_BIN_EXE_blocklist-milter"),
            _ => env!("CARGO_BIN_EXE_blocklist-compile"),
        };
        if self.user.is_none() {
            return built.into();
        }
        let reachable = self.scratch.at(name);
        if !reachable.exists() {
            fs::hard_link(built, &reachable)
                .or_else(|_| fs::copy(built, &reachable).map(drop))
                .expect("the program can be copied");
        }
        reachable
    }

    /// Starts the daemon and returns when it listens.
    pub(crate) fn serve(&self) -> Daemon {
        let mut command = self.program("blocklist-milter");
        command.arg("--config").arg(self.scratch.at("milter.toml"));
        let daemon = Daemon::spawn(command, &self.socket, self.scratch.at("daemon.log"));
        // It opens one socket after the other.
        let config = fs::read_to_string(self.at("milter.toml")).expect("our own file");
        for path in config.split("unix:").skip(1) {
            let path = path.split(['"', '\'']).next().unwrap_or_default();
            until_so("all sockets", || socket_listens(Path::new(path)));
        }
        daemon
    }
}

/// The running daemon; it is killed when dropped.
pub(crate) struct Daemon {
    child: Child,
    log: PathBuf,
}

impl Daemon {
    /// Starts a command that will listen on `socket`; its output is stored in the file `log`.
    pub(crate) fn spawn(mut command: Command, socket: &Socket, log: PathBuf) -> Self {
        let output = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .expect("our own folder");
        command
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a file can be shared"))
            .stderr(output);
        let child = until(
            "no other test has just forked with a copy of it open",
            || match command.spawn() {
                Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => None,
                spawned => Some(spawned),
            },
        )
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut daemon = Self { child, log };
        until("the daemon listens", || {
            if let Some(status) = daemon.child.try_wait().expect("our own child") {
                panic!("the daemon ended with {status}");
            }
            socket.listens().then_some(())
        });
        daemon
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits for a log line with all of these words, and returns it.
    pub(crate) fn logged(&self, words: &[&str]) -> String {
        until(
            &format!("a line of the daemon's log with {words:?}"),
            || line_with(&self.log(), words),
        )
    }

    /// Ends the daemon as a service manager does, and waits for it.
    pub(crate) fn terminate(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.child.wait().expect("our own child")
    }

    /// Waits until the daemon has ended, for any reason.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        until("the daemon ends", || {
            self.child.try_wait().expect("our own child")
        })
    }

    /// Returns its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).expect("a child has a number");
        kill_process(pid, signal).expect("our own child");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        show_on_failure("blocklist-milter", &self.log());
        // An error means that it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
