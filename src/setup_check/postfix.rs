//! Checks Postfix: whether each smtpd(8) asks the milter, and in which order; each milter that it names, and
//! what happens to mail if it does not answer; whether mail takes other ways.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::path::Path;
use std::time::Duration;

use super::ask::{Server, check_server, silence};
use super::findings::{Findings, Severity};
use super::mend::dkim_setting;
use super::postconf::{MilterOf, Postfix, Service, split, time};
use super::program::Program;
use super::units::{Milter, answers_too_late};
use crate::endpoint::Endpoint;

/// With a longer timeout, each client waits too long if the milter hangs.
const CONNECT_TIMEOUT_MAX: Duration = Duration::from_secs(10);
const START_IT: &str = "start it, or take it out of smtpd_milters";

/// Checks Postfix, if it is installed.
pub(super) fn check(folder: Option<&Path>, milter: &Milter, findings: &mut Findings) {
    let Some(postconf) = Program::find("postconf") else {
        return;
    };
    let postconf = postconf.with("-c", folder);
    let option = folder.map(|folder| format!(" -c {}", folder.display()));
    let option = option.unwrap_or_default();
    let run = |what| postconf.output(&[what]);
    match run("-x") {
        Ok(main) => {
            let [own, master] = ["-Px", "-M"].map(|what| run(what).unwrap_or_default());
            Postfix::of(milter, &option, &(main + &own), &master).check(findings);
        }
        Err(error) => findings.notice(
            format!("not checked, because postconf cannot read the configuration: postconf{option}: {error}"),
            "postfix check   # with -c DIR if --postfix names a folder",
        ),
    }
}

