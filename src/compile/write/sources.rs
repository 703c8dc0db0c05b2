//! The sources of a filter that is made from other filters and lists.

use std::collections::BTreeMap;

use crate::filter::Source;

/// The sources of several filters and lists in one list, sorted by file as in a build. If
/// several of them name a file, it is one source.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    by_file: BTreeMap<(String, String), Source>,
}

impl Sources {
    /// Adds sources. A source replaces an earlier one of the same file, which was read again.
    pub(crate) fn add(&mut self, sources: &[Source]) {
        let sources = sources.iter().map(|source| (key(source), source.clone()));
        self.by_file.extend(sources);
    }

    /// Adds the sources of filters that each hold a part of a list: the counts of one file
    /// are added up.
    pub(crate) fn add_counts(&mut self, sources: &[Source]) {
        for source in sources {
            let known = self.by_file.entry(key(source));
            known
                .and_modify(|sum| add_counts(sum, source))
                .or_insert_with(|| source.clone());
        }
    }

    /// Returns the number of each of `sources`, all of which were added.
    pub(crate) fn numbers(&self, sources: &[Source]) -> Vec<u32> {
        let places: BTreeMap<_, u32> = self.by_file.keys().zip(0..).collect();
        let place = |source| places.get(&key(source)).copied().unwrap_or(0);
        sources.iter().map(place).collect()
    }

    /// Returns the sources in order.
    pub(crate) fn to_list(&self) -> Vec<Source> {
        self.by_file.values().cloned().collect()
    }
}

/// Adds the counts of another piece of a file. Only one piece contains the note about its licence.
pub(crate) fn add_counts(sum: &mut Source, piece: &Source) {
    sum.lines = sum.lines.saturating_add(piece.lines);
    sum.entries = sum.entries.saturating_add(piece.entries);
    sum.rejected = sum.rejected.saturating_add(piece.rejected);
    let notes = [&sum.licence, &piece.licence].into_iter();
    let note = notes.filter(|note| !note.is_empty()).min();
    sum.licence = note.cloned().unwrap_or_default();
}

fn key(source: &Source) -> (String, String) {
    (source.file.clone(), source.name.clone())
}
