//! Reading a filter file, or a part of a list.
//!
//! A list that is too large for one machine is cut into pieces. Each piece becomes a part, on any
//! machine and in any order; all parts together become the filter. A part is a filter file without
//! pages: no look-up uses it, since most of its list is missing. Its records are in blocks as in
//! the filter of its entries.
//!
//! What is checked when:
//!
//! | | header, sizes, sums, directory, sources | pages against their sums, number of bits, rate | records against their sums | every record decoded and found in its page |
//! |-|-|-|-|-|
//! | open         | yes | a page when it is read | a block when it is read | |
//! | pages loaded | yes | yes | a block when it is read | |
//! | after writing | yes | yes | yes | |
//! | verify, check | yes | yes | yes | yes |
//!
//! Memory is allocated only after the length of the file has shown that the file has as many bytes.

use std::fs::File;
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use twox_hash::XxHash3_64;

use super::error::{Error, Problem};
use super::format::{
    self, DIRECTORY, HEADER_BYTES, Header, PAGES, RECORDS, SOURCES, SUMS, Section,
};
use super::page::{self, PAGE_BYTES, Page};
use super::record::{Batch, Class, Key};
use super::records::{self, RecordBlock};
use super::sources;
use crate::base::access::open_regular;
use crate::base::replacement;

/// Maximum size of records that are kept in memory along with the pages: those of about 200,000
/// entries. Whatever happens to such a file later, for example if a new list overwrites it, a hit
/// can still be confirmed.
const RECORDS_IN_MEMORY_BYTES: u64 = 1 << 20;

/// An open filter file, whose small sections are read and checked.
#[derive(Debug)]
pub struct FilterFile {
    pub(super) path: PathBuf,
    pub(super) handle: File,
    /// The whole header.
    pub header: Header,
    sums: Vec<u64>,
    /// Where the block of each page begins in the records, and their end.
    starts: Vec<u64>,
    block_sums: Vec<u64>,
}

impl FilterFile {
    /// Opens a file and reads its header, without the sources; returns their number.
    pub(super) fn open_header(path: &Path) -> Result<(File, Header, u32), Error> {
        let (file, file_bytes) = open(path)?;
        let mut bytes = [0; HEADER_BYTES];
        let there = &mut bytes[..index(file_bytes).min(HEADER_BYTES)];
        file.read_exact_at(there, 0)
            .map_err(Error::io(path, "read the header"))?;
        let (header, sources) = format::decode_header(&bytes, file_bytes)
            .map_err(|problem| Error::invalid(path, problem))?;
        Ok((file, header, sources))
    }

