//! A part of a list: the sorted records of a piece of the text, on their way to a filter.
//!
//! A list that is too large for one machine is cut into pieces. Each piece becomes a part, on any
//! machine and in any order; all parts together become the filter. A part is a filter file without
//! pages: no look-up uses it, since most of its list is missing.
//!
//! A part is written once and read once, so its layout is fast where that of a filter is compact.
//! Its records are in blocks of about [`BLOCK_RECORDS`] records, and a block is a block of
//! [records](super::records) with 64 low bits and no high parts:
//!
//! ```text
//!   u32 records   u32 classes   u8 64   u8 class bits   u16 0   u32 0
//!   classes       10 bytes each
//!   distances     u64 each: key - first key of the block
//!   class         number of each record's class, side by side; no bits when there is one class
//! ```
//!
//! A record of a part with one class takes 8.01 to 8.02 bytes, in a filter 5.0. There are 2^n
//! blocks, so the first key of a block has n bits and then zeros: keys that are sorted by their
//! upper bits are already in blocks.

use std::path::Path;

use super::class::{CLASS_BYTES, Class, check_class, class_bits};
use super::error::{Error, Fault};
use super::file::Reader;
use super::format::Header;
use super::key::Key;
use super::packed::{length, pack, unpack};
use super::page;
use super::record::Record;
use super::records::Scratch;
use super::sizing::{MAX_PAGES, Shape};

/// Approximate maximum number of records in a block; a block has more than half of that. The
/// directory has 16 bytes per block, and stays in memory while a part is open.
const BLOCK_RECORDS: u64 = 2048;
const HEAD_BYTES: usize = 16;
/// All bits of a distance are low bits.
const LOW_BITS: u8 = 64;

/// Returns the number of blocks for a part of this many entries, as a shape. A part has no bits, so
/// the probes are not used.
pub(super) fn shape(entries: u64) -> Shape {
    Shape {
        pages: entries
            .div_ceil(BLOCK_RECORDS)
            .min(MAX_PAGES)
            .next_power_of_two(),
        probes: 1,
    }
}

/// Appends the block of these records to `out`, which must be empty; appends nothing if there are
/// none.
///
/// # Panics
///
/// If they are not sorted by key, not distinct, or of several blocks.
pub(super) fn encode(shape: Shape, records: &[Record], scratch: &mut Scratch, out: &mut Vec<u8>) {
    let keys = records.iter().map(|record| record.key);
    let Some(base) = base_of_all(shape, keys.clone()) else {
        return;
    };
    scratch.classify(records);
    encode_keys(base, keys, &scratch.classes, out);
    let class_bits = class_bits(scratch.classes.len());
    if class_bits > 0 {
        let numbers = scratch.numbers.iter().map(|&number| u64::from(number));
        pack(out, class_bits, numbers);
    }
}

/// Replaces `out` by the block of keys whose records differ in nothing else.
///
/// # Panics
///
/// As [`encode`].
pub(super) fn encode_alike(shape: Shape, keys: &[Key], class: Class, out: &mut Vec<u8>) {
    match base_of_all(shape, keys.iter().copied()) {
        Some(base) => encode_keys(base, keys.iter().copied(), &[class], out),
        None => out.clear(),
    }
}

/// Returns the first key of the block that these keys are in; `None` if there are none.
///
/// # Panics
///
/// As [`encode`].
fn base_of_all(shape: Shape, keys: impl DoubleEndedIterator<Item = Key> + Clone) -> Option<u64> {
    let page_of = |key: Key| page::page_of(key, shape.pages);
    let (first, last) = (keys.clone().next()?, keys.clone().next_back()?);
    let number = page_of(first);
    assert_eq!(number, page_of(last), "records of two blocks");
    assert!(keys.is_sorted_by(|a, b| a < b), "records out of order");
    Some(page::first_key(number, shape.pages).0)
}

/// Replaces `out` by a block without the numbers of the classes.
fn encode_keys(
    base: u64,
    keys: impl ExactSizeIterator<Item = Key>,
    classes: &[Class],
    out: &mut Vec<u8>,
) {
    let class_bits = class_bits(classes.len());
    let start = HEAD_BYTES + classes.len() * CLASS_BYTES;
    // Every byte is overwritten, so the old ones need not be cleared.
    out.resize(start + keys.len() * 8, 0);
    let (head, distances) = out.split_at_mut(start);
    let (head, listed) = head.split_at_mut(HEAD_BYTES);
    head[..4].copy_from_slice(&length(keys.len()).to_le_bytes());
    head[4..8].copy_from_slice(&length(classes.len()).to_le_bytes());
    head[8..].copy_from_slice(&[LOW_BITS, class_bits, 0, 0, 0, 0, 0, 0]);
    for (bytes, class) in listed
        .as_chunks_mut::<CLASS_BYTES>()
        .0
        .iter_mut()
        .zip(classes)
    {
        *bytes = class.encode();
    }
    for (word, key) in distances.as_chunks_mut().0.iter_mut().zip(keys) {
        *word = (key.0 - base).to_le_bytes();
    }
}

