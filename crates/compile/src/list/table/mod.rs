//! Tables: CSV and JSON, read by a [`Table`], which says what its columns or keys mean.

pub(crate) mod csv;
pub(crate) mod dates;
pub(crate) mod json;
pub(crate) mod path;
pub(crate) mod rules;
pub(crate) mod text;

use path::Paths;
use rules::{NotListed, Rules};

use crate::list::formats::Out;
use crate::list::row::{RawEntry, Refusal, Skip, entry};
use crate::list::text::pieces;

/// How the rows of a table are read: what names the sender, and which rows count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub(crate) source: Source,
    pub(crate) rules: Rules,
}

/// Where the cells of a row are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Source {
    /// In columns.
    Columns(Columns),
    /// At paths of JSON.
    Paths(Paths),
}

/// The columns of a table with separators, counted from 0.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Columns {
    pub(crate) separator: u8,
    /// Whether the first record has the names of the columns.
    pub(crate) has_heading: bool,
    /// The number of cells of each record.
    pub(crate) width: usize,
    /// The columns that name the sender.
    pub(crate) entry: Vec<usize>,
    /// The column of each value of a row.
    pub(crate) values: Vec<usize>,
    /// Whether nobody declared the table: it has one column, and any other refuses the file.
    pub(crate) is_undeclared: bool,
}

impl Default for Source {
    fn default() -> Self {
        Self::Columns(Columns {
            separator: b',',
            has_heading: false,
            width: 1,
            entry: vec![0],
            values: Vec::new(),
            is_undeclared: true,
        })
    }
}

/// Lists the entries of a cell: one, or in a declared column several between commas, semicolons and
/// line breaks. If one of them is none, all are rejected: the cell may say something else.
#[inline]
pub(crate) fn list(cell: &[u8], is_undeclared: bool, row: RawEntry<'_>, out: &mut Out<'_>) {
    // In a cell, a name before an address needs no quotes: `Last, First <a@b>`.
    let open = memchr::memchr2(b'<', b'@', cell).unwrap_or(cell.len());
    let one = match cell.split_at(open) {
        (name, [b'<', address @ .., b'>']) if !name.iter().any(|b| b"()[]:;\\\"=".contains(b)) => {
            address.trim_ascii()
        }
        _ => cell,
    };
    let Err(reason) = out.list(RawEntry { text: one, ..row }) else {
        return;
    };
    let is_separator = |b: &u8| matches!(b, b',' | b';' | b'\n' | b'\r');
    let has_several = !is_undeclared && cell.iter().any(is_separator);
    if !has_several || pieces(cell).next().is_none() {
        return out.reject(reason, cell);
    }
    for piece in pieces(cell) {
        if let Err(reason) = entry::read(piece) {
            return out.reject(reason, piece);
        }
    }
    for text in pieces(cell) {
        // It was just read.
        let _ = out.list(RawEntry { text, ..row });
    }
}

/// Reports a row that lists nobody; `row` is its text. An error refuses the file.
#[cold]
pub(crate) fn report(why: NotListed, row: &[u8], out: &mut Out<'_>) -> Result<(), Refusal> {
    match why {
        NotListed::Unlisted(word) => out.skip_by(Skip::Unlisted, word.as_bytes()),
        NotListed::Rejected(reason) => out.reject(reason, row),
        NotListed::Refused(refusal) => return Err(refusal),
    }
    Ok(())
}
