//! A private Postfix: its own configuration, queue, log and port; nothing under `/etc/postfix` is
//! read.
//!
//! * virtual(8) delivers every address into one maildir, a file for each recipient.
//! * No chroot, no DNS, no TLS, no pause after an error (by default, a client that is refused often
//!   is slowed down and then disconnected).
//! * XCLIENT is allowed, so that a test can choose the client's address and name.
//! * `master` is started directly, because its start script spends two seconds on checks.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::mta::{Mta, WhenDown};
use super::site::Socket;
use super::{
    Scratch, end_processes_in, find_program, free_port, id, is_root, port_listens, run,
    show_on_failure, until,
};

pub(crate) struct Postfix {
    scratch: Scratch,
    port: u16,
    mailbox: PathBuf,
}

const MAIN: &str = "\
compatibility_level = 3.6
queue_directory = @DIR@/spool
data_directory = @DIR@/data
maillog_file = @DIR@/mail.log
maillog_file_prefixes = @DIR@

myhostname = mx.test
mydestination =
mynetworks = 127.0.0.0/8
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
smtp_dns_support_level = disabled
disable_dns_lookups = yes
smtpd_peername_lookup = no
smtpd_tls_security_level = none
alias_maps =
alias_database =
local_recipient_maps =
biff = no

default_transport = virtual
relay_transport = $default_transport
relay_domains = static:all
smtpd_relay_restrictions = reject_unauth_destination
virtual_mailbox_domains =
virtual_mailbox_base = @DIR@
virtual_mailbox_maps = static:maildir/
virtual_uid_maps = static:@UID@
virtual_gid_maps = static:@GID@
virtual_minimum_uid = 1

smtpd_authorized_xclient_hosts = 127.0.0.0/8
smtpd_error_sleep_time = 0
smtpd_soft_error_limit = 100000
smtpd_hard_error_limit = 100000
smtpd_junk_command_limit = 100000
in_flow_delay = 0
";

const MASTER: &str = "\
127.0.0.1:@PORT@ inet n - n - - smtpd
pickup    unix  n - n 60    1 pickup
cleanup   unix  n - n -     0 cleanup
qmgr      unix  n - n 300   1 qmgr
rewrite   unix  - - n -     - trivial-rewrite
bounce    unix  - - n -     0 bounce
defer     unix  - - n -     0 bounce
trace     unix  - - n -     0 bounce
verify    unix  - - n -     1 verify
flush     unix  n - n 1000? 0 flush
proxymap  unix  - - n -     - proxymap
smtp      unix  - - n -     - smtp
relay     unix  - - n -     - smtp
showq     unix  n - n -     - showq
error     unix  - - n -     - error
retry     unix  - - n -     - error
virtual   unix  - n n -     - virtual
anvil     unix  - - n -     1 anvil
postlog   unix-dgram n - n - 1 postlogd
";

/// Folders of the queue: name, group, mode. `create-missing` would also create them, but takes a
/// second.
const QUEUE: [(&str, &str, u32); 15] = [
    ("active", "", 0o700),
    ("bounce", "", 0o700),
    ("corrupt", "", 0o700),
    ("defer", "", 0o700),
    ("deferred", "", 0o700),
    ("flush", "", 0o700),
    ("hold", "", 0o700),
    ("incoming", "", 0o700),
    ("private", "", 0o700),
    ("saved", "", 0o700),
    ("trace", "", 0o700),
    ("maildrop", "postdrop", 0o730),
    ("public", "postdrop", 0o710),
    ("pid", "", 0o755),
    (".", "", 0o755),
];