/// A block, split into its sections.
pub(super) struct Block<'a> {
    base: u64,
    distances: &'a [[u8; 8]],
    classes: Vec<Class>,
    class_bits: u8,
    numbers: &'a [u8],
}

impl<'a> Block<'a> {
    /// Checks everything except the numbers of the classes.
    pub(super) fn parse(shape: Shape, number: u64, block: &'a [u8]) -> Result<Self, Fault> {
        let fault = |what| Fault::Records { page: number, what };
        let short = || fault("the block is cut off");
        let Key(base) = page::first_key(number, shape.pages);
        if block.is_empty() {
            return Ok(Self {
                base,
                distances: &[],
                classes: Vec::new(),
                class_bits: 0,
                numbers: &[],
            });
        }
        let (head, rest) = block.split_first_chunk::<HEAD_BYTES>().ok_or_else(short)?;
        let (counts, bits) = head.split_at(8);
        let number_at = |at: usize| {
            let bytes = counts[at..].first_chunk().copied().unwrap_or_default();
            u32::from_le_bytes(bytes) as usize
        };
        let (count, class_count) = (number_at(0), number_at(4));
        let class_bits = class_bits(class_count);
        if bits != [LOW_BITS, class_bits, 0, 0, 0, 0, 0, 0] || !(1..=count).contains(&class_count) {
            return Err(fault("the block's head is malformed"));
        }
        // These are products of 32-bit numbers, which cannot overflow 64 bits.
        let (classes, rest) = rest
            .split_at_checked(class_count * CLASS_BYTES)
            .ok_or_else(short)?;
        let (distances, numbers) = rest.split_at_checked(count * 8).ok_or_else(short)?;
        if numbers.len() != (count * usize::from(class_bits)).div_ceil(8) {
            return Err(fault("the block's length is not what its head says"));
        }
        let classes = classes.as_chunks().0.iter().map(Class::decode);
        let classes = classes.collect::<Result<Vec<_>, _>>().map_err(fault)?;
        let distances = distances.as_chunks().0;

        let last = (number + 1 < shape.pages)
            .then(|| page::first_key(number + 1, shape.pages))
            .map_or(u64::MAX - base, |end| end.0 - base - 1);
        if !distances.is_sorted_by(|a, b| u64::from_le_bytes(*a) < u64::from_le_bytes(*b)) {
            return Err(fault("keys out of order"));
        }
        // The last one is the greatest.
        let greatest = distances
            .last()
            .map(|distance| u64::from_le_bytes(*distance));
        if greatest.is_some_and(|distance| distance > last) {
            return Err(fault("a key outside its block"));
        }
        Ok(Self {
            base,
            distances,
            classes,
            class_bits,
            numbers,
        })
    }

    /// Visits the records in the order of their keys, as runs that differ only in their keys.
    /// `no_class` is the error if a record names a class that does not exist.
    pub(super) fn each_run<E>(
        &self,
        mut visit: impl FnMut(Run<'a>) -> Result<(), E>,
        no_class: impl FnOnce() -> E,
    ) -> Result<(), E> {
        let mut start = 0;
        while start < self.distances.len() {
            let Some(run) = self.run(start) else {
                return Err(no_class());
            };
            start += run.distances.len();
            visit(run)?;
        }
        Ok(())
    }

    /// Returns the run that starts with this record.
    fn run(&self, start: usize) -> Option<Run<'a>> {
        let number = |i| unpack(self.numbers, self.class_bits, i);
        let end = match self.class_bits {
            0 => self.distances.len(),
            _ => (start + 1..self.distances.len())
                .find(|&i| number(i) != number(start))
                .unwrap_or(self.distances.len()),
        };
        let class = usize::try_from(number(start)).ok();
        Some(Run {
            class: *self.classes.get(class?)?,
            base: self.base,
            distances: &self.distances[start..end],
        })
    }
}

/// The fault of a block whose records name more classes than it has.
pub(super) const NO_CLASS: &str = "a record names a class that is not there";

/// Consecutive records that differ only in their keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'a> {
    /// The data that they have in common.
    pub(crate) class: Class,
    base: u64,
    distances: &'a [[u8; 8]],
}

