//! The records of parts to staged keys, on all threads.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::pieces::{Piece, Pieces};
use crate::compile::partition::{Dates, Sealed, StagedKey, Stager, Store, Tag};
use crate::compile::{Error, Plan, Progress};
use crate::filter::{Class, Part};
use crate::parallel::on_threads;

/// What staged keys hold of a record, as the bar counts it.
const RECORD_BYTES: u64 = 8;

/// All that the workers share.
pub(super) struct Reading<'a> {
    plan: &'a Plan,
    progress: &'a Progress,
    pieces: &'a Pieces,
    /// For each part, the numbers of its sources.
    numbers: Vec<Vec<u32>>,
    sources: usize,
    /// Of the first record: of all, where staged keys keep no dates.
    dates: Dates,
}

/// What all parts hold.
pub(super) struct StagedRecords<'m, I> {
    pub(super) keys: Sealed<'m, I>,
    /// Entries left out because they have expired since, by source.
    pub(super) expired: Vec<u64>,
}

impl<'a> Reading<'a> {
    /// # Errors
    /// When the first record cannot be read.
    pub(super) fn of(
        pieces: &'a Pieces,
        plan: &'a Plan,
        progress: &'a Progress,
    ) -> Result<Self, Error> {
        Ok(Self {
            plan,
            progress,
            pieces,
            numbers: pieces.numbers(),
            sources: pieces.spec().sources.len(),
            dates: first_dates(&pieces.pieces)?,
        })
    }

    /// Those of all records, where staged keys keep none.
    pub(super) fn dates(&self) -> Dates {
        self.dates
    }

    /// What there is to read.
    pub(super) fn bytes(&self) -> u64 {
        self.pieces.entries().saturating_mul(RECORD_BYTES)
    }

    /// Reads all parts. None when a record has dates that `I` cannot keep.
    ///
    /// # Errors
    /// When a part is damaged or cannot be read, the spill file cannot be written, and on an
    /// interrupt.
    pub(super) fn read<'m, I: StagedKey>(
        &self,
        store: Store<'m, I>,
    ) -> Result<Option<StagedRecords<'m, I>>, Error> {
        let next = AtomicUsize::new(0);
        let worker = || {
            let done = self.work(&store, &next);
            if !matches!(done, Ok(Some(_))) {
                // Nobody takes another part.
                next.store(usize::MAX / 2, Ordering::Relaxed);
            }
            done
        };
        let mut expired = vec![0; self.sources];
        let mut dated = false;
        for done in on_threads(0..self.plan.workers(), |_| worker()) {
            match done? {
                Some(others) => {
                    for (sum, count) in expired.iter_mut().zip(others) {
                        *sum += count;
                    }
                }
                None => dated = true,
            }
        }
        Ok((!dated).then(|| StagedRecords {
            keys: store.seal(),
            expired,
        }))
    }

    /// One worker; says how many entries have expired, by source.
    fn work<I: StagedKey>(
        &self,
        store: &Store<'_, I>,
        next: &AtomicUsize,
    ) -> Result<Option<Vec<u64>>, Error> {
        let mut stager = Stager::new(store);
        let mut expired = vec![0; self.sources];
        let today = self.plan.today().0;
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let piece = self.pieces.pieces.get(place);
            let Some((piece, numbers)) = piece.zip(self.numbers.get(place)) else {
                stager.finish()?;
                return Ok(Some(expired));
            };
            let mut part = Part::open(&piece.path)?;
            if !part.header().has_records_of(&piece.header) {
                return Err(Error::Unlike(format!(
                    "{}: changed while the parts were read",
                    piece.path.display()
                )));
            }
            let (mut dated, mut counted) = (false, 0);
            for block in 0..part.blocks() {
                self.progress.go_on()?;
                let mut count = 0;
                part.each_run(block, |run| {
                    let keys = run.keys();
                    count += keys.len() as u64;
                    let (kind, source, dates) = about(run.class);
                    let source = numbers.get(source as usize).copied().unwrap_or(0);
                    if dates.expires.is_some_and(|day| day <= today) {
                        if let Some(expired) = expired.get_mut(source as usize) {
                            *expired += keys.len() as u64;
                        }
                        return Ok(());
                    }
                    dated |= dates != self.dates;
                    let tag = Tag {
                        kind,
                        source,
                        dates,
                    };
                    stager.add_in_order(keys, tag)
                })?;
                if dated && !I::KEEPS_DATES {
                    return Ok(None);
                }
                counted += count;
                self.progress.add(count * RECORD_BYTES);
                self.progress.add_entries(count);
            }
            part.check_count(counted)?;
        }
    }
}

/// What is known of a record beside its key.
fn about(class: Class) -> (u8, u32, Dates) {
    let dates = Dates {
        added: class.added,
        expires: class.expires,
    };
    (class.kind, class.source, dates)
}

/// The dates of the first record of all.
fn first_dates(pieces: &[Piece]) -> Result<Dates, Error> {
    let Some(piece) = pieces.iter().find(|piece| piece.header.entries > 0) else {
        return Ok(Dates::default());
    };
    let (mut part, mut dates) = (Part::open(&piece.path)?, None);
    for block in 0..part.blocks() {
        part.each_run(block, |run| {
            dates.get_or_insert_with(|| about(run.class).2);
            Ok::<_, Error>(())
        })?;
        if let Some(dates) = dates {
            return Ok(dates);
        }
    }
    Ok(Dates::default())
}
