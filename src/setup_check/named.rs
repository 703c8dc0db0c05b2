//! Checks every milter that Postfix names: its socket, whether it answers, and what happens to mail
//! if it does not.

use std::collections::BTreeMap;
use std::time::Duration;

use super::connection::silence;
use super::findings::{About, Severity};
use super::main_cf::{MilterOf, milters, time};
use super::mend::{edit, unix_path};
use super::postconf::Service;
use super::postfix::Postfix;
use super::units::answers_too_late;
use crate::base::access::Account;
use crate::endpoint::Endpoint;

/// With a longer timeout, each client waits too long if the milter hangs.
const CONNECT_TIMEOUT_MAX: Duration = Duration::from_secs(10);

impl Postfix<'_> {
    /// Checks whether Postfix's user can open each socket where each service looks for it, and
    /// whether a milter answers there.
    pub(super) fn check_milters(&self, findings: &mut About<'_>) {
        let mut found: BTreeMap<(&str, bool), (&MilterOf, Vec<&str>)> = BTreeMap::new();
        let local = milters(&self.postconf.setting("non_smtpd_milters"));
        let local_in_chroot = !local.is_empty() && self.postconf.has_cleanup_in_chroot();
        let of_services = self.asking().flat_map(|service| {
            let milters = service.milters.iter();
            milters.map(|milter| (milter, service.has_chroot, service.name.as_str()))
        });
        let of_local = local
            .iter()
            .map(|milter| (milter, local_in_chroot, "non_smtpd_milters"));
        for (milter, in_chroot, who) in of_services.chain(of_local) {
            let known = found.entry((&milter.address, in_chroot));
            known.or_insert_with(|| (milter, Vec::new())).1.push(who);
        }
        for ((_, in_chroot), (milter, who)) in found {
            let chroot = if in_chroot { " (in a chroot)" } else { "" };
            let who = format!("{}{chroot}", who.join(", "));
            self.check_milter(milter, &who, in_chroot, findings);
        }
    }

    fn check_milter(
        &self,
        milter: &MilterOf,
        who: &str,
        in_chroot: bool,
        findings: &mut About<'_>,
    ) {
        let is_ours = self.is_ours(milter);
        let (_, effect) = self.while_down(milter);
        let path = unix_path(&milter.address, &self.queue, in_chroot);
        if let Some(path) = &path
            && !path.exists()
        {
            let remedy = match self.mend() {
                _ if self.milter.sockets.contains(&Endpoint::Unix(path.clone())) => {
                    self.milter.units.start().to_owned()
                }
                // It was given before.
                mend if mend.replaces(milter) && !self.is_daemon_named() => String::new(),
                mend if is_ours || mend.replaces(milter) => mend.commands(self.postconf, None),
                _ => "start it, or take it out of smtpd_milters".to_owned(),
            };
            let place = path.display();
            let text = format!("{who}: looks for the socket at {place}, where there is none");
            return findings.wrong(format!("{text}: {effect}"), remedy);
        }
        if let Some(path) = &path {
            let owner = self.postconf.setting("mail_owner");
            let account = Account::named(&owner);
            let user = format!("{owner} (mail_owner)");
            if !findings.may_connect(&format!("{who}: "), &user, account.as_ref(), path) {
                return;
            }
        }
        // The daemon itself is asked by `connection`.
        if is_ours {
            return;
        }
        let at = &milter.address;
        let address = path.map_or_else(|| at.parse(), |path| Ok(Endpoint::Unix(path)));
        match silence(address) {
            None => findings.good(format!("{who}: {at} answers")),
            Some(why) => findings.wrong(
                format!("{who}: {at} does not answer ({why}): {effect}"),
                "start it, or take it out of smtpd_milters",
            ),
        }
    }

    /// Returns a setting of a milter, or that of all milters.
    fn value(&self, milter: &MilterOf, name: &str) -> String {
        match milter.setting(name) {
            Some(own) => own.to_owned(),
            None => self.postconf.setting(&format!("milter_{name}")),
        }
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
    pub(super) fn check_settings(&self, findings: &mut About<'_>) {
        let mut lists = vec![(None, &self.all)];
        let own = self.services.iter().filter(|one| one.has_own_milters);
        lists.extend(own.map(|service| (Some(service), &service.milters)));
        let mut known: Vec<&MilterOf> = Vec::new();
        for (service, list) in lists {
            for ours in list.iter().filter(|milter| self.is_ours(milter)) {
                if !known.contains(&ours) {
                    known.push(ours);
                    self.check_settings_of(ours, list, service, findings);
                }
            }
        }
    }

    fn check_settings_of(
        &self,
        ours: &MilterOf,
        list: &[MilterOf],
        service: Option<&Service>,
        findings: &mut About<'_>,
    ) {
        let better = |name: &str, good: &str| {
            let with = |milter: &MilterOf| match milter == ours {
                true => milter.with(name, good),
                false => milter.clone(),
            };
            let list: Vec<MilterOf> = list.iter().map(with).collect();
            edit(self.postconf, service, &list)
        };
        let action = self.value(ours, "default_action");
        let (state, effect) = self.while_down(ours);
        let remedy = match state {
            Severity::Good => String::new(),
            Severity::Notice | Severity::Wrong => better("default_action", "accept"),
        };
        let text = format!("default_action={action}: while the milter is down, {effect}");
        findings.add(state, text, remedy);
        let text = self.value(ours, "command_timeout");
        if let Some(command) = time(&text) {
            let text = format!("command_timeout={text}");
            match answers_too_late(command) {
                Some(why) => {
                    findings.wrong(format!("{text} {why}"), better("command_timeout", "10s"));
                }
                None => findings.good(text + ", more than the daemon needs"),
            }
        }
        let text = self.value(ours, "connect_timeout");
        if time(&text).is_some_and(|connect| connect > CONNECT_TIMEOUT_MAX) {
            findings.notice(
                format!("connect_timeout={text}: if the milter hangs, each client waits this long"),
                better("connect_timeout", "5s"),
            );
        }
        self.check_protocol(ours, findings);
    }

    /// Checks the macros that the daemon needs.
    fn check_protocol(&self, ours: &MilterOf, findings: &mut About<'_>) {
        // With version 6 the milter requests the macros that it needs, independent of milter_*_macros.
        let protocol = self.value(ours, "protocol");
        if protocol.split(' ').next() == Some("6") {
            let text = "milter_protocol = 6: the milter asks for the macros that it needs";
            return findings.good(text);
        }
        let macros = self.postconf.setting("milter_mail_macros");
        let mut lacking = vec!["{mail_addr}", "{auth_authen}"];
        lacking.retain(|name| !macros.contains(name));
        let text = format!("milter_protocol = {protocol}");
        let remedy = self.postconf.edit("milter_protocol = 6");
        if lacking.is_empty() {
            findings.notice(text + ": the milter is written for 6", remedy);
        } else {
            let lacking = lacking.join(", ");
            let text = format!("{text}, and milter_mail_macros lacks {lacking}");
            findings.wrong(text, remedy);
        }
    }
}
