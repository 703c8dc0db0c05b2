//! The number of entries, by source and kind.

use std::collections::BTreeMap;

use super::sorted::{STEPS, Sorted, in_steps};
use crate::compile::error::Error;
use crate::compile::progress::Progress;
use crate::filter::{Class, Filter, Record};

/// The distinct entries, each counted once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EntryCounts {
    /// By source, then kind.
    by_source: BTreeMap<u32, [u64; 4]>,
}

impl EntryCounts {
    /// Counts the entries of a filter.
    pub(crate) fn of(filter: &Filter) -> Result<Self, Error> {
        count_entries(&mut filter.records()?, &Progress::new())
    }

    /// Counts entries. Counts a run of one source and kind at once: most lists are of one kind.
    fn count(&mut self, records: &[Record]) {
        for run in records.chunk_by(|a, b| (a.source, a.kind) == (b.source, b.kind)) {
            self.count_run(Class::of(&run[0]), run.len());
        }
    }

    /// Counts `length` entries of one class.
    pub(crate) fn count_run(&mut self, class: Class, length: usize) {
        let kinds = self.by_source.entry(class.source).or_default();
        kinds[usize::from(class.kind & 3)] += length as u64;
    }

    /// Adds the counts of another worker.
    pub(crate) fn add(&mut self, other: &Self) {
        for (source, kinds) in &other.by_source {
            let sums = self.by_source.entry(*source).or_default();
            *sums = [0, 1, 2, 3].map(|kind| sums[kind] + kinds[kind]);
        }
    }

    /// Returns the number of all entries.
    pub(crate) fn entries(&self) -> u64 {
        self.kinds().iter().sum()
    }

    /// Returns the number of entries by kind.
    pub(crate) fn kinds(&self) -> [u64; 4] {
        let sum = |kind: usize| self.by_source.values().map(|kinds| kinds[kind]).sum();
        [0, 1, 2, 3].map(sum)
    }

    /// Returns the number of entries whose record names this source.
    pub(crate) fn of_source(&self, source: u32) -> u64 {
        self.by_source
            .get(&source)
            .map_or(0, |kinds| kinds.iter().sum())
    }

    /// Returns the kinds present, as the header stores them.
    pub(crate) fn kind_bits(&self) -> u8 {
        (0_u8..)
            .zip(self.kinds())
            .filter(|(_, count)| *count > 0)
            .fold(0, |bits, (kind, _)| bits | 1 << kind)
    }
}

/// Counts a stream to its end, by source and kind.
pub(crate) fn count_entries(
    stream: &mut impl Sorted,
    progress: &Progress,
) -> Result<EntryCounts, Error> {
    let mut counts = EntryCounts::default();
    let mut records = Vec::new();
    in_steps(0..STEPS, progress, |end| {
        records.clear();
        stream.take_before(end, &mut records)?;
        counts.count(&records);
        Ok(records.len())
    })?;
    Ok(counts)
}
