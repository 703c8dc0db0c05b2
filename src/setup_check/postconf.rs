//! Runs postconf(1) for the settings of `main.cf` and of the smtpd(8) services in `master.cf`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::main_cf::{MilterOf, milters, split};
use super::program::Program;

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
        let shown = postconf.command("postconf");
        let works = postconf.program.output(&["-h", "queue_directory"]);
        Some(match works {
            Ok(_) => Ok(postconf),
            Err(error) => Err(format!("{shown}: {error}")),
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
    pub(super) fn run(&self, arguments: &[&str]) -> Option<String> {
        self.program.output(arguments).ok()
    }

    /// Returns a setting of `main.cf`, with its references expanded; empty if this Postfix does not
    /// know it.
    pub(super) fn setting(&self, name: &str) -> String {
        let value = self.run(&["-x", "-h", name]).unwrap_or_default();
        value.trim().to_owned()
    }

    /// Returns whether a program of `master.cf` runs in a chroot, from the line of its service.
    fn has_chroot(&self, line: &str) -> bool {
        match line.split_whitespace().nth(4) {
            Some("y") => true,
            // Before Postfix 3.0, and with its compatible settings.
            Some("-") => ["", "0"].contains(&&*self.setting("compatibility_level")),
            _ => false,
        }
    }

    /// Returns whether mail that is submitted locally is received in a chroot.
    pub(super) fn has_cleanup_in_chroot(&self) -> bool {
        let line = self.run(&["-M", "cleanup/unix"]).unwrap_or_default();
        self.has_chroot(&line)
    }

    /// Returns the addresses where Postfix accepts mail from elsewhere, as this machine reaches
    /// them.
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
        let master = self.run(&["-M"]).unwrap_or_default();
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

    /// Returns the command that changes a setting.
    pub(super) fn edit(&self, setting: &str) -> String {
        let (postconf, reload) = (self.command("postconf"), self.make("reload"));
        format!("{postconf} -e '{setting}' && {reload}")
    }

    /// Returns the command that changes a setting of one service.
    pub(super) fn edit_service(&self, service: &str, setting: &str) -> String {
        let (postconf, reload) = (self.command("postconf"), self.make("reload"));
        format!("{postconf} -P '{service}/{setting}' && {reload}")
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
    pub(super) options: String,
}

impl Service {
    /// Returns whether clients on other machines connect here, other than those that authenticate.
    pub(super) fn is_for_mail_from_elsewhere(&self) -> bool {
        let name = self.name.rsplit_once('/').map_or("", |(name, _)| name);
        // "smtpd" receives from postscreen(8).
        name == "smtpd" || is_smtp(name.rsplit(':').next().unwrap_or_default())
    }

    /// Returns whether only this machine connects to it, such as a content filter that returns
    /// mail.
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
    let master = postconf.run(&["-M"]).unwrap_or_default();
    let own = postconf.run(&["-P"]).unwrap_or_default();
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
        let milters_of_service = own(&name, "smtpd_milters");
        Some(Service {
            has_chroot: postconf.has_chroot(line),
            has_own_milters: milters_of_service.is_some(),
            milters: milters_of_service.map_or_else(|| all.to_vec(), |value| milters(&value)),
            milter_maps: own(&name, "smtpd_milter_maps").unwrap_or_else(|| maps.clone()),
            options: own(&name, "receive_override_options").unwrap_or_else(|| options.clone()),
            name,
        })
    };
    master.lines().filter_map(service).collect()
}
