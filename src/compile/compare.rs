//! How many entries two filters share, and many filters each with each.
//!
//! With records the answer is exact: both are walked in the order of their keys.
//! Without, it is estimated from the fill of the pages and of their union:
//!
//! ```text
//! n = -(m/k) ln(1 - X/m)   for each page (X of m bits set), summed
//! both = |A| + |B| - |A u B|
//! ```
//!
//! The error of the difference is that of three estimates; it is given as two standard
//! deviations, so that 19 of 20 times the truth lies within.

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::Error;
use super::figures::grouped;
use super::merge::{like, union_of_page};
use super::query::open;
use super::sorted::{FileRecords, Sorted};
use crate::address::escaped;
use crate::filter::page::{Page, count_set, first_key};
use crate::filter::{Filter, Load, sizing};

/// Steps in which records are compared.
const STEPS: u64 = 1024;

/// What two filters share.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Entries of the first.
    pub a: u64,
    /// Entries of the second.
    pub b: u64,
    /// Entries of both.
    pub both: u64,
    /// Entries of either.
    pub either: u64,
    /// Whether records were compared, rather than the fill of pages.
    pub exact: bool,
    /// Two standard deviations of `both` and `either`; 0 when exact.
    pub error: u64,
}

/// Compares two filters.
///
/// # Errors
/// When their keys cannot be compared, or a file fails.
pub fn compare(a: &Path, b: &Path) -> Result<Comparison, Error> {
    let filters = [open(a, Load::Disk)?, open(b, Load::Disk)?];
    like(a, &filters[0], b, &filters[1])?;
    if filters.iter().all(|filter| filter.spec().records) {
        return exact(&filters);
    }
    if filters[0].shape() != filters[1].shape() {
        return Err(Error::Unlike(format!(
            "{}: has another size or rate than {}, and one of them has no records; build it again with records",
            b.display(),
            a.display()
        )));
    }
    estimate(&filters)
}

fn exact(filters: &[Filter; 2]) -> Result<Comparison, Error> {
    let mut streams = filters
        .each_ref()
        .map(|filter| FileRecords::new(filter, Vec::new()));
    let mut records = [Vec::new(), Vec::new()];
    let (mut a, mut b, mut both) = (0, 0, 0);
    for step in 0..STEPS {
        let end = (step + 1 < STEPS).then(|| first_key(step + 1, STEPS));
        for (stream, records) in streams.iter_mut().zip(&mut records) {
            records.clear();
            stream.take_before(end, records)?;
        }
        a += records[0].len() as u64;
        b += records[1].len() as u64;
        let mut others = records[1].iter().map(|record| record.key).peekable();
        for record in &records[0] {
            while others.next_if(|key| *key < record.key).is_some() {}
            both += u64::from(others.peek() == Some(&record.key));
        }
    }
    Ok(Comparison {
        a,
        b,
        both,
        either: a + b - both,
        exact: true,
        error: 0,
    })
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "counts far below 2^53, estimates not below 0"
)]
fn estimate(filters: &[Filter; 2]) -> Result<Comparison, Error> {
    let shape = filters[0].shape();
    let entries = |page: &Page| sizing::entries_of_fill(count_set(page), shape.probes);
    let mut sums = [0.0; 3];
    for number in 0..shape.pages {
        let pages = [
            filters[0].page(number)?,
            filters[1].page(number)?,
            union_of_page(filters, number)?,
        ];
        for (sum, page) in sums.iter_mut().zip(&pages) {
            *sum += entries(page);
        }
    }
    let deviations = sums.map(|sum| sizing::estimate_deviation(sum, shape).powi(2));
    // The entries themselves are known where they were counted.
    let known = |filter: &Filter, sum: f64| {
        if filter.header().estimated {
            sum.round() as u64
        } else {
            filter.entries()
        }
    };
    let (a, b) = (known(&filters[0], sums[0]), known(&filters[1], sums[1]));
    let either = (sums[2].round() as u64).clamp(a.max(b), a + b);
    let error = 2.0 * deviations.iter().sum::<f64>().sqrt();
    Ok(Comparison {
        a,
        b,
        both: a + b - either,
        either,
        exact: false,
        error: error.ceil() as u64,
    })
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            a, b, both, either, ..
        } = *self;
        writeln!(
            f,
            "first     {} entries, {} in it alone",
            grouped(a),
            grouped(a - both)
        )?;
        writeln!(
            f,
            "second    {} entries, {} in it alone",
            grouped(b),
            grouped(b - both)
        )?;
        writeln!(f, "both      {}", grouped(both))?;
        write!(f, "either    {}", grouped(either))?;
        if !self.exact {
            write!(
                f,
                "\nestimated from the pages, as there are no records: both and either to within {} (19 times in 20)",
                grouped(self.error)
            )?;
        }
        Ok(())
    }
}

