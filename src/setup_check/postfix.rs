//! Checks Postfix: whether each smtpd(8) uses the milter, can open its socket, and waits long
//! enough.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::findings::Findings;
use super::main_cf::{MilterOf, milters, split, time};
use super::milter::Milter;
use super::postconf::{Postconf, Service, services};
use crate::base::access::{Account, Wish};
use crate::endpoint::Endpoint;

const ABOUT: &str = "postfix";

/// The settings that `contrib/postfix.cf` advises besides the address.
const ADVICE: &str = "default_action=accept, connect_timeout=5s, command_timeout=10s";

/// With a longer timeout, each client waits too long if the milter hangs.
const CONNECT_TIMEOUT_MAX: Duration = Duration::from_secs(10);

pub(super) fn check(postconf: &Postconf, milter: &Milter<'_>, findings: &mut Findings) {
    let queue = PathBuf::from(postconf.setting("queue_directory"));
    let all = milters(&postconf.setting("smtpd_milters"));
    let is_ours = |found: &MilterOf| {
        milter
            .sockets
            .iter()
            .any(|socket| leads_to(&found.address, &queue, socket))
    };
    let services = services(postconf, &all);
    let asking: Vec<&Service> = services
        .iter()
        .filter(|service| service.milters.iter().any(is_ours) && !service.skips_milters())
        .collect();

    let maps = check_maps(&services, findings);
    if asking.is_empty() && !all.iter().any(is_ours) {
        let list = with_milter(milter, &queue, &all);
        let list: Vec<&str> = list.iter().map(|milter| milter.text.as_str()).collect();
        let remedy = postconf.edit(&format!("smtpd_milters = {}", list.join(", ")));
        let text = "smtpd_milters does not name the milter";
        if maps {
            let text = format!("{text}: mail is checked only where smtpd_milter_maps names it");
            findings.notice(ABOUT, text, remedy);
        } else {
            findings.wrong(ABOUT, format!("{text}: no mail is checked"), remedy);
        }
    }
    check_services(postconf, milter, &queue, &services, &is_ours, findings);
    let ours = asking
        .iter()
        .flat_map(|service| &service.milters)
        .chain(&all);
    if let Some(ours) = ours.into_iter().find(|found| is_ours(found)) {
        check_socket(postconf, ours, milter, &queue, &asking, findings);
        check_settings(postconf, ours, milter, findings);
        check_chain(ours, &all, milter, findings);
    }
    check_other_ways(postconf, milter, &services, &is_ours, findings);
}