impl Postfix {
    /// Starts a Postfix with a milter, and with these settings in `main.cf`.
    pub(crate) fn start_with(milter: &Socket, settings: &[&str]) -> Self {
        let uid = id(["-u", "postfix"]).expect("Postfix has a user");
        let gid = id(["-g", "postfix"]).expect("Postfix has a group");
        let scratch = Scratch::new();
        let folder = scratch.path().to_str().expect("a plain path").to_owned();
        let port = free_port();

        let mut main = MAIN
            .replace("@DIR@", &folder)
            .replace("@UID@", &uid.to_string())
            .replace("@GID@", &gid.to_string());
        main.push_str(&format!("smtpd_milters = {}\n", milter.for_postfix()));
        for setting in settings {
            main.push_str(&format!("{setting}\n"));
        }
        scratch.write("etc/main.cf", &main);
        scratch.write(
            "etc/master.cf",
            &MASTER.replace("@PORT@", &port.to_string()),
        );

        for (name, group, mode) in QUEUE {
            let path = scratch.join("spool").join(name);
            fs::create_dir_all(&path).expect("a queue folder");
            let owner = if mode & 0o7 == 0 { Some(uid) } else { None };
            let group = if group.is_empty() {
                None
            } else {
                id_of_group(group)
            };
            chown(&path, owner, group).expect("root may");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("root may");
        }
        for name in [
            "data",
            "maildir",
            "maildir/new",
            "maildir/cur",
            "maildir/tmp",
        ] {
            fs::create_dir_all(scratch.join(name)).expect("a folder");
            chown(scratch.join(name), Some(uid), Some(gid)).expect("root may");
        }

        let mailbox = scratch.join("maildir/new");
        let postfix = Self {
            scratch,
            port,
            mailbox,
        };
        let daemons = run(postfix.command("postconf").args(["-h", "daemon_directory"]));
        run(postfix
            .command(Path::new(daemons.trim()).join("master"))
            .arg("-w")
            .env("MAIL_CONFIG", postfix.scratch.join("etc"))
            .current_dir(postfix.scratch.join("spool")));
        until("Postfix listens", || port_listens(port).then_some(()));
        postfix
    }

    /// Returns a command of Postfix with this instance's configuration.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let program = program.as_ref();
        let found = program.to_str().and_then(find_program);
        let mut command = Command::new(found.as_deref().map_or(program, Path::as_os_str));
        command.arg("-c").arg(self.scratch.join("etc"));
        command
    }

    /// Returns the queue directory, which is also the root of a chroot.
    pub(crate) fn queue(&self) -> PathBuf {
        self.scratch.join("spool")
    }

    /// Makes the services that talk to milters run in a chroot, and sets the milter's socket to its
    /// path below the queue directory.
    pub(crate) fn enter_chroot(&self, socket: &str) {
        let smtpd = format!("127.0.0.1:{}/inet/chroot=y", self.port);
        run(self
            .command("postconf")
            .args(["-F", &smtpd, "cleanup/unix/chroot=y"]));
        self.reload(&[&format!("smtpd_milters=unix:{socket}")]);
    }

    /// Releases every message in quarantine.
    pub(crate) fn release(&self) {
        run(self.command("postsuper").args(["-H", "ALL"]));
        run(self.command("postqueue").arg("-f"));
    }

    /// Changes settings in `main.cf` and makes the running Postfix read them.
    pub(crate) fn reload(&self, settings: &[&str]) {
        if !settings.is_empty() {
            run(self.command("postconf").arg("-e").args(settings));
        }
        run(self.command("postfix").arg("reload"));
        self.logged(&["reload -- version"]);
    }
}

impl Mta for Postfix {
    const NAME: &str = "postfix";

    fn obstacle() -> Option<String> {
        if !is_root() {
            return Some("starting a mail server takes root".into());
        }
        find_program("postfix")
            .is_none()
            .then(|| "not installed".into())
    }

    fn start(milter: &Socket, when_down: WhenDown) -> Self {
        let action = match when_down {
            WhenDown::Accept => "accept",
            WhenDown::Tempfail => "tempfail",
            WhenDown::Reject => "reject",
        };
        Self::start_with(milter, &[&format!("milter_default_action = {action}")])
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn mailbox(&self) -> &Path {
        &self.mailbox
    }

    fn held(&self) -> usize {
        fs::read_dir(self.scratch.join("spool/hold"))
            .expect("a queue folder")
            .count()
    }

    fn idle(&self) -> bool {
        ["maildrop", "incoming", "active", "deferred"]
            .iter()
            .all(|name| holds_no_file(&self.scratch.join("spool").join(name)))
    }

    fn log(&self) -> String {
        fs::read_to_string(self.scratch.join("mail.log")).unwrap_or_default()
    }
}

impl Drop for Postfix {
    fn drop(&mut self) {
        show_on_failure("Postfix", &self.log());
        end_processes_in(&self.scratch.join("spool"));
    }
}

fn id_of_group(name: &str) -> Option<u32> {
    let groups = fs::read_to_string("/etc/group").ok()?;
    let line = groups
        .lines()
        .find(|line| line.split(':').next() == Some(name))?;
    line.split(':').nth(2)?.parse().ok()
}

/// Returns whether a queue folder has no file. Its subfolders stay when they are empty.
fn holds_no_file(folder: &Path) -> bool {
    // A file that was removed after the folder was listed does not count.
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .all(|entry| {
            entry.file_type().is_ok_and(|kind| kind.is_dir()) && holds_no_file(&entry.path())
        })
}
