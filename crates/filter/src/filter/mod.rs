//! A compiled list: Bloom pages first, then exact records.
//!
//! A filter stores the 64-bit keys of entries, and data about each; its users decide what an entry
//! means. A look-up tests one page of 4096 bytes. Almost every key that is not listed ends there,
//! after two bits on average. If the page says "perhaps", the records of that page are read from
//! disk and decide:
//!
//! ```text
//!   key --page--> clear bit ----------------------------> Miss
//!             \-> all set --records--> not among them --> FalsePositive
//!                        \         \-> there -----------> Listed
//!                         \-- filter without records ---> Unproved
//! ```
//!
//! | file         | is about |
//! |--------------|----------|
//! | [`sizing`]   | entries and rate to pages and probes; all formulas |
//! | `page`       | 4096 bytes: draws, set, test |
//! | `record`     | the hash that an entry is found by, the data about it, and what records have in common; records side by side |
//! | `records`, `packed` | sorted keys of a page with source and dates, as a block, and one record in it; numbers of few bits side by side |
//! | `format`, `sources`, `fields` | the file layout; the lists it was made from |
//! | `file`, `check` | reading a filter, or a part of a list, which has no pages; checking all of it, and figures of its pages |
//! | `build_report` | the report beside the file: what the last build did, or why it failed |
//! | `stand_in`   | the copy that is read where the file is damaged |
//! | `writer`     | encoding pages on any thread, writing them in order |
//! | `delta`      | the changes that make one filter from another |
//! | `digest`     | SHA-256 of files |
//!
//! A file that fails its checks gives an [`Error`], never an answer.

mod build_report;
mod check;
#[doc(hidden)]
pub mod delta;
mod digest;
mod error;
mod fields;
mod file;
#[doc(hidden)]
pub mod format;
mod packed;
#[doc(hidden)]
pub mod page;
mod record;
mod records;
pub mod sizing;
#[doc(hidden)]
pub mod sources;
mod stand_in;
mod writer;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, OnceLock};
use std::time::SystemTime;

use page::Page;
use records::RecordBlock;

use crate::base::parallel::processors;
#[doc(hidden)]
pub use build_report::{BuildReport, Reason, Written};
pub use check::Stats;
pub use digest::Digest;
pub use error::{Error, Problem};
#[doc(hidden)]
pub use file::FilterFile;
pub use format::{Header, Spec};
#[doc(hidden)]
pub use record::{Batch, Class, Dates};
pub use record::{Key, Record};
#[doc(hidden)]
pub use records::Layout;
pub use sizing::Shape;
pub use sources::Source;
#[doc(hidden)]
pub use writer::{EncodedPage, Writer};

/// Where the pages are while a filter is open. Records of more than 1 MiB stay on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Load {
    /// In memory; all are checked when the filter is opened.
    #[default]
    Memory,
    /// On disk: each look-up reads one page, and checks it. For filters larger than memory.
    Disk,
}

/// The answer of a filter for a key. Whether a listed entry has expired is not its business: see [`Record::expires`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Not listed.
    Miss,
    /// Not listed: the page said "perhaps", and the records show that it is not.
    FalsePositive,
    /// Perhaps listed: the filter has no records to confirm it.
    Unproved,
    /// Listed.
    Listed(Record),
}

/// An open filter, which is asked by key; [`Lookup`](crate::Lookup) asks it about senders. Look-ups take no lock, so threads
/// can share one.
///
/// It keeps its file open: after the file is replaced, it still answers from the file that was
/// opened.
#[derive(Debug)]
pub struct Filter {
    file: FilterFile,
    memory: OnceLock<Memory>,
    stand_in: StandIn,
}

#[derive(Debug)]
struct Memory {
    pages: Vec<Page>,
    /// The blocks of all pages, if they are small.
    records: Option<Vec<u8>>,
}

/// The state of an open file, and its copy.
#[derive(Debug, Default)]
struct StandIn {
    path: Option<PathBuf>,
    /// `None` in it: there is none of this file.
    copy: OnceLock<Option<Box<Filter>>>,
    is_damaged: AtomicBool,
    /// The length and the time of the last write, when the file was opened or last read as a whole.
    seen: Mutex<Option<(u64, SystemTime)>>,
}

