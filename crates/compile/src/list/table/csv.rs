//! Tables with separators.
//!
//! The reader of a later part of a table begins at a record, and knows the columns from the first
//! part: so a table is read on all cores.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Columns, Source, Table, list, report};
use crate::list::formats::Out;
use crate::list::row::{Refusal, RejectReason, Row, Skip};
use crate::list::text::cells::{Cells, record_length, without_line_end};
use crate::list::text::{BOM, MAX_LINE, newlines};

#[derive(Debug)]
pub(crate) struct Csv {
    table: Arc<Table>,
    at_start: bool,
    /// Whether the file is refused. The rest is only counted.
    is_refused: bool,
    cells: Cells,
}

impl Csv {
    /// Returns a reader for a table; without `at_start`, for a later part of it.
    pub(crate) fn new(table: Arc<Table>, at_start: bool) -> Self {
        Self {
            table,
            at_start,
            is_refused: false,
            cells: Cells::default(),
        }
    }

    /// Reads the whole records of a block, and counts their lines. Returns the number of bytes used.
    pub(crate) fn read(
        &mut self,
        block: &[u8],
        last: bool,
        lines: &mut u64,
        sink: &mut dyn FnMut(u64, Row<'_>),
    ) -> usize {
        let mut done = 0;
        while !self.is_refused {
            let rest = block.get(done..).unwrap_or_default();
            let length = record_length(rest);
            let is_cut = length.is_none();
            let length = length.unwrap_or(rest.len());
            if length == 0 || is_cut && !last && length <= MAX_LINE {
                return done;
            }
            let record = rest.get(..length).unwrap_or_default();
            let text = without_line_end(record);
            let mut out = Out::new(*lines + 1, text, &mut *sink);
            let is_good = match length > MAX_LINE {
                true => Err(Refusal::TooLong),
                false => self.record(text, is_cut, &mut out),
            };
            if let Err(refusal) = is_good {
                out.refuse(refusal);
                self.is_refused = true;
                break;
            }
            // Most records are one line.
            *lines += match memchr::memchr(b'\n', text) {
                None => 1,
                Some(_) => newlines(record) + u64::from(is_cut),
            };
            done += length;
        }
        *lines += newlines(block.get(done..).unwrap_or_default());
        block.len()
    }

    /// Reads one record, which is the last one if its line has no end.
    fn record(&mut self, text: &[u8], has_no_end: bool, out: &mut Out<'_>) -> Result<(), Refusal> {
        let Source::Columns(columns) = &self.table.source else {
            return Ok(());
        };
        let text = match self.at_start {
            true => text.strip_prefix(BOM).unwrap_or(text),
            false => text,
        };
        if text.trim_ascii().is_empty() {
            out.skip(Skip::Blank);
            return Ok(());
        }
        if std::mem::take(&mut self.at_start) && columns.has_heading {
            out.skip(Skip::Comment);
            return Ok(());
        }
        let found = self.cells.find(text, columns.separator);
        match found.map(|()| self.cells.count()) {
            Ok(count) if count == columns.width => return self.row(columns, text, out),
            Ok(count) if columns.is_undeclared => {
                let what = format!("a table with {count} columns: say which column");
                return Err(Refusal::Table(what.into()));
            }
            Ok(count) if has_no_end && count < columns.width => return Err(Refusal::BrokenOff),
            Ok(_) => out.reject(RejectReason::Cells, text),
            // A quote that goes on in the next line may hide rows in it.
            Err(_) if text.contains(&b'\n') || has_no_end => return Err(Refusal::Quote),
            Err(_) => out.reject(RejectReason::Quote, text),
        }
        Ok(())
    }

    fn value<'t>(&self, columns: &Columns, text: &'t [u8], number: usize) -> Cow<'t, [u8]> {
        let column = columns.values.get(number).copied();
        self.cells.get(text, column.unwrap_or(usize::MAX))
    }

    fn row(&self, columns: &Columns, text: &[u8], out: &mut Out<'_>) -> Result<(), Refusal> {
        let cell = |column| self.cells.get(text, column);
        let value = |number: usize| Ok(self.value(columns, text, number));
        let cells = columns.entry.iter().map(|&column| cell(column));
        let mut filled = cells.filter(|cell| !cell.is_empty()).peekable();
        // Nothing but separators, as spreadsheets have them at the end.
        let is_blank = || (0..columns.width).all(|column| cell(column).is_empty());
        match self.table.rules.judge(value) {
            Ok(row) if filled.peek().is_some() => {
                filled.for_each(|cell| list(&cell, columns.is_undeclared, row, out));
            }
            _ if is_blank() => out.skip(Skip::Blank),
            Ok(_) => out.reject(RejectReason::NoEntry, text),
            Err(why) => return report(why, text, out),
        }
        Ok(())
    }
}
