//! Checks Postfix: whether each smtpd(8) asks the milter, in which order, and whether mail takes
//! other ways.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::findings::About;
use super::main_cf::{MilterOf, milters, split};
use super::mend::{Mend, dkim_setting, leads_to_daemon};
use super::postconf::{Postconf, Service, services};
use super::smtp;
use super::units::Milter;

/// Postfix's configuration as far as it is about milters.
pub(super) struct Postfix<'a> {
    pub(super) postconf: &'a Postconf,
    pub(super) milter: &'a Milter<'a>,
    pub(super) queue: PathBuf,
    /// `smtpd_milters` of `main.cf`.
    pub(super) all: Vec<MilterOf>,
    pub(super) services: Vec<Service>,
}

pub(super) fn check(postconf: &Postconf, milter: &Milter<'_>, findings: &mut About<'_>) {
    let all = milters(&postconf.setting("smtpd_milters"));
    let postfix = Postfix {
        postconf,
        milter,
        queue: PathBuf::from(postconf.setting("queue_directory")),
        services: services(postconf, &all),
        all,
    };
    let has_maps = check_maps(&postfix.services, findings);
    if !postfix.is_daemon_named() {
        let remedy = postfix.mend().commands(postconf, None);
        let text = "smtpd_milters does not name the milter";
        match has_maps {
            true => findings.notice(
                format!("{text}: mail is checked only where smtpd_milter_maps names it"),
                remedy,
            ),
            false => findings.wrong(format!("{text}: no mail is checked"), remedy),
        }
    }
    postfix.check_services(findings);
    postfix.check_milters(findings);
    postfix.check_settings(findings);
    postfix.check_chain(findings);
    postfix.check_other_ways(findings);
    let server = smtp::Server {
        start: &postconf.make("start"),
        reload: &postconf.make("reload"),
        has_exceptions: has_maps,
    };
    for door in postconf.doors() {
        smtp::check(&door, &server, findings);
    }
}

impl Postfix<'_> {
    pub(super) fn is_ours(&self, found: &MilterOf) -> bool {
        leads_to_daemon(&found.address, self.milter, &self.queue)
    }

    /// Returns the services that ask milters.
    pub(super) fn asking(&self) -> impl Iterator<Item = &Service> {
        self.services.iter().filter(|one| !one.skips_milters())
    }

    /// Returns whether Postfix names the daemon anywhere.
    pub(super) fn is_daemon_named(&self) -> bool {
        let asked = self.asking().flat_map(|service| &service.milters);
        asked.chain(&self.all).any(|found| self.is_ours(found))
    }

    /// Returns whether a service names the daemon among its milters.
    fn names_us(&self, service: &Service) -> bool {
        service.milters.iter().any(|found| self.is_ours(found))
    }

    /// Returns what makes all services ask the daemon.
    pub(super) fn mend(&self) -> Mend {
        let in_chroot = self.services.iter().any(|service| service.has_chroot);
        Mend::new(self.milter, &self.queue, &self.all, in_chroot)
    }

    fn check_services(&self, findings: &mut About<'_>) {
        for service in &self.services {
            let name = &service.name;
            let asks = self.names_us(service);
            let important = service.is_for_mail_from_elsewhere();
            if asks && !service.skips_milters() {
                findings.good(format!("{name}: asks the milter"));
            } else if service.skips_milters() && asks && important {
                let text = "receive_override_options has no_milters: mail here is not checked";
                let options = service.options_with(false);
                let remedy = self.postconf.edit_service(name, &options);
                findings.wrong(format!("{name}: {text}"), remedy);
            } else if service.has_own_milters && important {
                let (queue, own) = (&self.queue, &service.milters);
                let mend = Mend::new(self.milter, queue, own, service.has_chroot);
                findings.wrong(
                    format!("{name}: its own smtpd_milters in master.cf does not name the milter"),
                    mend.commands(self.postconf, Some(service)),
                );
            } else if service.has_own_milters || service.skips_milters() {
                findings.good(format!("{name}: does not ask the milter"));
            }
        }
    }

    /// Reports the other milters, and their order.
    fn check_chain(&self, findings: &mut About<'_>) {
        let all = &self.all;
        let Some(place) = all.iter().position(|other| self.is_ours(other)) else {
            return;
        };
        let names: Vec<&str> = all.iter().map(|other| other.address.as_str()).collect();
        let chain = format!("smtpd_milters asks {}", names.join(", then "));
        if place == 0
            && let Some(setting) = dkim_setting(self.milter)
        {
            findings.wrong(
                format!("{chain}; {setting} needs Authentication-Results, which a milter before this one must write"),
                "put the milter that verifies DKIM before this one in smtpd_milters",
            );
        } else {
            findings.good(chain);
        }
        let ours = &all[place].address;
        let same = all.iter().filter(|other| self.is_ours(other));
        if same.count() > 1 {
            findings.notice(
                format!("smtpd_milters names {ours} more than once: each message is checked and counted more than once"),
                "name it once in smtpd_milters",
            );
        }
    }

    /// Checks mail that does not come from a client: submitted locally, or returned by a content
    /// filter.
    fn check_other_ways(&self, findings: &mut About<'_>) {
        let postconf = self.postconf;
        let local = milters(&postconf.setting("non_smtpd_milters"));
        if local.iter().any(|found| self.is_ours(found)) {
            let text = "non_smtpd_milters names the milter";
            if self.milter.config.exempt.local {
                let why = "this has no effect, because local = true exempts mail submitted here";
                findings.notice(format!("{text}: {why}"), "");
            } else {
                findings.wrong(
                    format!("{text}, and local = false: what is refused is bounced to a sender that may be forged"),
                    "local = true in [exempt] of blocklist-milter.toml",
                );
            }
        }
        let filters = ["content_filter", "smtpd_proxy_filter"];
        let own = postconf.run(&["-P"]).unwrap_or_default();
        let mut own = own.lines().filter_map(|line| line.split_once('='));
        let is_filter = |key: &str| {
            let name = key.trim().rsplit('/').next();
            name.is_some_and(|name| filters.contains(&name))
        };
        let has_own = own.any(|(key, value)| is_filter(key) && !value.trim().is_empty());
        if filters.iter().all(|name| postconf.setting(name).is_empty()) && !has_own {
            return;
        }
        let local = self.asking().filter(|service| service.is_local());
        for service in local.filter(|service| self.names_us(service)) {
            let name = &service.name;
            findings.wrong(
                format!("{name}: mail that comes back from the content filter is checked again, as if this machine had sent it"),
                postconf.edit_service(name, &service.options_with(true)),
            );
        }
    }
}

/// Reports `smtpd_milter_maps`, whose milters replace those of `smtpd_milters` for some clients.
/// Returns whether there is such a table.
fn check_maps(services: &[Service], findings: &mut About<'_>) -> bool {
    let all = services.iter().map(|service| service.milter_maps.as_str());
    let all: BTreeSet<&str> = all.filter(|maps| !maps.is_empty()).collect();
    for maps in &all {
        let tables = split(maps);
        let ask = |table: &&str| format!("postmap -q ADDRESS-OF-A-CLIENT '{table}'");
        let remedy: Vec<String> = tables.iter().map(ask).collect();
        findings.notice(
            format!(
                "smtpd_milter_maps = {maps}: for a client in these tables, what they name (or DISABLE) replaces \
                 smtpd_milters; setup-check does not look into them"
            ),
            remedy.join("\n"),
        );
    }
    !all.is_empty()
}
