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

use super::mta::{Mta, Place, WhenDown, no_root};
use super::site::Socket;
use super::{find_program, id, port_listens, run, until, words};

pub(crate) struct Postfix(Place);

const MAIN: &str = include_str!("servers/main.cf");
const MASTER: &str = include_str!("servers/master.cf");

/// Folders of the queue: names, group, mode. `create-missing` would also create them, but takes a
/// second.
const QUEUE: [(&str, &str, u32); 4] = [
    (
        "active bounce corrupt defer deferred flush hold incoming private saved trace",
        "",
        0o700,
    ),
    ("maildrop", "postdrop", 0o730),
    ("public", "postdrop", 0o710),
    ("pid .", "", 0o755),
];

impl Postfix {
    /// Starts a Postfix with a milter, and with these settings in `main.cf`.
    pub(crate) fn start_with(milter: &Socket, settings: &[&str]) -> Self {
        let uid = id(["-u", "postfix"]).expect("Postfix has a user");
        let gid = id(["-g", "postfix"]).expect("Postfix has a group");
        let place = Place::new("Postfix", "spool", Some((uid, gid)), &["data"]);
        let ids = [uid, gid].map(|id| id.to_string());
        let own = format!(
            "smtpd_milters = {}\n{}\n",
            milter.for_postfix(),
            settings.join("\n")
        );
        let main = MAIN.to_owned() + &own;
        place.write("etc/main.cf", &main, &[("UID", &ids[0]), ("GID", &ids[1])]);
        place.write("etc/master.cf", MASTER, &[]);

        let named = |(names, group, mode)| {
            words(names)
                .into_iter()
                .map(move |name| (name, group, mode))
        };
        for (name, group, mode) in QUEUE.into_iter().flat_map(named) {
            let path = place.scratch.at("spool").join(name);
            fs::create_dir_all(&path).expect("a queue folder");
            let owner = (mode & 0o7 == 0).then_some(uid);
            chown(&path, owner, id_of_group(group)).expect("root may");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("root may");
        }

        let postfix = Self(place);
        let daemons = run(postfix.command("postconf").args(["-h", "daemon_directory"]));
        run(postfix
            .command(Path::new(daemons.trim()).join("master"))
            .arg("-w")
            .env("MAIL_CONFIG", postfix.0.scratch.at("etc"))
            .current_dir(postfix.queue()));
        until("Postfix listens", || {
            port_listens(postfix.port()).then_some(())
        });
        postfix
    }

    /// Returns a command of Postfix with this instance's configuration.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let program = program.as_ref();
        let found = program.to_str().and_then(find_program);
        let mut command = Command::new(found.as_deref().map_or(program, Path::as_os_str));
        command.arg("-c").arg(self.0.scratch.at("etc"));
        command
    }

    /// Returns the queue directory, which is also the root of a chroot.
    pub(crate) fn queue(&self) -> PathBuf {
        self.0.scratch.at("spool")
    }

    /// Makes the services that talk to milters run in a chroot, and sets the milter's socket to its
    /// path below the queue directory.
    pub(crate) fn enter_chroot(&self, socket: &str) {
        let smtpd = format!("127.0.0.1:{}/inet/chroot=y", self.port());
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
        let is_missing = find_program("postfix").is_none();
        no_root().or_else(|| is_missing.then(|| "not installed".into()))
    }

    fn start(milter: &Socket, when_down: WhenDown) -> Self {
        let action = format!("{when_down:?}").to_lowercase();
        Self::start_with(milter, &[&format!("milter_default_action = {action}")])
    }

    fn place(&self) -> &Place {
        &self.0
    }

    fn held(&self) -> usize {
        let held = fs::read_dir(self.queue().join("hold"));
        held.expect("a queue folder").count()
    }

    fn idle(&self) -> bool {
        let mut waiting = ["maildrop", "incoming", "active", "deferred"].iter();
        waiting.all(|name| holds_no_file(&self.queue().join(name)))
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
