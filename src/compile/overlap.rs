//! How many entries several filters share, each with each: which lists are worth having.
//!
//! With records the answer is exact, and comes from one walk over all files. The keys of
//! all are taken range by range and sorted together, so that equal ones stand side by side:
//!
//! ```text
//!   key      3  3  4  7  7  7        3 is in A and B, 4 in B and nowhere else,
//!   filter   A  B  B  A  B  C        7 in all three
//! ```
//!
//! Ranges are counted by all processors. Where a filter has no records, pairs are estimated
//! as [`compare`] does it.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use serde::Serialize;

use super::Error;
use super::compare::compare;
use super::figures::grouped;
use super::merge::like;
use super::query::open;
use super::sorted::{FileRecords, Sorted};
use crate::address::escaped;
use crate::filter::page::first_key;
use crate::filter::{Filter, Load};
use crate::parallel::{on_threads, processors};

/// Ranges of keys that are counted at a time.
const STEPS: u64 = 4096;

/// How many entries each of several filters shares with each other.
#[derive(Clone, Debug, Serialize)]
pub struct Overlap {
    /// Names of the filters.
    pub names: Vec<String>,
    /// Entries of each.
    pub entries: Vec<u64>,
    /// Entries shared by filter i and filter j.
    pub shared: Vec<Vec<u64>>,
    /// Entries of each that none of the others has; none where records are missing.
    pub alone: Option<Vec<u64>>,
    /// Whether all are exact.
    pub exact: bool,
}

/// Compares each filter with each.
///
/// # Errors
/// When their keys cannot be compared, or a file fails.
pub fn overlap(files: &[PathBuf]) -> Result<Overlap, Error> {
    let filters = files
        .iter()
        .map(|file| open(file, Load::Disk))
        .collect::<Result<Vec<_>, _>>()?;
    for (file, filter) in files.iter().zip(&filters).skip(1) {
        like(&files[0], &filters[0], file, filter)?;
    }
    let mut overlap = Overlap {
        names: filters
            .iter()
            .map(|filter| escaped(filter.spec().name.as_bytes()).to_string())
            .collect(),
        entries: filters.iter().map(Filter::entries).collect(),
        shared: vec![vec![0; files.len()]; files.len()],
        alone: None,
        exact: filters.iter().all(|filter| filter.spec().records),
    };
    let counts = overlap.exact.then(|| Counts::of(&filters)).transpose()?;
    for i in 0..files.len() {
        overlap.shared[i][i] = overlap.entries[i];
        for j in i + 1..files.len() {
            let both = match &counts {
                Some(counts) => counts.shared(i, j),
                None => compare(&files[i], &files[j])?.both,
            };
            overlap.shared[i][j] = both;
            overlap.shared[j][i] = both;
        }
    }
    overlap.alone = counts.map(|counts| counts.alone);
    Ok(overlap)
}

/// What a walk over the records of several filters has counted.
#[derive(Debug)]
pub(crate) struct Counts {
    /// Keys that filter i alone has.
    alone: Vec<u64>,
    /// Keys that filter i and filter j have, at `[i * filters + j]` where i < j.
    shared: Vec<u64>,
}

impl Counts {
    /// Walks the records of `filters`, which are of one seed.
    pub(crate) fn of(filters: &[Filter]) -> Result<Self, Error> {
        let workers = processors() as u64;
        let parts = (0..workers).map(|n| STEPS * n / workers..STEPS * (n + 1) / workers);
        let counted = on_threads(parts, |steps| Self::of_steps(filters, steps));
        let mut all = Self::zero(filters.len());
        for counts in counted {
            let counts = counts?;
            let sums = all.alone.iter_mut().chain(&mut all.shared);
            for (sum, count) in sums.zip(counts.alone.iter().chain(&counts.shared)) {
                *sum += count;
            }
        }
        Ok(all)
    }

    /// Keys that two different filters have.
    pub(crate) fn shared(&self, i: usize, j: usize) -> u64 {
        self.shared[i.min(j) * self.alone.len() + i.max(j)]
    }

    fn zero(filters: usize) -> Self {
        Self {
            alone: vec![0; filters],
            shared: vec![0; filters * filters],
        }
    }

