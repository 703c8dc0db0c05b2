//! Writing a filter: pages are encoded on any thread and appended in order; the header is last.
//!
//! [`encode_page`] is pure, and can run on many threads. [`Writer`] takes the encoded pages in
//! page order, and writes the two growing sections, pages and records, to their places. The header
//! is written last: a file without it is not a filter. Before the new file takes the old one's name,
//! it is read again and every sum is checked.

use std::ops::Range;
use std::os::unix::fs::FileExt;

use twox_hash::XxHash3_64;

use super::class::Class;
use super::digest::Digest;
use super::error::{Error, Fault};
use super::file;
use super::format::{self, Header, Sections, Spec};
use super::key::Key;
use super::page::{self, Filling, PAGE_BYTES, Page};
use super::part;
use super::record::Record;
use super::records::{self, Scratch};
use super::sizing::Shape;
use super::sources;
use crate::base::replacement::Replacement;

/// One page as it will be in the file, with its records. Reusable: it keeps its memory, so that
/// encoding many pages allocates once.
#[derive(Debug)]
pub struct EncodedPage {
    bits: Box<Page>,
    sum: u64,
    set_bits: u32,
    /// Number of the page, if it has a key.
    number: Option<u64>,
    /// Number of keys in the page, if known.
    count: Option<u32>,
    block: Vec<u8>,
    block_sum: u64,
    scratch: Scratch,
}

impl Default for EncodedPage {
    fn default() -> Self {
        let mut page = Self {
            bits: Box::new([0; PAGE_BYTES]),
            sum: 0,
            set_bits: 0,
            number: None,
            count: None,
            block: Vec::new(),
            block_sum: 0,
            scratch: Scratch::default(),
        };
        page.seal(None, Some(0));
        page
    }
}

impl EncodedPage {
    /// Returns an empty page.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the bits of a page unchanged, without records, and without the number of keys: for
    /// the union of two pages.
    pub fn set_bits(&mut self, bits: &Page) {
        self.bits.copy_from_slice(bits);
        self.block.clear();
        self.seal(None, None);
    }

    fn seal_block(&mut self, shape: Shape, first: Option<Key>, count: usize) {
        self.block_sum = records::sum(&self.block);
        self.number = first.map(|key| page::page_of(key, shape.pages));
        self.count = u32::try_from(count).ok();
    }

    fn seal(&mut self, number: Option<u64>, count: Option<u32>) {
        self.sum = page::sum(&self.bits);
        self.set_bits = page::count_set(&self.bits);
        self.block_sum = records::sum(&self.block);
        self.number = number;
        self.count = count;
    }
}

/// Encodes one page: its sorted, distinct records, if any.
///
/// # Panics
///
/// If the records are out of order, or of several pages.
pub fn encode_page(shape: Shape, records: &[Record], with_records: bool, out: &mut EncodedPage) {
    out.block.clear();
    if with_records {
        records::encode(shape, records, &mut out.scratch, &mut out.block);
    }
    fill_page(shape, records.iter().map(|record| record.key), out);
}

/// Does the same, with records, if these differ only in their keys from each other and from `like`.
///
/// # Panics
///
/// As [`encode_page`].
pub(crate) fn encode_page_alike(shape: Shape, keys: &[Key], like: &Record, out: &mut EncodedPage) {
    out.block.clear();
    let class = Class::of(like);
    records::encode_alike(shape, keys, class, &mut out.scratch, &mut out.block);
    fill_page(shape, keys.iter().copied(), out);
}

/// Sets the bits of a page.
fn fill_page(
    shape: Shape,
    keys: impl DoubleEndedIterator<Item = Key> + ExactSizeIterator + Clone,
    out: &mut EncodedPage,
) {
    let page_of = |key| page::page_of(key, shape.pages);
    let number = keys.clone().next().map(page_of);
    let last = keys.clone().next_back().map(page_of);
    assert_eq!(number, last, "records of two pages");
    let count = u32::try_from(keys.len()).expect("a page holds far fewer than 2^32 records");
    let mut filling = Filling::new();
    for key in keys {
        filling.insert(key, shape.probes);
    }
    filling.write(&mut out.bits);
    out.seal(number, Some(count));
}

/// Encodes one block of a part: its sorted, distinct records, if any.
///
/// # Panics
///
/// If the records are out of order, or of several blocks.
pub fn encode_block(shape: Shape, records: &[Record], out: &mut EncodedPage) {
    out.block.clear();
    part::encode(shape, records, &mut out.scratch, &mut out.block);
    out.seal_block(shape, records.first().map(|first| first.key), records.len());
}

/// Does the same for records that differ only in their keys from each other and from `like`.
///
/// # Panics
///
/// As [`encode_block`].
pub(crate) fn encode_block_alike(shape: Shape, keys: &[Key], like: &Record, out: &mut EncodedPage) {
    part::encode_alike(shape, keys, Class::of(like), &mut out.block);
    out.seal_block(shape, keys.first().copied(), keys.len());
}

