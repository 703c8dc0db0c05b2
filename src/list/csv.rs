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
//! The first record that is a heading or holds an entry decides about the separator (comma,
//! semicolon or tab) and the columns. Under a heading only columns that mean an action decide:
//! what stands in others may be the sender's own words. Without one, an address goes before a
//! domain, and every further entry of the row is read or rejected.
//!
//! A record ends at a newline outside quotes, which open only at the start of a field; one that
//! has no end within [`MAX_LINE`] bytes has a quote too many, and is rejected alone: reading
//! goes on with the next line. RFC 4180, and what is sent instead of it.

use super::action::{Action, Flag};
use super::day::Day;
use super::entry::{Wildcards, is_part_of, looks_like_entry};
use super::headings::Heading;
use super::lines::{MAX_LINE, lines};
use super::out::Out;
use super::plain;
use super::reject_reason::RejectReason;
use super::row::{RawEntry, Row, Skip};
use super::status::status;

/// Fields of a record that are looked at.
const MAX_FIELDS: usize = 4096;

/// The state between records.
#[derive(Debug)]
pub(super) struct Csv {
    /// The column that the user gave, counted from 1; 0 is none.
    given: u16,
    columns: Option<Columns>,
    separator: u8,
    reader: csv_core::Reader,
    fields: Vec<u8>,
    /// Where each field ends.
    ends: Vec<usize>,
}

/// What the first record said.
#[derive(Clone, Debug, Default)]
struct Columns {
    /// Those that name the sender, the best first; without a heading, that of the first entry.
    entries: Vec<usize>,
    /// Whether the columns are known by their names, or by the user.
    has_heading: bool,
    actions: Vec<usize>,
    statuses: Vec<usize>,
    scores: Vec<usize>,
    /// A column that takes rows off the list by yes or no.
    flag: Option<(usize, Flag)>,
    /// Columns of unknown names.
    unknown: Vec<usize>,
    added: Option<usize>,
    expires: Option<usize>,
}

impl Csv {
    pub(super) fn new(column: u16) -> Self {
        Self {
            given: column,
            columns: None,
            separator: b',',
            reader: csv_core::Reader::new(),
            fields: Vec::new(),
            ends: vec![0; MAX_FIELDS],
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
            return out.skip(Skip::Blank);
        }
        if text.first() == Some(&b'#') {
            return out.skip(Skip::Comment);
        }
        let record = record.strip_suffix(b"\n").unwrap_or(record);
        let record = record.strip_suffix(b"\r").unwrap_or(record);
        if self.columns.is_none() && self.separator != separator {
            self.separator = separator;
            self.reader = csv_core::ReaderBuilder::new().delimiter(separator).build();
        }
        let given = usize::from(self.given).checked_sub(1);
        let known = self.columns.take();
        let fields = self.split(record);
        if let Some(columns) = known {
            row(fields, &columns, out);
            self.columns = Some(columns);
        } else if let Some(columns) = Columns::of_heading(fields, given) {
            out.skip(Skip::Setting);
            self.columns = Some(columns);
        } else if let Some(columns) = Columns::of_row(fields, given) {
            row(fields, &columns, out);
            self.columns = Some(columns);
        } else {
            out.reject(RejectReason::NoColumn, record);
        }
    }

