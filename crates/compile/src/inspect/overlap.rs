//! The number of entries that each pair of several filters shares: shows which lists are worth
//! having. And the same of two filters.
//!
//! The numbers are exact, and are found by reading the records of all filters once: their keys are walked side by side,
//! on all processors.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use crate::compile::{Error, Progress, STEPS, Walk, open_alike};
use crate::console::shortened;
use blocklist_filter::address::escaped;
use blocklist_filter::base::numbers::{counted, grouped, percent};
use blocklist_filter::base::parallel::{on_threads, processors};
use blocklist_filter::filter::Filter;
use blocklist_filter::filter::page::first_key;

/// The number of entries that each of several filters shares with each other one.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Overlap {
    pub(crate) names: Vec<String>,
    pub(crate) entries: Vec<u64>,
    /// Number of entries that filter i and filter j share.
    pub(crate) shared: Vec<Vec<u64>>,
    /// Number of entries of each filter that no other one has.
    pub(crate) alone: Vec<u64>,
}

/// Compares each filter with each other one.
pub(crate) fn overlap(files: &[PathBuf]) -> Result<Overlap, Error> {
    let filters = open_alike(files)?;
    let name = |filter: &Arc<Filter>| escaped(filter.spec().name.as_bytes()).to_string();
    let all = filters.len();
    let mut counts = no_counts(all);
    let workers = processors() as u64;
    let parts = (0..workers).map(|n| STEPS * n / workers..STEPS * (n + 1) / workers);
    for part in on_threads(parts, |steps| count(&filters, steps)) {
        let sums = counts.iter_mut().flatten();
        sums.zip(part?.iter().flatten())
            .for_each(|(sum, count)| *sum += count);
    }
    let shared = |i: usize| -> Vec<u64> { (0..all).map(|j| counts[i.min(j)][i.max(j)]).collect() };
    Ok(Overlap {
        names: filters.iter().map(name).collect(),
        entries: (0..all).map(|i| counts[i][i]).collect(),
        shared: (0..all).map(shared).collect(),
        alone: counts.iter().map(|row| row[all]).collect(),
    })
}

/// For each filter, the number of keys that it shares with itself and each later one; behind all
/// filters, of those that it has alone.
type Counts = Vec<Vec<u64>>;

fn no_counts(filters: usize) -> Counts {
    vec![vec![0; filters + 1]; filters]
}

fn count(filters: &[Arc<Filter>], steps: Range<u64>) -> Result<Counts, Error> {
    let first = first_key(steps.start, STEPS);
    let streams = filters.iter().map(|filter| filter.records_from(first));
    let streams: Vec<_> = streams.collect::<Result<_, _>>()?;
    let mut counts = no_counts(filters.len());
    let mut walk = Walk::new(streams.into_iter().map(|stream| Box::new(stream) as _));
    walk.steps(steps, &Progress::new(), |_, held| {
        if let [(alone, _)] = held {
            counts[*alone][filters.len()] += 1;
        }
        for (at, (i, _)) in held.iter().enumerate() {
            for (j, _) in &held[at..] {
                counts[*i][*j] += 1;
            }
        }
        Ok(())
    })?;
    Ok(counts)
}

const NAME_CHARS: usize = 32;

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.names.len();
        let labels = (1..).zip(&self.names);
        let labels = labels.map(|(n, name)| format!("{n:>2} {}", shortened(name, NAME_CHARS)));
        let labels: Vec<String> = labels.collect();
        let left = labels.iter().map(|label| label.chars().count()).max();
        let left = left.unwrap_or(0) + 1;
        let numbers = self.entries.iter().map(|entries| grouped(*entries).len());
        let width = numbers.max().unwrap_or(0).max("100.0 %".len()) + 2;

        write!(f, "{:left$}{:>width$}", "", "entries")?;
        write!(f, "{:>ALONE_WIDTH$}", "nowhere else")?;
        for n in 1..=count {
            write!(f, "{n:>width$}")?;
        }
        for (i, label) in labels.iter().enumerate() {
            let of = self.entries[i];
            let mut numbers = format!("{label:<left$}{:>width$}", grouped(of));
            let mut shares = " ".repeat(left + width);
            let mut put = |entries: Option<u64>, width: usize| {
                let number = entries.map_or_else(|| "-".to_owned(), grouped);
                let share = entries.map(|entries| percent(entries, of));
                numbers += &format!("{number:>width$}");
                shares += &format!("{:>width$}", share.unwrap_or_default());
            };
            put(Some(self.alone[i]), ALONE_WIDTH.max(width));
            for j in 0..count {
                put((i != j).then(|| self.shared[i][j]), width);
            }
            write!(f, "\n{numbers}\n{}", shares.trim_end())?;
        }
        write!(
            f,
            "\neach row: entries shared with list 1, 2, ..., and their share of the row's list"
        )
    }
}

const ALONE_WIDTH: usize = "nowhere else".len() + 2;

/// The numbers of entries of two filters.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Entries of the first filter.
    pub a: u64,
    /// Entries of the second filter.
    pub b: u64,
    /// Entries of both filters.
    pub both: u64,
    /// Entries of at least one of the filters.
    pub either: u64,
}

/// Compares two filters.
pub fn compare(a: &Path, b: &Path) -> Result<Comparison, Error> {
    let found = overlap(&[a.to_owned(), b.to_owned()])?;
    let (a, b, both) = (found.entries[0], found.entries[1], found.shared[0][1]);
    Ok(Comparison {
        a,
        b,
        both,
        either: a.saturating_add(b) - both,
    })
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (label, entries, other) in [("first", self.a, "second"), ("second", self.b, "first")] {
            let missing = grouped(entries - self.both);
            let entries = counted(entries, "entry", "entries");
            let line = format_args!("{label:<10}{entries}, {missing} of them not in the {other}");
            writeln!(f, "{line}")?;
        }
        writeln!(f, "both      {}", grouped(self.both))?;
        write!(f, "either    {}", grouped(self.either))
    }
}