/// Returns the sources section, if all of it can be read again.
pub(super) fn check_sources(spec: &Spec) -> Result<Vec<u8>, &'static str> {
    format::check_spec(spec)?;
    let sources = sources::encode(&spec.sources);
    match sources.len() as u64 <= sources::MAX_SOURCES_BYTES {
        true => Ok(sources),
        false => Err("the names of the sources take more than 64 MiB"),
    }
}

/// Number of bytes collected before they are written.
const BUFFER_BYTES: usize = 1 << 20;

/// A filter file that is being written.
#[derive(Debug)]
pub struct Writer {
    pub(super) replacement: Replacement,
    pub(super) header: Header,
    pub(super) pages: Stream,
    pub(super) records: Stream,
    pub(super) sums: Vec<u8>,
    pub(super) directory: Vec<u8>,
    pub(super) sources: Vec<u8>,
    /// Numbers of the pages that are not appended yet.
    pub(super) left: Range<u64>,
    pub(super) counted: Option<u64>,
}

impl Writer {
    /// Begins a filter of exactly this many entries, with a given shape, in a claimed output.
    ///
    /// # Errors
    ///
    /// [`Error::Unwritable`] when the spec exceeds a limit.
    pub fn begin(
        replacement: Replacement,
        spec: Spec,
        entries: u64,
        shape: Shape,
    ) -> Result<Self, Error> {
        Self::start(replacement, spec, entries, shape, None)
    }

    /// Begins a part of a list with about this many entries, made from a text with this XXH3-128.
    /// It takes blocks from [`encode_block`]. [`finish_part`](Self::finish_part) sets the kinds of
    /// entry.
    ///
    /// # Errors
    ///
    /// [`Error::Unwritable`] when the spec exceeds a limit, or has no records.
    pub fn begin_part(
        replacement: Replacement,
        spec: Spec,
        entries: u64,
        digest: u128,
    ) -> Result<Self, Error> {
        let records = spec.records;
        let part = Self::start(
            replacement,
            spec,
            entries,
            part::shape(entries),
            Some(digest),
        )?;
        if records {
            Ok(part)
        } else {
            Err(part.unwritable("a part of a list without records"))
        }
    }

    fn start(
        replacement: Replacement,
        spec: Spec,
        entries: u64,
        shape: Shape,
        part: Option<u128>,
    ) -> Result<Self, Error> {
        let unwritable = |what| Error::Unwritable {
            path: replacement.target().to_owned(),
            what,
        };
        let sources = check_sources(&spec).map_err(unwritable)?;
        let blocks = if spec.records { shape.pages } else { 0 };
        let pages = part.map_or(shape.pages, |_| 0);
        let sections = Sections::lay_out(pages, blocks, sources.len() as u64, 0);
        let header = Header {
            spec,
            shape,
            entries,
            estimated: false,
            set_bits: 0,
            part,
            sections,
        };
        Ok(Self::of(replacement, header, sources, 0..shape.pages))
    }

    /// Begins to write these pages, in the sections of the header.
    pub(super) fn of(
        replacement: Replacement,
        header: Header,
        sources: Vec<u8>,
        pages: Range<u64>,
    ) -> Self {
        Self {
            replacement,
            pages: Stream::at(header.sections.pages.offset),
            records: Stream::at(header.sections.records.offset),
            header,
            sums: Vec::new(),
            directory: Vec::new(),
            sources,
            left: pages,
            counted: Some(0),
        }
    }

