//! Tables: CSV and TSV with a heading, or with a column told or found.
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
//! The first record decides about the separator (comma, semicolon or tab), the columns
//! and whether it is a heading. A record ends at a newline outside quotes; one that has
//! no end within [`MAX_LINE`] bytes has a quote too many, and is rejected alone: reading
//! goes on with the next line. RFC 4180, and what is sent instead of it.

use super::action::{Action, Flag};
use super::headings::Heading;
use super::out::Out;
use super::vet::{Wildcards, is_ip};
use super::{Day, Item, MAX_LINE, Reason, Row, Skip, plain};

/// Fields of a record that are looked at.
const MAX_FIELDS: usize = 64;

/// The state between records.
#[derive(Debug)]
pub(super) struct Csv {
    /// The column that the user gave, counted from 1; 0 is none.
    given: u16,
    columns: Option<Columns>,
    reader: csv_core::Reader,
    fields: Vec<u8>,
}

/// What the first record said.
#[derive(Clone, Copy, Debug)]
struct Columns {
    entry: usize,
    action: Option<usize>,
    /// A column that takes rows off the list by yes or no.
    flag: Option<(usize, Flag)>,
    added: Option<usize>,
    expires: Option<usize>,
}

impl Csv {
    pub(super) fn new(column: u16) -> Self {
        Self {
            given: column,
            columns: None,
            reader: csv_core::Reader::new(),
            fields: Vec::new(),
        }
    }

    /// Reads records from the start of `block`, counts their lines, and returns the bytes
    /// done with, up to a line of more than [`MAX_LINE`] bytes: that is the caller's to
    /// pass over. With `last`, the end of the block ends a record.
    pub(super) fn read(
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
            let record = Record::at_start(rest, last);
            let length = match record {
                Record::Whole(length) | Record::Unclosed(length) => length,
                Record::LongLine | Record::Unknown => return done,
            };
            let text = rest.get(..length).unwrap_or_default();
            let mut out = Out::new(*lines + 1, text, &mut *sink);
            if matches!(record, Record::Unclosed(_)) {
                out.reject(Reason::UnclosedQuote, text.trim_ascii());
            } else if text.contains(&0) {
                out.reject(Reason::Nul, text.trim_ascii());
            } else {
                self.record(text, &mut out);
            }
            *lines += memchr::memchr_iter(b'\n', text).count() as u64;
            *lines += u64::from(text.last() != Some(&b'\n'));
            done += length;
        }
    }

    /// Reads one record.
    fn record(&mut self, record: &[u8], out: &mut Out<'_>) {
        let record = record.strip_prefix(plain::BOM).unwrap_or(record);
        let text = record.trim_ascii();
        if text.is_empty() {
            return out.skip(Skip::Blank);
        }
        if text.first() == Some(&b'#') {
            return out.skip(Skip::Comment);
        }
        let record = record.strip_suffix(b"\n").unwrap_or(record);
        let record = record.strip_suffix(b"\r").unwrap_or(record);
        match self.columns {
            Some(columns) => {
                let mut ends = [0; MAX_FIELDS];
                let fields = self.split(record, &mut ends);
                row(fields, columns, out);
            }
            None => {
                let separator = separator(record);
                self.reader = csv_core::ReaderBuilder::new().delimiter(separator).build();
                let given = usize::from(self.given).checked_sub(1);
                let mut ends = [0; MAX_FIELDS];
                let fields = self.split(record, &mut ends);
                let (columns, is_heading) = Columns::find(fields, given);
                if is_heading {
                    out.skip(Skip::Setting);
                } else {
                    row(fields, columns, out);
                }
                self.columns = Some(columns);
            }
        }
    }

    /// Cuts a record into its fields, unquoted.
    fn split<'f>(&'f mut self, record: &[u8], ends: &'f mut [usize; MAX_FIELDS]) -> Fields<'f> {
        // Fields are never longer than the record that they are cut from.
        self.fields.resize(record.len() + 1, 0);
        self.reader.reset();
        let (result, read, mut written, mut count) =
            self.reader.read_record(record, &mut self.fields, ends);
        if result == csv_core::ReadRecordResult::InputEmpty && read == record.len() {
            // The empty input says that the record ends here.
            let space = self.fields.get_mut(written..).unwrap_or_default();
            let more = ends.get_mut(count..).unwrap_or_default();
            let (_, _, more_written, more_count) = self.reader.read_record(&[], space, more);
            written += more_written;
            count += more_count;
        }
        Fields {
            text: self.fields.get(..written).unwrap_or_default(),
            ends: ends.get(..count).unwrap_or_default(),
        }
    }
}

/// The fields of one record.
#[derive(Clone, Copy)]
struct Fields<'f> {
    text: &'f [u8],
    /// Where each field ends in `text`.
    ends: &'f [usize],
}

impl<'f> Fields<'f> {
    fn get(self, column: usize) -> Option<&'f [u8]> {
        let end = *self.ends.get(column)?;
        let start = match column.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.text.get(start..end).map(<[u8]>::trim_ascii)
    }

    fn iter(self) -> impl Iterator<Item = &'f [u8]> {
        (0..self.ends.len()).filter_map(move |column| self.get(column))
    }
}

