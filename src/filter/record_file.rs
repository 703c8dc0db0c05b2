//! The records of a file, whether it is a filter or a part of a list.
//!
//! A list that is too large for one machine is cut into pieces. Each piece becomes a part, on any
//! machine and in any order; all parts together become the filter. A part is a filter file without
//! pages: no look-up uses it, since most of its list is missing. Its records are in blocks as in
//! the filter of its entries.

use std::ops::Range;
use std::path::Path;

use super::error::{Error, Problem};
use super::file::Reader;
use super::format::{Header, RECORDS};
use super::record::{Class, Key};
use super::record_block::Decoded;

/// A file that is open for its records.
#[derive(Debug)]
pub struct RecordFile(Reader);

impl RecordFile {
    /// Opens a filter with records, or a part of a list, and checks what it reads: header, sums,
    /// directory and sources.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the file fails its checks, [`Error::NoRecords`] when it is a filter
    /// without records, [`Error::Io`] when it cannot be read.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::of(Reader::open(path)?)
    }

    /// Does the same for a part of a list only.
    ///
    /// # Errors
    /// As [`open`](Self::open), and [`Error::Invalid`] when it is not a part.
    pub fn open_part(path: &Path) -> Result<Self, Error> {
        let file = Self::open(path)?;
        match file.header().part {
            Some(_) => Ok(file),
            None => Err(file.0.invalid(Problem::NotAPart)),
        }
    }

    pub(super) fn of(reader: Reader) -> Result<Self, Error> {
        if !reader.header.spec.records {
            return Err(reader.no_records());
        }
        // Each record sets a bit. Memory is planned by the number of entries before any is read.
        let most = reader.header.sections[RECORDS].length.saturating_mul(8);
        let declared = reader.header.entries;
        if declared > most {
            return Err(reader.invalid(Problem::damaged(format!(
                "room for at most {most} records, but the header says {declared} entries"
            ))));
        }
        Ok(Self(reader))
    }

    /// Returns whether the file is a part of a list.
    ///
    /// # Errors
    /// As [`open`](Self::open), when it is neither a filter nor a part.
    pub fn is_part(path: &Path) -> Result<bool, Error> {
        Ok(Reader::open_header(path)?.1.part.is_some())
    }

    /// Returns the whole header.
    pub fn header(&self) -> &Header {
        &self.0.header
    }

    /// Visits the records of some pages in the order of their keys, as runs that differ only in
    /// their keys.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a block is damaged, [`Error::Io`] when it cannot be read, and the
    /// errors of `visit`.
    pub(crate) fn each_run<E: From<Error>>(
        &self,
        pages: Range<u64>,
        mut visit: impl FnMut(Class, &[Key]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut block = Decoded::default();
        for page in pages {
            self.0.decode(page, &mut block)?;
            block.each_run(&mut visit)?;
        }
        Ok(())
    }

    /// Checks that this many records were read.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the header declares another number.
    pub(crate) fn check_count(&self, counted: u64) -> Result<(), Error> {
        self.0.check_count(counted)
    }

    /// Reads and checks every record.
    pub(super) fn check(self) -> Result<Header, Error> {
        let mut counted = 0;
        self.each_run(0..self.header().shape.pages, |_, keys| {
            counted += keys.len() as u64;
            Ok::<_, Error>(())
        })?;
        self.check_count(counted)?;
        Ok(self.0.header)
    }
}
