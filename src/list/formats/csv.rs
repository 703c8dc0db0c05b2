//! Tables: CSV and TSV, with a heading, or with a column that is given or found.
//!
//! ```text
//!   Value,Action,Last updated,Remove on,Notes          a heading: columns by name
//!   spam@bad.example,Block,2026-03-01,2026-03-31,"x"   listed, with both dates
//!   friend@good.example,Allow,2026-03-01,,             allowance
//!
//!   "spam@bad.example","12","2026-03-01 10:00:00"      no heading: the first column
//!                                                      that looks like an entry
//! ```
//!
//! The first record that is a heading or holds an entry decides the separator (comma, semicolon,
//! tab or `|`) and the columns. [`table`](super::table) decides what the rows then mean.
//!
//! The last comment above the first row may name the columns: `# id,email,status`.
//!
//! Headings between rows, as comments or alone on their line, are read as in `sections`.
//!
//! A record ends at a newline outside quotes, as in RFC 4180. A quote opens only at the start of a
//! field. If a record has no end within [`MAX_LINE`] bytes, its quote is never closed: its first
//! line alone is rejected, and reading continues with the next line.

use super::conflict::Conflict;
use super::out::Out;
use super::plain;
use super::table::{Columns, row};
use crate::list::meaning::headings::Heading;
use crate::list::meaning::label::Meaning;
use crate::list::meaning::section_heading::heading;
use crate::list::row::entry::{is_address, looks_like_entry};
use crate::list::row::reject_reason::RejectReason;
use crate::list::row::{Row, Skip};
use crate::list::text::fields::{Fields, MAX_FIELDS};
use crate::list::text::lines::{MAX_LINE, lines};

/// Number of fields that no comment has by chance.
const MANY: usize = 4;

/// The state between records.
#[derive(Debug)]
pub(crate) struct Csv {
    /// The column that the user gave, counted from 1; 0 if none.
    given: u16,
    columns: Option<Columns>,
    /// Whether a record before the first row has names of which none is known.
    is_named: bool,
    /// What the last heading says about the rows: `## Whitelist`.
    section: Meaning,
    /// Whether it is a comment that asks not to block, up to a blank line or another comment.
    is_plea: bool,
    /// Whether it is directly above: the names of the columns may follow again.
    is_after_heading: bool,
    separator: u8,
    conflict: Conflict,
    /// The last comment before the first row, without its sign.
    comment: Vec<u8>,
    reader: csv_core::Reader,
    fields: Vec<u8>,
    /// Where each field ends.
    ends: Vec<usize>,
}

impl Csv {
    pub(crate) fn new(column: u16) -> Self {
        Self {
            given: column,
            columns: None,
            is_named: false,
            section: Meaning::Listed,
            is_plea: false,
            is_after_heading: false,
            separator: b',',
            conflict: Conflict::default(),
            comment: Vec::new(),
            reader: csv_core::Reader::new(),
            fields: Vec::new(),
            ends: vec![0; MAX_FIELDS],
        }
    }

