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
//! again, so the number of parts is not limited, and memory contains no more than a batch. If a batch has more records
//! than expected, for example because very many parts have the same keys, it is read in smaller intervals.

use super::pieces::{Piece, Pieces};
use super::ranges::{Ranges, last_before};
use crate::compile::partition::{Dates, StagedKey, Tag, sort_and_join_runs};
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
    /// Totals of all intervals that were read.
    pub(super) tally: Tally,
    /// Totals of the current interval.
    here: Tally,
    /// The keys of all parts, part after part; or range after range if `Ranges::deals`.
    keys: Vec<I>,
    /// The end in `keys` of each range of each part; or of each range if `Ranges::deals`.
    ends: Vec<usize>,
    dealt: Dealt<I>,
    sorted: Vec<I>,
    scratch: Vec<I>,
    memory: ExcerptMemory,
}

/// Numbers of records that were read.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    /// Entries left out because they have expired since, by source.
    pub(super) expired: Vec<u64>,
    /// Records of each part, including duplicates and expired ones.
    pub(super) records: Vec<u64>,
}

impl Tally {
    pub(super) fn of(reading: &Reading<'_>) -> Self {
        Self {
            expired: vec![0; reading.sources],
            records: vec![0; reading.parts()],
        }
    }

    fn clear(&mut self) {
        self.expired.fill(0);
        self.records.fill(0);
    }

    pub(super) fn add(&mut self, other: &Self) {
        let sums = self.expired.iter_mut().chain(&mut self.records);
        for (sum, count) in sums.zip(other.expired.iter().chain(&other.records)) {
            *sum += count;
        }
    }
}

/// The result of reading an interval of keys.
enum Gathered {
    All,
    /// There are more records than fit into the memory planned for them: a smaller interval is needed.
    TooMany,
    /// A record has dates that the staged keys cannot store.
    Dated,
}

/// Why reading the records of a part ends early.
enum Stop {
    TooMany,
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl<'a, I: StagedKey> Reader<'a, I> {
    pub(super) fn new(reading: &'a Reading<'a>, ranges: Ranges) -> Self {
        let tally = Tally::of(reading);
        Self {
            reading,
            ranges,
            here: tally.clone(),
            tally,
            keys: Vec::new(),
            ends: Vec::new(),
            dealt: Dealt::default(),
            sorted: Vec::new(),
            scratch: Vec::new(),
            memory: ExcerptMemory::default(),
        }
    }

    /// Visits the keys from `from` to before `end` (`None`: to the last), one range at a time; a range may be empty.
    /// If an interval has more records than expected, a range may be visited in several pieces.
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
        let mut records = 0;
        let mut from = from;
        // Duplicates from many parts are in the same interval, so it may have far more records than entries.
        let mut width = self.ranges.batch_width();
        loop {
            let stop = self.ranges.stop(from, width, end);
            match self.gather(from, stop)? {
                Gathered::All => {}
                Gathered::TooMany => {
                    width = width.min(last_before(stop).0 - from.0) / 2;
                    continue;
                }
                Gathered::Dated => return Ok(None),
            }
            self.tally.add(&self.here);
            records += self.here.records.iter().sum::<u64>();
            self.visit(from, stop, &mut visit)?;
            match stop {
                Some(stop) if Some(stop) != end => from = stop,
                _ => return Ok(Some(records)),
            }
            width = width
                .saturating_mul(2)
                .saturating_add(1)
                .min(self.ranges.batch_width());
        }
    }

