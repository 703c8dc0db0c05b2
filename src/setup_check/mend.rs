//! What to write into `smtpd_milters`, from what is there.

use std::path::{Path, PathBuf};

use super::postconf::{MilterOf, Postfix, Service, milters};
use super::units::Milter;
use crate::endpoint::{Endpoint, EndpointError};

/// The settings that `contrib/postfix.cf` advises besides the address.
const ADVICE: &str = "default_action=accept, connect_timeout=5s, command_timeout=10s";
/// The socket in the queue directory that `contrib/systemd/postfix.conf` adds.
const IN_QUEUE: &str = "blocklist-milter/milter.sock";

impl Postfix<'_> {
    /// Returns what makes all services, or one with its own milters, ask the daemon: the milters to name, those that
    /// are named already among them; before them the commands that create the socket, one on each line.
    pub(super) fn mended(&self, service: &Service) -> (String, Vec<MilterOf>) {
        let (address, before) = match self.address(service.has_chroot) {
            Some(address) => (address, String::new()),
            None => (format!("unix:{IN_QUEUE}"), self.socket_in_queue()),
        };
        let is_ours = |other: &MilterOf| {
            other.address == address
                || self.is_ours(other)
                || self.is_misspelt(&other.address, &address)
        };
        let (same, others): (Vec<_>, Vec<_>) = service.milters.iter().cloned().partition(is_ours);
        let ours = match same.into_iter().next() {
            None => milters(&format!("{{ {address}, {ADVICE} }}")),
            Some(mut same) => {
                same.address = address;
                vec![same]
            }
        };
        // A milter that writes Authentication-Results must come before one that trusts them.
        let milters = match dkim_setting(self.milter) {
            Some(_) => [others, ours].concat(),
            None => [ours, others].concat(),
        };
        (before, milters)
    }

    /// Returns where Postfix looks for a milter: a path is relative to the queue directory.
    pub(super) fn place(&self, address: &str, in_chroot: bool) -> Result<Endpoint, EndpointError> {
        let path = address.strip_prefix("unix:");
        match path.or_else(|| address.strip_prefix("local:")) {
            Some(path) if in_chroot => Ok(Endpoint::Unix(
                self.queue().join(path.trim_start_matches('/')),
            )),
            Some(path) => Ok(Endpoint::Unix(self.queue().join(path))),
            None => address.parse(),
        }
    }

    /// Returns whether a milter is one of the daemon's sockets, with or without chroot.
    pub(super) fn is_ours(&self, found: &MilterOf) -> bool {
        let places = [false, true].map(|in_chroot| self.place(&found.address, in_chroot));
        let sockets = &self.milter.sockets;
        let mut places = places.iter().flatten();
        places.any(|place| sockets.iter().any(|socket| place.leads_to(socket)))
    }

    /// Returns the daemon's address as Postfix writes it; `None` if no socket can be seen from a chroot.
    fn address(&self, in_chroot: bool) -> Option<String> {
        let queue = self.queue();
        let written = |socket: &Endpoint| match socket {
            Endpoint::Unix(path) => match path.strip_prefix(queue) {
                Ok(within) => Some(format!("unix:{}", within.display())),
                Err(_) => (!in_chroot).then(|| socket.to_string()),
            },
            Endpoint::Inet { host, port, v6 } => Some(inet(host, *port, *v6)),
        };
        let is_within =
            |socket: &&Endpoint| matches!(socket, Endpoint::Unix(path) if path.starts_with(queue));
        let sockets = &self.milter.sockets;
        let within = sockets.iter().filter(is_within);
        within.chain(sockets).find_map(written)
    }

    /// Returns how to create a socket in the queue directory.
    fn socket_in_queue(&self) -> String {
        let program = std::env::current_exe().unwrap_or_default();
        let prefix = program.ancestors().nth(2);
        let prefix = prefix.unwrap_or_else(|| Path::new("/usr/local")).display();
        let queue = self.queue().display();
        match self.milter.has_units {
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
    fn is_misspelt(&self, other: &str, ours: &str) -> bool {
        let path = |address, in_chroot| match self.place(address, in_chroot) {
            Ok(Endpoint::Unix(path)) => Some(path),
            _ => None,
        };
        let (Some(ours), Some(other), Some(inside)) =
            (path(ours, false), path(other, false), path(other, true))
        else {
            return false;
        };
        let folder = |path: &PathBuf| Some(path.parent()?.file_name()?.to_owned());
        !other.exists()
            && !inside.exists()
            && (other.file_name() == ours.file_name() || folder(&other) == folder(&ours))
    }
}

/// Writes an address as Postfix and Exim read it.
pub(super) fn inet(host: &str, port: u16, v6: bool) -> String {
    match v6 {
        true => format!("inet:[{host}]:{port}"),
        false => format!("inet:{host}:{port}"),
    }
}

/// Returns the setting that needs a milter before this one to verify DKIM, if there is one.
pub(super) fn dkim_setting(milter: &Milter) -> Option<&'static str> {
    let whitelist = &milter.config.whitelist;
    if whitelist.require_dkim {
        Some("require_dkim")
    } else if whitelist.correspondents_need_dkim() && !whitelist.correspondents.is_empty() {
        Some("correspondents")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    const SOCKETS: [(&str, &str); 4] = [
        ("RUN", "unix:/run/blocklist-milter/milter.sock"),
        ("QUEUE", "unix:/queue/blocklist-milter/milter.sock"),
        ("TCP", "inet:8891@127.0.0.1"),
        ("SIX", "inet6:8891@::1"),
    ];

    fn milter(whitelist: &str, sockets: &str) -> Milter {
        let text = format!("[whitelist]\nauthserv_ids = \"mx\"\n{whitelist}");
        let sockets = sockets.split(' ').map(str::parse);
        Milter {
            config: Config::parse(&text, Path::new("c.toml")).expect("valid"),
            has_units: true,
            sockets: sockets.collect::<Result<_, _>>().expect("addresses"),
            ..Milter::default()
        }
    }

    fn postfix<'a>(milter: &'a Milter, named: &str, chroot: &str) -> Postfix<'a> {
        let settings = format!("queue_directory = /queue\nsmtpd_milters = {named}\n");
        let master = format!("smtp inet n - {chroot} - - smtpd");
        Postfix::of(milter, "", &settings, &master)
    }

    /// What is misspelt is replaced, with its own settings; what belongs to others stays.
    #[test]
    fn a_mend_names_the_milter_and_repeats_no_misspelling() {
        // The daemon's sockets, those that are named, whether in a chroot, the setting of a whitelist; what to name,
        // perhaps after a socket is made.
        let mends = "
            RUN QUEUE|                                      |y||{ OURS, ADVICE }
            RUN QUEUE|unix:blocklist/milter.sock            |y||OURS
            RUN QUEUE|{unix:blocklist-milter/x,a=b},inet:h:1|y||{ OURS, a=b }, inet:h:1
            RUN QUEUE|unix:dkim/dkim.sock                   |y||{ OURS, ADVICE }, unix:dkim/dkim.sock
            RUN TCP  |                                      |y||{ inet:127.0.0.1:8891, ADVICE }
            RUN SIX  |                                      |y||{ inet:[::1]:8891, ADVICE }
            RUN      |RUN                                   |y||made, OURS
            RUN      |                                      |n||{ RUN, ADVICE }
            RUN      |inet:h:1                              |n||{ RUN, ADVICE }, inet:h:1
            RUN      |inet:h:1|n|require_dkim = true        |inet:h:1, { RUN, ADVICE }
            RUN      |inet:h:1|n|correspondents = \"c.txt\"  |inet:h:1, { RUN, ADVICE }";
        let ours = ("OURS", "unix:blocklist-milter/milter.sock");
        let names = SOCKETS.into_iter().chain([ours, ("ADVICE", ADVICE)]);
        let mends = names.fold(mends.to_owned(), |text, (name, is)| text.replace(name, is));
        for mend in mends.trim().lines() {
            let [sockets, named, chroot, whitelist, expected] =
                mend.split('|').map(str::trim).collect::<Vec<_>>()[..]
            else {
                panic!("{mend}");
            };
            let milter = milter(whitelist, sockets);
            let postfix = postfix(&milter, named, chroot);
            let (before, list) = postfix.mended(&postfix.main);
            let list: Vec<String> = list.iter().map(MilterOf::text).collect();
            let made = match before.contains("set-up --postfix") {
                true => "made, ",
                false => "",
            };
            assert_eq!(made.to_owned() + &list.join(", "), expected, "{mend}");
        }
    }

    #[test]
    fn sockets_are_found_where_postfix_looks_for_them() {
        let cases = [
            ("unix:m/s.sock", "unix:/queue/m/s.sock", true),
            ("unix:/m/s.sock", "unix:/queue/m/s.sock", true),
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
            let milter = milter("", socket);
            let postfix = postfix(&milter, address, "n");
            assert_eq!(
                postfix.is_ours(&postfix.main.milters[0]),
                expected,
                "{address}"
            );
        }
    }
}
