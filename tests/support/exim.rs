//! A private Exim 4, run from the unpacked files of Debian's packages (`tests/run` unpacks
//! exim4-daemon-light into the folder `EXIM_ROOT`, and exim4-daemon-heavy into `EXIM_ROOT-heavy`), with
//! the ACL files of `contrib/exim`.
//!
//! It asks the daemon by policy delegation, at a socket beside that of the milter. Every recipient
//! is delivered into one maildir. No DNS, no TLS.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::mta::{DISCARD, Mta, Place, WhenDown, no_root, not_unpacked, unpacked};
use super::site::{Socket, door_of};
use super::{id, port_listens, root, run, until};

/// Of exim4-daemon-light.
pub(crate) type Exim = Unpacked<false>;
/// Of exim4-daemon-heavy.
pub(crate) type HeavyExim = Unpacked<true>;

pub(crate) struct Unpacked<const HEAVY: bool>(Place);

const CONFIGURATION: &str = include_str!("servers/exim.conf");

/// Returns where the daemon answers policy requests, if its milter listens here.
pub(crate) fn policy_of(milter: &Path) -> PathBuf {
    door_of(milter, "policy")
}

/// Returns the macros of `contrib/exim` with this socket.
fn macros(milter: &Path, when_down: WhenDown) -> String {
    let down = match when_down {
        WhenDown::Accept => "action=DUNNO",
        WhenDown::Tempfail => "action=451 4.3.0 try again later",
        WhenDown::Reject => "action=550 5.3.0 no",
    };
    let macros = fs::read_to_string(root("contrib/exim/macros"));
    let macros = macros.expect("a file of ours");
    let lines = macros.lines().map(|line| match line.split_once(" = ") {
        Some(("BLOCKLIST_FOLDER", _)) => {
            format!("BLOCKLIST_FOLDER = {}\n", root("contrib/exim").display())
        }
        Some(("BLOCKLIST_SOCKET", _)) => {
            format!("BLOCKLIST_SOCKET = {}\n", policy_of(milter).display())
        }
        Some(("BLOCKLIST_DOWN", _)) => format!("BLOCKLIST_DOWN = {down}\n"),
        _ => format!("{line}\n"),
    });
    lines.collect()
}

impl<const HEAVY: bool> Unpacked<HEAVY> {
    fn program() -> PathBuf {
        let mut folder = unpacked("EXIM_ROOT", "exim").into_os_string();
        if HEAVY {
            folder.push("-heavy");
        }
        Path::new(&folder).join("usr/sbin/exim4")
    }

    /// Returns the folder of the program, and the configuration.
    pub(crate) fn files(&self) -> (PathBuf, PathBuf) {
        let program = Self::program();
        let folder = program.parent().expect("a folder");
        (folder.to_owned(), self.0.scratch.at("exim.conf"))
    }

    /// Ends the daemon, and keeps the files.
    pub(crate) fn stop(&self) {
        let process = fs::read_to_string(self.0.scratch.at("exim.pid")).expect("it runs");
        let process = Path::new("/proc").join(process.trim()).join("exe");
        end(&self.0);
        until("Exim ends", || (!process.exists()).then_some(()));
    }

    fn command(&self) -> Command {
        let mut command = Command::new(Self::program());
        command.arg("-C").arg(self.0.scratch.at("exim.conf"));
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
        no_root().or_else(|| not_unpacked(&Self::program()))
    }

    fn start(milter: &Socket, when_down: WhenDown) -> Self {
        Self::start_before(milter, when_down, DISCARD)
    }

    fn place(&self) -> &Place {
        &self.0
    }

    fn held(&self) -> usize {
        self.queued().1
    }

    fn idle(&self) -> bool {
        let (all, frozen) = self.queued();
        all == frozen
    }
}