    /// Sorts and visits the gathered keys, one range at a time.
    fn visit(
        &mut self,
        from: Key,
        stop: Option<Key>,
        visit: &mut impl FnMut(u64, &[I]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (first, last) = self.ranges.between(from, stop);
        let count = usize::try_from(last - first + 1).unwrap_or(usize::MAX);
        for (place, range) in (first..=last).enumerate() {
            // `ends` is ordered by part, then by range: each run begins where the previous one ends.
            let runs = (place..self.ends.len()).step_by(count).map(|at| {
                let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
                &self.keys[start..self.ends[at]]
            });
            sort_and_join_runs(
                runs,
                self.ranges.alike_bits(),
                &mut self.sorted,
                &mut self.scratch,
            );
            visit(range, &self.sorted)?;
        }
        Ok(())
    }

    /// Reads the records from `from` to before `stop` into `keys`, `ends` and `here`.
    fn gather(&mut self, from: Key, stop: Option<Key>) -> Result<Gathered, Error> {
        let Self {
            reading,
            ranges,
            here,
            keys,
            ends,
            dealt,
            memory,
            ..
        } = self;
        keys.clear();
        ends.clear();
        here.clear();
        dealt.places.clear();
        let (first, last) = ranges.between(from, stop);
        let count = usize::try_from(last - first + 1).unwrap_or(usize::MAX);
        if ranges.deals {
            ends.resize(count, 0);
        }
        let Tally { expired, records } = here;
        let pieces = reading.pieces.pieces.iter();
        for ((piece, numbers), records) in pieces.zip(&reading.numbers).zip(records) {
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
            let done = part.each_run((from, stop), sources, memory, |run| {
                *records += run.len() as u64;
                let (kind, source, dates) = about(run.class);
                let source = numbers.get(source as usize).copied().unwrap_or(0);
                if dates.expires.is_some_and(|day| day <= reading.today) {
                    if let Some(expired) = expired.get_mut(source as usize) {
                        *expired += run.len() as u64;
                    }
                    return Ok(());
                }
                dated |= dates != reading.dates;
                if keys.len() + run.len() > ranges.most_records() && from < last_before(stop) {
                    return Err(Stop::TooMany);
                }
                let tag = Tag {
                    kind,
                    source,
                    dates,
                };
                if ranges.deals {
                    dealt.add(run, |key| ranges.range_of(key) - first, ends);
                    keys.extend(run.keys().map(|key| I::new(key, tag)));
                    return Ok(());
                }
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
                Ok::<_, Stop>(())
            });
            match done {
                Ok(()) => {}
                Err(Stop::TooMany) => return Ok(Gathered::TooMany),
                Err(Stop::Failed(error)) => return Err(error),
            }
            if !ranges.deals {
                ends.extend((range..=last).map(|_| keys.len()));
            }
            if dated && !I::KEEPS_DATES {
                return Ok(Gathered::Dated);
            }
        }
        if ranges.deals {
            dealt.deal_out(keys, ends);
        }
        Ok(Gathered::All)
    }
}

/// Distributes keys to their ranges. With many parts this is faster than to search each part for the start of each range.
#[derive(Debug)]
struct Dealt<I> {
    /// The range of each key, counted from the first range of the interval.
    places: Vec<u16>,
    keys: Vec<I>,
}

impl<I> Default for Dealt<I> {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            keys: Vec::new(),
        }
    }
}

