//! The number of entries that two filters share.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use super::overlap::overlap;
use crate::base::numbers::{counted, grouped};
use crate::compile::Error;

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
    /// Whether records were compared; if not, the numbers are estimated from the fill of pages.
    pub exact: bool,
    /// Two standard deviations of `both` and `either`; 0 when exact.
    pub error: u64,
}

/// Compares two filters.
///
/// # Errors
/// When their keys cannot be compared, or a file cannot be read.
pub fn compare(a: &Path, b: &Path) -> Result<Comparison, Error> {
    let found = overlap(&[a.to_owned(), b.to_owned()])?;
    let (a, b, both) = (found.entries[0], found.entries[1], found.shared[0][1]);
    Ok(Comparison {
        a,
        b,
        both,
        either: a.saturating_add(b) - both,
        exact: found.exact,
        error: found.error,
    })
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (label, entries, other) in [("first", self.a, "second"), ("second", self.b, "first")] {
            let missing = grouped(entries - self.both);
            let entries = counted(entries, "entry", "entries");
            writeln!(
                f,
                "{label:<10}{entries}, {missing} of them not in the {other}"
            )?;
        }
        writeln!(f, "both      {}", grouped(self.both))?;
        write!(f, "either    {}", grouped(self.either))?;
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