    /// Opens a filter, or a part of a list, and checks what it reads: header, sums, directory and sources.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let invalid = |problem| Error::invalid(path, problem);
        let (file, mut header, sources) = Self::open_header(path)?;
        let section = |part: &'static str, section: Section| {
            let mut bytes = room(path, section.length, section.length)?;
            bytes.resize(index(section.length), 0);
            file.read_exact_at(&mut bytes, section.offset)
                .map_err(Error::io(path, "read"))?;
            if XxHash3_64::oneshot(&bytes) != section.sum {
                return Err(invalid(Problem::sum(part)));
            }
            Ok(bytes)
        };
        let sums = section("page sums", header.sections[SUMS])?;
        let (sums, _) = sums.as_chunks();
        let directory = section("directory rows", header.sections[DIRECTORY])?;
        let (starts, block_sums) =
            decode_directory(&directory, header.sections[RECORDS].length).map_err(invalid)?;
        let listed = section("sources", header.sections[SOURCES])?;
        header.spec.sources = sources::decode(&listed, sources).map_err(invalid)?;
        Ok(Self {
            path: path.to_owned(),
            handle: file,
            header,
            sums: sums.iter().copied().map(u64::from_le_bytes).collect(),
            starts,
            block_sums,
        })
    }

    pub(super) fn invalid(&self, problem: Problem) -> Error {
        Error::invalid(&self.path, problem)
    }

    /// Opens a part of a list.
    pub fn open_part(path: &Path) -> Result<Self, Error> {
        let file = Self::open(path)?;
        match file.header.part {
            Some(_) => Ok(file),
            None => Err(file.invalid(Problem::unfit(
                "not a part of a list; make one with blocklist-compile build --part",
            ))),
        }
    }

    pub(super) fn open_filter(path: &Path) -> Result<Self, Error> {
        let file = Self::open(path)?;
        match file.header.part {
            None => Ok(file),
            Some(_) => Err(file.invalid(Problem::unfit(
                "one part of a list, not a filter; merge all its parts with blocklist-compile merge",
            ))),
        }
    }

    /// Returns whether the file is a part of a list.
    pub fn is_part(path: &Path) -> Result<bool, Error> {
        Ok(Self::open_header(path)?.1.part.is_some())
    }

    pub(super) fn page(&self, number: u64) -> Result<Page, Error> {
        let mut page = [0; PAGE_BYTES];
        self.read_pages(number, std::slice::from_mut(&mut page))?;
        Ok(page)
    }

    fn read_pages(&self, first: u64, pages: &mut [Page]) -> Result<(), Error> {
        let offset = self.header.sections[PAGES].offset + first * PAGE_BYTES as u64;
        self.handle
            .read_exact_at(pages.as_flattened_mut(), offset)
            .map_err(Error::io(&self.path, "read a page"))?;
        for (number, page) in (first..).zip(pages) {
            if self.sums.get(index(number)) != Some(&page::sum(page)) {
                let what = format!("page {number} does not match its checksum");
                return Err(self.invalid(Problem::damaged(what)));
            }
        }
        Ok(())
    }

    fn range(&self, number: u64) -> Range<u64> {
        let number = index(number);
        self.starts[number]..self.starts[number + 1]
    }

    pub(super) fn small_records_bytes(&self) -> u64 {
        let bytes = self.header.sections[RECORDS].length;
        match bytes <= RECORDS_IN_MEMORY_BYTES {
            true => bytes,
            false => 0,
        }
    }

    /// Returns the records of all pages, if they are kept in memory and are sound. Damaged records
    /// stay in the file, where each look-up finds the problem.
    pub(super) fn small_records(&self) -> Option<Vec<u8>> {
        if self.small_records_bytes() == 0 {
            return None;
        }
        // As much memory as is counted for it.
        let mut all = Vec::with_capacity(index(self.small_records_bytes()));
        let mut block = Vec::new();
        for number in 0..self.header.shape.pages {
            self.read_block(number, &mut block).ok()?;
            all.extend_from_slice(&block);
        }
        Some(all)
    }

    pub(super) fn block_in<'a>(&self, all: &'a [u8], key: Key) -> &'a [u8] {
        let range = self.range(page::page_of(key, self.header.shape.pages));
        &all[index(range.start)..index(range.end)]
    }

    pub(super) fn read_block(&self, number: u64, block: &mut Vec<u8>) -> Result<(), Error> {
        let range = self.range(number);
        // The directory was checked against the file's length.
        block.resize(index(range.end - range.start), 0);
        self.handle
            .read_exact_at(block, self.header.sections[RECORDS].offset + range.start)
            .map_err(Error::io(&self.path, "read the records of a page"))?;
        if records::sum(block) != self.block_sums[index(number)] {
            let what = "they do not match their checksum";
            return Err(self.invalid(Problem::records(number, what)));
        }
        Ok(())
    }

    pub(super) fn parse<'a>(&self, number: u64, block: &'a [u8]) -> Result<RecordBlock<'a>, Error> {
        RecordBlock::parse(self.header.shape, self.header.part.is_some(), number, block)
            .map_err(|what| self.invalid(Problem::records(number, what)))
    }

    /// Replaces `records` by those of a page. `block` is working memory.
    pub(super) fn decode(
        &self,
        number: u64,
        block: &mut Vec<u8>,
        records: &mut Batch,
    ) -> Result<(), Error> {
        self.read_block(number, block)?;
        let spec = &self.header.spec;
        self.parse(number, block)?
            .decode(spec.kinds, spec.sources.len(), records)
            .map_err(|what| self.invalid(Problem::records(number, what)))
    }

    /// Visits the records of some pages in the order of their keys, as runs that differ only in
    /// their keys.
    pub fn each_run<E: From<Error>>(
        &self,
        pages: Range<u64>,
        mut visit: impl FnMut(Class, &[Key]) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut block, mut records) = (Vec::new(), Batch::default());
        for page in pages {
            self.decode(page, &mut block, &mut records)?;
            for (class, keys) in records.runs() {
                visit(class, keys)?;
            }
        }
        Ok(())
    }

    pub(super) fn each_page(
        &self,
        first: u64,
        end: u64,
        mut visit: impl FnMut(u64, &Page) -> Result<(), Error>,
    ) -> Result<(), Error> {
        /// Number of pages read at once: 256 KiB, which stay in the second-level cache.
        const AT_ONCE: usize = 64;
        let mut buffer = vec![[0; PAGE_BYTES]; AT_ONCE];
        let mut next = first;
        while next < end {
            let count = AT_ONCE.min(usize::try_from(end - next).unwrap_or(AT_ONCE));
            let pages = &mut buffer[..count];
            self.read_pages(next, pages)?;
            for page in pages {
                visit(next, page)?;
                next += 1;
            }
        }
        Ok(())
    }
}

