//! How one file is read, decided before its first row.

use std::sync::Arc;

use crate::list::formats::access;
use crate::list::registry::{Cut, Format};
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
        if matches!(self.format, Format::PostfixAccess | Format::SendmailAccess) {
            return Some(Usual::Access);
        }
        let table = self.table.as_ref().map(Arc::clone)?;
        let has_dates = table.rules.added.or(table.rules.expires).is_some();
        match self.format {
            Format::Csv if !has_dates => Some(Usual::Csv(Csv::new(table, at_start))),
            Format::JsonLines if !has_dates => Some(Usual::JsonLines(JsonLines::new(table))),
            _ => None,
        }
    }

    /// Returns what finds where the list can be cut, so that several readers read its parts at once:
    /// the length of the whole records at the start of its next bytes, if there are some. `None` if it
    /// is read from its start to its end.
    #[must_use]
    pub fn cut(&self) -> Option<Cut> {
        self.format.registered().cut()
    }
}

/// The usual lines of a list: one entry, and something around it that can be cut off.
pub(crate) enum Usual {
    /// A domain is listed with its subdomains, and a line may go on in the next.
    Access,
    Csv(Csv),
    JsonLines(JsonLines),
}

impl Usual {
    /// Takes the next line of the list, without its end. Returns the only entry on it, if it is a
    /// plain domain or mailbox; empty if the reader must read the line.
    #[inline]
    pub(crate) fn key<'l>(&mut self, line: &'l [u8]) -> &'l [u8] {
        match self {
            Self::Access => access::usual(line),
            Self::Csv(csv) => csv.key(line),
            Self::JsonLines(json) => json.key(line),
        }
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