    /// Reads records from the start of `block`, counts their lines, and returns the number of bytes
    /// read. Stops before a line of more than [`MAX_LINE`] bytes, which the caller must skip. With
    /// `last`, the end of the block ends a record.
    pub(crate) fn read(
        &mut self,
        block: &[u8],
        last: bool,
        lines: &mut u64,
        sink: &mut dyn FnMut(u64, Row<'_>),
    ) -> usize {
        let mut done = 0;
        loop {
            let rest = block.get(done..).unwrap_or_default();
            if rest.is_empty() {
                return done;
            }
            let separator = match self.columns {
                Some(_) => self.separator,
                None => separator(list_line(rest)),
            };
            let record = Record::at_start(rest, last, separator);
            let length = match record {
                Record::Whole(length) | Record::Unclosed(length) => length,
                Record::LongLine | Record::Unknown => return done,
            };
            let text = rest.get(..length).unwrap_or_default();
            let mut out = Out::new(*lines + 1, text, &mut *sink);
            if matches!(record, Record::Unclosed(_)) {
                out.reject(RejectReason::UnclosedQuote, text.trim_ascii());
            } else if self.conflict.holds(text.trim_ascii_end()) {
                out.reject(RejectReason::Conflict, text.trim_ascii());
            } else if text.contains(&0) {
                out.reject(RejectReason::Nul, text.trim_ascii());
            } else {
                self.record(text, separator, &mut out);
                entries_in_quotes(text, separator, &mut out);
            }
            *lines += memchr::memchr_iter(b'\n', text).count() as u64;
            *lines += u64::from(text.last() != Some(&b'\n'));
            done += length;
        }
    }

    /// Reads one record.
    fn record(&mut self, record: &[u8], separator: u8, out: &mut Out<'_>) {
        let record = record.strip_prefix(plain::BOM).unwrap_or(record);
        let text = record.trim_ascii();
        if text.is_empty() {
            if std::mem::take(&mut self.is_plea) {
                self.section = Meaning::Unknown;
            }
            return out.skip(Skip::Blank);
        }
        if self.is_heading(text, separator) {
            return out.skip(Skip::Setting);
        }
        if let [b'#', comment @ ..] = text {
            if self.columns.is_none() {
                self.comment = comment.trim_ascii().to_vec();
            }
            return out.skip(Skip::Comment);
        }
        if is_border(text) {
            return out.skip(Skip::Setting);
        }
        let record = record.strip_suffix(b"\n").unwrap_or(record);
        let record = record.strip_suffix(b"\r").unwrap_or(record);
        if self.columns.is_none() && self.separator != separator {
            self.separator = separator;
            self.reader = csv_core::ReaderBuilder::new().delimiter(separator).build();
        }
        let given = usize::from(self.given).checked_sub(1);
        let known = self.columns.take();
        let is_named = self.is_named;
        let is_first = std::mem::take(&mut self.is_after_heading);
        let section = self.section;
        let commented = match known {
            None => self.commented_columns(record, given),
            Some(_) => None,
        };
        let fields = self.split(record);
        // Tables one after the other, or pages of one.
        let names_column = |columns: &Columns| is_first || columns.begin_a_table(fields);
        let again = || {
            Columns::of_heading(fields, given).filter(|new| known.is_some() && names_column(new))
        };
        if let Some(columns) = again() {
            out.skip(Skip::Setting);
            self.columns = Some(columns);
        } else if let (None, Some(columns)) = (&known, Columns::of_heading(fields, given)) {
            out.skip(Skip::Setting);
            self.columns = Some(columns);
        } else if let Some(mut columns) = known
            .or(commented)
            .or_else(|| Columns::of_row(fields, given, is_named))
        {
            match section {
                Meaning::Listed => row(record, fields, &mut columns, out),
                Meaning::Skipped(skip) => out.skip(skip),
                Meaning::Unknown => out.reject(RejectReason::Section, record),
            }
            self.columns = Some(columns);
        } else {
            let is_named = has_names(fields);
            out.reject(RejectReason::NoColumn, record);
            self.is_named |= is_named;
        }
    }

    /// Returns whether a record is a heading over rows, and keeps what it says. The first record
    /// may be the name of the only column: `Blocked senders`.
    fn is_heading(&mut self, text: &[u8], separator: u8) -> bool {
        let is_comment = text.first() == Some(&b'#');
        // `Allowed,,` of a spreadsheet.
        let end = text
            .iter()
            .rposition(|&b| b != separator)
            .map_or(0, |last| last + 1);
        let (text, rest) = text.split_at(end);
        let is_only_column = self.columns.is_none() && rest.is_empty();
        let is_row = text.contains(&separator) || looks_like_entry(text) || is_only_column;
        if is_row && !is_comment {
            return false;
        }
        let found = heading(text).filter(|heading| heading.meaning != Meaning::Unknown);
        if let Some(heading) = found {
            self.section = heading.meaning;
            self.is_plea = heading.is_plea;
            self.is_after_heading = true;
        } else if std::mem::take(&mut self.is_plea) {
            self.section = Meaning::Unknown;
        }
        found.is_some()
    }

    /// Returns the columns that the comment above the first row names, if there are as many as in
    /// the row, and if it can hardly be a sentence.
    fn commented_columns(&mut self, row: &[u8], given: Option<usize>) -> Option<Columns> {
        let comment = std::mem::take(&mut self.comment);
        let names = self.split(&comment);
        let count = names.iter().count();
        let columns = Columns::of_heading(names, given);
        let columns = columns.filter(|columns| columns.name_a_sender() || count >= MANY)?;
        let fields = self.split(row);
        let is_row = fields.iter().any(|field| !field.is_empty()) && count > 1;
        (is_row && fields.iter().count() == count).then_some(columns)
    }

    /// Cuts a record into its fields, unquoted.
    fn split(&mut self, record: &[u8]) -> Fields<'_> {
        let doubled = double_quotes(record, self.separator);
        let record = doubled.as_deref().unwrap_or(record);
        // Fields are never longer than the record that they are cut from.
        self.fields.resize(record.len() + 1, 0);
        self.reader.reset();
        let (result, read, mut written, mut count) =
            self.reader
                .read_record(record, &mut self.fields, &mut self.ends);
        if result == csv_core::ReadRecordResult::InputEmpty && read == record.len() {
            // An empty input tells the reader that the record ends here.
            let space = self.fields.get_mut(written..).unwrap_or_default();
            let more = self.ends.get_mut(count..).unwrap_or_default();
            let (_, _, more_written, more_count) = self.reader.read_record(&[], space, more);
            written += more_written;
            count += more_count;
        }
        Fields {
            text: self.fields.get(..written).unwrap_or_default(),
            ends: self.ends.get(..count).unwrap_or_default(),
            is_whole: result != csv_core::ReadRecordResult::OutputEndsFull,
        }
    }
}

