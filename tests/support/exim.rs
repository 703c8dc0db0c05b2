//! A private Exim 4, run from the unpacked files of Debian's packages (`tests/run` unpacks
//! exim4-daemon-light into the folder `EXIM_ROOT`, and exim4-daemon-heavy into `EXIM_ROOT-heavy`), with
//! the ACL files of `contrib/exim`.
//!
//! It asks the daemon by policy delegation, at a socket beside that of the milter. Every recipient
//! is delivered into one maildir. No DNS, no TLS.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::mta::{Mta, WhenDown};
use super::site::Socket;
use super::{
    Scratch, end_processes_in, free_port, id, is_root, port_listens, root as file, run,
    show_on_failure, until,
};

/// Of exim4-daemon-light.
pub(crate) type Exim = Unpacked<false>;
/// Of exim4-daemon-heavy.
pub(crate) type HeavyExim = Unpacked<true>;

pub(crate) struct Unpacked<const HEAVY: bool> {
    scratch: Scratch,
    port: u16,
    mailbox: PathBuf,
}

const CONFIGURATION: &str = r"
.include @DIR@/macros
exim_path = @PROGRAM@
exim_user = @UID@
exim_group = @GID@
never_users =
primary_hostname = mx.test
spool_directory = @DIR@/spool
log_file_path = @DIR@/log/%slog
pid_file_path = @DIR@/exim.pid
local_interfaces = 127.0.0.1
daemon_smtp_ports = @PORT@
rfc1413_query_timeout = 0s
host_lookup =
tls_advertise_hosts =
smtp_accept_max = 0
smtp_accept_max_per_connection = 0
smtp_accept_max_nonmail = 100000
message_size_limit = 0
allow_utf8_domains = true
allow_domain_literals = true
keep_environment =
check_spool_space = 0
check_log_space = 0
acl_smtp_rcpt = acl_rcpt
acl_smtp_data = acl_data
begin acl
acl_rcpt:
.include @RCPT@
  accept
acl_data:
.include @DATA@
  accept
begin routers
all:
  driver = accept
  transport = dump
begin transports
dump:
  driver = appendfile
  directory = @DIR@/maildir
  maildir_format
  user = @UID@
  group = @GID@
  return_path_add
  headers_add = Delivered-To: $local_part@$domain
";

/// Returns where the daemon answers policy requests, if its milter listens here.
pub(crate) fn policy_of(milter: &Path) -> PathBuf {
    milter.with_extension("policy")
}

impl<const HEAVY: bool> Unpacked<HEAVY> {
    fn program() -> PathBuf {
        let root = std::env::var_os("EXIM_ROOT");
        let mut root = root.unwrap_or_else(|| file("target/exim").into());
        if HEAVY {
            root.push("-heavy");
        }
        Path::new(&root).join("usr/sbin/exim4")
    }

    /// Returns the folder of the program, and the configuration.
    pub(crate) fn files(&self) -> (PathBuf, PathBuf) {
        let program = Self::program();
        let folder = program.parent().expect("a folder");
        (folder.to_owned(), self.scratch.join("exim.conf"))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(Self::program());
        command.arg("-C").arg(self.scratch.join("exim.conf"));
        command
    }

    /// Returns the messages in the spool, and how many of them are frozen.
    fn queued(&self) -> (usize, usize) {
        let list = run(self.command().arg("-bp"));
        (
            list.matches(" <").count(),
            list.matches("*** frozen ***").count(),
        )
    }
}

impl<const HEAVY: bool> Mta for Unpacked<HEAVY> {
    const NAME: &str = if HEAVY { "exim-heavy" } else { "exim" };

    fn obstacle() -> Option<String> {
        if !is_root() {
            return Some("starting a mail server takes root".into());
        }
        let is_missing = !Self::program().is_file();
        is_missing.then(|| format!("no {}: tests/run unpacks it", Self::program().display()))
    }

    fn start(milter: &Socket, when_down: WhenDown) -> Self {
        let Socket::Unix(milter) = milter else {
            panic!("Exim asks at a unix socket");
        };
        let down = match when_down {
            WhenDown::Accept => "action=DUNNO",
            WhenDown::Tempfail => "action=451 4.3.0 try again later",
            WhenDown::Reject => "action=550 5.3.0 no",
        };
        // The user of the daemon, whose socket others may not use.
        let user = id(["-u", "nobody"]).expect("every system has nobody");
        let group = id(["-g", "nobody"]).expect("nobody has a group");
        let scratch = Scratch::new();
        chown(scratch.path(), Some(user), Some(group)).expect("root may");
        let port = free_port();
        for name in ["spool", "log", "maildir"] {
            fs::create_dir_all(scratch.join(name)).expect("a folder");
            chown(scratch.join(name), Some(user), Some(group)).expect("root may");
        }
        let macros = fs::read_to_string(file("contrib/exim/blocklist-milter-macros"));
        let macros = macros.expect("a file of ours");
        let lines = macros.lines().map(|line| match line.split_once(" = ") {
            Some(("BLOCKLIST_SOCKET", _)) => {
                format!("BLOCKLIST_SOCKET = {}\n", policy_of(milter).display())
            }
            Some(("BLOCKLIST_DOWN", _)) => format!("BLOCKLIST_DOWN = {down}\n"),
            _ => format!("{line}\n"),
        });
        scratch.write("macros", &lines.collect::<String>());
        let mut text = CONFIGURATION.to_owned();
        for (name, value) in [
            ("DIR", scratch.path().display().to_string()),
            ("UID", user.to_string()),
            ("GID", group.to_string()),
            ("PORT", port.to_string()),
            ("PROGRAM", Self::program().display().to_string()),
            (
                "RCPT",
                file("contrib/exim/blocklist-milter-rcpt")
                    .display()
                    .to_string(),
            ),
            (
                "DATA",
                file("contrib/exim/blocklist-milter-data")
                    .display()
                    .to_string(),
            ),
        ] {
            text = text.replace(&format!("@{name}@"), &value);
        }
        scratch.write("exim.conf", &text);
        let mailbox = scratch.join("maildir/new");
        fs::create_dir_all(&mailbox).expect("a folder");
        for name in ["maildir/new", "maildir/cur", "maildir/tmp"] {
            fs::create_dir_all(scratch.join(name)).expect("a folder");
            chown(scratch.join(name), Some(user), Some(group)).expect("root may");
        }
        let exim = Self {
            scratch,
            port,
            mailbox,
        };
        run(exim.command().arg("-bd"));
        until("Exim listens", || port_listens(port).then_some(()));
        exim
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn mailbox(&self) -> &Path {
        &self.mailbox
    }

    fn held(&self) -> usize {
        self.queued().1
    }

    fn idle(&self) -> bool {
        let (all, frozen) = self.queued();
        all == frozen
    }

    fn log(&self) -> String {
        let logs = ["mainlog", "rejectlog", "paniclog"];
        let read = |name| fs::read_to_string(self.scratch.join("log").join(name));
        logs.map(|name| read(name).unwrap_or_default()).concat()
    }
}

impl<const HEAVY: bool> Drop for Unpacked<HEAVY> {
    fn drop(&mut self) {
        show_on_failure("Exim", &self.log());
        if let Ok(process) = fs::read_to_string(self.scratch.join("exim.pid")) {
            let _ = Command::new("kill").arg(process.trim()).status();
        }
        end_processes_in(&self.scratch.join("spool"));
    }
}
