//! The data that one report stores for the next: when each entry was first refused, and when each
//! source of a list last had a hit.
//!
//! Entries are stored, not addresses: a spammer can invent any number of addresses below a listed
//! domain, but only the maintainer of the list makes entries.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Error;
use crate::base::day::Day;
use crate::base::replacement::Replacement;
use crate::base::whole_file;

/// Number of days after which a refusal of an entry is again its first.
const DAYS_KEPT: u16 = 400;
const ENTRIES_MAX: u64 = 1_000_000;
/// Maximum number of lists and sources that are not configured.
const SOURCES_MAX: u64 = 10_000;
/// Maximum size of the file: this program writes no larger one. Entries and sources have at most
/// half of it each.
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
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let replacement = Replacement::claim(path).map_err(Error::of(path))?;
        let text = serde_json::to_string(self).map_err(Error::of(path))?;
        let mut file = replacement.file();
        file.write_all(text.as_bytes())
            .and_then(|()| file.write_all(b"\n"))
            .map_err(Error::of(path))?;
        replacement.commit().map_err(Error::of(path))
    }

    /// Adds refusals by this entry, from the first day to the last.
    pub(super) fn refused(&mut self, entry: &str, Day(first): Day, Day(last): Day) {
        let known = self.entries.entry(entry.to_owned());
        let known = known.or_insert((first, last));
        *known = (first.min(known.0), last.max(known.1));
    }

    /// Adds hits of a source, or of a list (with an empty source), from the first day to the last.
    pub(super) fn hit(&mut self, list: &str, source: &str, Day(first): Day, Day(last): Day) {
        let known = self.of(list, source, first);
        known.known = first.min(known.known);
        known.hit = known.hit.max(Some(last));
    }

    /// Notes that this source exists on this day; returns its data.
    pub(super) fn known(&mut self, list: &str, source: &str, Day(day): Day) -> Source {
        *self.of(list, source, day)
    }

    fn of(&mut self, list: &str, source: &str, day: u16) -> &mut Source {
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

    /// Drops data that is too old, and then the oldest data that would not fit into the file. Keeps
    /// all data of `lists`, which are configured with these sources.
    pub(super) fn forget(&mut self, Day(today): Day, lists: &[(String, Vec<String>)]) {
        let kept_from = today.saturating_sub(DAYS_KEPT);
        let entries = self.entries.iter();
        let days = entries.map(|(entry, &(_, last))| (last, written_bytes(entry)));
        let oldest = first_that_fits(days, ENTRIES_MAX).max(kept_from);
        self.entries.retain(|_, &mut (_, last)| last >= oldest);

        let configured: HashMap<&str, HashSet<&str>> = lists
            .iter()
            .map(|(list, sources)| (list.as_str(), sources.iter().map(String::as_str).collect()))
            .collect();
        let is_configured = |list: &str, source: &str| {
            let sources = configured.get(list);
            sources.is_some_and(|sources| source.is_empty() || sources.contains(source))
        };
        let last = |source: &Source| source.hit.unwrap_or(0).max(source.known);
        let others = self.sources.iter().flat_map(|(list, sources)| {
            let others = sources
                .iter()
                .filter(|(name, _)| !is_configured(list, name));
            others.map(move |(name, source)| {
                (last(source), written_bytes(list) + written_bytes(name))
            })
        });
        let oldest = first_that_fits(others, SOURCES_MAX).max(kept_from);
        for (list, sources) in &mut self.sources {
            sources.retain(|name, source| is_configured(list, name) || last(source) >= oldest);
        }
        self.sources.retain(|_, sources| !sources.is_empty());
    }
}

/// Returns the first day from which on all names fit, given the last day and the bytes of each
/// name.
fn first_that_fits(names: impl Iterator<Item = (u16, u64)>, names_max: u64) -> u16 {
    let mut days: BTreeMap<u16, (u64, u64)> = BTreeMap::new();
    for (day, bytes) in names {
        let sum = days.entry(day).or_default();
        *sum = (sum.0 + 1, sum.1 + bytes);
    }
    let (mut names, mut bytes) = (0, 0);
    for (day, sum) in days.into_iter().rev() {
        (names, bytes) = (names + sum.0, bytes + sum.1);
        if names > names_max || bytes > FILE_BYTES_MAX / 2 {
            return day.saturating_add(1);
        }
    }
    0
}