impl<const HEAVY: bool> Unpacked<HEAVY> {
    /// Starts one that passes mail to smtp.test on to this port.
    pub(crate) fn start_before(milter: &Socket, when_down: WhenDown, sink: u16) -> Self {
        let Socket::Unix(milter) = milter else {
            panic!("Exim asks at a unix socket");
        };
        // The user of the daemon, whose socket others may not use.
        let user = id(["-u", "nobody"]).expect("every system has nobody");
        let group = id(["-g", "nobody"]).expect("nobody has a group");
        let folders = ["", "spool", "log"];
        let place = Place::new("Exim", "spool", Some((user, group)), &folders);
        place.scratch.write("macros", macros(milter, when_down));
        let values = [
            ("SINK", sink.to_string()),
            ("UID", user.to_string()),
            ("GID", group.to_string()),
            ("PROGRAM", Self::program().display().to_string()),
            ("CONTRIB", root("contrib/exim").display().to_string()),
        ];
        let values = values.each_ref().map(|(name, value)| (*name, &**value));
        place.write("exim.conf", CONFIGURATION, &values);
        let exim = Self(place);
        run(exim.command().arg("-bd"));
        until("Exim listens", || port_listens(exim.port()).then_some(()));
        exim
    }
}

impl<const HEAVY: bool> Drop for Unpacked<HEAVY> {
    fn drop(&mut self) {
        end(&self.0);
    }
}

/// Ends the daemon of this place.
fn end(place: &Place) {
    if let Ok(process) = fs::read_to_string(place.scratch.at("exim.pid")) {
        let _ = Command::new("kill").arg(process.trim()).status();
    }
}

/// The same program with the configuration of Debian's exim4-config (`tests/run` unpacks it into
/// `EXIM_ROOT-config`), split or not, made by its `update-exim4.conf`. Only paths are changed. Nothing is
/// delivered, and clients on this machine count as strangers.
pub(crate) struct Debian<const SPLIT: bool>(Place);

const MAKE: &str = include_str!("servers/debian-exim.sh");

impl<const SPLIT: bool> Debian<SPLIT> {
    fn package() -> PathBuf {
        let mut folder = unpacked("EXIM_ROOT", "exim").into_os_string();
        folder.push("-config");
        folder.into()
    }
}

impl<const SPLIT: bool> Mta for Debian<SPLIT> {
    const NAME: &str = "exim-config";

    fn obstacle() -> Option<String> {
        let update = Self::package().join("usr/sbin/update-exim4.conf");
        Exim::obstacle().or_else(|| not_unpacked(&update))
    }

    fn start(milter: &Socket, when_down: WhenDown) -> Self {
        let Socket::Unix(milter) = milter else {
            panic!("Exim asks at a unix socket");
        };
        let user = id(["-u", "nobody"]).expect("every system has nobody");
        let group = id(["-g", "nobody"]).expect("nobody has a group");
        let place = Place::new("Exim", "spool", Some((user, group)), &["", "spool", "log"]);
        let own = format!("exim_user = {user}\nexim_group = {group}\n");
        place
            .scratch
            .write("macros", macros(milter, when_down) + &own);
        let script = place.write("make.sh", MAKE, &[]);
        let program = Exim::program();
        run(Command::new("sh")
            .arg(script)
            .arg(Self::package())
            .arg(&program)
            .arg(SPLIT.to_string()));
        let mut command = Command::new(program);
        command.arg("-C").arg(place.scratch.at("exim.conf"));
        run(command
            .args(["-bd", "-oP"])
            .arg(place.scratch.at("exim.pid")));
        until("Exim listens", || port_listens(place.port).then_some(()));
        Self(place)
    }

    fn place(&self) -> &Place {
        &self.0
    }

    fn held(&self) -> usize {
        0
    }

    fn idle(&self) -> bool {
        true
    }
}

impl<const SPLIT: bool> Drop for Debian<SPLIT> {
    fn drop(&mut self) {
        end(&self.0);
    }
}
