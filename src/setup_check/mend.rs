//! What to write into `smtpd_milters`, from what is there.

use std::path::{Path, PathBuf};

use super::main_cf::{MilterOf, milters};
use super::postconf::{Postconf, Service};
use super::units::Milter;
use crate::endpoint::Endpoint;

/// The settings that `contrib/postfix.cf` advises besides the address.
const ADVICE: &str = "default_action=accept, connect_timeout=5s, command_timeout=10s";
/// The socket in the queue directory that `contrib/systemd/postfix.conf` adds.
const IN_QUEUE: &str = "blocklist-milter/milter.sock";

/// What makes Postfix ask the daemon.
pub(super) struct Mend {
    /// Commands that create the socket, one on each line.
    before: String,
    /// The milters to name.
    milters: Vec<MilterOf>,
}

impl Mend {
    /// Names the daemon and the milters that are named already.
    pub(super) fn new(
        milter: &Milter<'_>,
        queue: &Path,
        named: &[MilterOf],
        in_chroot: bool,
    ) -> Self {
        let (address, before) = match address(milter, queue, in_chroot) {
            Some(address) => (address, String::new()),
            None => (format!("unix:{IN_QUEUE}"), socket_in_queue(milter, queue)),
        };
        let is_ours = |other: &MilterOf| {
            other.address == address
                || leads_to_daemon(&other.address, milter, queue)
                || is_misspelt(&other.address, &address, queue)
        };
        let (same, others): (Vec<_>, Vec<_>) = named.iter().cloned().partition(is_ours);
        let ours = match same.first() {
            None => milters(&format!("{{ {address}, {ADVICE} }}")),
            Some(same) if same.address == address => vec![same.clone()],
            Some(same) => vec![same.at(&address)],
        };
        // A milter that writes Authentication-Results must come before one that trusts them.
        let milters = match dkim_setting(milter) {
            Some(_) => [others, ours].concat(),
            None => [ours, others].concat(),
        };
        Self { before, milters }
    }

    /// Returns whether the mend replaces this milter, because it was meant to be the daemon.
    pub(super) fn replaces(&self, other: &MilterOf) -> bool {
        let mut milters = self.milters.iter();
        milters.all(|milter| milter.address != other.address)
    }

    /// Returns the commands for `main.cf`, or for one service.
    pub(super) fn commands(&self, postconf: &Postconf, service: Option<&Service>) -> String {
        self.before.clone() + &edit(postconf, service, &self.milters)
    }
}

/// Returns the command that names these milters in `main.cf`, or for one service.
pub(super) fn edit(postconf: &Postconf, service: Option<&Service>, milters: &[MilterOf]) -> String {
    let list = |text: fn(&MilterOf) -> String, sign| {
        let texts: Vec<String> = milters.iter().map(text).collect();
        format!("smtpd_milters = {}", texts.join(sign))
    };
    match service {
        None => postconf.edit(&list(MilterOf::text, ", ")),
        Some(service) => postconf.edit_service(&service.name, &list(MilterOf::without_blanks, ",")),
    }
}

