//! The records of a table with separators, and their cells. RFC 4180.
//!
//! ```text
//!   spam@bad.example;"a ""quoted"" note";Block      three cells
//!   spam@bad.example;"a note                        one record in two lines
//!   of two lines";Block
//!   spam@bad.example;a 3" disk;Block                no cell: this quote opens nothing
//! ```
//!
//! A record ends at a newline with an even number of quotes before it, wherever they stand, so that
//! a table can be cut without being understood. A quote where none may stand is found when the record
//! is divided into cells.

use std::borrow::Cow;

/// Returns the length of the record at the start of `block`, with its newline, if that is there.
pub(crate) fn record_length(block: &[u8]) -> Option<usize> {
    let end = memchr::memchr(b'\n', block)?;
    let line = block.get(..=end).unwrap_or_default();
    if memchr::memchr(b'"', line).is_none() {
        return Some(end + 1);
    }
    let mut is_quoted = false;
    for at in memchr::memchr2_iter(b'"', b'\n', block) {
        match block.get(at) {
            Some(b'"') => is_quoted = !is_quoted,
            _ if !is_quoted => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Returns the length of the whole records at the start of a block that begins with a record.
pub(crate) fn whole_records(block: &[u8]) -> Option<usize> {
    let quotes = |text: &[u8]| memchr::memchr_iter(b'"', text).count();
    let mut is_quoted = !quotes(block).is_multiple_of(2);
    let mut end = block.len();
    for newline in memchr::memrchr_iter(b'\n', block) {
        let after = block.get(newline + 1..end).unwrap_or_default();
        is_quoted ^= !quotes(after).is_multiple_of(2);
        if !is_quoted {
            return Some(newline + 1);
        }
        end = newline;
    }
    None
}

/// Returns a record without its line end.
pub(crate) fn without_line_end(record: &[u8]) -> &[u8] {
    let record = record.strip_suffix(b"\n").unwrap_or(record);
    record.strip_suffix(b"\r").unwrap_or(record)
}

/// The places of the cells of one record; reused for the next.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cells(Vec<Cell>);

#[derive(Clone, Copy, Debug)]
struct Cell {
    start: usize,
    end: usize,
    /// It has doubled quotes, each of which stands for one.
    has_quotes: bool,
}

/// A quote that neither opens nor closes a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StrayQuote;

impl Cells {
    /// Finds the cells of a record without its line end.
    pub(crate) fn find(&mut self, record: &[u8], separator: u8) -> Result<(), StrayQuote> {
        self.0.clear();
        if memchr::memchr(b'"', record).is_some() {
            return self.find_quoted(record, separator);
        }
        let mut start = 0;
        for end in memchr::memchr_iter(separator, record).chain([record.len()]) {
            self.push(start, end, false);
            start = end + 1;
        }
        Ok(())
    }

    fn find_quoted(&mut self, record: &[u8], separator: u8) -> Result<(), StrayQuote> {
        let blanks = |from: usize| {
            let rest = record.get(from..).unwrap_or_default();
            let is_blank = |b: &&u8| matches!(**b, b' ' | b'\t') && **b != separator;
            from + rest.iter().take_while(is_blank).count()
        };
        let mut at = 0;
        loop {
            let open = blanks(at);
            let end = if record.get(open) == Some(&b'"') {
                let (close, has_quotes) = closing(record, open + 1).ok_or(StrayQuote)?;
                self.push(open + 1, close, has_quotes);
                blanks(close + 1)
            } else {
                let rest = record.get(at..).unwrap_or_default();
                let length = memchr::memchr2(separator, b'"', rest).unwrap_or(rest.len());
                self.push(at, at + length, false);
                at + length
            };
            match record.get(end) {
                None => return Ok(()),
                Some(&byte) if byte == separator => at = end + 1,
                Some(_) => return Err(StrayQuote),
            }
        }
    }

    fn push(&mut self, start: usize, end: usize, has_quotes: bool) {
        self.0.push(Cell {
            start,
            end,
            has_quotes,
        });
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns a cell of the record, trimmed and without quotes; empty if there is none.
    #[inline]
    pub(crate) fn get<'r>(&self, record: &'r [u8], number: usize) -> Cow<'r, [u8]> {
        let Some(cell) = self.0.get(number) else {
            return Cow::Borrowed(&[]);
        };
        let text = record.get(cell.start..cell.end).unwrap_or_default();
        if cell.has_quotes {
            let mut single = text.to_vec();
            let mut is_first = false;
            single.retain(|&byte| {
                is_first = byte == b'"' && !is_first;
                byte != b'"' || is_first
            });
            return Cow::Owned(single.trim_ascii().to_vec());
        }
        Cow::Borrowed(text.trim_ascii())
    }
}

/// Returns the place of the quote that closes a cell, and whether the cell has doubled quotes.
fn closing(record: &[u8], from: usize) -> Option<(usize, bool)> {
    let (mut at, mut has_quotes) = (from, false);
    loop {
        at += memchr::memchr(b'"', record.get(at..)?)?;
        if record.get(at + 1) != Some(&b'"') {
            return Some((at, has_quotes));
        }
        has_quotes = true;
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cells(record: &str, separator: u8) -> Option<Vec<String>> {
        let mut cells = Cells::default();
        cells.find(record.as_bytes(), separator).ok()?;
        let get = |number| {
            let cell = cells.get(record.as_bytes(), number);
            String::from_utf8(cell.into_owned()).unwrap()
        };
        Some((0..cells.count()).map(get).collect())
    }

    #[test]
    fn cells_of_records() {
        for row in include_str!("../../../../../tests/pure/list/cells.txt").lines() {
            let (record, expected) = row.split_once(" -> ").unwrap();
            let found = cells(record, b';').map(|cells| cells.join("|"));
            assert_eq!(found.as_deref().unwrap_or("none"), expected, "{record}");
        }
        assert_eq!(cells("a  \"b c\"", b' ').unwrap(), ["a", "", "b c"]);
    }

    proptest! {
        /// What a spreadsheet writes is read back.
        #[test]
        fn quoted_cells_are_read_back(
            written in proptest::collection::vec("[a-z;\"\n ]{0,8}", 1..6), separator in "[;,\t|]",
        ) {
            let quoted: Vec<String> =
                written.iter().map(|cell| format!("\"{}\"", cell.replace('"', "\"\""))).collect();
            let record = quoted.join(&separator);
            prop_assert_eq!(record_length(format!("{record}\nx").as_bytes()), Some(record.len() + 1));
            prop_assert_eq!(record_length(record.as_bytes()), None);
            let trimmed: Vec<String> = written.iter().map(|cell| cell.trim().to_owned()).collect();
            prop_assert_eq!(cells(&record, separator.as_bytes()[0]), Some(trimmed));
        }
    }
}
