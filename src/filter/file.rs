//! Reading a filter file, and checking it.
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
use super::record::Key;
use super::record_block::{Decoded, RecordBlock};
use super::records;
use super::sizing;
use super::sources;
use crate::base::access::open_regular;
use crate::base::parallel::{on_threads, processors};

/// Maximum size of records that are kept in memory along with the pages: those of about 200,000
/// entries. Whatever happens to such a file later, for example if a new list overwrites it, a hit
/// can still be confirmed.
pub const RECORDS_IN_MEMORY_BYTES: u64 = 1 << 20;

/// A page's row in the directory.
#[derive(Clone, Copy, Debug)]
struct Slot {
    end: u64,
    sum: u64,
}

/// An open filter file, whose small sections are read and checked.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) header: Header,
    sums: Vec<u64>,
    directory: Vec<Slot>,
}

/// Totals of the pages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PageCounts {
    pub(super) set_bits: u64,
    pub(super) records: u64,
    /// Sum of the false-positive rates of the pages.
    pub(super) rates: f64,
    /// Sum of the entries estimated from the fill of each page.
    pub(super) entries: f64,
}

impl Reader {
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

    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let failed = |action| Error::io(path, action);
        let invalid = |problem| Error::invalid(path, problem);
        let (file, mut header, sources) = Self::open_header(path)?;
        let section = |part: &'static str, section: Section| {
            let no_memory = || Error::Memory {
                path: path.to_owned(),
                bytes: section.length,
            };
            let length = usize::try_from(section.length).map_err(|_| no_memory())?;
            let mut bytes = Vec::new();
            let room = bytes.try_reserve_exact(length);
            room.map_err(|_| no_memory())?;
            bytes.resize(length, 0);
            file.read_exact_at(&mut bytes, section.offset)
                .map_err(failed("read"))?;
            if XxHash3_64::oneshot(&bytes) != section.sum {
                return Err(invalid(Problem::sum(part)));
            }
            Ok(bytes)
        };
        let sums = section("page sums", header.sections[SUMS])?;
        let sums = sums
            .as_chunks()
            .0
            .iter()
            .map(|sum| u64::from_le_bytes(*sum));
        let directory = section("directory rows", header.sections[DIRECTORY])?;
        let directory =
            decode_directory(&directory, header.sections[RECORDS].length).map_err(invalid)?;
        let listed = section("sources", header.sections[SOURCES])?;
        header.spec.sources = sources::decode(&listed, sources).map_err(invalid)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            header,
            sums: sums.collect(),
            directory,
        })
    }

    pub(super) fn invalid(&self, problem: Problem) -> Error {
        Error::invalid(&self.path, problem)
    }

    pub(super) fn no_records(&self) -> Error {
        Error::NoRecords {
            path: self.path.clone(),
        }
    }

    /// Refuses a part of a list.
    pub(super) fn of_filter(self) -> Result<Self, Error> {
        match self.header.part {
            Some(_) => Err(self.invalid(Problem::Part)),
            None => Ok(self),
        }
    }

    /// Reads one page, and checks its sum.
    pub(super) fn page(&self, number: u64) -> Result<Page, Error> {
        let mut page = [0; PAGE_BYTES];
        self.read_pages(number, std::slice::from_mut(&mut page))?;
        Ok(page)
    }

    /// Reads pages from number `first` on, and checks their sums.
    fn read_pages(&self, first: u64, pages: &mut [Page]) -> Result<(), Error> {
        let offset = self.header.sections[PAGES].offset + first * PAGE_BYTES as u64;
        self.file
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

    /// Returns the range of a page's records in their section.
    fn range(&self, number: u64) -> Range<u64> {
        let start = number
            .checked_sub(1)
            .map_or(0, |before| self.directory[index(before)].end);
        start..self.directory[index(number)].end
    }

    /// Returns the size of all records if they are kept in memory, else 0.
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
        let bytes = usize::try_from(self.small_records_bytes()).ok()?;
        if bytes == 0 {
            return None;
        }
        let mut all = vec![0; bytes];
        let offset = self.header.sections[RECORDS].offset;
        self.file.read_exact_at(&mut all, offset).ok()?;
        let is_sound = (0..).zip(&self.directory).all(|(number, slot)| {
            let range = self.range(number);
            records::sum(&all[index(range.start)..index(range.end)]) == slot.sum
        });
        is_sound.then_some(all)
    }

    /// Returns the block of the page of `key`, from the records of all pages.
    pub(super) fn block_in<'a>(&self, all: &'a [u8], key: Key) -> &'a [u8] {
        let range = self.range(page::page_of(key, self.header.shape.pages));
        &all[index(range.start)..index(range.end)]
    }

    /// Reads a page's records into `block`, and checks their sum.
    pub(super) fn read_block(&self, number: u64, block: &mut Vec<u8>) -> Result<(), Error> {
        let slot = self.directory[index(number)];
        let range = self.range(number);
        // The directory was checked against the file's length.
        block.resize(index(range.end - range.start), 0);
        self.file
            .read_exact_at(block, self.header.sections[RECORDS].offset + range.start)
            .map_err(Error::io(&self.path, "read the records of a page"))?;
        if records::sum(block) != slot.sum {
            let what = "they do not match their checksum";
            return Err(self.invalid(Problem::Records { page: number, what }));
        }
        Ok(())
    }

    /// Parses the block of a page.
    fn parse<'a>(&self, number: u64, block: &'a [u8]) -> Result<RecordBlock<'a>, Error> {
        let parsed = RecordBlock::parse(self.header.shape, number, block);
        parsed
            .and_then(|parsed| parsed.check_kind(self.header.part.is_some()))
            .map_err(|problem| self.invalid(problem))
    }

    /// Replaces `block` by the records of a page, decoded and checked.
    pub(super) fn decode(&self, number: u64, block: &mut Decoded) -> Result<(), Error> {
        let Decoded {
            bytes,
            keys,
            numbers,
            classes,
        } = block;
        self.read_block(number, bytes)?;
        let parsed = self.parse(number, bytes)?;
        let spec = &self.header.spec;
        let checked = parsed.classes(spec.kinds, spec.sources.len(), classes);
        checked
            .and_then(|()| parsed.decode_keys(keys, numbers))
            .map_err(|problem| self.invalid(problem))
    }

    /// Reads all pages into memory, and counts their bits.
    pub(super) fn load(&self) -> Result<(Vec<Page>, PageCounts), Error> {
        let no_memory = || Error::Memory {
            path: self.path.clone(),
            bytes: self.header.sections[PAGES].length,
        };
        let count = usize::try_from(self.header.shape.pages).map_err(|_| no_memory())?;
        let mut pages: Vec<Page> = Vec::new();
        pages.try_reserve_exact(count).map_err(|_| no_memory())?;
        let mut counts = PageCounts::default();
        self.each_page(0, self.header.shape.pages, |_, page| {
            self.count_page(page, &mut counts);
            pages.push(*page);
            Ok(())
        })?;
        Ok((pages, counts))
    }

    /// Visits the pages from `first` to before `end`. Reads many pages at once.
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

    pub(super) fn count_page(&self, page: &Page, counts: &mut PageCounts) {
        let set = page::count_set(page);
        counts.set_bits += u64::from(set);
        counts.rates += sizing::rate_of_fill(set, self.header.shape.probes);
        counts.entries += sizing::entries_of_fill(set, self.header.shape.probes);
    }

    /// Checks that the filter has as many bits set as its header says, and as many as its entries
    /// would set, and that its false-positive rate is as low as declared.
    pub(super) fn check_fill(&self, counts: &PageCounts) -> Result<(), Error> {
        let declared = self.header.set_bits;
        let set = counts.set_bits;
        if set != declared {
            let what = format!("{set} bits are set, but the header says {declared}");
            return Err(self.invalid(Problem::damaged(what)));
        }
        let pages = self.header.shape.pages as f64;
        let fpr = self.header.spec.fpr;
        let rate = counts.rates / pages;
        // Twice the target. The mean of a few unevenly loaded pages deviates more: at a target of
        // 1e-12, one in a million filters of two pages reaches 15 times the target.
        if rate > 2.0 * fpr * (1.0 + 32.0 / pages) {
            return Err(self.invalid(Problem::Rate { rate, fpr }));
        }
        let entries = self.header.entries as f64;
        // Eight standard deviations, and the error of the estimate if the deviation is small: its
        // bias, far below a thousandth, and a few entries whose bits coincide.
        let deviation = sizing::estimate_deviation(entries, self.header.shape);
        if (counts.entries - entries).abs() > 8.0 * deviation + entries / 1000.0 + 3.0 {
            return Err(self.invalid(Problem::Entries {
                declared: self.header.entries,
                estimated: counts.entries,
            }));
        }
        Ok(())
    }

    /// Reads everything, on up to `threads` threads. With `deep`, decodes every record and looks it
    /// up in its page.
    pub(super) fn check(&self, deep: bool, threads: usize) -> Result<PageCounts, Error> {
        /// A thread for fewer pages than this is not worth its cost.
        const PAGES_A_THREAD: u64 = 256;
        let pages = self.header.shape.pages;
        let threads = (threads as u64).min(pages.div_ceil(PAGES_A_THREAD));
        let part = pages.div_ceil(threads);
        let parts = (0..threads).map(|i| (i * part, ((i + 1) * part).min(pages)));
        let parts = on_threads(parts, |(first, end)| self.check_part(first, end, deep));
        let mut sum = PageCounts::default();
        for counts in parts {
            let counts = counts?;
            sum.set_bits += counts.set_bits;
            sum.records += counts.records;
            sum.rates += counts.rates;
            sum.entries += counts.entries;
        }
        self.check_fill(&sum)?;
        if self.header.spec.records {
            self.check_count(sum.records)?;
        }
        Ok(sum)
    }

    fn check_part(&self, first: u64, end: u64, deep: bool) -> Result<PageCounts, Error> {
        let mut counts = PageCounts::default();
        let mut block = Decoded::default();
        self.each_page(first, end, |number, page| {
            self.count_page(page, &mut counts);
            if self.header.spec.records {
                if deep {
                    self.decode(number, &mut block)?;
                    counts.records += block.keys.len() as u64;
                    self.check_bits(number, page, &block.keys)?;
                } else {
                    self.read_block(number, &mut block.bytes)?;
                    counts.records += self.parse(number, &block.bytes)?.count() as u64;
                }
            }
            Ok(())
        })?;
        Ok(counts)
    }

    /// Checks that every key is found in its page.
    fn check_bits(&self, number: u64, page: &Page, keys: &[Key]) -> Result<(), Error> {
        let probes = self.header.shape.probes;
        let lost = keys.iter().find(|key| !page::contains(page, **key, probes));
        lost.map_or(Ok(()), |&key| {
            Err(self.invalid(Problem::damaged(format!(
                "the record {:016x} is not in page {number}, and a listed sender would be missed",
                key.0
            ))))
        })
    }

    /// Checks the number of records in the file.
    pub(super) fn check_count(&self, counted: u64) -> Result<(), Error> {
        let declared = self.header.entries;
        match counted == declared {
            true => Ok(()),
            false => Err(self.invalid(Problem::count(declared, counted))),
        }
    }
}

