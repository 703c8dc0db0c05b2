//! The records of a few pages, on their way from a sorted source to the encoder.
//!
//! Most lists have one kind of entry and no dates of their own. Then only the keys are stored,
//! which take a third of the memory of records and need no comparison.

use crate::filter::{Class, Key, PageRecords, Record};

/// Sorted records, of which some were taken.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// The keys, and the class of all of them, as long as they differ in nothing else.
    keys: Vec<Key>,
    class: Class,
    /// All records, once they differ in more.
    records: Vec<Record>,
    /// The number of those that were taken.
    taken: usize,
}

impl Gathered {
    /// Removes all of them.
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.records.clear();
        self.taken = 0;
    }

    /// Appends keys of one class.
    pub(crate) fn add_alike(&mut self, class: Class, keys: impl Iterator<Item = Key>) {
        if self.keys.is_empty() && self.records.is_empty() {
            self.class = class;
        }
        if self.records.is_empty() && self.class == class {
            self.keys.extend(keys);
        } else {
            let records = keys.map(|key| class.record(key));
            self.records().extend(records);
        }
    }

    /// Returns all of them as records, to which others can be appended.
    pub(crate) fn records(&mut self) -> &mut Vec<Record> {
        let before = self.keys.drain(..).map(|key| self.class.record(key));
        self.records.extend(before);
        &mut self.records
    }

    /// Returns the number of all of them.
    pub(crate) fn len(&self) -> usize {
        self.keys.len() + self.records.len()
    }

    /// Returns the next ones before `end` (`None`: all that are left).
    pub(crate) fn before(&mut self, end: Option<Key>) -> PageRecords<'_> {
        fn split<'a, T>(
            all: &'a [T],
            taken: &mut usize,
            is_before: impl Fn(&T) -> bool,
        ) -> &'a [T] {
            let left = &all[*taken..];
            let count = left.partition_point(is_before);
            *taken += count;
            &left[..count]
        }
        let is_before = |key: Key| end.is_none_or(|end| key < end);
        if self.records.is_empty() {
            let keys = split(&self.keys, &mut self.taken, |key| is_before(*key));
            PageRecords::Alike(keys, self.class)
        } else {
            let is_before = |record: &Record| is_before(record.key);
            PageRecords::Any(split(&self.records, &mut self.taken, is_before))
        }
    }
}