/// Returns the setting that needs a milter before this one to verify DKIM, if there is one.
pub(super) fn dkim_setting(milter: &Milter<'_>) -> Option<&'static str> {
    let whitelist = &milter.config.whitelist;
    if whitelist.require_dkim {
        Some("require_dkim")
    } else if whitelist.correspondents_need_dkim() && !whitelist.correspondents.is_empty() {
        Some("correspondents")
    } else {
        None
    }
}

/// Returns the paths of a unix socket as Postfix finds it: relative to the queue directory.
pub(super) fn unix_path(address: &str, queue: &Path, in_chroot: bool) -> Option<PathBuf> {
    let path = address
        .strip_prefix("unix:")
        .or_else(|| address.strip_prefix("local:"))?;
    Some(match in_chroot {
        true => queue.join(path.trim_start_matches('/')),
        false => queue.join(path),
    })
}

/// Returns whether an address of `smtpd_milters` is one of the daemon's sockets.
pub(super) fn leads_to_daemon(address: &str, milter: &Milter<'_>, queue: &Path) -> bool {
    let mut sockets = milter.sockets.iter();
    sockets.any(|socket| leads_to(address, queue, socket))
}

/// Returns whether an address of `smtpd_milters` is this socket, with or without chroot.
fn leads_to(address: &str, queue: &Path, socket: &Endpoint) -> bool {
    match socket {
        Endpoint::Unix(path) => [false, true]
            .into_iter()
            .filter_map(|in_chroot| unix_path(address, queue, in_chroot))
            .any(|found| found == *path),
        Endpoint::Inet { .. } => address
            .parse()
            .is_ok_and(|found: Endpoint| found.leads_to(socket)),
    }
}

/// Returns the daemon's address as Postfix writes it; `None` if no socket can be seen from a chroot.
fn address(milter: &Milter<'_>, queue: &Path, in_chroot: bool) -> Option<String> {
    let within = |socket: &Endpoint| match socket {
        Endpoint::Unix(path) => {
            let within = path.strip_prefix(queue).ok()?;
            Some(format!("unix:{}", within.display()))
        }
        Endpoint::Inet { .. } => None,
    };
    let outside = |socket: &Endpoint| match socket {
        Endpoint::Unix(_) => (!in_chroot).then(|| socket.to_string()),
        Endpoint::Inet { host, port, v6 } if *v6 => Some(format!("inet:[{host}]:{port}")),
        Endpoint::Inet { host, port, .. } => Some(format!("inet:{host}:{port}")),
    };
    let mut sockets = milter.sockets.iter();
    let found = sockets.find_map(within);
    found.or_else(|| milter.sockets.iter().find_map(outside))
}

/// Returns how to create a socket in the queue directory.
fn socket_in_queue(milter: &Milter<'_>, queue: &Path) -> String {
    let program = std::env::current_exe().unwrap_or_default();
    let prefix = program
        .ancestors()
        .nth(2)
        .unwrap_or_else(|| Path::new("/usr/local"));
    let (prefix, queue) = (prefix.display(), queue.display());
    match milter.units.known {
        true => format!(
            "{prefix}/lib/blocklist-milter/set-up --postfix\nsystemctl restart blocklist-milter.socket\n"
        ),
        false => format!(
            "# First: listen = [\"unix:{queue}/{IN_QUEUE}\"] in the configuration; restart the daemon\n"
        ),
    }
}

/// Returns whether this was meant to be our socket: nothing is there, and file or folder are named
/// alike.
fn is_misspelt(other: &str, ours: &str, queue: &Path) -> bool {
    let paths = |address| [false, true].map(|in_chroot| unix_path(address, queue, in_chroot));
    let [Some(other), Some(inside)] = paths(other) else {
        return false;
    };
    let [Some(ours), _] = paths(ours) else {
        return false;
    };
    let folder = |path: &Path| {
        path.parent()
            .and_then(Path::file_name)
            .map(ToOwned::to_owned)
    };
    !other.exists()
        && !inside.exists()
        && (other.file_name() == ours.file_name() || folder(&other) == folder(&ours))
}

#[cfg(test)]
mod tests {
    use super::super::units::Units;
    use super::*;
    use crate::config::Config;

    const RUN: &str = "unix:/run/blocklist-milter/milter.sock";
    const QUEUE: &str = "unix:/nonexistent/queue/blocklist-milter/milter.sock";

    /// The list that a mend writes, and whether a socket has to be made first.
    fn mended(whitelist: &str, sockets: &[&str], named: &str, in_chroot: bool) -> (String, bool) {
        let text = format!("[whitelist]\n{whitelist}");
        let sockets = sockets.iter().map(|socket| socket.parse());
        let milter = Milter {
            config: &Config::parse(&text, Path::new("c.toml")).expect("valid"),
            sockets: &sockets.collect::<Result<Vec<_>, _>>().expect("addresses"),
            units: &Units {
                known: true,
                ..Units::default()
            },
        };
        let queue = Path::new("/nonexistent/queue");
        let mend = Mend::new(&milter, queue, &milters(named), in_chroot);
        let list: Vec<String> = mend.milters.iter().map(MilterOf::text).collect();
        (list.join(" "), mend.before.contains("set-up --postfix"))
    }

    #[test]
    fn a_milter_that_needs_dkim_comes_after_the_others() {
        for (whitelist, is_first) in [
            ("", true),
            ("authserv_ids = \"mx\"\nrequire_dkim = true", false),
            ("authserv_ids = \"mx\"\ncorrespondents = \"c.txt\"", false),
            ("authserv_ids = \"mx\"", true),
        ] {
            let (list, _) = mended(whitelist, &[RUN], "inet:127.0.0.1:1", false);
            assert_eq!(list.ends_with("inet:127.0.0.1:1"), is_first, "{whitelist}");
        }
    }

    /// What is misspelt is replaced, with its own settings; what belongs to others stays.
    #[test]
    fn a_mend_repeats_no_misspelling() {
        let tcp = "inet:8891@127.0.0.1";
        let ours = "unix:blocklist-milter/milter.sock";
        let advised = |address| format!("{{ {address}, {ADVICE} }}");
        for (sockets, named, expected) in [
            (&[RUN, QUEUE][..], "", advised(ours)),
            (&[RUN, QUEUE], "unix:blocklist/milter.sock", ours.to_owned()),
            (
                &[RUN, QUEUE],
                "{unix:blocklist-milter/x.sock,a=b},inet:h:1",
                format!("{{ {ours}, a=b }} inet:h:1"),
            ),
            (
                &[RUN, QUEUE],
                "unix:dkim/dkim.sock",
                format!("{} unix:dkim/dkim.sock", advised(ours)),
            ),
            (&[RUN, tcp], "", advised("inet:127.0.0.1:8891")),
            // Not to be seen from a chroot.
            (&[RUN], RUN, ours.to_owned()),
        ] {
            assert_eq!(
                mended("", sockets, named, true),
                (expected, sockets == [RUN]),
                "{named}"
            );
        }
        assert_eq!(mended("", &[RUN], "", false), (advised(RUN), false));
    }

    #[test]
    fn sockets_are_found_where_postfix_looks_for_them() {
        let queue = Path::new("/var/spool/postfix");
        let cases = [
            ("unix:m/s.sock", "unix:/var/spool/postfix/m/s.sock", true),
            ("unix:/m/s.sock", "unix:/var/spool/postfix/m/s.sock", true),
            ("unix:/run/s.sock", "unix:/run/s.sock", true),
            ("unix:/run/s.sock", "unix:/run/other.sock", false),
            ("inet:127.0.0.1:8891", "inet:8891@127.0.0.1", true),
            ("inet:127.0.0.1:8892", "inet:8891@127.0.0.1", false),
            ("inet:localhost:8891", "inet:8891@127.0.0.1", true),
            ("inet:[::1]:8891", "inet6:8891@::1", true),
            ("inet:127.0.0.1:8891", "inet6:8891@::1", false),
            ("inet:192.0.2.1:8891", "inet:8891@0.0.0.0", true),
            ("inet:192.0.2.1:8891", "inet:8891@127.0.0.1", false),
        ];
        for (address, socket, expected) in cases {
            let socket = socket.parse().expect("an address");
            assert_eq!(leads_to(address, queue, &socket), expected, "{address}");
        }
    }
}
