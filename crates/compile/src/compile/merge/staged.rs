//! The records of filters, or of parts of a list, as staged keys.
//!
//! ```text
//!   file 0   | pages | pages |   --+
//!   file 1   | pages | pages |   --+--> workers --> keys, staged by their top bits
//!   file 2   | pages | pages |   --+
//! ```
//!
//! From there on, a merge is a build: the stages are sorted and merged, in memory and then on disk.
//! A worker has one file open at a time, so the number of files is not limited.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::compile::error::Error;
use crate::compile::partition::{Arena, Sealed, StagedKey, Stager, Store};
use crate::compile::progress::{Phase, Progress};
use crate::compile::write::Sources;
use blocklist_filter::base::parallel::on_threads;
use blocklist_filter::filter::{self, Dates, FilterFile, Header, Problem};

const PAGES_AT_ONCE: u64 = 256;

#[derive(Debug)]
pub(super) struct MergedFile {
    pub(super) path: PathBuf,
    pub(super) header: Header,
}

#[derive(Debug)]
pub(super) struct Staging<'a> {
    files: &'a [MergedFile],
    /// For each source of each file, the number among the sources of all files.
    numbers: Vec<Vec<u32>>,
    /// The dates of all staged keys that keep none: those of the first record that is staged.
    dates: OnceLock<Dates>,
    /// Entries that expire on this day (since 1970) or earlier are left out.
    today: u16,
    progress: &'a Progress,
    counted: Vec<AtomicU64>,
    expired: Vec<AtomicU64>,
}

impl<'a> Staging<'a> {
    pub(super) fn new(
        files: &'a [MergedFile],
        sources: &Sources,
        today: u16,
        progress: &'a Progress,
    ) -> Self {
        let zeros = |count| (0..count).map(|_| AtomicU64::new(0)).collect();
        let numbers = |file: &MergedFile| sources.numbers(&file.header.spec.sources);
        Self {
            files,
            numbers: files.iter().map(numbers).collect(),
            dates: OnceLock::new(),
            today,
            progress,
            counted: zeros(files.len()),
            expired: zeros(sources.to_list().len()),
        }
    }

    /// Stages all records on `threads` workers; `None` if one has dates that `I` cannot keep.
    pub(super) fn run<'m, I: StagedKey>(
        &self,
        output: &Path,
        arena: &'m mut Arena,
        threads: usize,
    ) -> Result<Option<Sealed<'m, I>>, Error> {
        let bytes = self.files.iter().map(|file| file.header.record_bytes());
        self.progress
            .begin(Phase::Reading, bytes.fold(0, u64::saturating_add));
        let store = Store::new(output, arena);
        for count in self.counted.iter().chain(&self.expired) {
            count.store(0, Ordering::Relaxed);
        }
        // Each file is divided, so that all workers have work until the end.
        let (next, end) = (AtomicUsize::new(0), self.files.len() * threads);
        let work = || {
            let mut stager = Stager::new(&store);
            loop {
                let task = next.fetch_add(1, Ordering::Relaxed);
                if task >= end {
                    return stager.finish().map(|()| true);
                }
                let share = (task % threads, threads);
                if !self.read(task / threads, share, &mut stager)? {
                    return Ok(false);
                }
            }
        };
        let done = on_threads(0..threads, |_| {
            let done = work();
            if !matches!(done, Ok(true)) {
                // The other workers take no further task.
                next.store(end, Ordering::Relaxed);
            }
            done
        });
        for done in done {
            if !done? {
                return Ok(None);
            }
        }
        for (file, counted) in self.files.iter().zip(&self.counted) {
            let counted = counted.load(Ordering::Relaxed);
            if counted != file.header.entries {
                let problem = Problem::count(file.header.entries, counted);
                return Err(filter::Error::invalid(&file.path, problem).into());
            }
        }
        let dates = self.dates.get().copied();
        Ok(Some(store.seal(dates.unwrap_or_default())))
    }

    /// Stages a share of a file; `false` if a record has dates that `I` cannot keep.
    fn read<I: StagedKey>(
        &self,
        number: usize,
        (share, shares): (usize, usize),
        stager: &mut Stager<'_, '_, I>,
    ) -> Result<bool, Error> {
        let expected = &self.files[number];
        let numbers = &self.numbers[number];
        let file = FilterFile::open(&expected.path)?;
        let header = &file.header;
        if !header.has_records_of(&expected.header) {
            return Err(Error::unfit(&expected.path, "changed while it was merged"));
        }
        let pages = header.shape.pages;
        let start = |share: usize| pages * share as u64 / shares as u64;
        let (mut page, end) = (start(share), start(share + 1));
        let (mut counted, mut is_dated) = (0, false);
        while page < end && !is_dated {
            self.progress.go_on()?;
            let before = counted;
            let here = page..(page + PAGES_AT_ONCE).min(end);
            page = here.end;
            self.progress
                .add(header.record_bytes() / pages * (here.end - here.start));
            file.each_run(here, |mut class, keys| {
                counted += keys.len() as u64;
                class.source = numbers[class.source as usize];
                if class.dates.have_expired(self.today) {
                    let expired = &self.expired[class.source as usize];
                    expired.fetch_add(keys.len() as u64, Ordering::Relaxed);
                    return Ok(());
                }
                if !I::KEEPS_DATES && class.dates != *self.dates.get_or_init(|| class.dates) {
                    is_dated = true;
                    return Ok(());
                }
                keys.iter().for_each(|key| stager.add(*key, class));
                stager.check()
            })?;
            self.progress.add_entries(counted - before);
        }
        self.counted[number].fetch_add(counted, Ordering::Relaxed);
        Ok(!is_dated)
    }

    pub(super) fn expired(&self) -> Vec<u64> {
        let expired = self.expired.iter();
        expired.map(|count| count.load(Ordering::Relaxed)).collect()
    }
}
