//! The configuration: TOML, checked completely before it is used.
//!
//! [`settings`](blocklist_compile::settings) reads the text and collects all errors with line and
//! column; `settings.rs` is the checked result with its defaults and allowed values, `rows.rs` has a
//! row for each setting, which reads and prints it. `contrib/blocklist-milter.toml` explains the
//! settings to administrators; a test checks that it agrees with the code.
//!
//! Relative paths are relative to the folder of the configuration file.

mod rows;
mod settings;

use std::fmt;
use std::path::{Path, PathBuf};

use rows::Rows;
pub use settings::{Config, READ_PATIENCE};
pub(crate) use settings::{DRAIN, ListSettings, OnError, Position, WhitelistSettings, age_text};

use crate::policy::Entries;
pub use blocklist_compile::settings::Error;
pub(crate) use blocklist_compile::settings::Percent;
use blocklist_compile::settings::{checked, text_of};
use blocklist_filter::base::numbers::counted;

/// The path of the configuration, unless `--config` gives another.
pub(crate) const DEFAULT_PATH: &str = "/etc/blocklist-milter/blocklist-milter.toml";

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
        let (config, error) = Self::parse_what_is_good(text, path);
        error.map_or(Ok(config), Err)
    }

    fn parse_what_is_good(text: &str, path: &Path) -> (Self, Option<Error>) {
        // Absolute, because watching a folder needs its name.
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let folder = absolute.parent().unwrap_or_else(|| Path::new("/"));
        let (mut config, error) = checked(text, path, |top| {
            let mut config = Self::default();
            config.walk(&mut Rows::Read(top, folder));
            config
        });
        // A sender who is told to write to the contact must not be refused there. It was just parsed.
        let contact = config.contact.as_bytes();
        if !contact.is_empty() {
            let _ = config.exempt.recipients.add(contact);
        }
        (config, error)
    }

    /// Returns the enabled lists.
    pub fn enabled_lists(&self) -> impl Iterator<Item = &ListSettings> {
        self.lists.iter().filter(|list| list.enabled)
    }

    /// Returns every file that it names: filters, whitelists and correspondents.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let filters = self.enabled_lists().map(|list| &list.filter);
        let whitelists = (self.whitelist.files.iter()).chain(&self.whitelist.correspondents);
        filters.chain(whitelists).map(PathBuf::as_path)
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
        let fewer = |now: &Entries, old: &Entries, one, many| {
            let removed = now.lacks(old) as u64;
            (removed > 0).then(|| counted(removed, one, many))
        };
        let (now, before) = (&self.whitelist.entries, &old.whitelist.entries);
        let entries = fewer(now, before, "whitelist entry", "whitelist entries");
        let (now, before) = (&self.exempt.recipients, &old.exempt.recipients);
        let recipients = fewer(now, before, "exempt recipient", "exempt recipients");
        let removed: Vec<String> = lists
            .map(|name| format!("the list {name}"))
            .chain(files(|whitelist| &whitelist.files))
            .chain(files(|whitelist| &whitelist.correspondents))
            .chain(entries)
            .chain(recipients)
            .collect();
        (!removed.is_empty()).then(|| removed.join(", "))
    }

    /// Returns the settings that differ from those of `running` and need a restart to take effect.
    pub fn needs_restart(&self, running: &Self) -> Vec<&'static str> {
        // Only the sandbox keeps the daemon from using other folders.
        let is_bound = self.sandbox;
        let settings = [
            ("listen", self.listen != running.listen),
            ("sandbox", self.sandbox != running.sandbox),
            (
                "status_file",
                is_bound && self.status_file != running.status_file,
            ),
            ("state", is_bound && self.state != running.state),
            ("log.level", self.log.level != running.log.level),
            ("log.format", self.log.format != running.log.format),
            ("status.listen", self.status.listen != running.status.listen),
            (
                "limits.connections",
                self.connections_max != running.connections_max,
            ),
        ];
        let different = settings.into_iter().filter(|(_, differs)| *differs);
        different.map(|(name, _)| name).collect()
    }
}

/// Prints every setting with its value, as TOML: a configuration with the same meaning.
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.clone().walk(&mut Rows::Print(&mut text));
        f.write_str(&text)
    }
}
