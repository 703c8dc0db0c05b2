//! Sorted records -> pages and records in file order, on all threads.
//!
//! The source is sorted. A worker takes the records of the next few pages from it, one worker at a
//! time; encodes the pages in parallel with the others; and waits for its turn to append them. The
//! number of workers bounds the pages in progress, and the file is written from front to back.
//!
//! ```text
//!   source --take--> worker: encode --wait for turn--> append
//!          --take--> worker: encode --wait for turn--> append
//! ```

use std::sync::{Condvar, Mutex, PoisonError};

use super::sorted::{Gathered, Sorted};
use crate::base::lock::lock;
use crate::base::parallel::on_threads;
use crate::compile::error::Error;
use crate::compile::progress::{Phase, Progress};
use crate::filter::page::{Filling, first_key};
use crate::filter::{EncodedPage, Header, Layout, Writer};

/// Number of pages that a worker takes at once: about 18,000 records of 8 to 24 bytes, which stay
/// in the second-level cache.
const PAGES_AT_ONCE: u64 = 16;

/// A file that several workers write.
struct Shared<'a> {
    layout: Layout,
    taking: Mutex<Taking<'a>>,
    appending: Mutex<Appending>,
    turn: Condvar,
}

struct Taking<'a> {
    source: Box<dyn Sorted + 'a>,
    next_page: u64,
}

struct Appending {
    writer: Writer,
    next_page: u64,
    /// A worker failed: its pages will not come.
    failed: bool,
}

/// Writes all records of `source` to `writer`, checks the file and puts it in place.
pub(crate) fn assemble(
    writer: Writer,
    source: Box<dyn Sorted + '_>,
    threads: usize,
    progress: &Progress,
) -> Result<Header, Error> {
    let writer = fill(writer, source, threads, progress)?;
    progress.begin(Phase::Checking, 0);
    Ok(writer.finish()?)
}

/// Writes all records of `source` to `writer`, which the caller must finish.
pub(crate) fn fill(
    writer: Writer,
    source: Box<dyn Sorted + '_>,
    threads: usize,
    progress: &Progress,
) -> Result<Writer, Error> {
    let shared = Shared {
        layout: writer.layout(),
        taking: Mutex::new(Taking {
            source,
            next_page: 0,
        }),
        appending: Mutex::new(Appending {
            writer,
            next_page: 0,
            failed: false,
        }),
        turn: Condvar::new(),
    };
    let done = on_threads(0..threads, |_| {
        let mut others = EndOthers {
            shared: &shared,
            armed: true,
        };
        let done = shared.encode_and_append(progress);
        others.armed = done.is_err();
        done
    });
    done.into_iter().collect::<Result<(), Error>>()?;
    let appending = shared.appending.into_inner();
    Ok(appending.unwrap_or_else(PoisonError::into_inner).writer)
}

impl Shared<'_> {
    fn encode_and_append(&self, progress: &Progress) -> Result<(), Error> {
        let pages_of_file = self.layout.shape.pages;
        let end_of = |page| (page < pages_of_file).then(|| first_key(page, pages_of_file));
        let mut records = Gathered::default();
        let mut pages: Vec<EncodedPage> = Vec::new();
        let mut filling = Filling::new();
        loop {
            progress.go_on()?;
            records.clear();
            let numbers = {
                let mut taking = lock(&self.taking);
                let first = taking.next_page;
                let end = first.saturating_add(PAGES_AT_ONCE).min(pages_of_file);
                if first >= end {
                    return Ok(());
                }
                taking.source.gather_before(end_of(end), &mut records)?;
                taking.next_page = end;
                first..end
            };
            pages.resize_with(
                usize::try_from(numbers.end - numbers.start).unwrap_or(0),
                EncodedPage::default,
            );
            for (number, page) in numbers.clone().zip(&mut pages) {
                page.encode(
                    self.layout,
                    records.before(end_of(number + 1)),
                    &mut filling,
                );
            }
            let waits = |appending: &mut Appending| {
                appending.next_page != numbers.start && !appending.failed
            };
            let waited = self.turn.wait_while(lock(&self.appending), waits);
            let mut appending = waited.unwrap_or_else(PoisonError::into_inner);
            if appending.failed {
                return Ok(());
            }
            appending.writer.append(&pages)?;
            appending.next_page = numbers.end;
            drop(appending);
            self.turn.notify_all();
            progress.add(records.len() as u64);
        }
    }
}

/// When a worker fails or panics, keeps the others from taking more records, and wakes those that
/// wait for a turn that will not come.
struct EndOthers<'a, 's> {
    shared: &'a Shared<'s>,
    armed: bool,
}

impl Drop for EndOthers<'_, '_> {
    fn drop(&mut self) {
        if self.armed {
            lock(&self.shared.appending).failed = true;
            lock(&self.shared.taking).next_page = u64::MAX;
            self.shared.turn.notify_all();
        }
    }
}
