//! Postfix's configuration, as postconf(1) prints it: the settings of `main.cf` and of the services in `master.cf`, the
//! notation of milters and times.
//!
//! ```text
//!   smtpd_milters = unix:a.sock, { inet:127.0.0.1:8891, command_timeout=10s, default_action = accept }
//!   smtp/inet/smtpd_milters = inet:127.0.0.1:8891
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use super::units::Milter;
use blocklist_filter::base::numbers::with_unit;

/// The settings of a content filter.
const FILTERS: [&str; 2] = ["content_filter", "smtpd_proxy_filter"];

/// The milters that cleanup(8) asks about mail that is submitted here.
const LOCAL: &str = "non_smtpd_milters";

/// By `name`, those of `main.cf`; by `service/type/name`, those of `master.cf`. References are expanded.
type Settings = BTreeMap<String, String>;

/// Postfix's configuration as far as it is about milters.
pub(super) struct Postfix<'a> {
    pub(super) milter: &'a Milter,
    /// ` -c DIR` for its programs, if its folder is not the default.
    option: &'a str,
    settings: Settings,
    /// `main.cf`: the milters of all services without their own. It has no name.
    pub(super) main: Service,
    /// `non_smtpd_milters`.
    pub(super) local: Service,
    /// `master.cf`.
    services: Vec<Service>,
}

impl<'a> Postfix<'a> {
    /// Takes the output of postconf: `-x` and `-Px`, and `-M`.
    pub(super) fn of(milter: &'a Milter, option: &'a str, settings: &str, master: &str) -> Self {
        let settings = settings.lines().filter_map(|line| line.split_once('='));
        let trimmed = |(name, value): (&str, &str)| (name.trim().into(), value.trim().into());
        let settings: Settings = settings.map(trimmed).collect();
        let services = master.lines();
        let services = services.filter_map(|line| Service::of(line, &settings));
        let services: Vec<Service> = services.collect();
        let naming = |name: &str, setting, is_meant: fn(&Service) -> bool| Service {
            name: name.to_owned(),
            has_chroot: services.iter().any(|one| one.has_chroot && is_meant(one)),
            milters: milters(value(&settings, setting)),
            ..Service::default()
        };
        Self {
            milter,
            option,
            main: naming("", "smtpd_milters", Service::is_smtpd),
            local: naming(LOCAL, LOCAL, |one| one.name == "cleanup/unix"),
            services,
            settings,
        }
    }

    /// Returns a setting of `main.cf`; empty if this Postfix does not know it.
    pub(super) fn setting(&self, name: &str) -> &str {
        value(&self.settings, name)
    }

    pub(super) fn queue(&self) -> &Path {
        Path::new(self.setting("queue_directory"))
    }

    /// Returns the smtpd(8) services.
    pub(super) fn services(&self) -> impl Iterator<Item = &Service> {
        self.services.iter().filter(|one| one.is_smtpd())
    }

    /// Returns the services that ask milters.
    pub(super) fn asking(&self) -> impl Iterator<Item = &Service> {
        self.services().filter(|one| !one.skips_milters())
    }

    /// Returns whether any service, such as pickup(8), hands mail to a content filter.
    pub(super) fn has_filter(&self) -> bool {
        self.settings.iter().any(|(name, value)| {
            let name = name.rsplit('/').next().unwrap_or_default();
            FILTERS.contains(&name) && !value.is_empty()
        })
    }

    /// Returns the addresses where Postfix accepts mail from elsewhere, as this machine reaches them.
    pub(super) fn doors(&self) -> BTreeSet<String> {
        let interfaces = split(self.setting("inet_interfaces"));
        let is_loopback = |name: &str| {
            ["all", "loopback-only", "localhost"].contains(&name) || name.starts_with("127.")
        };
        let loopback = match self.setting("inet_protocols") {
            "ipv6" => "::1",
            _ => "127.0.0.1",
        };
        let host = match interfaces.first() {
            Some(first) if !interfaces.iter().any(|name| is_loopback(name)) => first,
            _ => loopback,
        };
        let door = |service: &Service| {
            let name = service.name.strip_suffix("/inet")?;
            let (own, port) = name.rsplit_once(':').unwrap_or((host, name));
            let host = own.trim_matches(['[', ']']);
            is_smtp(port).then(|| match host.contains(':') {
                true => format!("[{host}]:25"),
                false => format!("{host}:25"),
            })
        };
        let servers = self.services.iter();
        let servers = servers.filter(|one| ["smtpd", "postscreen"].contains(&&*one.program));
        servers.filter_map(door).collect()
    }

