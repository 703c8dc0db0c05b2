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

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::gathered::Gathered;
use super::sorted::Sorted;
use super::turns::Turns;
use crate::base::parallel::on_threads;
use crate::compile::{Error, Phase, Progress};
use crate::filter::page::first_key;
use crate::filter::{EncodedPage, Header, Writer};

/// Number of pages that a worker takes at once: about 18,000 records of 8 to 24 bytes, which stay
/// in the second-level cache.
const PAGES_AT_ONCE: u64 = 16;

struct Shared<S> {
    source: Mutex<Taking<S>>,
    turns: Turns,
}

struct Taking<S> {
    source: S,
    next_page: u64,
    next_turn: u64,
}

/// Writes all records of `source` to `writer`, checks the file and puts it in place.
///
/// # Errors
/// When the source or the disk fails, and on an interrupt.
pub(crate) fn assemble<S: Sorted>(
    writer: Writer,
    source: S,
    threads: usize,
    progress: &Progress,
) -> Result<Header, Error> {
    let writer = fill(writer, source, threads, progress)?;
    progress.begin(Phase::Checking, 0);
    Ok(writer.finish()?)
}

/// Writes all records of `source` to `writer`, which the caller must finish.
///
/// # Errors
/// When the source or the disk fails, and on an interrupt.
pub(crate) fn fill<S: Sorted>(
    writer: Writer,
    source: S,
    threads: usize,
    progress: &Progress,
) -> Result<Writer, Error> {
    let shared = Shared {
        source: Mutex::new(Taking {
            source,
            next_page: 0,
            next_turn: 0,
        }),
        turns: Turns::new(writer),
    };
    let stop = || held(&shared.source).next_page = u64::MAX;
    let work = || encode_and_append(&shared, progress);
    let done = on_threads(0..threads, |_| shared.turns.run(stop, work));
    done.into_iter().collect::<Result<(), Error>>()?;
    Ok(shared.turns.into_writer())
}

fn encode_and_append<S: Sorted>(shared: &Shared<S>, progress: &Progress) -> Result<(), Error> {
    let layout = shared.turns.layout();
    let pages_of_file = layout.shape.pages;
    let end_of = |page| (page < pages_of_file).then(|| first_key(page, pages_of_file));
    let mut records = Gathered::default();
    let mut pages: Vec<EncodedPage> = Vec::new();
    loop {
        progress.go_on()?;
        records.clear();
        let (turn, numbers) = {
            let mut taking = held(&shared.source);
            let first = taking.next_page;
            let end = first.saturating_add(PAGES_AT_ONCE).min(pages_of_file);
            if first >= end {
                return Ok(());
            }
            taking.source.gather_before(end_of(end), &mut records)?;
            taking.next_page = end;
            taking.next_turn += 1;
            (taking.next_turn - 1, first..end)
        };
        pages.resize_with(
            usize::try_from(numbers.end - numbers.start).unwrap_or(0),
            EncodedPage::new,
        );
        for (number, page) in numbers.zip(&mut pages) {
            page.encode(layout, records.before(end_of(number + 1)));
        }
        shared.turns.append(turn, &pages)?;
        progress.add(records.len() as u64);
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