    /// Cuts a record into its fields, unquoted.
    fn split(&mut self, record: &[u8]) -> Fields<'_> {
        // Fields are never longer than the record that they are cut from.
        self.fields.resize(record.len() + 1, 0);
        self.reader.reset();
        let (result, read, mut written, mut count) =
            self.reader
                .read_record(record, &mut self.fields, &mut self.ends);
        if result == csv_core::ReadRecordResult::InputEmpty && read == record.len() {
            // The empty input says that the record ends here.
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

/// The fields of one record.
#[derive(Clone, Copy)]
struct Fields<'f> {
    text: &'f [u8],
    /// Where each field ends in `text`.
    ends: &'f [usize],
    /// Whether there are no more than [`MAX_FIELDS`].
    is_whole: bool,
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
    /// The columns by their names, if the first record has them.
    fn of_heading(fields: Fields<'_>, given: Option<usize>) -> Option<Self> {
        if fields.iter().any(looks_like_entry) {
            return None;
        }
        let mut columns = Self {
            has_heading: true,
            ..Self::default()
        };
        let mut ranked = Vec::new();
        let mut is_known = false;
        for (column, name) in fields.iter().enumerate() {
            let heading = Heading::of(name);
            is_known |= heading.is_some();
            match heading {
                Some(Heading::Entry(rank)) => ranked.push((rank, column)),
                Some(Heading::Action) => columns.actions.push(column),
                Some(Heading::Status) => columns.statuses.push(column),
                Some(Heading::Score) => columns.scores.push(column),
                Some(Heading::Added) => columns.added = columns.added.or(Some(column)),
                Some(Heading::Expires) => columns.expires = columns.expires.or(Some(column)),
                Some(Heading::FreeText) => {}
                None => match Flag::of(name) {
                    Some(flag) => columns.flag = columns.flag.or(Some((column, flag))),
                    None => columns.unknown.push(column),
                },
            }
        }
        ranked.sort_unstable();
        columns.entries = match given {
            Some(column) => vec![column],
            None => ranked.into_iter().map(|(_, column)| column).collect(),
        };
        is_known.then_some(columns)
    }

    /// The columns by what stands in them, if the first record has an entry.
    fn of_row(fields: Fields<'_>, given: Option<usize>) -> Option<Self> {
        let found = || {
            let address = fields.iter().position(is_address);
            address.or_else(|| fields.iter().position(looks_like_entry))
        };
        Some(Self {
            entries: vec![given.or_else(found)?],
            // Whoever gives the column knows the table.
            has_heading: false,
            added: fields.iter().position(|field| Day::read(field).is_some()),
            ..Self::default()
        })
    }

    /// What happens to the sender of a row.
    fn action(&self, fields: Fields<'_>) -> Result<Action, RejectReason> {
        let of = |columns: &[usize]| -> Vec<&[u8]> {
            columns
                .iter()
                .filter_map(|&column| fields.get(column))
                .collect()
        };
        let flagged = self
            .flag
            .and_then(|(column, flag)| flag.read(fields.get(column)?));
        let statuses = of(&self.statuses).into_iter().filter_map(status);
        let scores = of(&self.scores).into_iter().filter_map(score);
        if let Some(action) = flagged.into_iter().chain(statuses).chain(scores).next() {
            return Ok(action);
        }
        let words = of(&self.actions);
        if words.len() < self.actions.len() {
            return Err(RejectReason::NoAction);
        }
        let actions: Vec<Action> = words
            .iter()
            .map(|word| Action::in_column(word).unwrap_or(Action::Other))
            .collect();
        if let Some(action) = [Action::Allow, Action::Block, Action::Other]
            .into_iter()
            .find(|action| actions.contains(action))
        {
            return Ok(action);
        }
        if self.has_heading {
            let is_allowed = |word: &[u8]| Action::in_column(word) == Some(Action::Allow);
            return match of(&self.unknown).into_iter().any(is_allowed) {
                true => Err(RejectReason::UnclearWord),
                false => Ok(Action::Block),
            };
        }
        self.action_anywhere(fields)
    }

    /// Without a heading to say where an action would stand, one that is no refusal counts
    /// wherever it stands.
    fn action_anywhere(&self, fields: Fields<'_>) -> Result<Action, RejectReason> {
        let mut unclear = false;
        for word in fields.iter() {
            match Action::of(word).or_else(|| score(word)) {
                Some(Action::Allow) => return Ok(Action::Allow),
                Some(Action::Other) if is_decided(word) => return Ok(Action::Other),
                Some(Action::Block | Action::Other) => {}
                None => unclear |= Action::in_column(word) == Some(Action::Allow),
            }
        }
        if unclear {
            Err(RejectReason::UnclearWord)
        } else {
            Ok(Action::Block)
        }
    }
}

/// A negative score, also with a comma: an allowance. Any other says nothing of its own.
fn score(word: &[u8]) -> Option<Action> {
    let is_negative = matches!(word, [b'-', b'0'..=b'9', ..])
        && word
            .iter()
            .all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'.' | b','))
        && word.iter().any(|b| matches!(b, b'1'..=b'9'))
        && word.iter().filter(|&&b| b == b'-').count() == 1;
    is_negative.then_some(Action::Allow)
}

/// An address, perhaps with a display name.
fn is_address(field: &[u8]) -> bool {
    field.contains(&b'@') && (looks_like_entry(field) || field.ends_with(b">"))
}

