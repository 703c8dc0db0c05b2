//! Runs postconf(1) for the settings of `main.cf` and of the smtpd(8) services in `master.cf`; reads Postfix's
//! notation of milters and times.
//!
//! ```text
//!   smtpd_milters = unix:a.sock, { inet:127.0.0.1:8891, command_timeout=10s, default_action = accept }
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::program::Program;
use crate::base::numbers::with_unit;

/// The program that prints Postfix's settings.
pub(super) struct Postconf {
    program: Program,
    /// The folder for `-c`, if it is not the default.
    folder: Option<PathBuf>,
}

impl Postconf {
    /// Returns `None` if Postfix is not installed.
    ///
    /// # Errors
    /// It is installed, but cannot read its configuration.
    pub(super) fn find(folder: Option<&Path>) -> Option<Result<Self, String>> {
        let program = Program::find("postconf")?.with("-c", folder);
        let folder = folder.map(Path::to_owned);
        let postconf = Self { program, folder };
        Some(match postconf.program.output(&["-h", "queue_directory"]) {
            Ok(_) => Ok(postconf),
            Err(error) => Err(format!("{}: {error}", postconf.command("postconf"))),
        })
    }

    /// Returns the command for an administrator to call one of Postfix's programs.
    fn command(&self, program: &str) -> String {
        match &self.folder {
            Some(folder) => format!("{program} -c {}", folder.display()),
            None => program.to_owned(),
        }
    }

    /// Returns the command that makes Postfix do something, such as reload.
    pub(super) fn make(&self, it: &str) -> String {
        format!("{} {it}", self.command("postfix"))
    }

    /// Returns the output of a call; nothing if it fails.
    pub(super) fn run(&self, arguments: &[&str]) -> String {
        self.program.output(arguments).unwrap_or_default()
    }

    /// Returns a setting of `main.cf`, with its references expanded; empty if this Postfix does not know it.
    pub(super) fn setting(&self, name: &str) -> String {
        self.run(&["-x", "-h", name]).trim().to_owned()
    }

    /// Returns whether any service, such as pickup(8), hands mail to a content filter.
    pub(super) fn has_filter(&self) -> bool {
        let filters = ["content_filter", "smtpd_proxy_filter"];
        let names_one = |line: &str| {
            let (key, value) = line.split_once('=').unwrap_or_default();
            let name = key.trim().rsplit('/').next().unwrap_or_default();
            filters.contains(&name) && !value.trim().is_empty()
        };
        self.run(&["-P"]).lines().any(names_one)
            || filters.iter().any(|name| !self.setting(name).is_empty())
    }

    /// Returns whether a program of `master.cf` runs in a chroot, from the line of its service.
    pub(super) fn has_chroot(&self, line: &str) -> bool {
        match line.split_whitespace().nth(4) {
            Some("y") => true,
            // Before Postfix 3.0, and with its compatible settings.
            Some("-") => ["", "0"].contains(&&*self.setting("compatibility_level")),
            _ => false,
        }
    }

    /// Returns the addresses where Postfix accepts mail from elsewhere, as this machine reaches them.
    pub(super) fn doors(&self) -> BTreeSet<String> {
        let interfaces = self.setting("inet_interfaces");
        let interfaces = split(&interfaces);
        let is_loopback = |name: &str| {
            ["all", "loopback-only", "localhost"].contains(&name) || name.starts_with("127.")
        };
        let loopback = match &*self.setting("inet_protocols") {
            "ipv6" => "::1",
            _ => "127.0.0.1",
        };
        let host = match interfaces.first() {
            Some(first) if !interfaces.iter().any(|name| is_loopback(name)) => first,
            _ => loopback,
        };
        let master = self.run(&["-M"]);
        let door = |line: &str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [name, "inet", .., "smtpd" | "postscreen"] = *fields.get(..8)? else {
                return None;
            };
            let (own, port) = name.rsplit_once(':').unwrap_or((host, name));
            let host = own.trim_matches(['[', ']']);
            is_smtp(port).then(|| match host.contains(':') {
                true => format!("[{host}]:25"),
                false => format!("{host}:25"),
            })
        };
        master.lines().filter_map(door).collect()
    }

    /// Returns the command that changes a setting, or that of one service.
    pub(super) fn edit(&self, service: Option<&Service>, setting: &str) -> String {
        let (postconf, reload) = (self.command("postconf"), self.make("reload"));
        match service {
            None => format!("{postconf} -e '{setting}' && {reload}"),
            Some(Service { name, .. }) => format!("{postconf} -P '{name}/{setting}' && {reload}"),
        }
    }

    /// Returns the command that names these milters in `main.cf`, or for one service.
    pub(super) fn name_milters(&self, service: Option<&Service>, milters: &[MilterOf]) -> String {
        let texts: Vec<String> = milters.iter().map(MilterOf::text).collect();
        let setting = format!("smtpd_milters = {}", texts.join(", "));
        match service {
            None => self.edit(None, &setting),
            // Values in master.cf have no blanks.
            Some(_) => self.edit(service, &setting.replace(' ', "")),
        }
    }
}

