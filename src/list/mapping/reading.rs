//! How one file is read, decided before its first row.

use std::sync::Arc;

use crate::list::formats::{Keys, Usual};
use crate::list::registry::{Format, Splits};
use crate::list::table::Table;
use crate::list::table::csv::Csv;
use crate::list::table::json::JsonLines;

/// How one file is read: its format, and for a table which of its columns or keys count.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The format.
    pub format: Format,
    /// What decided it.
    pub why: Why,
    /// For a table, how its rows are read. `None` for every other format.
    pub table: Option<Arc<Table>>,
    /// Whether a domain stands for its subdomains, too.
    pub subdomains: bool,
}

/// What decided how a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// An option, or the program itself.
    #[error("given")]
    Given,
    /// `list.toml`.
    #[error("list.toml")]
    Declared,
    /// The published form of a product's export, by its name.
    #[error("the export of {0}")]
    Profile(&'static str),
    /// A mark that only this format has.
    #[error("{0}")]
    Mark(&'static str),
    /// Nothing: no mark of any format.
    #[error("no mark of another format")]
    NoMark,
}

impl Reading {
    /// Returns the reading of a format that was given and needs no table.
    #[must_use]
    pub fn given(format: Format) -> Self {
        Self {
            format,
            why: Why::Given,
            table: None,
            subdomains: false,
        }
    }

    /// Returns the usual lines of the list, or of a later part of it, if it has some.
    pub(crate) fn usual(&self, at_start: bool) -> Option<Usual> {
        let table = self.table.as_ref();
        let (keys, is_access): (Box<dyn Keys>, _) = match (self.format, table) {
            (_, Some(table)) if table.rules.has_dates() => return None,
            (Format::Csv, Some(table)) => (Box::new(Csv::new(Arc::clone(table), at_start)), false),
            (Format::JsonLines, Some(table)) => {
                (Box::new(JsonLines::new(Arc::clone(table))), false)
            }
            (format, _) => (Box::new(format.registered().usual?), true),
        };
        Some(Usual { keys, is_access })
    }

    /// Returns where a list can be cut.
    #[must_use]
    pub fn splits(&self) -> Splits {
        self.format.registered().splits()
    }
}

impl Why {
    /// Returns whether a person or a profile chose the format. What looks like another one is then
    /// a rejected line; otherwise it refuses the file.
    #[must_use]
    pub fn is_explicit(self) -> bool {
        matches!(self, Self::Given | Self::Declared | Self::Profile(_))
    }
}
