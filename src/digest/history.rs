//! What one digest leaves for the next: when each entry was first refused, and when each source of a
//! list last had a hit.
//!
//! Entries are kept, not addresses: a spammer can write as many addresses below a listed domain as he
//! likes, but only who keeps the list makes an entry.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Error;
use crate::filter::Replacement;
use crate::list::Day;

/// An entry that was not refused for so long is refused "for the first time" again.
const DAYS_KEPT: u16 = 400;
const ENTRIES_MAX: usize = 1_000_000;
/// A larger file was not written by this program.
const FILE_BYTES_MAX: u64 = 512 << 20;

/// What is remembered. Days are counted from 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct History {
    /// The first day of the first digest.
    pub since: Option<u16>,
    /// Refused entries: the first and the last day.
    pub entries: BTreeMap<String, (u16, u16)>,
    /// Sources by list: the day since which they are known or had their last hit. The list itself has
    /// the empty name.
    pub sources: BTreeMap<String, BTreeMap<String, Source>>,
}

/// What is remembered of a list or of one of its sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The first digest that knew it.
    pub known: u16,
    /// Its last hit.
    pub hit: Option<u16>,
}

impl History {
    /// Reads the file that an earlier digest wrote; a missing one is an empty history.
    ///
    /// # Errors
    /// It cannot be read, or is something else.
    pub fn read(path: &Path) -> Result<Self, Error> {
        match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(Error::of(path)(error)),
            Ok(meta) if meta.len() > FILE_BYTES_MAX => {
                return Err(Error::of(path)("too large for the history of a report"));
            }
            Ok(_) => {}
        }
        let text = fs::read(path).map_err(Error::of(path))?;
        serde_json::from_slice(&text).map_err(Error::of(path))
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// It cannot be written; the old one stands.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let replacement = Replacement::claim(path).map_err(Error::of(path))?;
        let text = serde_json::to_string(self).map_err(Error::of(path))?;
        let mut file = replacement.file();
        file.write_all(text.as_bytes())
            .and_then(|()| file.write_all(b"\n"))
            .map_err(Error::of(path))?;
        replacement.commit().map_err(Error::of(path))
    }

    /// Notes refusals by this entry, from the first to the last.
    pub(super) fn refused(&mut self, entry: &str, Day(first): Day, Day(last): Day) {
        let known = self.entries.entry(entry.to_owned());
        let known = known.or_insert((first, last));
        *known = (first.min(known.0), last.max(known.1));
    }

    /// Notes hits of a source, or of a list (without a source), from the first to the last.
    pub(super) fn hit(&mut self, list: &str, source: &str, Day(first): Day, Day(last): Day) {
        let known = self.of(list, source, first);
        known.known = first.min(known.known);
        known.hit = known.hit.max(Some(last));
    }

    /// Notes that there is such a source on this day.
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

    /// The day on which an entry was first refused.
    pub(super) fn first_refused(&self, entry: &str) -> Option<Day> {
        self.entries.get(entry).map(|&(first, _)| Day(first))
    }

    /// Drops what is too old to matter.
    pub(super) fn forget(&mut self, Day(today): Day) {
        let oldest = today.saturating_sub(DAYS_KEPT);
        self.entries.retain(|_, &mut (_, last)| last >= oldest);
        let too_many = self.entries.len().saturating_sub(ENTRIES_MAX);
        if too_many > 0 {
            let mut days: Vec<u16> = self.entries.values().map(|&(_, last)| last).collect();
            let (_, &mut day, _) = days.select_nth_unstable(too_many);
            self.entries.retain(|_, &mut (_, last)| last > day);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_read_as_it_was_written_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        assert_eq!(History::read(&path).unwrap(), History::default());
        let mut history = History::default();
        history.refused("a@b.example", Day(20_010), Day(20_010));
        history.refused("a@b.example", Day(20_000), Day(20_001));
        history.hit("spam", "feed", Day(20_000), Day(20_000));
        history.write(&path).unwrap();
        assert_eq!(History::read(&path).unwrap(), history);
        assert_eq!(history.first_refused("a@b.example"), Some(Day(20_000)));
        for wrong in ["", "{", "[]", "{\"other\":1}"] {
            fs::write(&path, wrong).unwrap();
            assert!(History::read(&path).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_old_is_forgotten() {
        let mut history = History::default();
        history.refused("old@b.example", Day(19_000), Day(19_000));
        history.refused("new@b.example", Day(20_000), Day(20_000));
        history.forget(Day(20_001));
        assert_eq!(history.entries.len(), 1);
    }
}
