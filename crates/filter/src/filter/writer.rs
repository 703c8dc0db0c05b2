//! Writing a filter: pages are encoded on any thread and appended in order; the header is last.
//!
//! [`EncodedPage::encode`] is pure, and can run on many threads. [`Writer`] takes the encoded pages in
//! page order, and writes the two growing sections, pages and records, to their places. The header
//! is written last: a file without it is not a filter. Before the new file takes the old one's name,
//! it is read again and every sum is checked.

use std::ops::Range;
use std::os::unix::fs::FileExt;

use fearless_simd::{Level, dispatch};
use twox_hash::XxHash3_64;

use super::error::{Error, Problem};
use super::file::FilterFile;
use super::format::{self, DIRECTORY, Header, PAGES, RECORDS, SOURCES, SUMS, Spec};
use super::packed::length;
use super::page::{self, Filling, PAGE_BYTES, Page};
use super::record::Batch;
use super::records::{self, Layout, Scratch};
use super::sizing::Shape;
use super::sources;
use crate::base::parallel::processors;
use crate::base::replacement::Replacement;

/// One page as it will be in the file, with its records. Reusable: it keeps its memory, so that
/// encoding many pages allocates once.
#[derive(Debug)]
pub struct EncodedPage {
    bits: Box<Page>,
    sum: u64,
    set_bits: u32,
    number: Option<u64>,
    count: u32,
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
            count: 0,
            block: Vec::new(),
            block_sum: 0,
            scratch: Scratch::default(),
        };
        page.sum_bits();
        page.seal(None, 0);
        page
    }
}

impl EncodedPage {
    /// Encodes one page: its sorted, distinct records, if any, which are at some places of a batch.
    /// `filling` must be clear, and is so again.
    ///
    /// # Panics
    /// If the records are out of order, or of several pages.
    pub fn encode(
        &mut self,
        layout: Layout,
        (records, places): (&Batch, Range<usize>),
        filling: &mut Filling,
    ) {
        let keys = &records.keys[places.clone()];
        self.block.clear();
        if layout.records {
            records::encode(
                layout,
                (records, places),
                &mut self.scratch,
                &mut self.block,
            );
        }
        if layout.bits {
            let bits = &mut self.bits;
            dispatch!(Level::new(), simd => {
                filling.insert(keys.iter().copied(), layout.shape.probes);
                filling.write(simd, bits);
            });
            self.sum_bits();
        }
        let number = records::page_of_all(keys, layout.shape);
        self.seal(number, length(keys.len()));
    }

    fn seal(&mut self, number: Option<u64>, count: u32) {
        self.block_sum = records::sum(&self.block);
        self.number = number;
        self.count = count;
    }

    fn sum_bits(&mut self) {
        self.sum = page::sum(&self.bits);
        self.set_bits = page::count_set(&self.bits);
    }
}

const BUFFER_BYTES: usize = 1 << 20;

/// A filter file that is being written.
#[derive(Debug)]
pub struct Writer {
    replacement: Replacement,
    header: Header,
    pages: Stream,
    records: Stream,
    sums: Vec<u8>,
    directory: Vec<u8>,
    sources: Vec<u8>,
    left: Range<u64>,
    counted: u64,
}

impl Writer {
    /// Begins a filter of exactly this many entries, with a given shape, in a claimed output; with the
    /// XXH3-128 of a text, a part of a list made from it: its pages are not written, only their records.
    ///
    /// # Errors
    /// [`Error::Unwritable`] when the spec exceeds a limit, or that of a part has no records.
    pub fn begin(
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
        format::check_spec(&spec).map_err(unwritable)?;
        if part.is_some() && !spec.records {
            return Err(unwritable("a part of a list without records"));
        }
        let sources = sources::encode(&spec.sources);
        if sources.len() as u64 > sources::MAX_SOURCES_BYTES {
            return Err(unwritable("the names of the sources take more than 64 MiB"));
        }
        let blocks = if spec.records { shape.pages } else { 0 };
        let pages = part.map_or(shape.pages, |_| 0);
        let sections = format::lay_out(pages, blocks, sources.len() as u64, 0);
        let header = Header {
            spec,
            shape,
            entries,
            estimated: false,
            set_bits: 0,
            part,
            sections,
        };
        Ok(Self {
            replacement,
            pages: Stream::at(header.sections[PAGES].offset),
            records: Stream::at(header.sections[RECORDS].offset),
            sums: Vec::new(),
            directory: Vec::new(),
            sources,
            left: 0..header.shape.pages,
            counted: 0,
            header,
        })
    }

