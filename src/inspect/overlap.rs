//! The number of entries that each pair of several filters shares: shows which lists are worth
//! having.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use super::shared::Shared;
use crate::address::escaped;
use crate::base::numbers::grouped;
use crate::compile::{Error, open_alike};

/// The number of entries that each of several filters shares with each other one.
#[derive(Clone, Debug, Serialize)]
pub struct Overlap {
    /// Names of the filters.
    pub names: Vec<String>,
    /// Number of entries of each filter.
    pub entries: Vec<u64>,
    /// Number of entries that filter i and filter j share.
    pub shared: Vec<Vec<u64>>,
    /// Number of entries of each filter that no other one has; `None` if records are missing.
    pub alone: Option<Vec<u64>>,
    /// Whether all numbers are exact.
    pub exact: bool,
    /// Two standard deviations of the number that the last two filters share; 0 when exact.
    #[serde(skip)]
    pub(super) error: u64,
}

/// Compares each filter with each other one.
///
/// # Errors
/// When their keys cannot be compared, or a file cannot be read.
pub fn overlap(files: &[PathBuf]) -> Result<Overlap, Error> {
    let filters = open_alike(files)?;
    let names = filters.iter().map(|filter| &filter.spec().name);
    let exact = filters.iter().all(|filter| filter.spec().records);
    let counts = Shared::of(&filters, exact)?;
    let shared_with = |i: usize| -> Vec<u64> {
        let shared = |j| match i == j {
            true => counts.entries[i],
            false => counts.shared(i, j),
        };
        (0..files.len()).map(shared).collect()
    };
    Ok(Overlap {
        names: names
            .map(|name| escaped(name.as_bytes()).to_string())
            .collect(),
        shared: (0..files.len()).map(shared_with).collect(),
        alone: exact.then_some(counts.alone),
        exact,
        error: counts.error,
        entries: counts.entries,
    })
}

/// Maximum length of a name in the table, in characters.
const NAME_CHARS: usize = 32;

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.names.len();
        let labels: Vec<_> = (1..)
            .zip(&self.names)
            .map(|(n, name)| format!("{n:>2} {}", shortened(name, NAME_CHARS)))
            .collect();
        #[allow(clippy::cast_precision_loss, reason = "shown as per cent")]
        let per_cent = |entries: u64, of: u64| match of {
            0 => 0.0,
            _ => entries as f64 * 100.0 / of as f64,
        };
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
                let part = per_cent(entries, self.entries[i]);
                (grouped(entries), format!("{part:.1} %"))
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
            "\neach row: entries shared with list 1, 2, ..., and their share of the row's list"
        )?;
        if !self.exact {
            write!(
                f,
                "\nestimated where records are missing; \"blocklist-compile compare\" shows the error margin"
            )?;
        }
        Ok(())
    }
}

const ALONE_WIDTH: usize = "nowhere else".len() + 2;

/// Returns a text of at most `most` characters; a text that is cut ends with "...".
fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most.saturating_sub(3)).collect();
    short.push_str("...");
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_shows_shares_of_each_row_and_cuts_long_names() {
        let overlap = Overlap {
            names: vec!["a".to_owned(), "x".repeat(300)],
            entries: vec![10, 0],
            shared: vec![vec![10, 3], vec![3, 0]],
            alone: Some(vec![7, 0]),
            exact: true,
            error: 0,
        };
        let table = overlap.to_string();
        let cut = format!(" 2 {}... ", "x".repeat(NAME_CHARS - 3));
        for part in ["30.0 %", "70.0 %", "nowhere else", " 1 a ", &cut] {
            assert!(table.contains(part), "{table}");
        }
    }
}
