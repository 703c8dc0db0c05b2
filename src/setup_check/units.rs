//! Checks the daemon's units with systemd. What a mail server must know about the milter.

use std::path::Path;
use std::time::Duration;

use super::findings::Findings;
use super::program::Program;
use crate::config::{Config, DRAIN};
use crate::endpoint::{Door, Endpoint};

const SERVICE: &str = "blocklist-milter.service";
const SOCKET: &str = "blocklist-milter.socket";
const POLICY: &str = "blocklist-door@policy.socket";

/// The milter, to compare the mail server's settings with.
#[derive(Default)]
pub(super) struct Milter {
    pub(super) config: Config,
    /// Whether systemd answers: the state of the units is known.
    pub(super) has_units: bool,
    /// Where the socket unit listens, or else the daemon for milters.
    pub(super) sockets: Vec<Endpoint>,
    /// Where the unit for policy requests listens.
    pub(super) policy: Vec<Endpoint>,
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

    /// Returns where policy requests are answered: with units, where theirs listens.
    pub(super) fn policy(&self) -> Vec<Endpoint> {
        match &*self.policy {
            [] => self.listen(Door::Policy),
            sockets => sockets.to_vec(),
        }
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
    for (name, unit) in [(SOCKET, &socket), (SERVICE, &service)] {
        let start = format!("systemctl enable --now {name}");
        check_unit(name, unit, &start, findings);
    }
    let user = Some(value(&service, "User").to_owned());
    let junk = systemctl(&["list-units", "--plain", "--no-legend", "blocklist-junk@*"]);
    let junk = junk.unwrap_or_default();
    milter.has_units = true;
    milter.sockets = sockets(&socket);
    milter.policy = show(POLICY)
        .filter(|unit| is_active(unit))
        .map_or_else(Vec::new, |unit| sockets(&unit));
    milter.user = user.filter(|user| !user.is_empty());
    milter.has_junk = junk.lines().any(|unit| unit.starts_with("blocklist-junk@"));
}

/// Checks whether a unit is installed, active and enabled.
fn check_unit(name: &str, unit: &str, start: &str, findings: &mut Findings) {
    match ["LoadState", "ActiveState", "UnitFileState"].map(|of| value(unit, of)) {
        ["" | "not-found", ..] => findings.wrong(
            format!("{name} is not installed"),
            "install the package, or run contrib/install --postfix (or --sendmail, --exim)",
        ),
        [_, active, _] if !["", "active"].contains(&active) => {
            findings.wrong(format!("{name} is {active}"), start);
        }
        [_, _, "disabled"] => {
            findings.wrong(format!("{name} will not start at the next boot"), start);
        }
        _ => findings.good(format!("{name} is active and enabled")),
    }
}

/// Checks the socket for policy requests, if the units serve them.
pub(super) fn check_policy(milter: &Milter, findings: &mut Findings) {
    if milter.has_units && milter.listen(Door::Policy).is_empty() {
        let start = format!("systemctl enable {POLICY}\nsystemctl restart {SERVICE}");
        check_unit(POLICY, &show(POLICY).unwrap_or_default(), &start, findings);
    }
}

fn is_active(unit: &str) -> bool {
    value(unit, "ActiveState") == "active"
}

/// Checks the units that keep a list up to date: a `.path` unit for text lists, a timer for a feed.
pub(super) fn check_list(list: &str, folder: &Path, findings: &mut Findings) {
    let path = format!("blocklist-compile@{list}.path");
    let timer = format!("blocklist-update@{list}.timer");
    let at_work = [&path, &timer].into_iter().find(|unit| {
        let unit = show(unit).unwrap_or_default();
        is_active(&unit) && value(&unit, "UnitFileState") == "enabled"
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
        if show(&unit).is_some_and(|unit| value(&unit, "ActiveState") == "failed") {
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

/// Returns the state of a unit, lines `name=value`; `None` if systemd does not answer.
fn show(unit: &str) -> Option<String> {
    let wanted = "--property=LoadState,ActiveState,UnitFileState,User,Listen";
    systemctl(&["show", wanted, unit])
}

/// Returns a value of a unit, empty if it does not have it.
fn value<'u>(unit: &'u str, name: &str) -> &'u str {
    let mut lines = unit.lines();
    let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    found.unwrap_or_default()
}

/// Returns where a socket unit listens: `/run/x.sock (Stream)`, `127.0.0.1:8891 (Stream)`, each on a line.
fn sockets(unit: &str) -> Vec<Endpoint> {
    let endpoint = |line: &str| {
        let address = line.strip_prefix("Listen=")?.strip_suffix(" (Stream)")?;
        let kind = match address.starts_with('/') {
            true => "unix",
            false => "inet",
        };
        format!("{kind}:{address}").parse().ok()
    };
    unit.lines().filter_map(endpoint).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_of_a_unit_are_read() {
        let unit = "Listen=/run/a.sock (Stream)\nListen=127.0.0.1:8891 (Stream)\n\
                    Listen=[::1]:8891 (Stream)\nListen=/b (Datagram)";
        let found: Vec<String> = sockets(unit).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            ["unix:/run/a.sock", "inet:8891@127.0.0.1", "inet6:8891@::1"]
        );
    }
}