/// Returns a record with `""` in place of `\"`, as MySQL writes a quote inside quotes. If each `\"`
/// ends a field, the backslash is the last character of the field: `"C:\",`.
fn double_quotes(record: &[u8], separator: u8) -> Option<Vec<u8>> {
    let mut places = memchr::memmem::find_iter(record, b"\\\"").peekable();
    places.peek()?;
    let ends_field = |at| record.get(at + 2).is_none_or(|&next| next == separator);
    if places.all(ends_field) {
        return None;
    }
    let mut doubled = record.to_vec();
    for at in memchr::memmem::find_iter(record, b"\\\"") {
        if let Some(backslash) = doubled.get_mut(at) {
            *backslash = b'"';
        }
    }
    Some(doubled)
}

/// Returns whether a record without an entry consists of names, as a heading does.
fn has_names(fields: Fields<'_>) -> bool {
    let mut names = fields.iter().filter(|name| !name.is_empty());
    let is_name = |name: &[u8]| name.iter().any(|b| b.is_ascii_alphabetic() || *b >= 0x80);
    names.clone().count() > 1 && names.all(is_name)
}

/// Returns the separator of the first record: a tab if there is one, since no entry and no heading
/// contains a tab; `|` if only `|` gives fields with an entry or its heading; else the more
/// frequent of comma and semicolon.
pub(crate) fn separator(record: &[u8]) -> u8 {
    let (mut quoted, mut at_start) = (false, true);
    let (mut tabs, mut commas, mut semicolons, mut bars) = (0_usize, 0_usize, 0_usize, 0_usize);
    for &byte in record {
        let divides = matches!(byte, b'\t' | b',' | b';' | b'|');
        match byte {
            b'"' if quoted || at_start => quoted = !quoted,
            _ if quoted => {}
            b'\t' => tabs += 1,
            b',' => commas += 1,
            b';' => semicolons += 1,
            b'|' => bars += 1,
            _ => {}
        }
        at_start = divides && !quoted;
    }
    match () {
        () if tabs > 0 => b'\t',
        () if bars > 0 && is_parted_by_bars(record) => b'|',
        () if semicolons > commas => b';',
        () => b',',
    }
}