/// How many entries each of several filters shares with each other.
#[derive(Clone, Debug, Serialize)]
pub struct Overlap {
    /// Names of the filters.
    pub names: Vec<String>,
    /// Entries of each.
    pub entries: Vec<u64>,
    /// Entries shared by filter i and filter j.
    pub shared: Vec<Vec<u64>>,
    /// Whether all are exact.
    pub exact: bool,
}

/// Compares each filter with each.
///
/// # Errors
/// As [`compare`].
pub fn overlap(files: &[PathBuf]) -> Result<Overlap, Error> {
    let filters = files
        .iter()
        .map(|file| open(file, Load::Disk))
        .collect::<Result<Vec<_>, _>>()?;
    let mut overlap = Overlap {
        names: filters
            .iter()
            .map(|filter| escaped(filter.spec().name.as_bytes()).to_string())
            .collect(),
        entries: filters.iter().map(Filter::entries).collect(),
        shared: vec![vec![0; files.len()]; files.len()],
        exact: true,
    };
    for (i, a) in files.iter().enumerate() {
        overlap.shared[i][i] = overlap.entries[i];
        for (j, b) in files.iter().enumerate().skip(i + 1) {
            let both = compare(a, b)?;
            overlap.shared[i][j] = both.both;
            overlap.shared[j][i] = both.both;
            overlap.exact &= both.exact;
        }
    }
    Ok(overlap)
}

impl Overlap {
    /// The part of filter `i` that filter `j` has too.
    #[allow(clippy::cast_precision_loss, reason = "shown as per cent")]
    fn part(&self, i: usize, j: usize) -> f64 {
        if self.entries[i] == 0 {
            0.0
        } else {
            self.shared[i][j] as f64 / self.entries[i] as f64
        }
    }

    /// The matrix as a picture: the darker, the more of a row's list the column's has.
    #[must_use]
    pub fn svg(&self) -> String {
        const CELL: usize = 84;
        const LEFT: usize = 180;
        // The names of columns stand aslant, or long ones would cover each other.
        const TOP: usize = 110;
        const RIGHT: usize = 110;
        let side = self.names.len() * CELL;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"13\">\n<title>Entries that lists share</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
            LEFT + side + RIGHT,
            TOP + side + 40
        );
        for (i, name) in self.names.iter().enumerate() {
            let name = xml(&name.chars().take(22).collect::<String>());
            let middle = i * CELL + CELL / 2;
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{name}</text>",
                LEFT - 8,
                TOP + middle + 4
            );
            let _ = writeln!(
                svg,
                "<text x=\"{0}\" y=\"{1}\" transform=\"rotate(-40 {0} {1})\">{name}</text>",
                LEFT + middle,
                TOP - 8
            );
            for j in 0..self.names.len() {
                let part = self.part(i, j);
                let (x, y) = (LEFT + j * CELL, TOP + i * CELL);
                let ink = if part > 0.55 { "#fff" } else { "#123" };
                let _ = writeln!(
                    svg,
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{CELL}\" height=\"{CELL}\" fill=\"#1a4e8a\" fill-opacity=\"{part:.3}\" stroke=\"#bbb\"/>\n<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"{ink}\">{:.1} %</text>\n<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" font-size=\"10\" fill=\"{ink}\">{}</text>",
                    x + CELL / 2,
                    y + CELL / 2,
                    part * 100.0,
                    x + CELL / 2,
                    y + CELL / 2 + 16,
                    grouped(self.shared[i][j])
                );
            }
        }
        let _ = writeln!(
            svg,
            "<text x=\"{LEFT}\" y=\"{}\" font-size=\"11\">part of the row's list that the column's list has too</text>\n</svg>",
            TOP + side + 24
        );
        svg
    }
}

fn xml(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |number: u64| grouped(number);
        let column = self
            .names
            .iter()
            .map(|name| name.chars().count())
            .chain(self.entries.iter().map(|n| shown(*n).len()));
        let width = column.max().unwrap_or(0).max(8) + 2;
        write!(f, "{:width$}", "")?;
        for name in &self.names {
            write!(f, "{name:>width$}")?;
        }
        for (i, name) in self.names.iter().enumerate() {
            write!(f, "\n{name:<width$}")?;
            for j in 0..self.names.len() {
                write!(f, "{:>width$}", shown(self.shared[i][j]))?;
            }
            write!(f, "\n{:width$}", "")?;
            for j in 0..self.names.len() {
                write!(f, "{:>width$}", format!("{:.1} %", self.part(i, j) * 100.0))?;
            }
        }
        write!(
            f,
            "\neach row: entries it shares with each column, and the part of the row's list that is"
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_is_well_formed_and_escaped() {
        let overlap = Overlap {
            names: vec!["a<b".into(), "c".into()],
            entries: vec![10, 0],
            shared: vec![vec![10, 3], vec![3, 0]],
            exact: true,
        };
        let svg = overlap.svg();
        assert!(svg.contains("a&lt;b") && svg.contains("30.0 %") && svg.ends_with("</svg>\n"));
        assert_eq!(svg.matches("<rect").count(), 5);
        assert!(overlap.to_string().contains("30.0 %"));
    }
}
