//! `NAME.blf.report`: what the last build of a filter did, or why it failed, as JSON beside the filter.
//!
//! Every build replaces it, also one that failed. It is for people, with two exceptions: an
//! administrator who lets a list shrink approves that generation, for the daemon too. And if the filter is lost, its
//! successor is compared with what the report says of it. A report that
//! is missing, cannot be read or has other fields says nothing, and stops nothing.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Spec;
use crate::base::clock::minute;
use crate::base::numbers::counted;
use crate::base::replacement::Replacement;
use crate::base::whole_file::read;

const MAX_BYTES: u64 = 1 << 20;

/// What a build did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BuildReport {
    /// When it ended, in seconds since 1970.
    pub time_s: u64,
    /// Why it wrote no filter.
    pub failure: Option<String>,
    /// The filter that it wrote: its generation, the time it was built, and its entries.
    pub generation: Option<u64>,
    /// In seconds since 1970.
    pub built_s: u64,
    /// Distinct entries.
    pub entries: u64,
    /// The generation that an administrator has allowed to shrink.
    pub approved_shrink: Option<u64>,
    /// Entries that have expired.
    pub expired: u64,
    /// Whether a feed was read, which should change.
    pub is_feed: bool,
    /// Number of rejected lines, and the reasons.
    pub rejected: u64,
    /// The most frequent reasons.
    pub rejects: Vec<Reason>,
    /// Rows that list nobody, as intended.
    pub skipped: Vec<Reason>,
    /// Entries that are too broad, or protected.
    pub broad: Vec<Reason>,
    /// Files of which nothing was read.
    pub refused_files: Vec<String>,
    /// The last filter that was written, by this build or one before. If its file is lost, the next one is compared with this.
    pub written: Option<Written>,
}

/// What a filter held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Written {
    /// Its generation.
    pub generation: u64,
    /// Distinct entries.
    pub entries: u64,
    /// The entries of each file that was read, unless they are too many.
    pub lists: BTreeMap<String, u64>,
}

/// Lines of which the same became, for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reason {
    /// Why.
    pub reason: String,
    /// How many.
    pub count: u64,
    /// The first of them, as file:line: text.
    pub first: Vec<String>,
}

impl BuildReport {
    /// Returns the path of the report of a filter.
    pub fn path(filter: &Path) -> PathBuf {
        let mut path = filter.as_os_str().to_owned();
        path.push(".report");
        path.into()
    }

    /// Reads the report of a filter, if there is one.
    pub fn of(filter: &Path) -> Option<Self> {
        let path = Self::path(filter);
        // Opening a FIFO would block.
        let report = path.is_file().then(|| read(&path, MAX_BYTES, "a report"))?;
        serde_json::from_slice(&report.ok()??).ok()
    }

    /// Replaces the report of a filter. What the last filter held, stays known.
    pub fn write(mut self, filter: &Path) -> io::Result<()> {
        let replacement = Replacement::claim(&Self::path(filter)).map_err(io::Error::other)?;
        self.written = self.written.or_else(|| Self::of(filter)?.written);
        let json = serde_json::to_string_pretty(&self)? + "\n";
        let written = replacement.commit_with(json.as_bytes());
        written.map_err(io::Error::other)
    }

    /// Returns whether an administrator has approved that this filter is so much smaller.
    pub fn approves_shrink(&self, generation: u64, entries: u64) -> bool {
        self.approved_shrink == Some(generation) && self.entries == entries
    }

    /// Returns why the list could not be compiled, unless the filter is newer.
    pub fn failure_after(&self, filter: Option<&Spec>) -> Option<String> {
        let failure = self.failure.as_ref()?;
        let is_last = filter.is_none_or(|spec| spec.built <= self.time_s);
        is_last.then(|| {
            let time = minute(self.time_s);
            format!("could not be compiled at {time}: {failure}")
        })
    }

    /// Returns whether it is about the build of this filter.
    pub fn is_about(&self, filter: &Spec) -> bool {
        (self.generation, self.built_s) == (Some(filter.generation), filter.built)
    }

    /// Returns which lines of the list in effect were rejected: of this build, or of a later change to
    /// the filter alone.
    pub fn rejects_in(&self, filter: &Spec) -> Option<String> {
        let is_in_effect = self.generation? <= filter.generation && self.built_s <= filter.built;
        let reject = self.rejects.first().filter(|_| is_in_effect)?;
        let lines = counted(self.rejected, "line", "lines");
        let first = reject.first.first().map_or("", String::as_str);
        Some(format!("{lines} rejected; {first}: {}", reject.reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_says_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let filter = dir.path().join("x.blf");
        assert_eq!(BuildReport::of(&filter), None);
        let path = BuildReport::path(&filter);
        assert!(path.ends_with("x.blf.report"));
        for (text, is_read) in [
            ("", false),
            ("{", false),
            ("{\"failure\": 7}", false),
            ("{\"failure\": \"x\", \"new\": [{}]}", true),
            (
                &format!("{{\"failure\": \"{}\"}}", "x".repeat(1 << 20)),
                false,
            ),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(BuildReport::of(&filter).is_some(), is_read, "{text:.40}");
        }
        let report = BuildReport {
            approved_shrink: Some(7),
            entries: 5,
            ..BuildReport::default()
        };
        report.clone().write(&filter).unwrap();
        assert_eq!(BuildReport::of(&filter), Some(report.clone()));
        assert!(report.approves_shrink(7, 5));
        assert!(!report.approves_shrink(8, 5) && !report.approves_shrink(7, 4));
        assert!(!BuildReport::default().approves_shrink(0, 0));
    }
}
