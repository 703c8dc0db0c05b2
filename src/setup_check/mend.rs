//! What to write into `smtpd_milters`, from what is there.

use std::path::{Path, PathBuf};

use super::postconf::{MilterOf, milters};
use super::units::Milter;
use crate::endpoint::Endpoint;

/// The settings that `contrib/postfix.cf` advises besides the address.
const ADVICE: &str = "default_action=accept, connect_timeout=5s, command_timeout=10s";
/// The socket in the queue directory that `contrib/systemd/postfix.conf` adds.
const IN_QUEUE: &str = "blocklist-milter/milter.sock";

/// Returns the milters to name: the daemon, and those that are named already; before them the commands that create the
/// socket, one on each line.
pub(super) fn mended(
    milter: &Milter<'_>,
    queue: &Path,
    named: &[MilterOf],
    in_chroot: bool,
) -> (String, Vec<MilterOf>) {
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
    let ours = match same.into_iter().next() {
        None => milters(&format!("{{ {address}, {ADVICE} }}")),
        Some(mut same) => {
            same.address = address;
            vec![same]
        }
    };
    // A milter that writes Authentication-Results must come before one that trusts them.
    let milters = match dkim_setting(milter) {
        Some(_) => [others, ours].concat(),
        None => [ours, others].concat(),
    };
    (before, milters)
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
    let mut sockets = milter.units.sockets.iter();
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
    let written = |socket: &Endpoint| match socket {
        Endpoint::Unix(path) => match path.strip_prefix(queue) {
            Ok(within) => Some(format!("unix:{}", within.display())),
            Err(_) => (!in_chroot).then(|| socket.to_string()),
        },
        Endpoint::Inet { host, port, v6 } if *v6 => Some(format!("inet:[{host}]:{port}")),
        Endpoint::Inet { host, port, .. } => Some(format!("inet:{host}:{port}")),
    };
    let is_within =
        |socket: &&Endpoint| matches!(socket, Endpoint::Unix(path) if path.starts_with(queue));
    let sockets = &milter.units.sockets;
    let within = sockets.iter().filter(is_within);
    within.chain(sockets).find_map(written)
}

/// Returns how to create a socket in the queue directory.
fn socket_in_queue(milter: &Milter<'_>, queue: &Path) -> String {
    let program = std::env::current_exe().unwrap_or_default();
    let prefix = program.ancestors().nth(2);
    let prefix = prefix.unwrap_or_else(|| Path::new("/usr/local")).display();
    let queue = queue.display();
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
    let path = |address, in_chroot| unix_path(address, queue, in_chroot);
    let (Some(ours), Some(other), Some(inside)) =
        (path(ours, false), path(other, false), path(other, true))
    else {
        return false;
    };
    let folder = |path: &Path| Some(path.parent()?.file_name()?.to_owned());
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
    fn written(whitelist: &str, sockets: &[&str], named: &str, in_chroot: bool) -> (String, bool) {
        let text = format!("[whitelist]\n{whitelist}");
        let sockets = sockets.iter().map(|socket| socket.parse());
        let milter = Milter {
            config: &Config::parse(&text, Path::new("c.toml")).expect("valid"),
            units: &Units {
                known: true,
                sockets: sockets.collect::<Result<_, _>>().expect("addresses"),
                ..Units::default()
            },
        };
        let queue = Path::new("/nonexistent/queue");
        let (before, list) = mended(&milter, queue, &milters(named), in_chroot);
        let list: Vec<String> = list.iter().map(MilterOf::text).collect();
        (list.join(" "), before.contains("set-up --postfix"))
    }

    #[test]
    fn a_milter_that_needs_dkim_comes_after_the_others() {
        for (whitelist, is_first) in [
            ("", true),
            ("authserv_ids = \"mx\"\nrequire_dkim = true", false),
            ("authserv_ids = \"mx\"\ncorrespondents = \"c.txt\"", false),
            ("authserv_ids = \"mx\"", true),
        ] {
            let (list, _) = written(whitelist, &[RUN], "inet:127.0.0.1:1", false);
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
                written("", sockets, named, true),
                (expected, sockets == [RUN]),
                "{named}"
            );
        }
        assert_eq!(written("", &[RUN], "", false), (advised(RUN), false));
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