    /// Returns the shape for which the pages must be encoded.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.header.shape
    }

    /// Returns what the filter is made for.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.header.spec
    }

    /// Returns the numbers of the pages that are not appended yet.
    pub(crate) fn pages_left(&self) -> Range<u64> {
        self.left.clone()
    }

    /// Returns whether this is a part of a list.
    fn is_part(&self) -> bool {
        self.header.part.is_some()
    }

    /// Appends the next pages.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the disk is full or fails; [`Error::Unwritable`] when a page
    /// is not the next one.
    pub fn append(&mut self, pages: &[EncodedPage]) -> Result<(), Error> {
        for page in pages {
            let Some(next) = self.left.next() else {
                return Err(self.unwritable("more pages than the shape has"));
            };
            if page.number.is_some_and(|number| number != next) {
                return Err(self.unwritable("pages out of order"));
            }
            self.counted = self
                .counted
                .zip(page.count)
                .map(|(sum, count)| sum + u64::from(count));
            if !self.is_part() {
                self.header.set_bits += u64::from(page.set_bits);
                self.sums.extend_from_slice(&page.sum.to_le_bytes());
                self.pages.write(&self.replacement, page.bits.as_slice())?;
            }
            if self.header.spec.records {
                self.records.write(&self.replacement, &page.block)?;
                self.add_slot(self.records_bytes(), page.block_sum);
            }
        }
        Ok(())
    }

    /// Returns the size of the records written so far, in bytes.
    pub(super) fn records_bytes(&self) -> u64 {
        self.records.end() - self.header.sections.records.offset
    }

    /// Adds a row to the directory.
    pub(super) fn add_slot(&mut self, end: u64, sum: u64) {
        self.directory.extend_from_slice(&end.to_le_bytes());
        self.directory.extend_from_slice(&sum.to_le_bytes());
    }

    /// Writes the rest, checks the whole file, and replaces the old one with it.
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete). The old file then stays.
    pub fn finish(self) -> Result<Header, Error> {
        self.complete()?.commit()
    }

    /// Does the same for a part of a list, whose entries are of these kinds.
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete). The old file then stays.
    pub fn finish_part(mut self, kinds: u8) -> Result<Header, Error> {
        self.header.spec.kinds = kinds;
        self.header.entries = self.counted.unwrap_or(0);
        self.finish()
    }

    /// Writes the rest and checks the whole file. The caller then replaces the old file with it.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the disk is full or fails, [`Error::Unwritable`] when pages or entries
    /// are missing, [`Error::Invalid`] when what is read back differs from what was written.
    pub fn complete(mut self) -> Result<Complete, Error> {
        if !self.left.is_empty() {
            return Err(self.unwritable("fewer pages than the shape has"));
        }
        if let Some(counted) = self
            .counted
            .filter(|&counted| counted != self.header.entries)
        {
            let declared = self.header.entries;
            let fault = Fault::Count { declared, counted };
            return Err(Error::invalid(self.replacement.target(), fault));
        }
        if self.counted.is_none() && self.header.spec.records {
            return Err(self.unwritable("pages without records in a filter with records"));
        }
        self.header.estimated = self.counted.is_none();
        self.write_sections()?;
        self.replacement.sync()?;
        write_at(&self.replacement, &format::encode_header(&self.header), 0)?;
        // Reading a part checks every block, and nobody uses the part before that.
        if !self.is_part() {
            file::check_sums(self.replacement.path())?;
        }
        Ok(Complete {
            replacement: self.replacement,
            header: self.header,
        })
    }

    /// Writes everything except the header, and sets the sums and lengths of the sections.
    pub(super) fn write_sections(&mut self) -> Result<(), Error> {
        self.pages.flush(&self.replacement)?;
        self.records.flush(&self.replacement)?;
        let records_bytes = self.records_bytes();
        let sections = &mut self.header.sections;
        sections.records.length = records_bytes;
        for (section, bytes) in [
            (&mut sections.sums, &self.sums),
            (&mut sections.directory, &self.directory),
            (&mut sections.sources, &self.sources),
        ] {
            section.sum = XxHash3_64::oneshot(bytes);
            write_at(&self.replacement, bytes, section.offset)?;
        }
        Ok(())
    }

    pub(super) fn unwritable(&self, what: &'static str) -> Error {
        Error::Unwritable {
            path: self.replacement.target().to_owned(),
            what,
        }
    }
}

/// A filter file that was written and checked, under its hidden name. Dropping it removes the file.
#[derive(Debug)]
pub struct Complete {
    replacement: Replacement,
    header: Header,
}

impl Complete {
    /// Returns its header.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the SHA-256 of the whole file; `None` if `go_on`, which is called regularly,
    /// returns `false`.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when it cannot be read.
    pub fn digest(&self, go_on: impl FnMut() -> bool) -> Result<Option<Digest>, Error> {
        Digest::of_file(self.replacement.file(), go_on)
            .map_err(Error::io(self.replacement.path(), "read"))
    }

    /// Replaces the old file with it.
    ///
    /// # Errors
    ///
    /// As [`Replacement::commit`].
    pub fn commit(self) -> Result<Header, Error> {
        self.replacement.commit()?;
        Ok(self.header)
    }
}

/// A section that grows at its end, and is written in large pieces.
#[derive(Debug)]
pub(super) struct Stream {
    written_to: u64,
    buffer: Vec<u8>,
}

impl Stream {
    fn at(offset: u64) -> Self {
        Self {
            written_to: offset,
            buffer: Vec::new(),
        }
    }

    fn end(&self) -> u64 {
        self.written_to + self.buffer.len() as u64
    }

    pub(super) fn write(&mut self, replacement: &Replacement, bytes: &[u8]) -> Result<(), Error> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush(replacement)?;
        }
        Ok(())
    }

    fn flush(&mut self, replacement: &Replacement) -> Result<(), Error> {
        write_at(replacement, &self.buffer, self.written_to)?;
        self.written_to = self.end();
        self.buffer.clear();
        Ok(())
    }
}

pub(super) fn write_at(replacement: &Replacement, bytes: &[u8], offset: u64) -> Result<(), Error> {
    replacement
        .file()
        .write_all_at(bytes, offset)
        .map_err(Error::io(replacement.target(), "write"))
}
