//! The rows of a table: which column names the sender, and which say that it is not listed.
//!
//! ```text
//!   email,enabled,expires,reporter         listed, with a day of expiry;
//!   spam@bad.example,yes,2026-12-31,x@us   nothing is known of x@us
//!   friend@good.example,no,,               taken off
//!   who@good.example,perhaps,,             rejected: a column that decides is not understood
//! ```
//!
//! Under a heading only columns with names that are known decide: what stands in others may be
//! the sender's own words, so a word of allowance there has the row rejected, and `no` or a day
//! is reported once for the column. A table that does not say which of several entries of a row
//! is the sender lists none of them.

use std::mem;

use super::action::Action;
use super::day::Day;
use super::entry::{Wildcards, is_part_of, looks_like_entry};
use super::fields::Fields;
use super::flag::{Flag, holds_entry};
use super::headings::Heading;
use super::out::Out;
use super::reject_reason::RejectReason;
use super::row::{RawEntry, Skip};
use super::status::is_past;
use super::verdict::{Verdict, earliest, is_suspicious};

/// What the first record said.
#[derive(Debug, Default)]
pub(super) struct Columns {
    /// Those that name the sender, the best first; without a heading, that of the first entry.
    entries: Vec<usize>,
    /// Whether the columns are known by their names.
    has_heading: bool,
    /// Whether the user gave the column.
    is_given: bool,
    /// Those that say whether the sender is listed.
    deciding: Vec<(usize, Heading)>,
    /// Those where a sender may stand if no column is known to name it, the best last.
    candidates: Vec<usize>,
    /// Of unknown names, with these names, emptied once they were reported.
    unknown: Vec<(usize, Vec<u8>)>,
    added: Option<usize>,
    expires: Vec<usize>,
}

impl Columns {
    /// The columns by their names, if the first record has them.
    pub(super) fn of_heading(fields: Fields<'_>, given: Option<usize>) -> Option<Self> {
        if fields.iter().any(looks_like_entry) {
            return None;
        }
        let mut columns = Self {
            has_heading: true,
            is_given: given.is_some(),
            ..Self::default()
        };
        let mut ranked = Vec::new();
        let mut blocked = Vec::new();
        let mut known = 0;
        for (column, name) in fields.iter().enumerate() {
            let heading = Heading::of(name);
            // A title of one word is no heading.
            known += match heading {
                None => 0,
                Some(Heading::Flag(_) | Heading::Mention | Heading::Dated) => 1,
                Some(_) => 2,
            };
            match heading {
                Some(Heading::Entry(rank)) => ranked.push((rank, column)),
                Some(Heading::Added) => columns.added = columns.added.or(Some(column)),
                Some(Heading::Expires) => columns.expires.push(column),
                Some(Heading::Expired) => columns.expires.push(column),
                Some(Heading::Flag(Flag::BlockedSince)) => {
                    columns.added = columns.added.or(Some(column));
                }
                Some(Heading::Flag(Flag::Blocks | Flag::Bad)) => blocked.push(column),
                Some(Heading::Dated) => columns.candidates.push(column),
                None if name.is_empty() => columns.candidates.push(column),
                None => {
                    columns.candidates.push(column);
                    columns.unknown.push((column, name.to_vec()));
                }
                // As zones of DNS call it.
                Some(Heading::FreeText) if name.eq_ignore_ascii_case(b"name") => {
                    columns.candidates.push(column);
                }
                Some(_) => {}
            }
            if let Some(heading) = heading.filter(|heading| heading.decides()) {
                columns.deciding.push((column, heading));
            }
        }
        ranked.sort_unstable();
        columns.entries = match given {
            Some(column) => vec![column],
            None => ranked.into_iter().map(|(_, column)| column).collect(),
        };
        if !blocked.is_empty() {
            columns.candidates = blocked;
        }
        let named = fields.iter().filter(|name| !name.is_empty()).count();
        (known > 1 || known == 1 && named > 1 || columns.is_given && known > 0).then_some(columns)
    }