impl Columns {
    /// Finds the columns from the first record, and whether that is a heading.
    fn find(fields: Fields<'_>, given: Option<usize>) -> (Self, bool) {
        let is_data = fields.iter().any(looks_like_entry);
        let mut columns = Self {
            entry: given.unwrap_or(0),
            action: None,
            flag: None,
            added: None,
            expires: None,
        };
        if is_data {
            if given.is_none() {
                columns.entry = fields.iter().position(looks_like_entry).unwrap_or(0);
            }
            columns.added = fields.iter().position(|field| Day::read(field).is_some());
            return (columns, false);
        }
        let mut best_rank = usize::MAX;
        let mut known = 0;
        for (column, name) in fields.iter().enumerate() {
            let heading = Heading::of(name);
            known += usize::from(heading.is_some());
            match heading {
                Some(Heading::Entry(rank)) if given.is_none() && rank < best_rank => {
                    best_rank = rank;
                    columns.entry = column;
                }
                Some(Heading::Action) => columns.action = columns.action.or(Some(column)),
                Some(Heading::Added) => columns.added = columns.added.or(Some(column)),
                Some(Heading::Expires) => columns.expires = columns.expires.or(Some(column)),
                Some(Heading::Entry(_)) => {}
                None => {
                    let flag = Flag::of(name).map(|flag| (column, flag));
                    columns.flag = columns.flag.or(flag);
                }
            }
        }
        (columns, known > 0)
    }
}

/// Whether a field can only be data: an address, or a domain.
pub(super) fn looks_like_entry(field: &[u8]) -> bool {
    if field.contains(&b'@') {
        return !field.trim_ascii().contains(&b' ');
    }
    let label = field.rsplit(|&b| b == b'.').next().unwrap_or_default();
    field.len() > label.len() + 1
        && label.len() >= 2
        && label.iter().any(|b| !b.is_ascii_digit())
        && field.iter().all(|&b| {
            b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'*') || b >= 0x80
        })
        && !is_ip(field)
}

/// The separator of the first record: a tab wherever there is one, since no entry and
/// no heading has one in it; else the more frequent of comma and semicolon.
pub(super) fn separator(record: &[u8]) -> u8 {
    let mut quoted = false;
    let (mut tabs, mut commas, mut semicolons) = (0_usize, 0_usize, 0_usize);
    for &byte in record {
        quoted ^= byte == b'"';
        match byte {
            _ if quoted => {}
            b'\t' => tabs += 1,
            b',' => commas += 1,
            b';' => semicolons += 1,
            _ => {}
        }
    }
    match () {
        () if tabs > 0 => b'\t',
        () if semicolons > commas => b';',
        () => b',',
    }
}

/// Reads one row of the table.
fn row(fields: Fields<'_>, columns: Columns, out: &mut Out<'_>) {
    let Some(entry) = fields.get(columns.entry) else {
        return out.reject(Reason::NoColumn, fields.text);
    };
    if entry.is_empty() {
        return out.skip(Skip::Blank);
    }
    let action = match columns.action {
        Some(column) => match fields.get(column) {
            Some(word) => Action::of(word).unwrap_or(Action::Other),
            None => return out.reject(Reason::NoAction, entry),
        },
        // Without a heading to say where an action would stand, one that is no refusal
        // counts wherever it stands.
        None => {
            let others = (0..fields.ends.len()).filter(|&column| column != columns.entry);
            let words = others.filter_map(|column| fields.get(column));
            words
                .filter_map(|word| Some((word, Action::of(word)?)))
                .find(|(word, action)| match action {
                    Action::Allow => true,
                    Action::Other => is_decided(word),
                    Action::Block => false,
                })
                .map_or(Action::Block, |(_, action)| action)
        }
    };
    let flagged = columns
        .flag
        .and_then(|(column, flag)| flag.read(fields.get(column)?));
    if let Some(skip) = flagged.unwrap_or(action).skip() {
        return out.skip(skip);
    }
    let day = |column: Option<usize>| column.and_then(|column| fields.get(column));
    let expires = match day(columns.expires) {
        None => None,
        Some(text) => match Day::read_expiry(text) {
            Some(day) => day,
            None => return out.reject(Reason::Date, text),
        },
    };
    let item = Item {
        text: entry,
        added: day(columns.added).and_then(Day::read),
        expires,
    };
    out.item(item, Wildcards::Star);
}

/// Whether a word for another action can hardly be a remark, as `info` or `none` can.
fn is_decided(word: &[u8]) -> bool {
    [&b"defer"[..], b"dunno", b"hold", b"quarantine"]
        .iter()
        .any(|action| action.eq_ignore_ascii_case(word))
}

/// What stands at the start of a block.
enum Record {
    /// A record of so many bytes, with its newline.
    Whole(usize),
    /// A line of so many bytes that opens a quote which nothing closes.
    Unclosed(usize),
    /// A line of more than [`MAX_LINE`] bytes.
    LongLine,
    /// More bytes are needed to say.
    Unknown,
}

impl Record {
    /// Linear over a whole list: after a line with an unclosed quote come [`MAX_LINE`]
    /// bytes whose lines are each balanced.
    fn at_start(block: &[u8], last: bool) -> Self {
        let window = block.get(..=MAX_LINE).unwrap_or(block);
        let mut quoted = false;
        let mut first_newline = None;
        for at in memchr::memchr2_iter(b'\n', b'"', window) {
            if window.get(at) == Some(&b'"') {
                quoted = !quoted;
            } else if !quoted {
                return Self::Whole(at + 1);
            } else if first_newline.is_none() {
                first_newline = Some(at);
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