/// Returns whether `|` separates fields. A local part may also contain `|`, so there must be an
/// entry before one, or the heading of a column with entries.
pub(crate) fn is_parted_by_bars(record: &[u8]) -> bool {
    // Patterns such as `||bad.example^` and `(a|b)@bad.example`.
    let is_pattern = record.starts_with(b"||")
        || record
            .iter()
            .any(|b| matches!(b, b'\\' | b'^' | b'[' | b']' | b'{' | b'}'));
    let Some(last) = memchr::memrchr(b'|', record).filter(|_| !is_pattern) else {
        return false;
    };
    let names = |field: &[u8]| {
        let field = field.trim_ascii();
        let field = field.strip_prefix(b"\"").unwrap_or(field);
        let field = field.strip_suffix(b"\"").unwrap_or(field);
        looks_like_entry(field) && !field.contains(&b'(')
            || matches!(Heading::of(field), Some(Heading::Entry(_)))
    };
    let has = |text: &[u8], separators: &[u8]| {
        let mut fields = text.split(|byte| separators.contains(byte));
        fields.any(|field| !field.contains(&b'|') && names(field))
    };
    let before = record.get(..last).unwrap_or_default();
    let rest = record.get(last..).unwrap_or_default();
    let heads = |field: &[u8]| matches!(Heading::of(field), Some(Heading::Entry(_)));
    (has(before, b"|") || rest.split(|&b| b == b'|').any(heads)) && !has(record, b",;")
}

/// Returns whether a line only draws a table: `|---|---|`, `+-----+`.
pub(crate) fn is_border(text: &[u8]) -> bool {
    matches!(text, [b'|' | b'+', ..])
        && memchr::memmem::find(text, b"--").is_some()
        && text
            .iter()
            .all(|b| matches!(b, b'|' | b'+' | b'-' | b':' | b'=' | b' ' | b'\t'))
}

/// Returns the first line of a text.
fn list_line(text: &[u8]) -> &[u8] {
    let text = text.get(..MAX_LINE).unwrap_or(text);
    let end = memchr::memchr(b'\n', text).unwrap_or(text.len());
    text.get(..end).unwrap_or(text)
}

/// Rejects lines that look like rows of their own inside the quotes of one record.
fn entries_in_quotes(record: &[u8], separator: u8, out: &mut Out<'_>) {
    let mut lines = lines(record);
    lines.next();
    for line in lines {
        if line
            .split(|&b| b == separator)
            .any(|field| is_address(field.trim_ascii()))
        {
            out.reject(RejectReason::InQuotes, line);
        }
    }
}

/// What is at the start of a block.
enum Record {
    /// A record of this many bytes, with its newline.
    Whole(usize),
    /// A line of this many bytes that opens a quote which nothing closes.
    Unclosed(usize),
    /// A line of more than [`MAX_LINE`] bytes.
    LongLine,
    /// More bytes are needed to decide.
    Unknown,
}

impl Record {
    /// Finds what is at the start of a block. Linear over a whole list: the lines that an open
    /// quote runs over have even runs of quotes, and none of them opens another.
    fn at_start(block: &[u8], last: bool, separator: u8) -> Self {
        let window = block.get(..=MAX_LINE).unwrap_or(block);
        let mut quoted = false;
        let mut first_newline = None;
        // Where the current field starts.
        let mut start = if window.starts_with(plain::BOM) {
            plain::BOM.len()
        } else {
            0
        };
        // The second quote of `""`, which stands for one.
        let mut escaped = usize::MAX;
        for at in memchr::memchr3_iter(b'\n', b'"', separator, window) {
            let next = window.get(at + 1).copied();
            match window.get(at) {
                Some(b'"') if at == escaped => {}
                Some(b'"') if quoted && next == Some(b'"') => escaped = at + 1,
                Some(b'"') if quoted => {
                    quoted = false;
                    let closes = next.is_none_or(|b| b == separator || matches!(b, b'\n' | b'\r'));
                    if let (false, Some(newline)) = (closes, first_newline) {
                        // The quote belongs to another row.
                        return Self::Unclosed(newline + 1);
                    }
                }
                Some(b'"') => quoted = at == start,
                Some(b'\n') if !quoted => return Self::Whole(at + 1),
                Some(b'\n') => first_newline = first_newline.or(Some(at)),
                _ => start = at + 1,
            }
        }
        let is_full = window.len() > MAX_LINE;
        match first_newline {
            _ if !is_full && !last => Self::Unknown,
            None if is_full => Self::LongLine,
            _ if !is_full && !quoted => Self::Whole(block.len()),
            Some(newline) => Self::Unclosed(newline + 1),
            None => Self::Unclosed(block.len()),
        }
    }
}
