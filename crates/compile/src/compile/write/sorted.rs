//! Records in the order of their keys, as a stream: from a filter file here, from staged keys in
//! `partition`, changed by an update or a delta; and several streams side by side, key by key:
//!
//! ```text
//!   stream 0   3     7        3 is in 0 and 1, 4 in 1 and nowhere else, 7 in all
//!   stream 1   3  4  7
//!   stream 2         7
//! ```
//!
//! A caller that needs the number of records reads the stream once before, with
//! [`count_entries`](super::count_entries): to read records in sequence is far cheaper than to read
//! text.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Range;

use crate::compile::error::Error;
use crate::compile::progress::Progress;
use blocklist_filter::filter::page::first_key;
use blocklist_filter::filter::{Batch, Class, Key, Records};

/// Records in the order of their keys, each key once.
pub(crate) trait Sorted: Send {
    /// Appends all records before `end` that were not taken yet; without `end`, all that are left.
    fn take_before(&mut self, end: Option<Key>, into: &mut Batch) -> Result<(), Error>;
}

impl Sorted for Records<'_> {
    fn take_before(&mut self, end: Option<Key>, into: &mut Batch) -> Result<(), Error> {
        Ok(Records::take_before(self, end, into)?)
    }
}

pub(crate) const STEPS: u64 = 4096;

/// Calls `step` with the ends of these of the [`STEPS`] steps; it returns how many records it read.
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

/// The number of a stream that has a key, and the class that the key has there.
pub(crate) type Held = (usize, Class);

pub(crate) struct Walk<'a> {
    streams: Vec<Stream<'a>>,
    /// The next key of each stream that has one, with the number of the stream; the lowest first.
    next: BinaryHeap<Reverse<(Key, usize)>>,
    held: Vec<Held>,
}

struct Stream<'a> {
    source: Box<dyn Sorted + 'a>,
    /// The records of a step; those before `at` were visited, up to this run.
    records: Batch,
    at: usize,
    run: usize,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(sources: impl IntoIterator<Item = Box<dyn Sorted + 'a>>) -> Self {
        let stream = |source| Stream {
            source,
            records: Batch::default(),
            at: 0,
            run: 0,
        };
        Self {
            streams: sources.into_iter().map(stream).collect(),
            next: BinaryHeap::new(),
            held: Vec::new(),
        }
    }

    /// Visits the keys before `end` that were not visited yet (`None`: all that are left), each with
    /// all streams that have it, in their order. Returns the number of records.
    pub(crate) fn before(
        &mut self,
        end: Option<Key>,
        mut visit: impl FnMut(Key, &[Held]) -> Result<(), Error>,
    ) -> Result<usize, Error> {
        let Self {
            streams,
            next,
            held,
        } = self;
        let mut records = 0;
        for (number, stream) in streams.iter_mut().enumerate() {
            stream.records.clear();
            (stream.at, stream.run) = (0, 0);
            stream.source.take_before(end, &mut stream.records)?;
            records += stream.records.len();
            next.extend((stream.records.key(0)).map(|first| Reverse((first, number))));
        }
        while let Some(&Reverse((key, _))) = next.peek() {
            held.clear();
            while let Some(mut lowest) = next.peek_mut()
                && lowest.0.0 == key
            {
                let number = lowest.0.1;
                let stream = &mut streams[number];
                held.push((number, stream.records.class(stream.at, &mut stream.run)));
                stream.at += 1;
                match stream.records.key(stream.at) {
                    Some(next) => lowest.0.0 = next,
                    None => drop(PeekMut::pop(lowest)),
                }
            }
            visit(key, held)?;
        }
        Ok(records)
    }

    pub(crate) fn steps(
        &mut self,
        steps: Range<u64>,
        progress: &Progress,
        mut visit: impl FnMut(Key, &[Held]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if steps.start > 0 {
            self.before(Some(first_key(steps.start, STEPS)), |_, _| Ok(()))?;
        }
        in_steps(steps, progress, |end| self.before(end, &mut visit))
    }
}