    /// Returns the command that makes Postfix do something, such as reload.
    pub(super) fn make(&self, it: &str) -> String {
        format!("postfix{} {it}", self.option)
    }

    /// Returns the command that changes a setting of `main.cf`, or of one service.
    pub(super) fn edit(&self, service: &Service, setting: &str) -> String {
        let (option, reload) = (self.option, self.make("reload"));
        match &*service.name {
            "" => format!("postconf{option} -e '{setting}' && {reload}"),
            name => format!("postconf{option} -P '{name}/{setting}' && {reload}"),
        }
    }

    /// Returns the command that names these milters in `main.cf`, or for one service.
    pub(super) fn name_milters(&self, service: &Service, milters: &[MilterOf]) -> String {
        let texts: Vec<String> = milters.iter().map(MilterOf::text).collect();
        let setting = format!("smtpd_milters = {}", texts.join(", "));
        match &*service.name {
            "" => self.edit(service, &setting),
            // Values in master.cf have no blanks.
            _ => self.edit(service, &setting.replace(' ', "")),
        }
    }
}

fn value<'s>(settings: &'s Settings, name: &str) -> &'s str {
    settings.get(name).map_or("", String::as_str)
}

/// One service of `master.cf`, and what else names milters.
#[derive(Default)]
pub(super) struct Service {
    /// Name and type, `smtp/inet`, as `postconf -P` prints it.
    pub(super) name: String,
    program: String,
    /// Whether it runs chrooted in the queue directory.
    pub(super) has_chroot: bool,
    /// Its `smtpd_milters`.
    pub(super) milters: Vec<MilterOf>,
    /// Whether these are its own, not those of `main.cf`.
    pub(super) has_own_milters: bool,
    pub(super) milter_maps: String,
    /// `receive_override_options`.
    options: String,
}

impl Service {
    /// Reads a line of `master.cf`: `smtp inet n - y - - smtpd`.
    fn of(line: &str, settings: &Settings) -> Option<Self> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [name, kind, _, _, chroot, _, _, program, ..] = *fields else {
            return None;
        };
        let name = format!("{name}/{kind}");
        let own = |setting: &str| settings.get(&format!("{name}/{setting}"));
        let value = |setting| own(setting).map_or_else(|| value(settings, setting), String::as_str);
        Some(Self {
            program: program.to_owned(),
            has_chroot: match chroot {
                "y" => true,
                // Before Postfix 3.0, and with its compatible settings.
                "-" => ["", "0"].contains(&value("compatibility_level")),
                _ => false,
            },
            milters: milters(value("smtpd_milters")),
            has_own_milters: own("smtpd_milters").is_some(),
            milter_maps: value("smtpd_milter_maps").to_owned(),
            options: value("receive_override_options").to_owned(),
            name,
        })
    }

    fn is_smtpd(&self) -> bool {
        self.program == "smtpd"
    }

    /// Returns whether clients on other machines connect here, other than those that authenticate.
    pub(super) fn is_for_mail_from_elsewhere(&self) -> bool {
        let name = self.name.rsplit_once('/').map_or("", |(name, _)| name);
        // "smtpd" receives from postscreen(8).
        name == "smtpd" || is_smtp(name.rsplit(':').next().unwrap_or_default())
    }

    /// Returns whether only this machine connects to it, such as a content filter that returns mail.
    pub(super) fn is_local(&self) -> bool {
        let loopback = ["127.", "localhost:", "[::1]:", "::1:"];
        loopback.iter().any(|start| self.name.starts_with(start))
            && !self.is_for_mail_from_elsewhere()
    }

    /// Returns the setting `receive_override_options` with or without `no_milters`.
    pub(super) fn options_with(&self, no_milters: bool) -> String {
        let mut options = split(&self.options);
        options.retain(|option| *option != "no_milters");
        options.extend(no_milters.then_some("no_milters"));
        format!("receive_override_options = {}", options.join(","))
    }

    pub(super) fn skips_milters(&self) -> bool {
        split(&self.options).contains(&"no_milters")
    }
}

