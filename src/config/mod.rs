//! The configuration: TOML, checked completely before it is used.
//!
//! [`base::settings`](crate::base::settings) reads the text and collects all errors with line and
//! column; `sections.rs` defines the settings and their defaults, `values.rs` the allowed values,
//! `settings.rs` the checked result, `names.rs` the names of all settings; `print.rs` prints the
//! effective settings. `contrib/blocklist-milter.toml` explains them to administrators; a test checks that it
//! agrees with the code.
//!
//! Relative paths are relative to the folder of the configuration file, so that it can be moved
//! together with the files that it names.

mod names;
mod print;
mod sections;
mod settings;
mod values;

use std::path::{Path, PathBuf};

pub use names::SETTINGS;
pub use settings::{
    Config, ExemptSettings, Level, LimitSettings, ListSettings, LogFormat, LogSettings, OnError,
    SafetySettings, StatusSettings, WhitelistSettings, WrittenEntries,
};
pub use values::age_text;

use crate::base::numbers::counted;
pub use crate::base::settings::{Error, Percent, Problem};
use crate::base::settings::{Reader, text_of};

/// The path of the configuration, unless `--config` gives another.
pub const DEFAULT_PATH: &str = "/etc/blocklist-milter/blocklist-milter.toml";

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// The file cannot be read, or it has errors: all of them.
    pub fn load(path: &Path) -> Result<Self, Error> {
        Self::parse(&text_of(path)?, path)
    }

    /// Reads the valid part of a file; invalid settings get their defaults.
    pub fn load_what_is_good(path: &Path) -> (Self, Option<Error>) {
        match text_of(path) {
            Ok(text) => Self::parse_what_is_good(&text, path),
            Err(error) => (Self::parse_what_is_good("", path).0, Some(error)),
        }
    }

    /// Parses and checks a text; `path` is for messages and relative paths.
    ///
    /// # Errors
    /// All errors of the text.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        match Self::parse_what_is_good(text, path) {
            (config, None) => Ok(config),
            (_, Some(error)) => Err(error),
        }
    }

    fn parse_what_is_good(text: &str, path: &Path) -> (Self, Option<Error>) {
        let reader = Reader::new(text, &SETTINGS);
        // Absolute, because watching a folder needs its name.
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let folder = absolute.parent().unwrap_or_else(|| Path::new("/"));
        let config = Self::read(&reader, folder);
        let problems = reader.into_problems();
        let error = (!problems.is_empty()).then(|| Error::Faulty {
            path: path.to_owned(),
            problems,
        });
        (config, error)
    }

    /// Returns the enabled lists.
    pub fn enabled_lists(&self) -> impl Iterator<Item = &ListSettings> {
        self.lists.iter().filter(|list| list.enabled)
    }

    /// Returns every file whose change matters: filters, whitelists and correspondents. The
    /// configuration file itself is not included.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.enabled_lists()
            .map(|list| list.filter.as_path())
            .chain(self.whitelist.files.iter().map(PathBuf::as_path))
            .chain(self.whitelist.correspondents.iter().map(PathBuf::as_path))
    }

    /// Returns what `old` names and this configuration does not: lists, even if disabled, files and
    /// entries of the whitelist, exempt recipients. `None`: there is nothing.
    pub fn removes(&self, old: &Self) -> Option<String> {
        let is_named = |name: &str| self.lists.iter().any(|list| list.terms.name == name);
        let lists = old.lists.iter().map(|list| &list.terms.name);
        let lists = lists.filter(|name| !is_named(name));
        let files = |of: fn(&WhitelistSettings) -> &Vec<PathBuf>| {
            let old = of(&old.whitelist).iter();
            old.filter(move |file| !of(&self.whitelist).contains(file))
                .map(|file| file.display().to_string())
        };
        let entries = |now: &WrittenEntries, old: &WrittenEntries, one, many| {
            let removed = now.entries.lacks(&old.entries) as u64;
            (removed > 0).then(|| counted(removed, one, many))
        };
        let removed: Vec<String> = lists
            .map(|name| format!("the list {name}"))
            .chain(files(|whitelist| &whitelist.files))
            .chain(files(|whitelist| &whitelist.correspondents))
            .chain(entries(
                &self.whitelist.entries,
                &old.whitelist.entries,
                "whitelist entry",
                "whitelist entries",
            ))
            .chain(entries(
                &self.exempt.recipients,
                &old.exempt.recipients,
                "exempt recipient",
                "exempt recipients",
            ))
            .collect();
        (!removed.is_empty()).then(|| removed.join(", "))
    }

    /// Returns the settings that differ from those of `running` and take effect only after a
    /// restart.
    pub fn needs_restart(&self, running: &Self) -> Vec<&'static str> {
        let mut names = Vec::new();
        let mut differs = |name, differs: bool| {
            if differs {
                names.push(name);
            }
        };
        differs("listen", self.listen != running.listen);
        differs("socket_mode", self.socket_mode != running.socket_mode);
        differs("socket_group", self.socket_group != running.socket_group);
        differs("workers", self.workers != running.workers);
        differs("sandbox", self.sandbox != running.sandbox);
        // The sandbox can write only to the folder of the first status file.
        differs(
            "status_file",
            self.sandbox && self.status_file.parent() != running.status_file.parent(),
        );
        differs("state", self.sandbox && self.state != running.state);
        differs("log.level", self.log.level != running.log.level);
        differs("log.format", self.log.format != running.log.format);
        differs("status.listen", self.status.listen != running.status.listen);
        differs("status.group", self.status.group != running.status.group);
        differs(
            "limits.connections",
            self.limits.connections != running.limits.connections,
        );
        differs(
            "limits.drain_s",
            self.limits.drain_s != running.limits.drain_s,
        );
        names
    }
}