    /// The columns by what stands in them, if the first record has an entry.
    pub(super) fn of_row(fields: Fields<'_>, given: Option<usize>) -> Option<Self> {
        let found = || {
            let address = fields.iter().position(is_address);
            address.or_else(|| fields.iter().position(looks_like_entry))
        };
        Some(Self {
            entries: vec![given.or_else(found)?],
            is_given: given.is_some(),
            added: fields.iter().position(|field| Day::read(field).is_some()),
            ..Self::default()
        })
    }

    /// Why a row lists nobody; nothing when it lists somebody.
    fn skip(&self, fields: Fields<'_>) -> Result<Option<Skip>, RejectReason> {
        let mut verdict = Verdict::default();
        let mut is_short = false;
        for &(column, heading) in &self.deciding {
            match fields.get(column) {
                Some(value) => verdict.add(heading, value),
                None => is_short |= heading == Heading::Action,
            }
        }
        if let Some(skip) = verdict.skip()? {
            return Ok(Some(skip));
        }
        if is_short {
            return Err(RejectReason::NoAction);
        }
        if !self.has_heading {
            return by_any_field(fields);
        }
        // Another column has said what happens.
        let has_action = self
            .deciding
            .iter()
            .any(|(_, heading)| *heading == Heading::Action);
        let mut unknown = self
            .unknown
            .iter()
            .filter_map(|(column, _)| fields.get(*column));
        let is_allowed = |word: &[u8]| Action::in_column(word) == Some(Action::Allow);
        match !has_action && unknown.any(is_allowed) {
            true => Err(RejectReason::UnclearWord),
            false => Ok(None),
        }
    }

    /// Reports columns of which nothing is known but that they may end or deny something.
    fn report(&mut self, fields: Fields<'_>, out: &mut Out<'_>) {
        let line = out.line();
        for (column, name) in &mut self.unknown {
            if !name.is_empty() && fields.get(*column).is_some_and(is_suspicious) {
                let name = mem::take(name);
                out.at(line, &name).skip(Skip::UnknownColumn);
            }
        }
    }
}

/// Without a heading to say where an action would stand, one that is no refusal counts
/// wherever it stands.
fn by_any_field(fields: Fields<'_>) -> Result<Option<Skip>, RejectReason> {
    let mut is_unclear = false;
    for word in fields.iter() {
        match Action::of(word).or_else(|| negative(word)) {
            Some(Action::Allow) => return Ok(Some(Skip::Allow)),
            Some(Action::Other) if is_decided(word) => return Ok(Some(Skip::OtherAction)),
            Some(Action::Block | Action::Other) => {}
            None => {
                is_unclear |= Action::in_column(word) == Some(Action::Allow) || is_past(word);
            }
        }
    }
    if is_unclear {
        Err(RejectReason::UnclearWord)
    } else {
        Ok(None)
    }
}

/// Whether a word for another action can hardly be a remark, as `info` or `none` can.
fn is_decided(word: &[u8]) -> bool {
    [&b"defer"[..], b"dunno", b"hold", b"quarantine"]
        .iter()
        .any(|action| action.eq_ignore_ascii_case(word))
}

/// A negative score, also with a comma: an allowance. Any other number may be anything.
fn negative(word: &[u8]) -> Option<Action> {
    let is_negative = matches!(word, [b'-', b'0'..=b'9', ..])
        && word
            .iter()
            .all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'.' | b','))
        && word.iter().any(|b| matches!(b, b'1'..=b'9'))
        && word.iter().filter(|&&b| b == b'-').count() == 1;
    is_negative.then_some(Action::Allow)
}

/// An address, perhaps with a display name.
pub(super) fn is_address(field: &[u8]) -> bool {
    field.contains(&b'@') && (looks_like_entry(field) || field.ends_with(b">"))
}

