//! The sources of a filter that is made from other filters and lists, and the number of entries by
//! source and kind.

use std::collections::BTreeMap;

use super::sorted::{STEPS, Sorted, in_steps};
use crate::compile::error::Error;
use crate::compile::progress::Progress;
use blocklist_filter::filter::{Batch, Class, Filter, Source};

/// The sources of several filters and lists, sorted by file as in a build; one source for each file.
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

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EntryCounts {
    by_source: BTreeMap<u32, [u64; 4]>,
}

impl EntryCounts {
    pub(crate) fn of(filter: &Filter) -> Result<Self, Error> {
        count_entries(&mut filter.records()?, &Progress::new())
    }

    pub(crate) fn count_run(&mut self, class: Class, length: usize) {
        let kinds = self.by_source.entry(class.source).or_default();
        kinds[usize::from(class.kind & 3)] += length as u64;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (source, kinds) in &other.by_source {
            let sums = self.by_source.entry(*source).or_default();
            *sums = [0, 1, 2, 3].map(|kind| sums[kind] + kinds[kind]);
        }
    }

    pub(crate) fn entries(&self) -> u64 {
        self.kinds().iter().sum()
    }

    pub(crate) fn kinds(&self) -> [u64; 4] {
        let sum = |kind: usize| self.by_source.values().map(|kinds| kinds[kind]).sum();
        [0, 1, 2, 3].map(sum)
    }

    pub(crate) fn of_source(&self, source: u32) -> u64 {
        self.by_source
            .get(&source)
            .map_or(0, |kinds| kinds.iter().sum())
    }

    pub(crate) fn kind_bits(&self) -> u8 {
        (0_u8..)
            .zip(self.kinds())
            .filter(|(_, count)| *count > 0)
            .fold(0, |bits, (kind, _)| bits | 1 << kind)
    }
}

pub(crate) fn count_entries(
    stream: &mut impl Sorted,
    progress: &Progress,
) -> Result<EntryCounts, Error> {
    let mut counts = EntryCounts::default();
    let mut records = Batch::default();
    in_steps(0..STEPS, progress, |end| {
        records.clear();
        stream.take_before(end, &mut records)?;
        for (class, keys) in records.runs() {
            counts.count_run(class, keys.len());
        }
        Ok(records.len())
    })?;
    Ok(counts)
}