/// The separator of the first record: a tab wherever there is one, since no entry and
/// no heading has one in it; else the more frequent of comma and semicolon.
pub(super) fn separator(record: &[u8]) -> u8 {
    let (mut quoted, mut at_start) = (false, true);
    let (mut tabs, mut commas, mut semicolons) = (0_usize, 0_usize, 0_usize);
    for &byte in record {
        let divides = matches!(byte, b'\t' | b',' | b';');
        match byte {
            b'"' if quoted || at_start => quoted = !quoted,
            _ if quoted => {}
            b'\t' => tabs += 1,
            b',' => commas += 1,
            b';' => semicolons += 1,
            _ => {}
        }
        at_start = divides && !quoted;
    }
    match () {
        () if tabs > 0 => b'\t',
        () if semicolons > commas => b';',
        () => b',',
    }
}

/// The first line of a text.
fn list_line(text: &[u8]) -> &[u8] {
    let text = text.get(..MAX_LINE).unwrap_or(text);
    let end = memchr::memchr(b'\n', text).unwrap_or(text.len());
    text.get(..end).unwrap_or(text)
}

/// Reads one row of the table.
fn row(fields: Fields<'_>, columns: &Columns, out: &mut Out<'_>) {
    if !fields.is_whole {
        return out.reject(RejectReason::ManyFields, fields.text);
    }
    if fields.iter().all(<[u8]>::is_empty) {
        return out.skip(Skip::Blank);
    }
    match columns.action(fields).map(Action::skip) {
        Ok(None) => {}
        Ok(Some(skip)) => return out.skip(skip),
        Err(reason) => return out.reject(reason, fields.text),
    }
    if !columns.has_heading && fields.get(0).is_some_and(is_statement) {
        return out.reject(RejectReason::Statement, fields.text);
    }
    let day = |column: Option<usize>| column.and_then(|column| fields.get(column));
    let expires = match day(columns.expires) {
        None => None,
        Some(text) => match Day::read_expiry(text) {
            Some(expires) => expires,
            None => return out.reject(RejectReason::Date, text),
        },
    };
    let raw = |text| RawEntry {
        text,
        added: day(columns.added).and_then(Day::read),
        expires,
    };
    let named = columns
        .entries
        .iter()
        .filter_map(|&column| Some((column, fields.get(column)?)))
        .find(|(_, field)| !field.is_empty());
    if columns.has_heading && !columns.entries.is_empty() {
        return match named {
            Some((_, text)) => out.raw_entry(raw(text), Wildcards::Star),
            None => out.reject(RejectReason::NoColumn, fields.text),
        };
    }
    // An address goes before a domain.
    let has_address = fields.iter().any(is_address);
    let fits = |field: &[u8]| {
        if has_address {
            is_address(field)
        } else {
            looks_like_entry(field)
        }
    };
    let main = named
        .filter(|(_, field)| fits(field))
        .or_else(|| fields.iter().enumerate().find(|(_, field)| fits(field)))
        .or(named);
    let Some((column, text)) = main else {
        return out.reject(RejectReason::NoColumn, fields.text);
    };
    out.raw_entry(raw(text), Wildcards::Star);
    let others = || {
        let others = fields.iter().enumerate();
        others.filter(move |(other, field)| *other != column && !field.is_empty())
    };
    // A row of entries alone is a line of a plain list.
    let is_entry = |field: &[u8]| is_address(field) || looks_like_entry(field);
    let is_list = others().all(|(_, field)| is_entry(field));
    for (_, other) in others() {
        if is_part_of(other, text) {
            out.skip(Skip::Mention);
        } else if is_list {
            out.raw_entry(raw(other), Wildcards::Star);
        } else if is_entry(other) {
            out.reject(RejectReason::SecondEntry, other);
        }
    }
}

/// Whether the first field of a row begins a statement of SQL, or values of one.
fn is_statement(field: &[u8]) -> bool {
    field.first() == Some(&b'(')
        || [
            &b"insert into "[..],
            b"replace into ",
            b"values ",
            b"values(",
        ]
        .iter()
        .any(|start| {
            field
                .get(..start.len())
                .is_some_and(|begins| begins.eq_ignore_ascii_case(start))
        })
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
    /// Linear over a whole list: what an open quote runs over are lines with even runs of
    /// quotes, none of which opens another.
    fn at_start(block: &[u8], last: bool, separator: u8) -> Self {
        let window = block.get(..=MAX_LINE).unwrap_or(block);
        let mut quoted = false;
        let mut first_newline = None;
        // Where the field under way starts.
        let mut start = if window.starts_with(plain::BOM) {
            plain::BOM.len()
        } else {
            0
        };
        // A quote that is a part of the one before it.
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
                        // It belongs to another row.
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