/// Reads one row of the table, cut from `record`.
pub(super) fn row(record: &[u8], fields: Fields<'_>, columns: &mut Columns, out: &mut Out<'_>) {
    if !fields.is_whole {
        return out.reject(RejectReason::ManyFields, fields.text);
    }
    if fields.iter().all(<[u8]>::is_empty) {
        return out.skip(Skip::Blank);
    }
    match columns.skip(fields) {
        Ok(None) => {}
        Ok(Some(skip)) => return out.skip(skip),
        Err(reason) => return out.reject(reason, fields.text),
    }
    if !columns.has_heading && fields.get(0).is_some_and(is_statement) {
        return out.reject(RejectReason::Statement, fields.text);
    }
    let ends = columns
        .expires
        .iter()
        .filter_map(|&column| fields.get(column));
    let expires = match earliest(ends) {
        Ok(expires) => expires,
        Err((reason, text)) => return out.reject(reason, text),
    };
    let added = columns.added.and_then(|column| fields.get(column));
    let item = RawEntry {
        added: added.and_then(Day::read),
        expires,
        ..RawEntry::new(b"")
    };
    if columns.has_heading && !columns.entries.is_empty() {
        let mut named = columns
            .entries
            .iter()
            .filter_map(|&column| fields.get(column));
        match named.find(|field| !field.is_empty()) {
            Some(text) => out.raw_entry(RawEntry { text, ..item }, Wildcards::Star),
            None => return out.reject(RejectReason::NoColumn, fields.text),
        }
    } else if columns.has_heading {
        by_candidates(fields, columns, item, out);
    } else {
        without_heading(record, fields, columns, item, out);
    }
    columns.report(fields, out);
}

/// Lists the one entry under headings of which none is known to name the sender.
fn by_candidates(fields: Fields<'_>, columns: &Columns, item: RawEntry<'_>, out: &mut Out<'_>) {
    let mut found = columns
        .candidates
        .iter()
        .filter_map(|&column| fields.get(column))
        .filter(|field| holds_entry(field));
    let Some(text) = found.next() else {
        return out.reject(RejectReason::NoColumn, fields.text);
    };
    let others: Vec<&[u8]> = found.collect();
    // An address goes before the domain that is a part of it.
    let text = others
        .iter()
        .copied()
        .find(|other| is_part_of(text, other))
        .unwrap_or(text);
    if others.iter().any(|other| !is_same(other, text)) {
        out.reject(RejectReason::SecondEntry, fields.text);
    } else {
        out.raw_entry(RawEntry { text, ..item }, Wildcards::Star);
    }
}

/// Whether an entry is another, or a part of it.
fn is_same(entry: &[u8], other: &[u8]) -> bool {
    entry.eq_ignore_ascii_case(other) || is_part_of(entry, other)
}

/// Lists the entry of a row without a heading, and what stands beside it.
fn without_heading(
    record: &[u8],
    fields: Fields<'_>,
    columns: &Columns,
    item: RawEntry<'_>,
    out: &mut Out<'_>,
) {
    let named = columns
        .entries
        .iter()
        .filter_map(|&column| Some((column, fields.get(column)?)))
        .find(|(_, field)| !field.is_empty());
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
    let others = || {
        let others = fields.iter().enumerate();
        others.filter(move |(other, field)| *other != column && !field.is_empty())
    };
    // A row of entries alone is a line of a plain list; one of domains without a space between
    // them is that of a table, which names a server or a registrar.
    let is_entry = |field: &[u8]| is_address(field) || looks_like_entry(field);
    let is_list = others().all(|(_, field)| is_entry(field))
        && (has_address || is_apart(record) || others().next().is_none());
    let is_one_of_several = |other: &[u8]| fits(other) && !is_same(other, text);
    let is_unclear =
        !is_list && !columns.is_given && others().any(|(_, other)| is_one_of_several(other));
    if is_unclear {
        return out.reject(RejectReason::SecondEntry, fields.text);
    }
    out.raw_entry(RawEntry { text, ..item }, Wildcards::Star);
    for (_, other) in others() {
        if is_part_of(other, text) {
            out.skip(Skip::Mention);
        } else if is_list {
            out.raw_entry(
                RawEntry {
                    text: other,
                    ..item
                },
                Wildcards::Star,
            );
        } else if is_entry(other) {
            out.reject(RejectReason::SecondEntry, other);
        }
    }
}

/// Whether white space follows a separator, as people write lists.
fn is_apart(record: &[u8]) -> bool {
    [&b", "[..], b"; "]
        .iter()
        .any(|sign| memchr::memmem::find(record, sign).is_some())
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
