//! Sorted staged keys -> the records of a page or of a block of a part.
//!
//! Most lists have one kind of entry and no dates of their own. Then only the keys are stored,
//! which take a third of the memory of records and stay in the first-level cache until the page is
//! filled.

use super::staged_key::{Dates, StagedKey, are_alike};
use crate::filter::{
    EncodedPage, Key, Record, Shape, encode_block, encode_block_alike, encode_page,
    encode_page_alike,
};

/// The records of a page or of a block.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    keys: Vec<Key>,
    /// The first record, while the others differ from it only in their keys.
    like: Option<Record>,
    /// All records, once they differ in more.
    records: Vec<Record>,
}

impl Gathered {
    /// Appends staged keys of one stage. `dates` are those of staged keys without dates.
    pub(crate) fn add<I: StagedKey>(&mut self, stage: usize, staged: &[I], dates: Dates) {
        let Some(first) = staged.first() else {
            return;
        };
        let first_record = first.record(stage, dates);
        let like = *self.like.get_or_insert(first_record);
        let alike = self.records.is_empty()
            && Record {
                key: like.key,
                ..first_record
            } == like
            && are_alike(staged);
        if alike {
            self.keys.extend(staged.iter().map(|key| key.key(stage)));
            return;
        }
        let before = self.keys.drain(..).map(|key| Record { key, ..like });
        self.records.extend(before);
        let records = staged.iter().map(|key| key.record(stage, dates));
        self.records.extend(records);
    }

    /// Removes all of them.
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.like = None;
        self.records.clear();
    }

    /// Encodes them as a page with records.
    ///
    /// # Panics
    ///
    /// If they are out of order, or of several pages.
    pub(crate) fn encode_page(&self, shape: Shape, page: &mut EncodedPage) {
        match &self.like {
            Some(like) if self.records.is_empty() => {
                encode_page_alike(shape, &self.keys, like, page);
            }
            _ => encode_page(shape, &self.records, true, page),
        }
    }

    /// Encodes them as a block of a part.
    ///
    /// # Panics
    ///
    /// If they are out of order, or of several blocks.
    pub(crate) fn encode_block(&self, shape: Shape, block: &mut EncodedPage) {
        match &self.like {
            Some(like) if self.records.is_empty() => {
                encode_block_alike(shape, &self.keys, like, block);
            }
            _ => encode_block(shape, &self.records, block),
        }
    }
}
