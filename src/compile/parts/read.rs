//! The records of all parts in a range of keys, as staged keys: sorted, each key once.
//!
//! ```text
//!   part 0   ...| blocks |...  --+
//!   part 1   ...| blocks |...  --+--> keys, part after part --range by range--> sorted, joined
//!   part 2   ...| blocks |...  --+
//! ```
//!
//! The records of a part are sorted, so those of a range of keys are contiguous, and the directory says in which blocks
//! they are. A batch of ranges (see `ranges`) is read from all parts at once. Each part is opened for this and closed
//! again, so the number of parts is not limited, and memory contains no more than a batch.

use super::pieces::{Piece, Pieces};
use super::ranges::Ranges;
use crate::compile::partition::{Dates, StagedKey, Tag, join_doubles, sort_runs};
use crate::compile::{Error, Progress};
use crate::filter::{Class, Excerpt, ExcerptMemory, Key, Part, Run};

/// The data that the workers share.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    pub(super) progress: &'a Progress,
    pieces: &'a Pieces,
    /// For each part, the indexes of its sources.
    numbers: Vec<Vec<u32>>,
    pub(super) sources: usize,
    /// The dates of the first record. If staged keys store no dates, all records must have these.
    pub(super) dates: Dates,
    /// Entries that expire on this day (since 1970) or earlier are left out.
    today: u16,
}

impl<'a> Reading<'a> {
    /// # Errors
    /// The first record cannot be read.
    pub(super) fn of(
        pieces: &'a Pieces,
        today: u16,
        progress: &'a Progress,
    ) -> Result<Self, Error> {
        Ok(Self {
            progress,
            pieces,
            numbers: pieces.numbers(),
            sources: pieces.spec().sources.len(),
            dates: first_dates(&pieces.pieces)?,
            today,
        })
    }

    /// Checks that as many records were read from each part as its header says.
    pub(super) fn check_counts(&self, counted: &[u64]) -> Result<(), Error> {
        for (piece, counted) in self.pieces.pieces.iter().zip(counted) {
            if piece.header.entries != *counted {
                Part::open(&piece.path)?.check_count(*counted)?;
            }
        }
        Ok(())
    }

    /// How many parts there are.
    pub(super) fn parts(&self) -> usize {
        self.pieces.pieces.len()
    }
}

/// The state of a worker that reads ranges of keys.
#[derive(Debug)]
pub(super) struct Reader<'a, I> {
    reading: &'a Reading<'a>,
    ranges: Ranges,
    /// Entries left out because they have expired since, by source.
    pub(super) expired: Vec<u64>,
    /// Records read of each part.
    pub(super) counted: Vec<u64>,
    /// The keys of all parts, part after part.
    keys: Vec<I>,
    /// For each part and each range of the batch: the end of its keys in `keys`.
    ends: Vec<usize>,
    sorted: Vec<I>,
    scratch: Vec<I>,
    memory: ExcerptMemory,
}

impl<'a, I: StagedKey> Reader<'a, I> {
    pub(super) fn new(reading: &'a Reading<'a>, ranges: Ranges) -> Self {
        Self {
            reading,
            ranges,
            expired: vec![0; reading.sources],
            counted: vec![0; reading.parts()],
            keys: Vec::new(),
            ends: Vec::new(),
            sorted: Vec::new(),
            scratch: Vec::new(),
            memory: ExcerptMemory::default(),
        }
    }

    /// Visits the keys from `from` to before `end` (`None`: to the last), one range at a time; a range may be empty.
    /// Returns the number of records, including duplicates and expired ones; `None` if one has dates that `I` cannot
    /// store.
    ///
    /// # Errors
    /// A part is damaged, has changed, or cannot be read; the user interrupts; or `visit` fails.
    pub(super) fn read(
        &mut self,
        from: Key,
        end: Option<Key>,
        mut visit: impl FnMut(u64, &[I]) -> Result<(), Error>,
    ) -> Result<Option<u64>, Error> {
        let ranges = self.ranges;
        let last = end.map_or(u64::MAX, |Key(end)| end.saturating_sub(1));
        let (first, last) = (ranges.range_of(from), ranges.range_of(Key(last)));
        let Some(records) = self.gather(from, end, first, last)? else {
            return Ok(None);
        };
        let count = usize::try_from(last - first + 1).unwrap_or(usize::MAX);
        for (place, range) in (first..=last).enumerate() {
            // `ends` is ordered by part, then by range: each run begins where the previous one ends.
            let runs = (place..self.ends.len()).step_by(count).map(|at| {
                let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
                &self.keys[start..self.ends[at]]
            });
            self.sorted.clear();
            sort_runs(
                runs,
                ranges.alike_bits(),
                &mut self.sorted,
                &mut self.scratch,
            );
            join_doubles(&mut self.sorted);
            visit(range, &self.sorted)?;
        }
        Ok(Some(records))
    }

    /// Fills `keys` and `ends`.
    fn gather(
        &mut self,
        from: Key,
        end: Option<Key>,
        first: u64,
        last: u64,
    ) -> Result<Option<u64>, Error> {
        let Self {
            reading,
            ranges,
            expired,
            counted,
            keys,
            ends,
            memory,
            ..
        } = self;
        keys.clear();
        ends.clear();
        let mut records = 0;
        let pieces = reading.pieces.pieces.iter();
        for ((piece, numbers), counted) in pieces.zip(&reading.numbers).zip(counted) {
            reading.progress.go_on()?;
            let part = Excerpt::open(&piece.path)?;
            if !part.header().has_records_of(&piece.header) {
                return Err(Error::Unlike(format!(
                    "{}: changed while the parts were read",
                    piece.path.display()
                )));
            }
            let mut dated = false;
            let mut range = first;
            let sources = piece.header.spec.sources.len();
            part.each_run((from, end), sources, memory, |run| {
                records += run.len() as u64;
                *counted += run.len() as u64;
                let (kind, source, dates) = about(run.class);
                let source = numbers.get(source as usize).copied().unwrap_or(0);
                if dates.expires.is_some_and(|day| day <= reading.today) {
                    if let Some(expired) = expired.get_mut(source as usize) {
                        *expired += run.len() as u64;
                    }
                    return Ok(());
                }
                dated |= dates != reading.dates;
                let tag = Tag {
                    kind,
                    source,
                    dates,
                };
                let mut left: Run<'_> = run;
                while range < last
                    && let Some(next) = ranges.first_key(range + 1)
                {
                    let (here, others) = left.split_before(next);
                    keys.extend(here.keys().map(|key| I::new(key, tag)));
                    left = others;
                    if left.is_empty() {
                        return Ok(());
                    }
                    ends.push(keys.len());
                    range += 1;
                }
                keys.extend(left.keys().map(|key| I::new(key, tag)));
                Ok::<_, Error>(())
            })?;
            ends.extend((range..=last).map(|_| keys.len()));
            if dated && !I::KEEPS_DATES {
                return Ok(None);
            }
        }
        Ok(Some(records))
    }
}

/// The data of a record other than its key.
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
