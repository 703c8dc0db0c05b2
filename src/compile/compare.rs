//! How many entries two filters share.
//!
//! With records the answer is [exact](mod@super::overlap).
//! Without, it is estimated from the fill of the pages and of their union:
//!
//! ```text
//! n = -(m/k) ln(1 - X/m)   for each page (X of m bits set), summed
//! both = |A| + |B| - |A u B|
//! ```
//!
//! The error of the difference is that of three estimates; it is given as two standard
//! deviations, so that 19 of 20 times the truth lies within.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use super::Error;
use super::figures::grouped;
use super::merge::{like, union_of_page};
use super::overlap::Counts;
use super::query::open;
use crate::filter::page::{Page, count_set};
use crate::filter::{Filter, Load, sizing};

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
            "{}: differs in size or rate from {}, and one of them has no records; build it again with records",
            b.display(),
            a.display()
        )));
    }
    estimate(&filters)
}

fn exact(filters: &[Filter; 2]) -> Result<Comparison, Error> {
    let counts = Counts::of(filters)?;
    let [a, b] = filters.each_ref().map(Filter::entries);
    let both = counts.shared(0, 1);
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
            "first     {} entries, {} only in it",
            grouped(a),
            grouped(a - both)
        )?;
        writeln!(
            f,
            "second    {} entries, {} only in it",
            grouped(b),
            grouped(b - both)
        )?;
        writeln!(f, "both      {}", grouped(both))?;
        write!(f, "either    {}", grouped(either))?;
        if !self.exact {
            write!(
                f,
                "\nestimated from the pages, because there are no records: both and either are within {} (95 % confidence)",
                grouped(self.error)
            )?;
        }
        Ok(())
    }
}
