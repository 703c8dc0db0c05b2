//! The status file of a host: what it has, since when, and why the last run failed.
//!
//! ```text
//! # mx1 spammers: generation 17, 10001 entries, built 2026-11-24 10:00 UTC; fetched 2026-11-25 03:04 UTC; no error
//! blocklist_milter_fetch_generation{list="spammers"} 17
//! ...
//! ```
//!
//! The first line is for people. The others are metrics, which node_exporter reads (`--collector.textfile.directory`).

use std::fs::{self, Permissions};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::Path;

use blocklist_filter::base::clock::minute;
use blocklist_filter::base::replacement::Replacement;
use blocklist_filter::filter::{Filter, Load};

use crate::Error;

/// Nothing in it is secret, and node_exporter has its own user.
const MODE: u32 = 0o644;
/// When the last run without an error was: the next run with an error takes it from the file.
const SUCCESS: &str = "success_timestamp_seconds";
/// What the name of each metric begins with.
const PREFIX: &str = "blocklist_milter_fetch_";
/// Longest error that is shown, in characters.
const MAX_ERROR: usize = 300;

/// A run of `blocklist-fetch`.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub(crate) host: &'a str,
    pub(crate) list: &'a str,
    pub(crate) filter: &'a Path,
    /// When it ended, in seconds since 1970.
    pub(crate) now: u64,
    /// The exit code.
    pub(crate) code: u8,
    pub(crate) error: Option<&'a str>,
}

impl Run<'_> {
    /// Writes the status file.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Error> {
        let before = fs::read_to_string(path).unwrap_or_default();
        let replacement = Replacement::claim(path)?;
        let file = replacement.file();
        file.write_all_at(self.text(&before).as_bytes(), 0)
            .and_then(|()| file.set_permissions(Permissions::from_mode(MODE)))
            .map_err(Error::io(path, "write"))?;
        Ok(replacement.commit()?)
    }

    fn text(&self, before: &str) -> String {
        let (host, list) = (self.host, self.list);
        let label = format!("{{list=\"{list}\"}}");
        let last = before.lines().find_map(|line| {
            let line = line.strip_prefix(PREFIX)?.strip_prefix(SUCCESS)?;
            line.strip_prefix(&label)?.trim().parse().ok()
        });
        let success: Option<u64> = (self.code == 0).then_some(self.now).or(last);
        let filter = Filter::open(self.filter, Load::Disk).ok();
        let header = filter.as_ref().map(Filter::header);
        let has = header.map(|of| {
            let (generation, built) = (of.spec.generation, minute(of.spec.built));
            format!(
                "generation {generation}, {} entries, built {built}",
                of.entries
            )
        });
        let has = has.unwrap_or_else(|| "no filter".to_owned());
        let fetched = success.map(|at| format!("fetched {}", minute(at)));
        let fetched = fetched.unwrap_or_else(|| "never fetched".to_owned());
        let error = self.error.unwrap_or("no error").chars();
        let error: String = error.take(MAX_ERROR).collect();
        let mut text = format!("# {host} {list}: {has}; {fetched}; {error}\n");
        for (name, value) in [
            ("generation", header.map(|of| of.spec.generation)),
            ("entries", header.map(|of| of.entries)),
            ("built_timestamp_seconds", header.map(|of| of.spec.built)),
            (SUCCESS, success),
            ("exit_code", Some(self.code.into())),
        ] {
            if let Some(value) = value {
                let name = format!("{PREFIX}{name}");
                text += &format!("# TYPE {name} gauge\n{name}{label} {value}\n");
            }
        }
        text
    }
}