impl Postfix<'_> {
    fn check(&self, findings: &mut Findings) {
        let has_maps = self.check_maps(findings);
        if !self.is_daemon_named() {
            let remedy = self.remedy(&self.main);
            let text = "smtpd_milters does not name the milter";
            match has_maps {
                true => findings.notice(
                    format!("{text}: mail is checked only where smtpd_milter_maps names it"),
                    remedy,
                ),
                false => findings.wrong(format!("{text}: no mail is checked"), remedy),
            }
        }
        self.check_services(findings);
        self.check_milters(findings);
        self.check_settings(findings);
        self.check_chain(findings);
        self.check_other_ways(findings);
        let server = Server {
            start: &self.make("start"),
            reload: &self.make("reload"),
            has_exceptions: has_maps,
        };
        for door in self.doors() {
            check_server(&door, &server, findings);
        }
    }

    /// Reports `smtpd_milter_maps`, whose milters replace those of `smtpd_milters` for some clients.
    /// Returns whether there is such a table.
    fn check_maps(&self, findings: &mut Findings) -> bool {
        let all = self.services().map(|service| service.milter_maps.as_str());
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

    /// Returns whether Postfix names the daemon anywhere.
    fn is_daemon_named(&self) -> bool {
        let mut all = self.asking().chain([&self.main]);
        all.any(|service| self.names_us(service))
    }

    /// Returns whether a service names the daemon among its milters.
    fn names_us(&self, service: &Service) -> bool {
        service.milters.iter().any(|found| self.is_ours(found))
    }

    /// Returns the commands that make all services, or one with its own milters, ask the daemon.
    fn remedy(&self, service: &Service) -> String {
        let (before, milters) = self.mended(service);
        before + &self.name_milters(service, &milters)
    }

    /// Returns whether the remedy replaces this milter, because it was meant to be the daemon.
    fn replaces(&self, other: &MilterOf) -> bool {
        let is_kept = |milter: &MilterOf| milter.address == other.address;
        self.main.milters.contains(other) && !self.mended(&self.main).1.iter().any(is_kept)
    }

    fn check_services(&self, findings: &mut Findings) {
        for service in self.services() {
            let name = &service.name;
            let asks = self.names_us(service);
            let important = service.is_for_mail_from_elsewhere();
            if asks && !service.skips_milters() {
                findings.good(format!("{name}: asks the milter"));
            } else if service.skips_milters() && asks && important {
                let text = "receive_override_options has no_milters: mail here is not checked";
                let options = service.options_with(false);
                let remedy = self.edit(service, &options);
                findings.wrong(format!("{name}: {text}"), remedy);
            } else if service.has_own_milters && important {
                findings.wrong(
                    format!("{name}: its own smtpd_milters in master.cf does not name the milter"),
                    self.remedy(service),
                );
            } else if service.has_own_milters || service.skips_milters() {
                findings.good(format!("{name}: does not ask the milter"));
            }
        }
    }

    /// Checks whether Postfix's user can open each socket where each service looks for it, and
    /// whether a milter answers there.
    fn check_milters(&self, findings: &mut Findings) {
        let mut found: BTreeMap<(&str, bool), (&MilterOf, Vec<&str>)> = BTreeMap::new();
        for service in self.asking().chain([&self.local]) {
            for milter in &service.milters {
                let known = found.entry((&milter.address, service.has_chroot));
                let (_, who) = known.or_insert_with(|| (milter, Vec::new()));
                who.push(&service.name);
            }
        }
        for ((_, in_chroot), (milter, who)) in found {
            let chroot = if in_chroot { " (in a chroot)" } else { "" };
            let who = format!("{}{chroot}", who.join(", "));
            self.check_milter(milter, &who, in_chroot, findings);
        }
    }

    fn check_milter(&self, milter: &MilterOf, who: &str, in_chroot: bool, findings: &mut Findings) {
        let is_ours = self.is_ours(milter);
        let (_, effect) = self.while_down(milter);
        let at = self.place(&milter.address, in_chroot);
        if let Ok(socket @ Endpoint::Unix(path)) = &at {
            if !path.exists() {
                let remedy = if self.milter.sockets.contains(socket) {
                    self.milter.start().to_owned()
                } else if self.replaces(milter) && !self.is_daemon_named() {
                    // It was given before.
                    String::new()
                } else if is_ours || self.replaces(milter) {
                    self.remedy(&self.main)
                } else {
                    START_IT.to_owned()
                };
                let place = path.display();
                let text = format!("{who}: looks for the socket at {place}, where there is none");
                return findings.wrong(format!("{text}: {effect}"), remedy);
            }
            let owner = self.setting("mail_owner");
            if !findings.may_connect(&format!("{who}: "), owner, "mail_owner", path) {
                return;
            }
        }
        // The daemon itself is asked by `check_daemon`.
        if is_ours {
            return;
        }
        let name = &milter.address;
        match silence(at) {
            None => findings.good(format!("{who}: {name} answers")),
            Some(why) => findings.wrong(
                format!("{who}: {name} does not answer ({why}): {effect}"),
                START_IT,
            ),
        }
    }

    /// Returns a setting of a milter, or that of all milters.
    fn value<'m>(&'m self, milter: &'m MilterOf, name: &str) -> &'m str {
        let own = milter.setting(name);
        own.unwrap_or_else(|| self.setting(&format!("milter_{name}")))
    }

    /// Returns what happens to mail while a milter is down, and whether that is acceptable.
    fn while_down(&self, milter: &MilterOf) -> (Severity, &'static str) {
        match &*self.value(milter, "default_action").to_ascii_lowercase() {
            "accept" => (Severity::Good, "mail passes unchecked"),
            "tempfail" => (Severity::Good, "senders wait"),
            "quarantine" => (Severity::Notice, "all mail is held until you release it"),
            "reject" => (Severity::Wrong, "all mail is refused for good"),
            _ => (
                Severity::Wrong,
                "all mail is refused with 451, because Postfix does not know this default_action",
            ),
        }
    }

    /// Checks the settings of the daemon in `main.cf`, and where a service has its own.
    fn check_settings(&self, findings: &mut Findings) {
        let own = self.services().filter(|one| one.has_own_milters);
        let mut known: Vec<&MilterOf> = Vec::new();
        for service in iter::once(&self.main).chain(own) {
            for ours in &service.milters {
                if self.is_ours(ours) && !known.contains(&ours) {
                    known.push(ours);
                    self.check_settings_of(ours, service, findings);
                }
            }
        }
    }

    fn check_settings_of(&self, ours: &MilterOf, service: &Service, findings: &mut Findings) {
        let better = |name: &str, good: &str| {
            let with = |milter: &MilterOf| match milter == ours {
                true => milter.with(name, good),
                false => milter.clone(),
            };
            let list: Vec<MilterOf> = service.milters.iter().map(with).collect();
            self.name_milters(service, &list)
        };
        let action = self.value(ours, "default_action");
        let (state, effect) = self.while_down(ours);
        let text = format!("default_action={action}: while the milter is down, {effect}");
        findings.add(state, text, better("default_action", "accept"));
        let text = self.value(ours, "command_timeout");
        if let Some(command) = time(text) {
            let text = format!("command_timeout={text}");
            match answers_too_late(command) {
                Some(why) => {
                    findings.wrong(format!("{text} {why}"), better("command_timeout", "10s"));
                }
                None => findings.good(text + ", more than the daemon needs"),
            }
        }
        let text = self.value(ours, "connect_timeout");
        if time(text).is_some_and(|connect| connect > CONNECT_TIMEOUT_MAX) {
            findings.notice(
                format!("connect_timeout={text}: if the milter hangs, each client waits this long"),
                better("connect_timeout", "5s"),
            );
        }
        self.check_protocol(ours, findings);
    }

    /// Checks the macros that the daemon needs.
    fn check_protocol(&self, ours: &MilterOf, findings: &mut Findings) {
        // With version 6 the milter requests the macros that it needs, independent of milter_*_macros.
        let protocol = self.value(ours, "protocol");
        if protocol.split(' ').next() == Some("6") {
            let text = "milter_protocol = 6: the milter asks for the macros that it needs";
            return findings.good(text);
        }
        let macros = self.setting("milter_mail_macros");
        let mut lacking = vec!["{mail_addr}", "{auth_authen}"];
        lacking.retain(|name| !macros.contains(name));
        let text = format!("milter_protocol = {protocol}");
        let remedy = self.edit(&self.main, "milter_protocol = 6");
        if lacking.is_empty() {
            findings.notice(text + ": the milter is written for 6", remedy);
        } else {
            let lacking = lacking.join(", ");
            let text = format!("{text}, and milter_mail_macros lacks {lacking}");
            findings.wrong(text, remedy);
        }
    }

    /// Reports the other milters, and their order.
    fn check_chain(&self, findings: &mut Findings) {
        let all = &self.main.milters;
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
    fn check_other_ways(&self, findings: &mut Findings) {
        if self.names_us(&self.local) {
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
        if !self.has_filter() {
            return;
        }
        let local = self.asking().filter(|service| service.is_local());
        for service in local.filter(|service| self.names_us(service)) {
            let name = &service.name;
            findings.wrong(
                format!("{name}: mail that comes back from the content filter is checked again, as if this machine had sent it"),
                self.edit(service, &service.options_with(true)),
            );
        }
    }
}