/// Returns the path of a unix socket as Postfix finds it: relative to the queue directory.
fn unix_path(address: &str, queue: &Path, in_chroot: bool) -> Option<PathBuf> {
    let path = address
        .strip_prefix("unix:")
        .or_else(|| address.strip_prefix("local:"))?;
    if in_chroot {
        Some(queue.join(path.trim_start_matches('/')))
    } else {
        Some(queue.join(path))
    }
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

/// Returns the recommended `smtpd_milters`: the milter, and the existing ones.
fn with_milter(milter: &Milter<'_>, queue: &Path, others: &[MilterOf]) -> Vec<MilterOf> {
    let within = milter.sockets.iter().find_map(|socket| match socket {
        Endpoint::Unix(path) => Some(format!("unix:{}", path.strip_prefix(queue).ok()?.display())),
        Endpoint::Inet { .. } => None,
    });
    let any = || match milter.sockets.first() {
        Some(Endpoint::Inet { host, port, v6 }) if *v6 => format!("inet:[{host}]:{port}"),
        Some(Endpoint::Inet { host, port, .. }) => format!("inet:{host}:{port}"),
        Some(unix) => unix.to_string(),
        None => "unix:blocklist-milter/milter.sock".to_owned(),
    };
    let ours = milters(&format!("{{ {}, {ADVICE} }}", within.unwrap_or_else(any)));
    // A milter that writes Authentication-Results must come before one that trusts them.
    if dkim_setting(milter).is_some() {
        [others, &ours].concat()
    } else {
        [&ours, others].concat()
    }
}

/// Returns the setting that needs a milter before this one to verify DKIM, if there is one.
fn dkim_setting(milter: &Milter<'_>) -> Option<&'static str> {
    let whitelist = &milter.config.whitelist;
    if whitelist.require_dkim {
        Some("require_dkim")
    } else if whitelist.correspondents_require_dkim && !whitelist.correspondents.is_empty() {
        Some("correspondents_require_dkim")
    } else {
        None
    }
}

fn check_services(
    postconf: &Postconf,
    milter: &Milter<'_>,
    queue: &Path,
    services: &[Service],
    is_ours: &dyn Fn(&MilterOf) -> bool,
    findings: &mut Findings,
) {
    for service in services {
        let name = &service.name;
        let asks = service.milters.iter().any(is_ours);
        let important = service.is_for_mail_from_elsewhere();
        if asks && !service.skips_milters() {
            findings.good(ABOUT, format!("{name}: asks the milter"));
        } else if service.skips_milters() && asks && important {
            findings.wrong(
                ABOUT,
                format!(
                    "{name}: receive_override_options has no_milters: mail here is not checked"
                ),
                postconf.edit_service(name, &service.options_with(false)),
            );
        } else if service.has_own_milters && important {
            let list = with_milter(milter, queue, &service.milters);
            let list: Vec<String> = list.iter().map(MilterOf::without_blanks).collect();
            findings.wrong(
                ABOUT,
                format!("{name}: its own smtpd_milters in master.cf does not name the milter"),
                postconf.edit_service(name, &format!("smtpd_milters = {}", list.join(","))),
            );
        } else if service.has_own_milters || service.skips_milters() {
            findings.good(ABOUT, format!("{name}: does not ask the milter"));
        }
    }
}

/// Reports `smtpd_milter_maps`, whose milters replace those of `smtpd_milters` for some clients.
/// Returns whether there is such a table.
fn check_maps(services: &[Service], findings: &mut Findings) -> bool {
    let all = services.iter().map(|service| service.milter_maps.as_str());
    let all: BTreeSet<&str> = all.filter(|maps| !maps.is_empty()).collect();
    for maps in &all {
        let tables = split(maps);
        let ask = |table: &&str| format!("postmap -q ADDRESS-OF-A-CLIENT '{table}'");
        let remedy: Vec<String> = tables.iter().map(ask).collect();
        findings.notice(
            ABOUT,
            format!(
                "smtpd_milter_maps = {maps}: for a client in these tables, what they name (or DISABLE) replaces \
                 smtpd_milters; setup-check does not look into them"
            ),
            remedy.join("\n"),
        );
    }
    !all.is_empty()
}

/// Checks whether Postfix's user can open the socket, where each service searches it.
fn check_socket(
    postconf: &Postconf,
    ours: &MilterOf,
    milter: &Milter<'_>,
    queue: &Path,
    asking: &[&Service],
    findings: &mut Findings,
) {
    let owner = postconf.setting("mail_owner");
    let account = Account::named(&owner);
    for in_chroot in [true, false] {
        let services: Vec<&str> = asking
            .iter()
            .filter(|service| service.has_chroot == in_chroot)
            .map(|service| service.name.as_str())
            .collect();
        let Some(path) = unix_path(&ours.address, queue, in_chroot) else {
            return;
        };
        if services.is_empty() {
            continue;
        }
        let who = format!(
            "{}{}",
            services.join(", "),
            if in_chroot { " (in a chroot)" } else { "" }
        );
        if !path.exists() {
            let remedy = if in_chroot {
                "a second socket below the queue directory, which set-up --postfix creates; then \
                 smtpd_milters = unix:blocklist-milter/milter.sock"
            } else {
                milter.start
            };
            findings.wrong(
                ABOUT,
                format!(
                    "{who}: looks for the socket at {}, where there is none",
                    path.display()
                ),
                remedy,
            );
            continue;
        }
        let Some(account) = &account else {
            findings.notice(
                ABOUT,
                format!(
                    "user {owner} (mail_owner) is not in /etc/passwd: permissions are not checked"
                ),
                "",
            );
            continue;
        };
        match account.obstacle(&path, Wish::Connect) {
            Ok(None) => findings.good(
                ABOUT,
                format!("{who}: user {owner} can open {}", path.display()),
            ),
            Ok(Some(obstacle)) => findings.wrong(
                ABOUT,
                format!("{who}: {}", obstacle.cause()),
                obstacle.remedy,
            ),
            Err(error) => findings.notice(ABOUT, format!("{}: {error}", path.display()), ""),
        }
    }
}

/// Checks timeouts, the default action and macros.
fn check_settings(
    postconf: &Postconf,
    ours: &MilterOf,
    milter: &Milter<'_>,
    findings: &mut Findings,
) {
    let value = |name: &str| match ours.setting(name) {
        Some(own) => own.to_owned(),
        None => postconf.setting(&format!("milter_{name}")),
    };
    let better =
        |name: &str, good: &str| format!("in smtpd_milters: {{ {}, {name}={good} }}", ours.address);
    let action = value("default_action");
    match action.as_str() {
        "accept" => findings.good(ABOUT, "default_action=accept: while the milter is down, mail passes unchecked"),
        "tempfail" => findings.good(ABOUT, "default_action=tempfail: while the milter is down, senders wait"),
        "quarantine" => findings.notice(ABOUT, "default_action=quarantine: while the milter is down, all mail is held until you release it", better("default_action", "accept")),
        _ => findings.wrong(
            ABOUT,
            format!("default_action={action}: while the milter is down, all mail is refused for good"),
            better("default_action", "accept"),
        ),
    }
    let drain = Duration::from_secs(milter.config.limits.drain_s);
    let read = Duration::from_millis(milter.config.limits.read_ms);
    let text = value("command_timeout");
    if let Some(command) = time(&text) {
        if command <= drain {
            findings.wrong(
                ABOUT,
                format!("command_timeout={text} is not more than drain_s = {}: a restart of the milter loses sessions", drain.as_secs()),
                better("command_timeout", &format!("{}s", drain.as_secs() + 5)),
            );
        } else if command <= read {
            findings.wrong(
                ABOUT,
                format!("command_timeout={text} is not more than read_ms = {}: a slow disk decides instead of on_error", read.as_millis()),
                better("command_timeout", "10s"),
            );
        } else {
            findings.good(
                ABOUT,
                format!("command_timeout={text}, more than drain_s and read_ms"),
            );
        }
    }
    let text = value("connect_timeout");
    if time(&text).is_some_and(|connect| connect > CONNECT_TIMEOUT_MAX) {
        findings.notice(
            ABOUT,
            format!("connect_timeout={text}: if the milter hangs, each client waits this long"),
            better("connect_timeout", "5s"),
        );
    }
    // With version 6 the milter requests the macros that it needs, independent of milter_*_macros.
    let protocol = value("protocol");
    if protocol.split(' ').next() != Some("6") {
        let macros = postconf.setting("milter_mail_macros");
        let needed = ["{mail_addr}", "{auth_authen}"].map(|name| (name, macros.contains(name)));
        let lacking: Vec<&str> = needed
            .iter()
            .filter(|(_, there)| !there)
            .map(|(name, _)| *name)
            .collect();
        if lacking.is_empty() {
            findings.notice(
                ABOUT,
                format!("milter_protocol = {protocol}: the milter is written for 6"),
                postconf.edit("milter_protocol = 6"),
            );
        } else {
            findings.wrong(
                ABOUT,
                format!(
                    "milter_protocol = {protocol}, and milter_mail_macros lacks {}",
                    lacking.join(", ")
                ),
                postconf.edit("milter_protocol = 6"),
            );
        }
    } else {
        findings.good(
            ABOUT,
            "milter_protocol = 6: the milter asks for the macros that it needs",
        );
    }
}

/// Reports the other milters, and their order.
fn check_chain(ours: &MilterOf, all: &[MilterOf], milter: &Milter<'_>, findings: &mut Findings) {
    let Some(place) = all.iter().position(|other| other.address == ours.address) else {
        return;
    };
    let names: Vec<&str> = all.iter().map(|other| other.address.as_str()).collect();
    let chain = format!("smtpd_milters asks {}", names.join(", then "));
    if place == 0
        && let Some(setting) = dkim_setting(milter)
    {
        findings.wrong(
            ABOUT,
            format!("{chain}; {setting} needs Authentication-Results, which a milter before this one must write"),
            "put the milter that verifies DKIM before this one in smtpd_milters",
        );
    } else {
        findings.good(ABOUT, chain);
    }
    let same = all.iter().filter(|other| other.address == ours.address);
    if same.count() > 1 {
        findings.notice(
            ABOUT,
            format!("smtpd_milters names {} more than once: each message is checked and counted more than once", ours.address),
            "name it once in smtpd_milters",
        );
    }
}

/// Checks mail that does not come from a client: submitted locally, or returned by a content
/// filter.
fn check_other_ways(
    postconf: &Postconf,
    milter: &Milter<'_>,
    services: &[Service],
    is_ours: &dyn Fn(&MilterOf) -> bool,
    findings: &mut Findings,
) {
    let local = milters(&postconf.setting("non_smtpd_milters"));
    if local.iter().any(is_ours) {
        let text = "non_smtpd_milters names the milter";
        if milter.config.exempt.local {
            findings.notice(
                ABOUT,
                format!(
                    "{text}: this has no effect, because local = true exempts mail submitted here"
                ),
                "",
            );
        } else {
            findings.wrong(
                ABOUT,
                format!("{text}, and local = false: what is refused is bounced to a sender that may be forged"),
                "local = true in [exempt] of blocklist-milter.toml",
            );
        }
    }
    let filters = ["content_filter", "smtpd_proxy_filter"];
    let is_filtered = |own: &str| {
        let mut lines = own.lines().filter_map(|line| line.split_once('='));
        lines.any(|(key, value)| {
            filters
                .iter()
                .any(|name| key.trim().ends_with(&format!("/{name}")))
                && !value.trim().is_empty()
        })
    };
    let own = postconf.run(&["-P"]).unwrap_or_default();
    if filters.iter().all(|name| postconf.setting(name).is_empty()) && !is_filtered(&own) {
        return;
    }
    for service in services.iter().filter(|service| service.is_local()) {
        if service.milters.iter().any(is_ours) && !service.skips_milters() {
            let name = &service.name;
            findings.wrong(
                ABOUT,
                format!("{name}: mail that comes back from the content filter is checked again, as if this machine had sent it"),
                postconf.edit_service(name, &service.options_with(true)),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn a_milter_that_needs_dkim_comes_after_the_others() {
        let cases = [
            ("", true),
            ("authserv_ids = \"mx\"\nrequire_dkim = true", false),
            ("authserv_ids = \"mx\"\ncorrespondents = \"c.txt\"", false),
            ("authserv_ids = \"mx\"", true),
        ];
        for (whitelist, is_first) in cases {
            let text = format!("[whitelist]\n{whitelist}");
            let config = Config::parse(&text, Path::new("c.toml")).expect("valid");
            let milter = Milter {
                config: &config,
                sockets: &["inet:8891@127.0.0.1".parse().expect("an address")],
                start: "",
            };
            let others = milters("inet:127.0.0.1:8892");
            let all = with_milter(&milter, Path::new("/var/spool/postfix"), &others);
            assert_eq!(all[0] != others[0], is_first, "{whitelist}");

            let mut findings = Findings::default();
            let ours_first = milters("inet:127.0.0.1:8891, inet:127.0.0.1:8892");
            check_chain(&ours_first[0], &ours_first, &milter, &mut findings);
            assert_eq!(!findings.is_wrong(), is_first, "{whitelist}");
        }
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
