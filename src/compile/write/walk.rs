//! Several sorted streams side by side, key by key.
//!
//! ```text
//!   stream 0   3     7        3 is in 0 and 1, 4 in 1 and nowhere else, 7 in all
//!   stream 1   3  4  7
//!   stream 2         7
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Range;

use super::sorted::{STEPS, Sorted, in_steps};
use crate::compile::error::Error;
use crate::compile::progress::Progress;
use crate::filter::page::first_key;
use crate::filter::{Key, Record};

/// The number of a stream, and its record of a key.
pub(crate) type Held = (usize, Record);

/// Streams that are read together.
pub(crate) struct Walk<'a> {
    streams: Vec<Stream<'a>>,
    /// The next key of each stream that has one, with the number of the stream; the lowest first.
    next: BinaryHeap<Reverse<(Key, usize)>>,
    held: Vec<Held>,
}

struct Stream<'a> {
    source: Box<dyn Sorted + 'a>,
    /// The records of a step; those before `at` were visited.
    records: Vec<Record>,
    at: usize,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(sources: impl IntoIterator<Item = Box<dyn Sorted + 'a>>) -> Self {
        let stream = |source| Stream {
            source,
            records: Vec::new(),
            at: 0,
        };
        Self {
            streams: sources.into_iter().map(stream).collect(),
            next: BinaryHeap::new(),
            held: Vec::new(),
        }
    }

    /// Visits the keys before `end` that were not visited yet (`None`: all that are left), each with
    /// the records of all streams that have it, in the order of the streams. Returns the number of
    /// records.
    pub(crate) fn before(
        &mut self,
        end: Option<Key>,
        mut visit: impl FnMut(&[Held]) -> Result<(), Error>,
    ) -> Result<usize, Error> {
        let Self {
            streams,
            next,
            held,
        } = self;
        let mut records = 0;
        for (number, stream) in streams.iter_mut().enumerate() {
            stream.records.clear();
            stream.at = 0;
            stream.source.take_before(end, &mut stream.records)?;
            records += stream.records.len();
            next.extend((stream.records.first()).map(|first| Reverse((first.key, number))));
        }
        while let Some(&Reverse((key, _))) = next.peek() {
            held.clear();
            while let Some(mut lowest) = next.peek_mut()
                && lowest.0.0 == key
            {
                let number = lowest.0.1;
                let stream = &mut streams[number];
                held.push((number, stream.records[stream.at]));
                stream.at += 1;
                match stream.records.get(stream.at) {
                    Some(record) => lowest.0.0 = record.key,
                    None => drop(PeekMut::pop(lowest)),
                }
            }
            visit(held)?;
        }
        Ok(records)
    }

    /// Visits all keys of these of the [`STEPS`] steps.
    pub(crate) fn steps(
        &mut self,
        steps: Range<u64>,
        progress: &Progress,
        mut visit: impl FnMut(&[Held]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if steps.start > 0 {
            self.before(Some(first_key(steps.start, STEPS)), |_| Ok(()))?;
        }
        in_steps(steps, progress, |end| self.before(end, &mut visit))
    }
}
