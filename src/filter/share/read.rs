//! Reading and checking the shares of a merge.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use twox_hash::XxHash3_64;

use super::super::class::check_class;
use super::super::error::{Error, Fault};
use super::super::file::{Slot, decode_directory, open};
use super::super::format::{SHARE_MAGIC, Section, Sections};
use super::super::page::{self, PAGE_BYTES, Page};
use super::super::records::{self, RecordBlock};
use super::head::{Counts, MAX_HEAD_BYTES, PRELUDE_BYTES, PagesHead, kind_and_length};
use super::number::{Share, ShareKind};

/// Number of bytes of pages, and of records, that are read at once: they stay in the second-level
/// cache.
const READ_BYTES: usize = 256 << 10;

/// Returns the kind of share that a file is; `None` if it is something else.
///
/// # Errors
///
/// [`Error::Io`] when it cannot be read, [`Error::Invalid`] when it begins like a share, but of a
/// version that this program does not know.
pub(crate) fn kind_at(path: &Path) -> Result<Option<ShareKind>, Error> {
    let (file, bytes) = open(path)?;
    let prelude = match prelude_of(&file, bytes).map_err(Error::io(path, "read"))? {
        Start::Other => return Ok(None),
        Start::CutOff => return Err(Error::invalid(path, CUT_OFF)),
        Start::Share(prelude) => prelude,
    };
    let (kind, _) = kind_and_length(&prelude).map_err(|fault| Error::invalid(path, fault))?;
    Ok(Some(kind))
}

const CUT_OFF: Fault = Fault::DamagedShare {
    what: "it is truncated",
};

/// How a file begins.
enum Start {
    Share([u8; PRELUDE_BYTES]),
    CutOff,
    Other,
}

fn prelude_of(file: &File, file_bytes: u64) -> std::io::Result<Start> {
    let mut prelude = [0; PRELUDE_BYTES];
    let length =
        usize::try_from(file_bytes).map_or(PRELUDE_BYTES, |bytes| bytes.min(PRELUDE_BYTES));
    let there = &mut prelude[..length];
    file.read_exact_at(there, 0)?;
    Ok(match there.starts_with(&SHARE_MAGIC) {
        true if length == PRELUDE_BYTES => Start::Share(prelude),
        true => Start::CutOff,
        false => Start::Other,
    })
}

/// Opens a share and reads its whole head, whose checksum the caller must check. Also returns the
/// length of the file.
fn open_head(path: &Path, wanted: ShareKind) -> Result<(File, u64, Vec<u8>), Error> {
    let invalid = |fault| Error::invalid(path, fault);
    let other = || match wanted {
        ShareKind::Counts => invalid(Fault::NotCounts),
        ShareKind::Pages => invalid(Fault::NotPages),
    };
    let (file, file_bytes) = open(path)?;
    let prelude = match prelude_of(&file, file_bytes).map_err(Error::io(path, "read"))? {
        Start::Other => return Err(other()),
        Start::CutOff => return Err(invalid(CUT_OFF)),
        Start::Share(prelude) => prelude,
    };
    let (kind, head_bytes) = kind_and_length(&prelude).map_err(invalid)?;
    if kind != wanted {
        return Err(other());
    }
    if head_bytes > file_bytes.min(MAX_HEAD_BYTES) {
        return Err(invalid(CUT_OFF));
    }
    let head = read_section(path, &file, 0, head_bytes)?;
    Ok((file, file_bytes, head))
}

/// Reads bytes that the file is known to have.
fn read_section(path: &Path, file: &File, offset: u64, length: u64) -> Result<Vec<u8>, Error> {
    let no_memory = || Error::Memory {
        path: path.to_owned(),
        bytes: length,
    };
    let count = usize::try_from(length).map_err(|_| no_memory())?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(count).map_err(|_| no_memory())?;
    bytes.resize(count, 0);
    file.read_exact_at(&mut bytes, offset)
        .map_err(Error::io(path, "read"))?;
    Ok(bytes)
}

impl Counts {
    /// Reads the counts of a share.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the file fails its checks or is something else, [`Error::Io`] when
    /// it cannot be read.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let (_, file_bytes, head) = open_head(path, ShareKind::Counts)?;
        let invalid = |fault| Error::invalid(path, fault);
        if head.len() as u64 != file_bytes {
            return Err(invalid(CUT_OFF));
        }
        Self::decode(&head).map_err(invalid)
    }
}

/// An open share of the pages.
#[derive(Debug)]
pub(crate) struct SharedPages {
    path: PathBuf,
    file: File,
    pub(crate) head: PagesHead,
    sections: Sections,
}

