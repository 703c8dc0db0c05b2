//! What one report keeps for the next: when each entry was first refused, and when each source of a
//! list last had a hit.
//!
//! Entries are kept, not addresses: a spammer can invent any number of addresses below a listed
//! domain, but only the maintainer of the list makes entries.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Error;
use blocklist_filter::base::day::Day;
use blocklist_filter::base::replacement::{self, Replacement};
use blocklist_filter::base::whole_file;

/// Days after which a refusal of an entry is again its first.
const DAYS_KEPT: u16 = 400;
const ENTRIES_MAX: usize = 1_000_000;
/// Longer entries are not kept.
const ENTRY_BYTES_MAX: usize = 200;
/// Maximum size of the file: so many entries do not need more, even if each of their bytes needs two.
const FILE_BYTES_MAX: u64 = 512 << 20;

/// The stored data. Days are counted from 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct History {
    /// The first day of the first report.
    pub since: Option<u16>,
    /// Refused entries, with the first and the last day.
    pub entries: BTreeMap<String, (u16, u16)>,
    /// Sources by list, with the day on which they became known and that of their last hit. The
    /// list itself has the empty name.
    pub sources: BTreeMap<String, BTreeMap<String, Source>>,
}

/// The data about a list or one of its sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The day of the first report that knew it.
    pub known: u16,
    /// The day of its last hit.
    pub hit: Option<u16>,
}

impl History {
    /// Reads the file that an earlier report wrote; a missing file is an empty history.
    ///
    /// # Errors
    /// When it cannot be read, or is something else.
    pub fn read(path: &Path) -> Result<Self, Error> {
        match whole_file::read(path, FILE_BYTES_MAX, "the history of a report")? {
            Some(text) => serde_json::from_slice(&text).map_err(Error::of(path)),
            None => Ok(Self::default()),
        }
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// When it cannot be written; the old one then stays.
    pub fn write(&self, path: &Path) -> Result<(), replacement::Error> {
        let text = serde_json::to_string(self).map_err(io::Error::from);
        let text = text.map_err(replacement::Error::io(path, "write"))?;
        Replacement::claim(path)?.commit_with((text + "\n").as_bytes())
    }

    /// Adds a refusal by this entry.
    pub(super) fn refused(&mut self, entry: &str, Day(day): Day) {
        let is_plain = !entry.is_empty() && !entry.contains(char::is_control);
        if let Some(known) = self.entries.get_mut(entry) {
            *known = (day.min(known.0), day.max(known.1));
        } else if is_plain && entry.len() <= ENTRY_BYTES_MAX && self.entries.len() < 2 * ENTRIES_MAX
        {
            self.entries.insert(entry.to_owned(), (day, day));
        }
    }

    /// Adds a hit of a source, or of a list (with an empty source).
    pub(super) fn hit(&mut self, list: &str, source: &str, Day(day): Day) {
        let known = self.known(list, source, Day(day));
        known.known = day.min(known.known);
        known.hit = known.hit.max(Some(day));
    }

    /// Notes that this source exists on this day; returns its data.
    pub(super) fn known(&mut self, list: &str, source: &str, Day(day): Day) -> &mut Source {
        let sources = self.sources.entry(list.to_owned()).or_default();
        sources.entry(source.to_owned()).or_insert(Source {
            known: day,
            hit: None,
        })
    }

    /// Returns the day on which an entry was first refused.
    pub(super) fn first_refused(&self, entry: &str) -> Option<Day> {
        self.entries.get(entry).map(|&(first, _)| Day(first))
    }

    /// Returns whether an entry was refused before this day.
    pub(super) fn knows_before(&self, Day(day): Day) -> bool {
        self.entries.values().any(|(first, _)| *first < day)
    }

    /// Drops what is too old, and the oldest of too many entries. Keeps all of `lists`, which are configured
    /// with these sources.
    pub(super) fn forget(&mut self, Day(today): Day, lists: &[(String, Vec<String>)]) {
        let kept_from = today.saturating_sub(DAYS_KEPT);
        let mut days: Vec<u16> = self.entries.values().map(|&(_, last)| last).collect();
        days.sort_unstable_by_key(|day| Reverse(*day));
        // All entries of a day are kept, or none.
        let too_many = days.get(ENTRIES_MAX).map_or(0, |day| day + 1);
        let oldest = kept_from.max(too_many);
        self.entries.retain(|_, &mut (_, last)| last >= oldest);

        let is_configured = |list: &str, source: &String| {
            let sources = lists.iter().find(|(name, _)| name == list);
            sources.is_some_and(|(_, all)| source.is_empty() || all.contains(source))
        };
        for (list, sources) in &mut self.sources {
            sources.retain(|name, source| {
                source.hit.unwrap_or(0).max(source.known) >= kept_from || is_configured(list, name)
            });
        }
        self.sources.retain(|_, sources| !sources.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_old_is_forgotten() {
        let mut history = History::default();
        history.refused("old@b.example", Day(19_000));
        history.refused("new@b.example", Day(20_000));
        history.hit("gone", "", Day(19_000));
        history.hit("gone", "feed", Day(19_000));
        history.hit("idle", "", Day(19_000));
        history.hit("idle", "feed", Day(19_000));
        history.hit("idle", "gone", Day(19_000));
        history.hit("other", "", Day(20_000));
        history.forget(Day(20_001), &[("idle".to_owned(), vec!["feed".to_owned()])]);
        assert_eq!(history.entries.len(), 1);
        let sources = history.sources.iter();
        let sources: Vec<(&str, Vec<&str>)> = sources
            .map(|(list, sources)| (list.as_str(), sources.keys().map(String::as_str).collect()))
            .collect();
        assert_eq!(sources, [("idle", vec!["", "feed"]), ("other", vec![""])]);
    }

    #[test]
    fn the_longest_history_fits_its_file() {
        let mut history = History::default();
        let longest = "\"".repeat(ENTRY_BYTES_MAX);
        history.refused(&longest, Day(20_000));
        let written = serde_json::to_string(&history).unwrap().len();
        assert!((written * ENTRIES_MAX) as u64 <= FILE_BYTES_MAX);
        history.refused(&(longest + "x"), Day(20_000));
        history.refused("\u{1}", Day(20_000));
        assert_eq!(history.entries.len(), 1);
    }
}