/// Returns the bytes of a name in the file, with its days.
fn written_bytes(name: &str) -> u64 {
    const DAYS: u64 = 40;
    let of = |c: char| match c {
        '"' | '\\' => 2,
        c if c.is_control() => 6,
        c => c.len_utf8() as u64,
    };
    name.chars().map(of).sum::<u64>() + DAYS
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_old_is_forgotten() {
        let mut history = History::default();
        history.refused("old@b.example", Day(19_000), Day(19_000));
        history.refused("new@b.example", Day(20_000), Day(20_000));
        history.hit("gone", "", Day(19_000), Day(19_000));
        history.hit("gone", "feed", Day(19_000), Day(19_000));
        history.hit("idle", "", Day(19_000), Day(19_000));
        history.hit("idle", "feed", Day(19_000), Day(19_000));
        history.hit("idle", "gone", Day(19_000), Day(19_000));
        history.hit("other", "", Day(20_000), Day(20_000));
        history.forget(Day(20_001), &[("idle".to_owned(), vec!["feed".to_owned()])]);
        assert_eq!(history.entries.len(), 1);
        let sources = history.sources.iter();
        let sources: Vec<(&str, Vec<&str>)> = sources
            .map(|(list, sources)| (list.as_str(), sources.keys().map(String::as_str).collect()))
            .collect();
        assert_eq!(sources, [("idle", vec!["", "feed"]), ("other", vec![""])]);
    }

    /// Names that an attacker planted, day by day.
    #[test]
    fn what_is_written_can_be_read_again() {
        let lists = [("spam".to_owned(), Vec::new())];
        let mut history = History::default();
        history.hit("spam", "", Day(20_000), Day(20_000));
        for number in 0..2 * SOURCES_MAX {
            let day = Day(20_000 + u16::try_from(number / 5_000).unwrap());
            history.hit(&format!("evil{number}"), "", day, day);
        }
        history.forget(Day(20_005), &lists);
        assert_eq!(history.sources.len() as u64, SOURCES_MAX + 1);
        assert!(history.sources.contains_key("spam"));
        assert!(history.sources.contains_key("evil19999"));
        // The newest names that fit, by number or by bytes.
        let half = FILE_BYTES_MAX / 2;
        let names = [(9, 1), (7, half - 2), (8, 1), (6, 1)];
        assert_eq!(first_that_fits(names.into_iter(), 4), 7);
        assert_eq!(first_that_fits(names.into_iter(), 3), 7);
        assert_eq!(first_that_fits(names.into_iter(), 2), 8);
        assert_eq!(first_that_fits(names.into_iter().take(3), 3), 0);
        for name in [
            "spam",
            "\u{1}\"\\\n",
            "\u{e9}\u{20ac}\u{1f600}",
            "\u{7f}\u{85}",
        ] {
            let mut one = History::default();
            one.refused(name, Day(20_000), Day(20_000));
            let mut two = one.clone();
            two.hit(name, name, Day(20_000), Day(20_000));
            let bytes = |history: &History| serde_json::to_string(history).unwrap().len() as u64;
            let empty = bytes(&History::default());
            assert!(bytes(&one) - empty <= written_bytes(name), "{name:?}");
            assert!(
                bytes(&two) - bytes(&one) <= 2 * written_bytes(name),
                "{name:?}"
            );
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        assert_eq!(History::read(&path).unwrap(), History::default());
        history.write(&path).unwrap();
        assert_eq!(History::read(&path).unwrap(), history);
        for wrong in ["", "{", "[]", "{\"other\":1}"] {
            fs::write(&path, wrong).unwrap();
            assert!(History::read(&path).is_err(), "{wrong}");
        }
    }
}