impl Filter {
    /// Opens a filter and checks what it reads: header, page sums, directory and
    /// sources, and with [`Load::Memory`] every page.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the file fails its checks, [`Error::File`] when it
    /// cannot be read, [`Error::Memory`] when its pages do not fit.
    pub fn open(path: &Path, load: Load) -> Result<Self, Error> {
        let file = FilterFile::open_filter(path)?;
        let filter = Self {
            stand_in: StandIn::of(&file),
            memory: OnceLock::new(),
            file,
        };
        match load {
            Load::Memory => filter.load_pages()?,
            Load::Disk => {}
        }
        Ok(filter)
    }

    /// Loads all pages into memory, and the records if they are small, and checks them. Until then,
    /// each look-up reads its page; look-ups continue meanwhile.
    ///
    /// # Errors
    /// As [`open`](Self::open) with [`Load::Memory`]; look-ups then read from the file, as before.
    pub fn load_pages(&self) -> Result<(), Error> {
        if self.memory.get().is_none() {
            let pages = self.file.load()?;
            let records = self.file.small_records();
            // Another thread may have loaded the same pages meanwhile.
            let _ = self.memory.set(Memory { pages, records });
        }
        Ok(())
    }

    /// Returns whether the pages are in memory.
    pub fn is_in_memory(&self) -> bool {
        self.memory.get().is_some()
    }

    /// Returns whether memory answers every look-up.
    fn needs_no_file(&self) -> bool {
        let memory = self.memory.get();
        memory.is_some_and(|memory| memory.records.is_some() || !self.spec().records)
    }

    /// Returns the bytes of the pages and records that it has in memory once it is loaded. The checksums and the directory
    /// are in memory anyway: 24 bytes a page.
    pub fn memory_bytes(&self) -> u64 {
        self.header().page_bytes() + self.file.small_records_bytes()
    }

    /// Reads the whole file, on up to `threads` threads (0 counts as 1), and checks every sum; if `deep`, also every
    /// record and its bits.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the first fault that was found, [`Error::File`] when it cannot be read.
    pub fn check(&self, deep: bool, threads: usize) -> Result<(), Error> {
        self.file.check(deep, threads)
    }

    /// Returns the SHA-256 of the whole file; `None` if `go_on`, which is called regularly, returns
    /// `false`.
    ///
    /// # Errors
    /// [`Error::File`] when the file cannot be read.
    pub fn digest(&self, go_on: impl FnMut() -> bool) -> Result<Option<Digest>, Error> {
        Digest::of_file(&self.file.handle, go_on).map_err(Error::io(self.path(), "read"))
    }

    /// Checks a whole filter file, or a part of a list, and every record of it, on all processors. Memory does not grow with the
    /// pages and records.
    ///
    /// # Errors
    /// As [`open`](Self::open) and [`check`](Self::check).
    pub fn verify(path: &Path) -> Result<Header, Error> {
        let file = FilterFile::open(path)?;
        match file.header.part {
            Some(_) => file.check_records()?,
            None => file.check(true, processors())?,
        }
        Ok(file.header)
    }

    /// Returns another descriptor of its file: the file that was opened, even if it was replaced or
    /// renamed.
    #[doc(hidden)]
    pub fn file(&self) -> io::Result<File> {
        self.file.handle.try_clone()
    }

    /// Returns the path with which it was opened.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// Returns the whole header.
    pub fn header(&self) -> &Header {
        &self.file.header
    }

    /// Returns what the filter was made for.
    pub fn spec(&self) -> &Spec {
        &self.header().spec
    }

    /// Returns the number of pages and probes.
    pub fn shape(&self) -> Shape {
        self.header().shape
    }

    /// Returns the number of distinct entries, those that have expired included.
    pub fn entries(&self) -> u64 {
        self.header().entries
    }

    /// Returns the source that a record refers to by [`Record::source`].
    pub fn source(&self, number: u32) -> Option<&Source> {
        self.spec().sources.get(number as usize)
    }

    /// Looks a key up. A miss allocates nothing, and with [`Load::Memory`] reads nothing. Where the file is damaged, its
    /// copy answers.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the page or the records that were read are damaged, [`Error::File`]
    /// when they cannot be read. An error is not an answer: the sender may be listed or not.
    #[inline]
    pub fn look_up(&self, key: Key) -> Result<Answer, Error> {
        if let Some(answer) = self.look_up_in_memory(key) {
            return Ok(answer);
        }
        let found = match self.may_hold(key) {
            Ok(true) => self.prove(key),
            Ok(false) => return Ok(Answer::Miss),
            Err(failure) => Err(failure),
        };
        found.or_else(|failure| self.look_up_in_copy(key, failure))
    }

