//! The sources of a filter that is made from other filters and lists.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

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
        for source in sources {
            self.by_file
                .insert((source.file.clone(), source.name.clone()), source.clone());
        }
    }

    /// Adds the sources of filters that each hold a part of a list: the counts of one file
    /// are added up.
    pub(crate) fn add_counts(&mut self, sources: &[Source]) {
        for source in sources {
            let key = (source.file.clone(), source.name.clone());
            match self.by_file.entry(key) {
                Entry::Vacant(place) => {
                    place.insert(source.clone());
                }
                Entry::Occupied(place) => add_counts(place.into_mut(), source),
            }
        }
    }

    /// Returns the number of each of `sources`, all of which were added.
    pub(crate) fn numbers(&self, sources: &[Source]) -> Vec<u32> {
        let places: BTreeMap<_, u32> = self.by_file.keys().zip(0..).collect();
        let place = |source: &Source| {
            places
                .get(&(source.file.clone(), source.name.clone()))
                .copied()
        };
        sources
            .iter()
            .map(|source| place(source).unwrap_or(0))
            .collect()
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