impl<'a> Run<'a> {
    /// Returns their keys in order.
    pub(crate) fn keys(&self) -> impl ExactSizeIterator<Item = Key> + Clone + use<'a> {
        let base = self.base;
        let key = move |distance: &[u8; 8]| Key(base + u64::from_le_bytes(*distance));
        self.distances.iter().map(key)
    }

    /// Returns the number of records.
    pub(crate) fn len(&self) -> usize {
        self.distances.len()
    }

    /// Returns whether there are no records.
    pub(crate) fn is_empty(&self) -> bool {
        self.distances.is_empty()
    }

    /// Splits the run into the records before a key, and the others.
    pub(crate) fn split_before(self, end: Key) -> (Self, Self) {
        let Some(end) = end.0.checked_sub(self.base) else {
            return (self.of(&[]), self);
        };
        let before = |distance: &[u8; 8]| u64::from_le_bytes(*distance) < end;
        let count = match self.distances.last() {
            Some(last) if !before(last) => self.distances.partition_point(before),
            _ => self.distances.len(),
        };
        let (here, others) = self.distances.split_at(count);
        (self.of(here), self.of(others))
    }

    /// Returns the records from one key to before another.
    pub(super) fn between(self, from: Key, end: Option<Key>) -> Self {
        let (_, run) = self.split_before(from);
        end.map_or(run, |end| run.split_before(end).0)
    }

    fn of(self, distances: &'a [[u8; 8]]) -> Self {
        Self { distances, ..self }
    }

    /// Checks that their kind is one of these, and that their source is below `sources`.
    pub(super) fn check_class(&self, kinds: u8, sources: usize) -> Result<(), &'static str> {
        let Class { kind, source, .. } = self.class;
        check_class(kind, source, kinds, sources)
    }
}

/// An open part of a list.
#[derive(Debug)]
pub struct Part {
    reader: Reader,
    block: Vec<u8>,
}

impl Part {
    /// Opens a part and checks what it reads: header, directory and sources.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the file fails its checks or is not a part, [`Error::Io`] when it
    /// cannot be read.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::of(Reader::open(path)?)
    }

    /// Returns whether a filter file is a part of a list.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), when it is neither a filter nor a part.
    pub fn is_at(path: &Path) -> Result<bool, Error> {
        Ok(Reader::open_header(path)?.1.part.is_some())
    }

    pub(super) fn of(reader: Reader) -> Result<Self, Error> {
        if reader.header.part.is_none() {
            return Err(reader.invalid(Fault::NotAPart));
        }
        // Merging divides the keys by this number before it reads any record.
        let declared = reader.header.entries;
        let most = reader.header.file_bytes() / size_of::<u64>() as u64;
        if declared > most {
            return Err(reader.invalid(Fault::Room { declared, most }));
        }
        Ok(Self {
            reader,
            block: Vec::new(),
        })
    }

    /// Returns the whole header.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.reader.header
    }

    /// Returns the number of blocks of records.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.header().shape.pages
    }

    /// Appends the records of a block to `out`, in the order of their keys. All keys of a block are
    /// below those of the next.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the block is damaged, [`Error::Io`] when it cannot be read.
    ///
    /// # Panics
    ///
    /// If the part has no block with this number.
    pub fn records(&mut self, number: u64, out: &mut Vec<Record>) -> Result<(), Error> {
        self.each_run(number, |run| {
            out.extend(run.keys().map(|key| run.class.record(key)));
            Ok(())
        })
    }

    /// Visits the records of a block in the order of their keys, as runs that differ only in their
    /// keys.
    ///
    /// # Errors
    ///
    /// As [`records`](Self::records), and the errors of `visit`.
    ///
    /// # Panics
    ///
    /// As [`records`](Self::records).
    pub(crate) fn each_run<E: From<Error>>(
        &mut self,
        number: u64,
        mut visit: impl FnMut(Run<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { reader, block } = self;
        reader.block(number, block)?;
        let block = Block::parse(reader.header.shape, number, block)
            .map_err(|fault| reader.invalid(fault))?;
        let fault = |what| reader.invalid(Fault::Records { page: number, what });
        let spec = &reader.header.spec;
        block.each_run(
            |run| {
                run.check_class(spec.kinds, spec.sources.len())
                    .map_err(fault)?;
                visit(run)
            },
            || fault(NO_CLASS).into(),
        )
    }

    /// Checks the number of records.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the header declares another number.
    pub(crate) fn check_count(&self, counted: u64) -> Result<(), Error> {
        let declared = self.header().entries;
        if counted == declared {
            Ok(())
        } else {
            Err(self.reader.invalid(Fault::Count { declared, counted }))
        }
    }

    /// Reads and checks every record.
    pub(super) fn check(mut self) -> Result<Header, Error> {
        let mut counted = 0;
        for number in 0..self.blocks() {
            self.each_run(number, |run| {
                counted += run.keys().len() as u64;
                Ok::<_, Error>(())
            })?;
        }
        self.check_count(counted)?;
        Ok(self.reader.header)
    }
}