    /// Returns the answer that memory alone gives for a key, without reading; `None` if the file
    /// must be read, or the pages are on disk.
    #[inline]
    pub fn look_up_in_memory(&self, key: Key) -> Option<Answer> {
        let memory = self.memory.get()?;
        if !self.page_holds(&memory.pages, key) {
            return Some(Answer::Miss);
        }
        if !self.spec().records {
            return Some(Answer::Unproved);
        }
        // If the block is damaged, the look-up in the file reports the problem.
        self.prove_by(self.file.block_in(memory.records.as_ref()?, key), key)
            .ok()
    }

    /// Tests the pages alone: `false` is certain.
    ///
    /// # Errors
    /// With [`Load::Disk`], as [`look_up`](Self::look_up).
    #[inline]
    pub fn may_hold(&self, key: Key) -> Result<bool, Error> {
        if let Some(memory) = self.memory.get() {
            return Ok(self.page_holds(&memory.pages, key));
        }
        let Shape { pages, probes } = self.shape();
        let page = self.file.page(page::page_of(key, pages))?;
        Ok(page::contains(&page, key, probes))
    }

    #[inline]
    fn page_holds(&self, memory: &[Page], key: Key) -> bool {
        let Shape { pages, probes } = self.shape();
        let number = page::page_of(key, pages);
        // All pages were loaded, and `page_of` is below their number.
        let page = &memory[usize::try_from(number).unwrap_or(usize::MAX)];
        page::contains(page, key, probes)
    }

    #[cold]
    fn prove(&self, key: Key) -> Result<Answer, Error> {
        if !self.spec().records {
            return Ok(Answer::Unproved);
        }
        let number = page::page_of(key, self.shape().pages);
        let mut block = Vec::new();
        self.file.read_block(number, &mut block)?;
        self.prove_by(&block, key)
            .map_err(|what| self.file.invalid(Problem::records(number, what)))
    }

    #[cold]
    fn prove_by(&self, block: &[u8], key: Key) -> Result<Answer, &'static str> {
        let number = page::page_of(key, self.shape().pages);
        let found = RecordBlock::parse(self.shape(), false, number, block)?.find(key)?;
        Ok(found.map_or(Answer::FalsePositive, Answer::Listed))
    }

    /// Returns all records in the order of their keys. They are read page by page.
    #[doc(hidden)]
    pub fn records(&self) -> Result<Records<'_>, Error> {
        self.records_from(Key::default())
    }

    /// Returns the records of the page of `key` and of all later pages.
    #[doc(hidden)]
    pub fn records_from(&self, key: Key) -> Result<Records<'_>, Error> {
        if !self.spec().records {
            return Err(Error::NoRecords(self.path().to_owned()));
        }
        Ok(Records {
            filter: self,
            next_page: page::page_of(key, self.shape().pages),
            block: Vec::new(),
            records: Batch::default(),
            next: 0,
        })
    }
}

/// The records of a filter, in the order of their keys. See [`Filter::records`].
#[doc(hidden)]
#[derive(Debug)]
pub struct Records<'a> {
    filter: &'a Filter,
    next_page: u64,
    block: Vec<u8>,
    /// The records of one page; those before `next` were returned.
    records: Batch,
    next: usize,
}

impl Records<'_> {
    /// Appends all records before `end` that were not taken yet; without `end`, all that are left.
    pub fn take_before(&mut self, end: Option<Key>, into: &mut Batch) -> Result<(), Error> {
        let pages = self.filter.shape().pages;
        let last = end.map_or(pages - 1, |end| page::page_of(end, pages));
        loop {
            let next = self.records.place(self.next, end);
            for (class, keys) in self.records.runs_in(self.next..next) {
                into.extend(class, keys.iter().copied());
            }
            self.next = next;
            if self.next < self.records.len() || self.next_page > last {
                return Ok(());
            }
            self.read_page()?;
        }
    }

    /// Reads the next page; after an error there are no more.
    fn read_page(&mut self) -> Result<(), Error> {
        let file = &self.filter.file;
        let read = file.decode(self.next_page, &mut self.block, &mut self.records);
        self.next = 0;
        self.next_page += 1;
        if read.is_err() {
            self.records.clear();
            self.next_page = self.filter.shape().pages;
        }
        read
    }
}