impl<I: StagedKey> Dealt<I> {
    /// Stores the range of each key, and counts the keys of each range.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "a batch has at most 2^15 ranges"
    )]
    fn add(&mut self, run: Run<'_>, place_of: impl Fn(Key) -> u64, counts: &mut [usize]) {
        self.places.extend(run.keys().map(|key| {
            let place = place_of(key) as u16;
            counts[usize::from(place)] += 1;
            place
        }));
    }

    /// Puts the keys in the order of their ranges. `ends` contains the number of keys in each range, and is replaced by
    /// the end of each range.
    fn deal_out(&mut self, keys: &mut Vec<I>, ends: &mut [usize]) {
        let mut start = 0;
        for end in &mut *ends {
            start += std::mem::replace(end, start);
        }
        // Every element is overwritten, so the old ones are not cleared.
        self.keys.resize(keys.len(), I::default());
        for (key, place) in keys.iter().zip(&self.places) {
            let next = &mut ends[usize::from(*place)];
            self.keys[*next] = *key;
            *next += 1;
        }
        std::mem::swap(&mut self.keys, keys);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::replacement::Replacement;
    use crate::compile::partition::{Narrow, STAGE_BITS};
    use crate::compile::parts::pieces::Expected;
    use crate::filter::{EncodedPage, Record, Source, Spec, Writer, encode_block};
    use std::path::PathBuf;

    const PARTS: u64 = 30;
    const TODAY: u16 = 100;

    /// Keys of which nearly all are close together; every fifth record has expired.
    fn records() -> Vec<Record> {
        let crowded = (0..500).map(|n| 0x1234_5678_0000_0000 + n * 3);
        let keys = [0].into_iter().chain(crowded).chain([u64::MAX]);
        let record = |(n, key): (usize, u64)| Record {
            key: Key(key),
            expires: (n % 5 == 1).then_some(TODAY),
            ..Record::default()
        };
        keys.enumerate().map(record).collect()
    }

    /// Parts with the same records, each made from a different piece.
    fn parts(folder: &tempfile::TempDir) -> Vec<PathBuf> {
        let part = |number| {
            let path = folder.path().join(format!("{number}.part"));
            let spec = Spec {
                name: format!("{number}"),
                generation: 1,
                built: 0,
                seed: 0,
                rules_version: crate::address::RULES_VERSION,
                rules: 0,
                kinds: 0,
                fpr: 1e-6,
                records: true,
                sources: vec![Source {
                    name: "a".to_owned(),
                    file: "a".to_owned(),
                    ..Source::default()
                }],
            };
            let records = records();
            let replacement = Replacement::claim(&path).unwrap();
            let entries = records.len() as u64;
            let digest = u128::from(number);
            let mut writer = Writer::begin_part(replacement, spec, entries, digest).unwrap();
            let mut block = EncodedPage::new();
            encode_block(writer.shape(), &records, &mut block);
            writer.append(std::slice::from_ref(&block)).unwrap();
            writer.finish_part(1).unwrap();
            path
        };
        (0..PARTS).map(part).collect()
    }

    /// Many parts with the same keys: a batch would have far more records than planned.
    #[test]
    fn the_same_keys_in_many_parts_take_no_more_memory() {
        let folder = tempfile::tempdir().unwrap();
        let progress = Progress::new();
        let pieces = Pieces::of(&parts(&folder), &Expected::default(), &progress).unwrap();
        let reading = Reading::of(&pieces, TODAY, &progress).unwrap();
        let all = records();
        let (kept, past): (Vec<&Record>, Vec<&Record>) =
            all.iter().partition(|record| record.expires.is_none());
        for (batch_bits, deals) in [(0, false), (5, false), (0, true), (5, true)] {
            let ranges = Ranges::exactly(13, batch_bits, 1, 0).dealing(deals);
            let mut reader = Reader::<Narrow>::new(&reading, ranges);
            let mut found = Vec::new();
            let mut records = 0;
            for batch in 0..ranges.batches() {
                let [first, end] = [batch, batch + 1].map(|batch| ranges.first_range(batch));
                let from = ranges.first_key(first).unwrap();
                let visit = |range, keys: &[Narrow]| {
                    let stage = ranges.stage_of(range);
                    assert_eq!(stage as u64, range >> (13 - STAGE_BITS));
                    found.extend(keys.iter().map(|key| key.key(stage)));
                    Ok(())
                };
                let read = reader.read(from, ranges.first_key(end), visit).unwrap();
                records += read.unwrap();
            }
            assert!(found.iter().eq(kept.iter().map(|record| &record.key)));
            assert_eq!(records, all.len() as u64 * PARTS);
            let of_each = vec![all.len() as u64; pieces.pieces.len()];
            assert_eq!(reader.tally.records, of_each);
            assert_eq!(reader.tally.expired, [past.len() as u64 * PARTS]);
            let most = reader.keys.capacity().max(reader.dealt.keys.capacity());
            assert!(most <= 2 * ranges.most_records(), "{most}");
        }
    }
}