    /// Returns what must be encoded for each page.
    pub fn layout(&self) -> Layout {
        Layout {
            shape: self.header.shape,
            bits: self.header.part.is_none(),
            records: self.header.spec.records,
        }
    }

    /// Appends the next pages.
    pub fn append(&mut self, pages: &[EncodedPage]) -> Result<(), Error> {
        for page in pages {
            let Some(next) = self.left.next() else {
                return Err(self.unwritable("more pages than the shape has"));
            };
            if page.number.is_some_and(|number| number != next) {
                return Err(self.unwritable("pages out of order"));
            }
            self.counted += u64::from(page.count);
            if self.header.part.is_none() {
                self.header.set_bits += u64::from(page.set_bits);
                self.sums.extend_from_slice(&page.sum.to_le_bytes());
                self.pages.write(&self.replacement, page.bits.as_slice())?;
            }
            if self.header.spec.records {
                self.records.write(&self.replacement, &page.block)?;
                let slot = [self.records_bytes(), page.block_sum].map(u64::to_le_bytes);
                self.directory.extend_from_slice(slot.as_flattened());
            }
        }
        Ok(())
    }

    fn records_bytes(&self) -> u64 {
        self.records.end() - self.header.sections[RECORDS].offset
    }

    /// Writes the rest, checks the whole file, and replaces the old one with it, which otherwise stays.
    pub fn finish(self) -> Result<Header, Error> {
        let (replacement, header) = self.complete()?;
        replacement.commit()?;
        Ok(header)
    }

    /// Writes the rest and checks the whole file. The caller then replaces the old file with it, or drops
    /// it, which removes it.
    ///
    /// # Errors
    /// [`Error::File`] when the disk is full or fails, [`Error::Unwritable`] when pages or entries
    /// are missing, [`Error::Invalid`] when what is read back differs from what was written.
    pub fn complete(mut self) -> Result<(Replacement, Header), Error> {
        if !self.left.is_empty() {
            return Err(self.unwritable("fewer pages than the shape has"));
        }
        if self.counted != self.header.entries {
            let problem = Problem::count(self.header.entries, self.counted);
            return Err(Error::invalid(self.replacement.target(), problem));
        }
        self.write_sections()?;
        self.replacement.sync()?;
        write_at(&self.replacement, &format::encode_header(&self.header), 0)?;
        // Reading a part checks every block, and nobody uses the part before that.
        if self.header.part.is_none() {
            FilterFile::open(self.replacement.path())?.check(false, processors())?;
        }
        Ok((self.replacement, self.header))
    }

    fn write_sections(&mut self) -> Result<(), Error> {
        self.pages.flush(&self.replacement)?;
        self.records.flush(&self.replacement)?;
        let records_bytes = self.records_bytes();
        let sections = &mut self.header.sections;
        sections[RECORDS].length = records_bytes;
        for (section, bytes) in [
            (SUMS, &self.sums),
            (DIRECTORY, &self.directory),
            (SOURCES, &self.sources),
        ] {
            let section = &mut sections[section];
            section.sum = XxHash3_64::oneshot(bytes);
            write_at(&self.replacement, bytes, section.offset)?;
        }
        Ok(())
    }

    fn unwritable(&self, what: &'static str) -> Error {
        Error::Unwritable {
            path: self.replacement.target().to_owned(),
            what,
        }
    }
}

/// A section that grows at its end, and is written in large pieces.
#[derive(Debug)]
pub(super) struct Stream {
    written_to: u64,
    buffer: Vec<u8>,
}

impl Stream {
    pub(super) fn at(offset: u64) -> Self {
        Self {
            written_to: offset,
            buffer: Vec::new(),
        }
    }

    pub(super) fn end(&self) -> u64 {
        self.written_to + self.buffer.len() as u64
    }

    pub(super) fn write(&mut self, replacement: &Replacement, bytes: &[u8]) -> Result<(), Error> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush(replacement)?;
        }
        Ok(())
    }

    pub(super) fn flush(&mut self, replacement: &Replacement) -> Result<(), Error> {
        write_at(replacement, &self.buffer, self.written_to)?;
        self.written_to = self.end();
        self.buffer.clear();
        Ok(())
    }
}

fn write_at(replacement: &Replacement, bytes: &[u8], offset: u64) -> Result<(), Error> {
    replacement
        .file()
        .write_all_at(bytes, offset)
        .map_err(Error::io(replacement.target(), "write"))
}
