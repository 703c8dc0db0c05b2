//! Checks the daemon's units with systemd.

use std::collections::BTreeMap;
use std::process::Command;

use super::findings::About;
use super::program::{output_of, program};
use crate::endpoint::Endpoint;

const SERVICE: &str = "blocklist-milter.service";
const SOCKET: &str = "blocklist-milter.socket";

/// The state of the units.
#[derive(Debug, Default)]
pub(super) struct Units {
    /// Whether systemd answers.
    pub(super) known: bool,
    /// Where the socket unit listens.
    pub(super) sockets: Vec<Endpoint>,
    /// The user of the service.
    pub(super) user: Option<String>,
    /// Whether a unit lists the senders of reported messages.
    pub(super) has_junk: bool,
}

impl Units {
    /// Returns how to start the daemon.
    pub(super) fn start(&self) -> &'static str {
        if self.known {
            "systemctl enable --now blocklist-milter.socket blocklist-milter.service"
        } else {
            "start the daemon: blocklist-milter --config FILE"
        }
    }
}

/// Checks the service and its socket.
pub(super) fn check(findings: &mut About<'_>) -> Units {
    let Some(service) = show(SERVICE) else {
        findings.notice("systemd does not answer here: units are not checked", "");
        return Units::default();
    };
    let socket = show(SOCKET).unwrap_or_default();
    for (name, unit) in [(SOCKET, &socket), (SERVICE, &service)] {
        let start = format!("systemctl enable --now {name}");
        match (unit.get("ActiveState"), unit.get("UnitFileState")) {
            _ if unit
                .get("LoadState")
                .is_none_or(|state| state == "not-found") =>
            {
                findings.wrong(
                    format!("{name} is not installed"),
                    "install the package, or run contrib/install --postfix (for Sendmail: --sendmail)",
                );
            }
            (Some(active), _) if active != "active" => {
                findings.wrong(format!("{name} is {active}"), start);
            }
            (_, Some(enabled)) if enabled == "disabled" => {
                findings.wrong(format!("{name} will not start at the next boot"), start)
            }
            _ => findings.good(format!("{name} is active and enabled")),
        }
    }
    Units {
        known: true,
        sockets: socket
            .get("Listen")
            .map_or_else(Vec::new, |listen| sockets(listen)),
        user: service.get("User").filter(|user| !user.is_empty()).cloned(),
        has_junk: has_junk(),
    }
}

/// Checks the units that keep a list up to date: a `.path` unit for text lists, a timer for a feed.
pub(super) fn check_list(list: &str, folder: &str, findings: &mut About<'_>) {
    let path = format!("blocklist-compile@{list}.path");
    let timer = format!("blocklist-update@{list}.timer");
    let at_work = [&path, &timer].into_iter().find(|unit| {
        let state = show(unit).unwrap_or_default();
        let is = |name: &str, value: &str| state.get(name).is_some_and(|found| found == value);
        is("ActiveState", "active") && is("UnitFileState", "enabled")
    });
    match at_work {
        Some(unit) => findings.good(format!("list {list}: kept up to date by {unit}")),
        None => findings.notice(
            format!("list {list}: no unit compiles it when its text lists in {folder} change"),
            format!("systemctl enable --now {path}"),
        ),
    }
    for service in ["compile", "update"] {
        let unit = format!("blocklist-{service}@{list}.service");
        let state = show(&unit).unwrap_or_default();
        if state
            .get("ActiveState")
            .is_some_and(|state| state == "failed")
        {
            findings.wrong(
                format!("list {list}: {unit} has failed; the previous filter is in effect"),
                format!("journalctl -u {unit} -n 20"),
            );
        }
    }
}

fn has_junk() -> bool {
    let Some(systemctl) = program("systemctl") else {
        return false;
    };
    let pattern = ["list-units", "--plain", "--no-legend", "blocklist-junk@*"];
    let units = output_of(Command::new(systemctl).args(pattern)).unwrap_or_default();
    units
        .lines()
        .any(|unit| unit.starts_with("blocklist-junk@"))
}

/// Returns properties of a unit; `None` if systemd does not answer.
fn show(unit: &str) -> Option<BTreeMap<String, String>> {
    let text = output_of(Command::new(program("systemctl")?).args([
        "show",
        "--property=LoadState,ActiveState,UnitFileState,User,Listen",
        unit,
    ]))
    .ok()?;
    let mut properties: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in text.lines().filter_map(|line| line.split_once('=')) {
        // A socket unit has one line for each of its sockets.
        let known = properties.entry(name.to_owned()).or_default();
        if !known.is_empty() {
            known.push('\n');
        }
        known.push_str(value);
    }
    Some(properties)
}

/// Parses `/run/x.sock (Stream)`, `127.0.0.1:8891 (Stream)`, one on each line.
fn sockets(listen: &str) -> Vec<Endpoint> {
    let stream = |line: &str| line.strip_suffix(" (Stream)").map(str::to_owned);
    let endpoint = |address: String| {
        let kind = match address.as_bytes().first()? {
            b'/' => "unix",
            b'[' => "inet6",
            _ => "inet",
        };
        format!("{kind}:{address}").parse().ok()
    };
    listen
        .lines()
        .filter_map(stream)
        .filter_map(endpoint)
        .collect()
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
