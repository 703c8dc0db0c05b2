//! Sorted records -> pages and records in file order, on all threads.
//!
//! A worker takes the records of the next few pages from the sorted source, one worker at a time;
//! encodes the pages in parallel with the others; and waits for its turn to append them, so that the
//! file is written from front to back.
//!
//! ```text
//!   source --take--> worker: encode --wait for turn--> append
//!          --take--> worker: encode --wait for turn--> append
//! ```

use std::mem;
use std::sync::{Condvar, Mutex, PoisonError};

use super::sorted::Sorted;
use crate::compile::error::Error;
use crate::compile::progress::Progress;
use blocklist_filter::base::lock::lock;
use blocklist_filter::base::parallel::on_threads;
use blocklist_filter::filter::page::{Filling, first_key};
use blocklist_filter::filter::{Batch, EncodedPage, Layout, Writer};

/// Number of pages that a worker takes at once; their records stay in the second-level cache.
const PAGES_AT_ONCE: u64 = 16;

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
    failed: bool,
}

/// Writes all records of `source` to `writer`, which the caller must finish.
pub(crate) fn assemble(
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
        let others = EndOthers(&shared);
        shared.encode_and_append(progress)?;
        mem::forget(others);
        Ok(())
    });
    done.into_iter().collect::<Result<(), Error>>()?;
    let appending = shared.appending.into_inner();
    Ok(appending.unwrap_or_else(PoisonError::into_inner).writer)
}

impl Shared<'_> {
    fn encode_and_append(&self, progress: &Progress) -> Result<(), Error> {
        let pages_of_file = self.layout.shape.pages;
        let end_of = |page| (page < pages_of_file).then(|| first_key(page, pages_of_file));
        let mut records = Batch::default();
        let mut pages: Vec<EncodedPage> = Vec::new();
        let mut filling = Filling::default();
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
                taking.source.take_before(end_of(end), &mut records)?;
                taking.next_page = end;
                first..end
            };
            pages.resize_with(numbers.clone().count(), EncodedPage::default);
            let mut next = 0;
            for (number, page) in numbers.clone().zip(&mut pages) {
                let end = records.place(next, end_of(number + 1));
                page.encode(self.layout, (&records, next..end), &mut filling);
                next = end;
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

/// When a worker fails or panics, ends the others, also those that wait for a turn.
struct EndOthers<'a, 's>(&'a Shared<'s>);

impl Drop for EndOthers<'_, '_> {
    fn drop(&mut self) {
        lock(&self.0.appending).failed = true;
        lock(&self.0.taking).next_page = u64::MAX;
        self.0.turn.notify_all();
    }
}