/// Opens a regular file, and returns its length.
pub(super) fn open(path: &Path) -> Result<(File, u64), Error> {
    let file = open_regular(path).map_err(|source| match source.kind() {
        ErrorKind::InvalidInput => Error::NotAFile {
            path: path.to_owned(),
        },
        _ => Error::io(path, "open")(source),
    })?;
    let metadata = file.metadata();
    let bytes = metadata.map_err(Error::io(path, "read its length"))?.len();
    Ok((file, bytes))
}

/// Decodes the directory. The ends of its rows must rise, and the last must be the end of the
/// records, so that no row reaches out of the section.
fn decode_directory(bytes: &[u8], records_bytes: u64) -> Result<Vec<Slot>, Problem> {
    let malformed = Problem::damaged("malformed directory");
    let mut slots = Vec::with_capacity(bytes.len() / 16);
    let mut before = 0;
    for row in bytes.as_chunks::<16>().0 {
        let [end, sum] = [0, 8]
            .map(|at| u64::from_le_bytes(*row[at..].first_chunk().expect("a row has 16 bytes")));
        // A block grows with its page's records: 4 GiB would be a page with 200 million.
        if end < before || end - before > u64::from(u32::MAX) {
            return Err(malformed);
        }
        before = end;
        slots.push(Slot { end, sum });
    }
    match before == records_bytes {
        true => Ok(slots),
        false => Err(malformed),
    }
}

/// Reads a file that was just written, and checks every sum.
pub(super) fn check_sums(path: &Path) -> Result<(), Error> {
    Reader::open(path)?.check(false, processors()).map(drop)
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