    fn of_steps(filters: &[Filter], steps: Range<u64>) -> Result<Self, Error> {
        let mut counts = Self::zero(filters.len());
        let first = first_key(steps.start, STEPS);
        let mut streams: Vec<_> = filters
            .iter()
            .map(|filter| FileRecords::starting(filter, first))
            .collect();
        let mut records = Vec::new();
        let mut keys = Vec::new();
        for step in steps {
            let end = (step + 1 < STEPS).then(|| first_key(step + 1, STEPS));
            keys.clear();
            for (filter, stream) in streams.iter_mut().enumerate() {
                records.clear();
                stream.take_before(end, &mut records)?;
                let ours = records.iter().filter(|record| record.key >= first);
                keys.extend(ours.map(|record| (record.key, filter)));
            }
            // The library's stable sort finds the sorted runs and merges them.
            keys.sort_by_key(|(key, _)| *key);
            for holders in keys.chunk_by(|a, b| a.0 == b.0) {
                counts.count(holders);
            }
        }
        Ok(counts)
    }

    /// Counts one key, with the filters that have it in their order.
    fn count(&mut self, holders: &[(u64, usize)]) {
        if let [(_, filter)] = holders {
            self.alone[*filter] += 1;
            return;
        }
        for (at, (_, i)) in holders.iter().enumerate() {
            for (_, j) in &holders[at + 1..] {
                self.shared[i * self.alone.len() + j] += 1;
            }
        }
    }
}

impl Overlap {
    /// The part of filter `i` that filter `j` has too.
    pub(crate) fn part(&self, i: usize, j: usize) -> f64 {
        self.part_of(self.shared[i][j], i)
    }

    /// So many entries as a part of filter `i`.
    #[allow(clippy::cast_precision_loss, reason = "shown as per cent")]
    pub(crate) fn part_of(&self, entries: u64, i: usize) -> f64 {
        if self.entries[i] == 0 {
            0.0
        } else {
            entries as f64 / self.entries[i] as f64
        }
    }
}

/// Longer names are cut in the table.
const NAME_CHARS: usize = 32;

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.names.len();
        let labels: Vec<_> = (1..)
            .zip(&self.names)
            .map(|(n, name)| format!("{n:>2} {}", shortened(name, NAME_CHARS)))
            .collect();
        let left = labels.iter().map(|label| label.chars().count()).max();
        let left = left.unwrap_or(0) + 1;
        let numbers = self.entries.iter().map(|entries| grouped(*entries).len());
        let width = numbers.max().unwrap_or(0).max("100.0 %".len()) + 2;

        write!(f, "{:left$}{:>width$}", "", "entries")?;
        if self.alone.is_some() {
            write!(f, "{:>ALONE_WIDTH$}", "nowhere else")?;
        }
        for n in 1..=count {
            write!(f, "{n:>width$}")?;
        }
        for (i, label) in labels.iter().enumerate() {
            let cells = |entries: u64| {
                let part = format!("{:.1} %", self.part_of(entries, i) * 100.0);
                (grouped(entries), part)
            };
            let mut lines = [
                format!("{label:<left$}{:>width$}", grouped(self.entries[i])),
                format!("{:left$}{:width$}", "", ""),
            ];
            let mut put = |(entries, part): (String, String), width: usize| {
                lines[0] += &format!("{entries:>width$}");
                lines[1] += &format!("{part:>width$}");
            };
            if let Some(alone) = &self.alone {
                put(cells(alone[i]), ALONE_WIDTH.max(width));
            }
            for j in 0..count {
                if i == j {
                    put(("-".to_owned(), String::new()), width);
                } else {
                    put(cells(self.shared[i][j]), width);
                }
            }
            write!(f, "\n{}\n{}", lines[0], lines[1].trim_end())?;
        }
        write!(
            f,
            "\neach row: entries that its list shares with list 1, 2, ..., and what part of its own that is"
        )?;
        if !self.exact {
            write!(
                f,
                "\nestimated where records are missing; compare tells the error"
            )?;
        }
        Ok(())
    }
}

const ALONE_WIDTH: usize = "nowhere else".len() + 2;

/// A text of at most `most` characters; where it is cut, it ends with "...".
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most.saturating_sub(3)).collect();
    short.push_str("...");
    short
}
