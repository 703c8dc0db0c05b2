//! Checks the daemon's units with systemd. What a mail server must know about the milter.

use std::path::Path;
use std::time::Duration;

use super::findings::Findings;
use super::program::Program;
use crate::config::{Config, DRAIN};
use crate::endpoint::{Door, Endpoint};

const SERVICE: &str = "blocklist-milter.service";
const SOCKET: &str = "blocklist-milter.socket";

/// The milter, to compare the mail server's settings with.
#[derive(Default)]
pub(super) struct Milter {
    pub(super) config: Config,
    /// Whether systemd answers: the state of the units is known.
    pub(super) has_units: bool,
    /// Where the socket unit listens, or else the daemon for milters.
    pub(super) sockets: Vec<Endpoint>,
    /// The user of the service.
    pub(super) user: Option<String>,
    /// Whether a unit lists the senders of reported messages.
    pub(super) has_junk: bool,
}

impl Milter {
    /// Returns how to start the daemon.
    pub(super) fn start(&self) -> &'static str {
        if self.has_units {
            "systemctl enable --now blocklist-milter.socket blocklist-milter.service"
        } else {
            "start the daemon: blocklist-milter --config FILE"
        }
    }

    /// Returns where the configuration says that a protocol is spoken.
    pub(super) fn listen(&self, door: Door) -> Vec<Endpoint> {
        let listen = self.config.listen.iter().filter(|one| one.door == door);
        listen.map(|one| one.at.clone()).collect()
    }
}

/// Returns why a mail server must wait longer for an answer, if it must. A read takes less time than a restart.
pub(super) fn answers_too_late(timeout: Duration) -> Option<String> {
    let seconds = DRAIN.as_secs();
    (timeout <= DRAIN).then(|| {
        format!("is not more than {seconds} seconds: a restart of the milter loses sessions")
    })
}

/// Checks the service and its socket.
pub(super) fn check(milter: &mut Milter, findings: &mut Findings) {
    let Some(service) = show(SERVICE) else {
        return findings.notice("systemd does not answer here: units are not checked", "");
    };
    let socket = show(SOCKET).unwrap_or_default();
    for (name, [load, active, enabled, ..]) in [(SOCKET, &socket), (SERVICE, &service)] {
        let start = format!("systemctl enable --now {name}");
        match (&**active, &**enabled) {
            _ if ["", "not-found"].contains(&&**load) => findings.wrong(
                format!("{name} is not installed"),
                "install the package, or run contrib/install --postfix (for Sendmail: --sendmail)",
            ),
            (active, _) if !["", "active"].contains(&active) => {
                findings.wrong(format!("{name} is {active}"), start);
            }
            (_, "disabled") => {
                findings.wrong(format!("{name} will not start at the next boot"), start);
            }
            _ => findings.good(format!("{name} is active and enabled")),
        }
    }
    let ([.., listen], [_, _, _, user, _]) = (socket, service);
    let junk = systemctl(&["list-units", "--plain", "--no-legend", "blocklist-junk@*"]);
    let junk = junk.unwrap_or_default();
    milter.has_units = true;
    milter.sockets = sockets(&listen);
    milter.user = Some(user).filter(|user| !user.is_empty());
    milter.has_junk = junk.lines().any(|unit| unit.starts_with("blocklist-junk@"));
}

/// Checks the units that keep a list up to date: a `.path` unit for text lists, a timer for a feed.
pub(super) fn check_list(list: &str, folder: &Path, findings: &mut Findings) {
    let path = format!("blocklist-compile@{list}.path");
    let timer = format!("blocklist-update@{list}.timer");
    let at_work = [&path, &timer].into_iter().find(|unit| {
        show(unit)
            .is_some_and(|[_, active, enabled, ..]| active == "active" && enabled == "enabled")
    });
    let folder = folder.display();
    match at_work {
        Some(unit) => findings.good(format!("list {list}: kept up to date by {unit}")),
        None => findings.notice(
            format!("list {list}: no unit compiles it when its text lists in {folder} change"),
            format!("systemctl enable --now {path}"),
        ),
    }
    for service in ["compile", "update"] {
        let unit = format!("blocklist-{service}@{list}.service");
        if show(&unit).is_some_and(|[_, active, ..]| active == "failed") {
            findings.wrong(
                format!("list {list}: {unit} has failed; the previous filter is in effect"),
                format!("journalctl -u {unit} -n 20"),
            );
        }
    }
}

fn systemctl(arguments: &[&str]) -> Option<String> {
    Program::find("systemctl")?.output(arguments).ok()
}

/// Returns `LoadState`, `ActiveState`, `UnitFileState`, `User` and `Listen` of a unit, empty if it does not have them;
/// `None` if systemd does not answer.
fn show(unit: &str) -> Option<[String; 5]> {
    const NAMES: [&str; 5] = [
        "LoadState",
        "ActiveState",
        "UnitFileState",
        "User",
        "Listen",
    ];
    let all = format!("--property={}", NAMES.join(","));
    let text = systemctl(&["show", &all, unit])?;
    Some(NAMES.map(|name| {
        // A socket unit has one line for each of its sockets.
        let values = text
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        values.collect::<Vec<_>>().join("\n")
    }))
}

/// Parses `/run/x.sock (Stream)`, `127.0.0.1:8891 (Stream)`, one on each line.
fn sockets(listen: &str) -> Vec<Endpoint> {
    let endpoint = |line: &str| {
        let address = line.strip_suffix(" (Stream)")?;
        let kind = match address.starts_with('/') {
            true => "unix",
            false => "inet",
        };
        format!("{kind}:{address}").parse().ok()
    };
    listen.lines().filter_map(endpoint).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_of_a_unit_are_read() {
        let listen =
            "/run/a.sock (Stream)\n127.0.0.1:8891 (Stream)\n[::1]:8891 (Stream)\n/b (Datagram)";
        let found: Vec<String> = sockets(listen).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            ["unix:/run/a.sock", "inet:8891@127.0.0.1", "inet6:8891@::1"]
        );
    }
}
