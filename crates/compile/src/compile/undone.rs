//! What somebody undid in the lists of a folder: the hidden file `.undone` in it.
//!
//! ```text
//! spam@bad.example # undone, last reported 2026-11-28
//! ```
//!
//! A report comes again, from another message of the same sender, so removing its line would not last. An entry stays
//! undone until 90 days after the last report of it, or until somebody adds it by name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::error::Error;
use blocklist_filter::address::{Entry, Rules, escaped};
use blocklist_filter::base::day::Day;
use blocklist_filter::base::path::folder_of;
use blocklist_filter::base::replacement::Replacement;
use blocklist_filter::base::whole_file;

const NAME: &str = ".undone";
const LAST: &str = " # undone, last reported ";
const DAYS: u16 = 90;
/// A larger file is not one of undone entries.
const BYTES_MAX: u64 = 64 << 20;

/// Entries in canonical form, each as a list has it, with the day of the last report.
type Entries = BTreeMap<Vec<u8>, (String, Day)>;

pub(super) struct Undone {
    path: PathBuf,
    rules: Rules,
    entries: Entries,
    put: Entries,
    dropped: Vec<Vec<u8>>,
}

impl Undone {
    /// Reads what was undone in the folder of a list.
    pub(super) fn of(list: &Path, rules: Rules) -> Result<Self, Error> {
        let path = folder_of(list).join(NAME);
        Ok(Self {
            entries: read(&path, rules)?,
            path,
            rules,
            put: Entries::new(),
            dropped: Vec::new(),
        })
    }

    /// Returns the first day on which an entry is no longer undone, if it is so on this day.
    pub(super) fn until(&self, entry: &Entry, today: Day) -> Option<Day> {
        let (_, last) = self.entries.get(entry.as_bytes())?;
        Some(Self::end(*last)).filter(|end| *end > today)
    }

    pub(super) fn end(last: Day) -> Day {
        Day(last.0.saturating_add(DAYS))
    }

    pub(super) fn put(&mut self, entry: &Entry, written: &str, day: Day) {
        let key = entry.as_bytes().to_vec();
        self.put.insert(key, (written.to_owned(), day));
    }

    pub(super) fn remove(&mut self, entry: &Entry) {
        self.dropped.push(entry.as_bytes().to_vec());
    }

    /// Writes the changes, and drops what is over. Another list of the folder may have changed the file meanwhile.
    pub(super) fn write(self, today: Day) -> Result<(), Error> {
        let is_known = |(key, value): (&Vec<u8>, _)| self.entries.get(key) == Some(value);
        if self.dropped.is_empty() && self.put.iter().all(is_known) {
            return Ok(());
        }
        let replacement = Replacement::claim(&self.path)?;
        let mut entries = read(&self.path, self.rules)?;
        entries.extend(self.put);
        entries.retain(|key, (_, last)| Self::end(*last) > today && !self.dropped.contains(key));
        let lines = entries.values();
        let text: String = lines
            .map(|(entry, last)| format!("{entry}{LAST}{last}\n"))
            .collect();
        Ok(replacement.commit_text(text.as_bytes())?)
    }
}

fn read(path: &Path, rules: Rules) -> Result<Entries, Error> {
    let text = whole_file::read(path, BYTES_MAX, "undone entries")?;
    let text = String::from_utf8_lossy(text.as_deref().unwrap_or_default());
    let read = text.lines().map(|line| {
        let entry = line.rsplit_once(LAST).and_then(|(written, day)| {
            let entry = Entry::parse(written.as_bytes(), rules).ok()?;
            let last = Day::read(day.as_bytes())?;
            Some((entry.as_bytes().to_vec(), (written.to_owned(), last)))
        });
        entry.ok_or_else(|| {
            let line = escaped(line.as_bytes());
            Error::unfit(path, format!("not \"ENTRY{LAST}DATE\": {line}"))
        })
    });
    read.collect()
}
