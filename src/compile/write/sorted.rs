//! Records in the order of their keys, as a stream: from a filter file here, from staged keys in
//! `partition`, changed by an update or a delta.
//!
//! A caller that needs the number of records reads the stream once before, with
//! [`count_entries`](super::entry_counts::count_entries): to read records in sequence is far
//! cheaper than to read text.

use std::ops::Range;

use super::gathered::Gathered;
use crate::compile::error::Error;
use crate::compile::progress::Progress;
use crate::filter::page::first_key;
use crate::filter::{Key, Record, Records};

/// Records in the order of their keys, each key once.
pub(crate) trait Sorted: Send {
    /// Appends all records before `end` that were not taken yet; without `end`, all that are left.
    fn take_before(&mut self, end: Option<Key>, into: &mut Vec<Record>) -> Result<(), Error>;

    /// Does the same for the encoder.
    fn gather_before(&mut self, end: Option<Key>, into: &mut Gathered) -> Result<(), Error> {
        self.take_before(end, into.records())
    }
}

impl Sorted for Records<'_> {
    fn take_before(&mut self, end: Option<Key>, into: &mut Vec<Record>) -> Result<(), Error> {
        Ok(Records::take_before(self, end, into)?)
    }
}

/// Number of steps in which streams are read to their end.
pub(crate) const STEPS: u64 = 4096;

/// Calls `step` with the ends of these of the [`STEPS`] steps, each a key (`None`: to the last). It
/// returns the number of records it read.
pub(crate) fn in_steps(
    steps: Range<u64>,
    progress: &Progress,
    mut step: impl FnMut(Option<Key>) -> Result<usize, Error>,
) -> Result<(), Error> {
    for number in steps {
        progress.go_on()?;
        let end = (number + 1 < STEPS).then(|| first_key(number + 1, STEPS));
        progress.add(step(end)? as u64);
    }
    Ok(())
}

/// Records in memory.
#[cfg(test)]
pub(crate) struct Given(pub(crate) Vec<Record>);

#[cfg(test)]
impl Given {
    pub(crate) fn keys(keys: &[u64]) -> Self {
        let record = |&key| Record {
            key: Key(key),
            ..Record::default()
        };
        Self(keys.iter().map(record).collect())
    }
}

#[cfg(test)]
impl Sorted for Given {
    fn take_before(&mut self, end: Option<Key>, into: &mut Vec<Record>) -> Result<(), Error> {
        let is_before = |record: &Record| end.is_none_or(|end| record.key < end);
        into.extend(self.0.drain(..self.0.partition_point(is_before)));
        Ok(())
    }
}
