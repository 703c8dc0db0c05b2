//! A part of a list: the sorted records of a piece of the text, on their way to a filter.
//!
//! A list that is too large for one machine is cut into pieces. Each piece becomes a part,
//! anywhere and in any order; all parts together become the filter. A part is a filter file
//! without pages: it answers nobody, so that a list of which most is missing blocks nobody.
//!
//! What is compact in a filter is quick here, because a part is written once and read once. Its
//! records lie in as many blocks as there are about [`BLOCK_RECORDS`] in each, and a block is a
//! block of [records](super::records) with 64 low bits and no high parts:
//!
//! ```text
//!   u32 records   u32 classes   u8 64   u8 class bits   u16 0   u32 0
//!   classes       10 bytes each
//!   distances     u64 each: key - first key of the block
//!   class         number of each record's class, side by side; no bits when there is one class
//! ```
//!
//! The records of one class take 8.01 bytes each, against 5.0 in a filter.

use std::path::Path;

use super::class::{CLASS_BYTES, Class};
use super::error::{Error, Fault};
use super::file::Reader;
use super::format::Header;
use super::key::Key;
use super::packed::{pack, unpack};
use super::page;
use super::record::Record;
use super::records::{Scratch, class_bits, length, page_of_all};
use super::sizing::{MAX_PAGES, Shape};

/// Records of a block, about. The directory has 16 bytes for each block, and stays in memory
/// while a part is open.
const BLOCK_RECORDS: u64 = 2048;
const HEAD_BYTES: usize = 16;
/// All bits of a distance are low bits.
const LOW_BITS: u8 = 64;

/// The blocks of a part of so many entries. A part has no bits, so nothing is probed.
pub(super) fn shape(entries: u64) -> Shape {
    Shape {
        pages: entries.div_ceil(BLOCK_RECORDS).clamp(1, MAX_PAGES),
        probes: 1,
    }
}

/// Appends the block of these records to `out`: nothing when there are none.
///
/// # Panics
///
/// When they are not sorted by key, not distinct, or of several blocks.
pub(super) fn encode(shape: Shape, records: &[Record], scratch: &mut Scratch, out: &mut Vec<u8>) {
    let Some(number) = page_of_all(shape, records) else {
        return;
    };
    let Key(base) = page::first_key(number, shape.pages);
    scratch.classify(records);
    let class_bits = class_bits(scratch.classes.len());
    out.extend_from_slice(&length(records.len()).to_le_bytes());
    out.extend_from_slice(&length(scratch.classes.len()).to_le_bytes());
    out.extend_from_slice(&[LOW_BITS, class_bits, 0, 0, 0, 0, 0, 0]);
    for class in &scratch.classes {
        out.extend_from_slice(&class.encode());
    }
    out.reserve(records.len() * 8);
    for record in records {
        out.extend_from_slice(&(record.key.0 - base).to_le_bytes());
    }
    if class_bits > 0 {
        let numbers = scratch.numbers.iter().map(|&number| u64::from(number));
        pack(out, class_bits, numbers);
    }
}

/// Appends the records of a block to `out`, in the order of their keys.
fn decode(shape: Shape, number: u64, block: &[u8], out: &mut Vec<Record>) -> Result<(), Fault> {
    let fault = |what| Fault::Records { page: number, what };
    let short = || fault("the block is cut off");
    if block.is_empty() {
        return Ok(());
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
    // Products of 32-bit numbers: they cannot overflow 64 bits.
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

    let Key(base) = page::first_key(number, shape.pages);
    let last = (number + 1 < shape.pages)
        .then(|| page::first_key(number + 1, shape.pages))
        .map_or(u64::MAX - base, |end| end.0 - base - 1);
    if !distances.is_sorted_by(|a, b| u64::from_le_bytes(*a) < u64::from_le_bytes(*b)) {
        return Err(fault("keys out of order"));
    }
    // The last is the greatest.
    let greatest = distances
        .last()
        .map(|distance| u64::from_le_bytes(*distance));
    if greatest.is_some_and(|distance| distance > last) {
        return Err(fault("a key outside its block"));
    }
    let keys = distances
        .iter()
        .map(|distance| Key(base + u64::from_le_bytes(*distance)));
    if let [class] = *classes.as_slice() {
        out.extend(keys.map(|key| class.record(key)));
        return Ok(());
    }
    out.reserve(count);
    for (i, key) in keys.enumerate() {
        let class = usize::try_from(unpack(numbers, class_bits, i)).ok();
        let class = class.and_then(|class| classes.get(class));
        let class = class.ok_or_else(|| fault("a record names a class that is not there"))?;
        out.push(class.record(key));
    }
    Ok(())
}

/// Whether two records differ in their keys only.
fn same_class(a: &Record, b: &Record) -> bool {
    Class::of(a) == Class::of(b)
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
    /// [`Error::Invalid`] when the file fails its checks or is no part, [`Error::Io`] when it
    /// cannot be read.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::of(Reader::open(path)?)
    }

    /// Whether a filter file is a part of a list.
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
        Ok(Self {
            reader,
            block: Vec::new(),
        })
    }

    /// The whole header.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.reader.header
    }

    /// How many blocks of records there are.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.header().shape.pages
    }

    /// Appends the records of a block to `out`, in the order of their keys; all of one block are
    /// before those of the next.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the block is damaged, [`Error::Io`] when it cannot be read.
    ///
    /// # Panics
    ///
    /// When the part has no block of this number.
    pub fn records(&mut self, number: u64, out: &mut Vec<Record>) -> Result<(), Error> {
        let before = out.len();
        self.reader.block(number, &mut self.block)?;
        decode(self.reader.header.shape, number, &self.block, out)
            .map_err(|fault| self.reader.invalid(fault))?;
        let runs = out[before..].chunk_by(same_class);
        // One of each run: most blocks are of one class.
        runs.into_iter()
            .try_for_each(|run| self.reader.check_classes(number, &run[..1]))
    }

    /// Reads and checks every record.
    pub(super) fn check(mut self) -> Result<Header, Error> {
        let (mut records, mut counted) = (Vec::new(), 0);
        for number in 0..self.blocks() {
            records.clear();
            self.records(number, &mut records)?;
            counted += records.len() as u64;
        }
        let declared = self.header().entries;
        if counted == declared {
            Ok(self.reader.header)
        } else {
            Err(self.reader.invalid(Fault::Count { declared, counted }))
        }
    }
}