pub(super) fn open(path: &Path) -> Result<(File, u64), Error> {
    let file = open_regular(path).map_err(|source| match source.kind() {
        ErrorKind::InvalidInput => replacement::Error::NotAFile(path.to_owned()).into(),
        _ => Error::io(path, "open")(source),
    })?;
    let metadata = file.metadata();
    let bytes = metadata.map_err(Error::io(path, "read its length"))?.len();
    Ok((file, bytes))
}

pub(super) fn room<T>(path: &Path, count: u64, bytes: u64) -> Result<Vec<T>, Error> {
    let mut room = Vec::new();
    let count = usize::try_from(count).ok();
    match count.map(|count| room.try_reserve_exact(count)) {
        Some(Ok(())) => Ok(room),
        Some(Err(_)) | None => Err(Error::Memory {
            path: path.to_owned(),
            bytes,
        }),
    }
}

/// Decodes the directory to the starts and the sums of the blocks. The ends of its rows must rise, and the
/// last must be the end of the records, so that no block reaches out of the section.
fn decode_directory(bytes: &[u8], records_bytes: u64) -> Result<(Vec<u64>, Vec<u64>), Problem> {
    let malformed = Problem::damaged("malformed directory");
    let (rows, _) = bytes.as_chunks().0.as_chunks::<2>();
    let mut starts = Vec::with_capacity(rows.len() + 1);
    let mut sums = Vec::with_capacity(rows.len());
    let mut before = 0;
    starts.push(before);
    for row in rows {
        let [end, sum] = row.map(u64::from_le_bytes);
        // A block grows with its page's records: 4 GiB would be a page with 200 million.
        if end < before || end - before > u64::from(u32::MAX) {
            return Err(malformed);
        }
        before = end;
        starts.push(end);
        sums.push(sum);
    }
    match before == records_bytes {
        true => Ok((starts, sums)),
        false => Err(malformed),
    }
}

fn index(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_blocks_rise_to_the_end_of_the_records() {
        let read = |ends: &[u64]| {
            let row = |&end: &u64| [end.to_le_bytes(), [0; 8]].concat();
            let rows: Vec<u8> = ends.iter().flat_map(row).collect();
            decode_directory(&rows, 1 << 33).is_ok()
        };
        let [half, all] = [1 << 32, 1 << 33];
        let most = u64::from(u32::MAX);
        assert!(read(&[0, most, most, 2 * most, all]));
        // Not all records; more than all; back; a block of 4 GiB.
        assert!(!read(&[0, most, 2 * most]));
        assert!(!read(&[0, most, 2 * most, all + 1]));
        assert!(!read(&[0, most, 8, most, 2 * most, all]));
        assert!(!read(&[0, half, 2 * most, all]));
        assert!(!read(&[]));
    }
}