impl SharedPages {
    /// Opens the pages of a share and reads their head.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the head fails its checks, the length differs, or the file is
    /// something else; [`Error::Io`] when it cannot be read.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let (file, file_bytes, bytes) = open_head(path, ShareKind::Pages)?;
        let invalid = |fault| Error::invalid(path, fault);
        let head = PagesHead::decode(&bytes).map_err(invalid)?;
        let sections = head.sections(bytes.len() as u64);
        let expected = sections.records.end();
        if expected != file_bytes {
            return Err(invalid(Fault::DamagedShare {
                what: match file_bytes < expected {
                    true => "it is truncated",
                    false => "it is too long",
                },
            }));
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            head,
            sections,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the numbers of its pages.
    pub(super) fn pages(&self) -> Range<u64> {
        self.head.share.pages(self.head.header.shape.pages)
    }

    fn invalid(&self, fault: Fault) -> Error {
        Error::invalid(&self.path, fault)
    }

    fn section(&self, part: &'static str, section: Section, sum: u64) -> Result<Vec<u8>, Error> {
        let bytes = read_section(&self.path, &self.file, section.offset, section.length)?;
        match XxHash3_64::oneshot(&bytes) == sum {
            true => Ok(bytes),
            false => Err(self.invalid(Fault::Sum { part })),
        }
    }

    /// Returns the sums of its pages, as they are in the file.
    pub(super) fn sums(&self) -> Result<Vec<u8>, Error> {
        self.section("page sums", self.sections.sums, self.head.body.sums_sum)
    }

    /// Returns the rows of its directory.
    pub(super) fn directory(&self) -> Result<Vec<Slot>, Error> {
        let sum = self.head.body.directory_sum;
        let rows = self.section("directory rows", self.sections.directory, sum)?;
        decode_directory(&rows, self.head.body.records_bytes).map_err(|fault| self.invalid(fault))
    }

    /// Visits its pages, many at a time. Checks each against its sum, and the number of bits
    /// against the head.
    pub(super) fn each_pages<E: From<Error>>(
        &self,
        sums: &[u8],
        mut visit: impl FnMut(Range<u64>, &[Page]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut buffer: Vec<Page> = vec![[0; PAGE_BYTES]; READ_BYTES / PAGE_BYTES];
        let all = self.pages();
        let (mut next, mut set_bits) = (all.start, 0);
        let mut sums = sums.as_chunks::<8>().0.iter();
        while next < all.end {
            let left = usize::try_from(all.end - next).unwrap_or(usize::MAX);
            let count = left.min(buffer.len());
            let pages = &mut buffer[..count];
            let offset = self.sections.pages.offset + (next - all.start) * PAGE_BYTES as u64;
            self.file
                .read_exact_at(pages.as_flattened_mut(), offset)
                .map_err(Error::io(&self.path, "read a page"))?;
            let numbers = next..next + count as u64;
            for (number, page) in numbers.clone().zip(&*pages) {
                if sums.next() != Some(&page::sum(page).to_le_bytes()) {
                    return Err(self.invalid(Fault::PageSum { page: number }).into());
                }
                set_bits += u64::from(page::count_set(page));
            }
            next = numbers.end;
            visit(numbers, pages)?;
        }
        let declared = self.head.body.set_bits;
        if set_bits != declared {
            let counted = set_bits;
            return Err(self.invalid(Fault::Fill { declared, counted }).into());
        }
        Ok(())
    }

    /// Visits its blocks of records with the numbers of their pages. Checks each against its sum.
    pub(super) fn each_block<E: From<Error>>(
        &self,
        directory: &[Slot],
        mut visit: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut bytes = Vec::new();
        let mut number = self.pages().start;
        let mut before = 0;
        let mut left = directory;
        while !left.is_empty() {
            let fits = left.partition_point(|slot| slot.end - before <= READ_BYTES as u64);
            let (here, rest) = left.split_at(fits.max(1));
            left = rest;
            let read_to = here.last().map_or(before, |slot| slot.end);
            // The directory was checked against the file's length.
            bytes.resize(index(read_to - before), 0);
            self.file
                .read_exact_at(&mut bytes, self.sections.records.offset + before)
                .map_err(Error::io(&self.path, "read the records of a page"))?;
            let mut blocks = bytes.as_slice();
            for slot in here {
                let (block, others) = blocks.split_at(index(slot.end - before));
                (blocks, before) = (others, slot.end);
                if records::sum(block) != slot.sum {
                    let what = "they do not match their checksum";
                    return Err(self.invalid(Fault::Records { page: number, what }).into());
                }
                visit(number, block)?;
                number += 1;
            }
        }
        Ok(())
    }

    /// Reads and checks everything: every record is decoded and looked up in its page.
    fn check(&self) -> Result<(), Error> {
        let sums = self.sums()?;
        self.each_pages(&sums, |_, _| Ok::<_, Error>(()))?;
        let shape = self.head.header.shape;
        let spec = &self.head.header.spec;
        let first = self.pages().start;
        let (mut counted, mut found) = (0, Vec::new());
        let mut page: Page = [0; PAGE_BYTES];
        self.each_block(&self.directory()?, |number, block| {
            let offset = self.sections.pages.offset + (number - first) * PAGE_BYTES as u64;
            self.file
                .read_exact_at(&mut page, offset)
                .map_err(Error::io(&self.path, "read a page"))?;
            found.clear();
            RecordBlock::parse(shape, number, block)
                .and_then(|block| block.decode(&mut found))
                .map_err(|fault| self.invalid(fault))?;
            counted += found.len() as u64;
            for record in &found {
                if !page::contains(&page, record.key, shape.probes) {
                    let key = record.key;
                    return Err(self.invalid(Fault::Lost { page: number, key }));
                }
                check_class(record.kind, record.source, spec.kinds, spec.sources.len())
                    .map_err(|what| self.invalid(Fault::Records { page: number, what }))?;
            }
            Ok(())
        })?;
        let declared = self.head.body.entries;
        match counted == declared {
            true => Ok(()),
            false => Err(self.invalid(Fault::Count { declared, counted })),
        }
    }
}

/// Reads and checks a whole share. Returns which one it is, and the number of its entries.
///
/// # Errors
///
/// [`Error::Invalid`] with the first fault, [`Error::Io`] when it cannot be read.
pub(crate) fn verify(path: &Path, kind: ShareKind) -> Result<(Share, u64), Error> {
    match kind {
        ShareKind::Counts => {
            let counts = Counts::open(path)?;
            Ok((counts.share, counts.entries()))
        }
        ShareKind::Pages => {
            let pages = SharedPages::open(path)?;
            pages.check()?;
            Ok((pages.head.share, pages.head.body.entries))
        }
    }
}

fn index(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