/// One smtpd(8) service of `master.cf`.
pub(super) struct Service {
    /// Name and type, `smtp/inet`, as `postconf -P` prints it.
    pub(super) name: String,
    /// Whether it runs chrooted in the queue directory.
    pub(super) has_chroot: bool,
    /// Its `smtpd_milters`.
    pub(super) milters: Vec<MilterOf>,
    /// Whether these are its own, not those of `main.cf`.
    pub(super) has_own_milters: bool,
    /// `smtpd_milter_maps`.
    pub(super) milter_maps: String,
    /// `receive_override_options`.
    options: String,
}

impl Service {
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

/// Returns the smtpd services, each with the settings that apply to it.
pub(super) fn services(postconf: &Postconf, all: &[MilterOf]) -> Vec<Service> {
    let master = postconf.run(&["-M"]);
    let own = postconf.run(&["-P"]);
    let own = |service: &str, name: &str| {
        let key = format!("{service}/{name}");
        own.lines().find_map(|line| {
            let (found, value) = line.split_once('=')?;
            (found.trim() == key).then(|| value.trim().to_owned())
        })
    };
    let maps = postconf.setting("smtpd_milter_maps");
    let options = postconf.setting("receive_override_options");
    let service = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [name, kind, _, _, _, _, _, "smtpd", ..] = *fields else {
            return None;
        };
        let name = format!("{name}/{kind}");
        let own_milters = own(&name, "smtpd_milters");
        Some(Service {
            has_chroot: postconf.has_chroot(line),
            has_own_milters: own_milters.is_some(),
            milters: own_milters.map_or_else(|| all.to_vec(), |value| milters(&value)),
            milter_maps: own(&name, "smtpd_milter_maps").unwrap_or_else(|| maps.clone()),
            options: own(&name, "receive_override_options").unwrap_or_else(|| options.clone()),
            name,
        })
    };
    master.lines().filter_map(service).collect()
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
    fn milters_are_read_in_both_forms() {
        let value = "unix:a.sock,inet:127.0.0.1:8891\n { unix:b/c.sock, default_action=accept, { command_timeout = 10s } } ,";
        let found = milters(value);
        let addresses: Vec<&str> = found.iter().map(|milter| milter.address.as_str()).collect();
        assert_eq!(
            addresses,
            ["unix:a.sock", "inet:127.0.0.1:8891", "unix:b/c.sock"]
        );
        let last = found.last().expect("three");
        assert_eq!(last.setting("default_action"), Some("accept"));
        assert_eq!(last.setting("command_timeout"), Some("10s"));
        assert_eq!(last.setting("connect_timeout"), None);
        let short = "{unix:b/c.sock,default_action=accept,command_timeout=10s}";
        assert_eq!(last.text().replace(' ', ""), short);
        assert_eq!(milters(short)[0].settings, last.settings);
        let other = last.with("command_timeout", "5s");
        let text = "{ unix:b/c.sock, default_action=accept, command_timeout=5s }";
        assert_eq!(other.text(), text);
        assert_eq!(milters(text), [other]);
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