fn is_smtp(port: &str) -> bool {
    ["smtp", "25"].contains(&port)
}

/// One milter of `smtpd_milters`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MilterOf {
    /// As written: `unix:path`, `inet:host:port`.
    pub(super) address: String,
    /// Its own settings, such as `command_timeout`.
    settings: Vec<(String, String)>,
}

impl MilterOf {
    /// Returns the text to write.
    pub(super) fn text(&self) -> String {
        let settings = self.settings.iter();
        let all = settings.map(|(name, value)| format!(", {name}={value}"));
        match all.collect::<String>() {
            none if none.is_empty() => self.address.clone(),
            all => format!("{{ {}{all} }}", self.address),
        }
    }

    /// Returns the same with another value of one of its own settings.
    pub(super) fn with(&self, name: &str, value: &str) -> Self {
        let mut other = self.clone();
        other.settings.retain(|(key, _)| key != name);
        other.settings.push((name.to_owned(), value.to_owned()));
        other
    }

    /// Returns one of its own settings.
    pub(super) fn setting(&self, name: &str) -> Option<&str> {
        let found = self.settings.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Parses the value of `smtpd_milters`.
pub(super) fn milters(value: &str) -> Vec<MilterOf> {
    split(value)
        .into_iter()
        .map(|text| {
            let inner = text
                .strip_prefix('{')
                .map(|text| text.trim_end_matches('}'));
            let mut parts = inner.map_or_else(|| vec![text], split).into_iter();
            let address = parts.next().unwrap_or_default().to_owned();
            let setting = |part: &str| {
                let part = part.trim_matches(['{', '}']);
                let (name, value) = part.split_once('=')?;
                Some((name.trim().to_owned(), value.trim().to_owned()))
            };
            MilterOf {
                address,
                settings: parts.filter_map(setting).collect(),
            }
        })
        .collect()
}

/// Splits a list at commas and blanks; text in braces is one word.
pub(super) fn split(value: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let (mut depth, mut start) = (0_u32, None);
    for (at, character) in value.char_indices() {
        let parts = depth == 0 && (character == ',' || character.is_whitespace());
        match character {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if !parts {
            start.get_or_insert(at);
        } else if let Some(start) = start.take() {
            words.extend(value.get(start..at));
        }
    }
    words.extend(start.and_then(|start| value.get(start..)));
    words
}

/// Parses a time: `30s`, `5m`, `1h`, `1d`, `1w`; without a unit, seconds.
pub(super) fn time(text: &str) -> Option<Duration> {
    let seconds = text.parse().ok();
    let seconds = seconds.or_else(|| with_unit(text, &UNITS))?;
    Some(Duration::from_secs(seconds))
}

const UNITS: [(char, u64); 5] = [
    ('s', 1),
    ('m', 60),
    ('h', 3_600),
    ('d', 86_400),
    ('w', 604_800),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_milter_has_its_own_settings() {
        let text = "{ unix:b.sock, default_action=accept, { command_timeout = 10s } } ,";
        let found = milters(text);
        assert_eq!(found[0].setting("command_timeout"), Some("10s"));
        assert_eq!(found[0].setting("connect_timeout"), None);
        let other = found[0].with("command_timeout", "5s");
        let text = "{ unix:b.sock, default_action=accept, command_timeout=5s }";
        assert_eq!(other.text(), text);
        for text in [text, &text.replace(' ', "")] {
            assert_eq!(milters(text)[0], other);
        }
        assert_eq!(milters(""), []);
        assert_eq!(milters("{").len(), 1);
    }

    #[test]
    fn times_are_read() {
        let seconds = |text| time(text).map(|time| time.as_secs());
        let times = ["30s", "30", "5m", "2h", "1w"].map(seconds);
        assert_eq!(times, [30, 30, 300, 7_200, 604_800].map(Some));
        assert_eq!(["s", "5y", ""].map(seconds), [None; 3]);
    }
}
