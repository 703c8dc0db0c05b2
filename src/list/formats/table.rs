//! The rows of a table: which column names the sender, and which ones say that it is not listed.
//!
//! ```text
//!   email,enabled,expires,reporter         the heading
//!   spam@bad.example,yes,2026-12-31,x@us   listed, with a day of expiry; x@us is not
//!   friend@good.example,no,,               taken off
//!   who@good.example,perhaps,,             rejected: a column that decides is not understood
//! ```
//!
//! Under a heading, only columns with known names decide. Others may hold the sender's own words:
//! a word of allowance there has the row rejected. `no` or a day there is reported once for the
//! column, and `no` has the row rejected if no other column says anything. A table that does not
//! say which of several entries of a row is the sender lists none of them. A column of blocked
//! senders takes precedence over one of senders, and that over one of any addresses.

use std::mem;

use super::bare_table::{self, Bare};
use super::changes::Changes;
use super::out::Out;
use crate::list::meaning::answer::is_blank;
use crate::list::meaning::flag::{Flag, holds_entry};
use crate::list::meaning::headings::{Heading, Place};
use crate::list::meaning::verdict::{Verdict, earliest, is_no, is_suspicious, takes_off};
use crate::list::meaning::whose::whose;
use crate::list::row::day::Day;
use crate::list::row::entry::{Wildcards, is_address, is_part_of, is_same, looks_like_entry};
use crate::list::row::reject_reason::RejectReason;
use crate::list::row::{RawEntry, Skip};
use crate::list::text::fields::Fields;

/// What the first record says about the columns.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    /// Those that name the sender, the best first; without a heading, that of the first entry.
    entries: Vec<(Place, usize)>,
    /// Whether the columns are known by their names.
    has_heading: bool,
    /// Whether the user gave the column.
    is_given: bool,
    /// Whether the first record has names of which none is known.
    is_under_unknown: bool,
    /// Number of columns that have names.
    width: usize,
    /// Those that say whether the sender is listed.
    deciding: Vec<(usize, Heading)>,
    /// Those that may hold a sender if no column is known to name it.
    candidates: Vec<usize>,
    /// Those with unknown names, and these names; a name is emptied once it was reported.
    unknown: Vec<(usize, Vec<u8>)>,
    /// Those of local parts and users.
    local_parts: Vec<usize>,
    added: Option<usize>,
    /// Those that may give the day on which the entry ends.
    ends: Vec<(usize, Heading)>,
    changes: Changes,
    /// Whether the last words in the first column took their row off the list.
    is_off_above: bool,
}

impl Columns {
    /// Returns the columns by their names, if the first record has them.
    pub(super) fn of_heading(fields: Fields<'_>, given: Option<usize>) -> Option<Self> {
        // `e-mail (joe@us.example)` may be a name.
        let names_somebody = |name: &[u8]| name.contains(&b'@') && !name.contains(&b'(');
        if fields
            .iter()
            .any(|name| looks_like_entry(name) || names_somebody(name))
        {
            return None;
        }
        let mut columns = Self {
            has_heading: true,
            is_given: given.is_some(),
            ..Self::default()
        };
        let mut ranked = Vec::new();
        let mut known = 0;
        for (column, name) in fields.iter().enumerate() {
            let heading = Heading::of(name);
            // A title of one word is not a heading.
            known += match heading {
                None => 0,
                Some(Heading::Flag(_) | Heading::Mention | Heading::To | Heading::Dated) => 1,
                Some(_) => 2,
            };
            match heading {
                Some(Heading::Entry(rank)) => ranked.push((Place::of(rank), rank, column)),
                Some(Heading::Added) => columns.added = columns.added.or(Some(column)),
                Some(Heading::LocalPart) => columns.local_parts.push(column),
                Some(
                    heading @ (Heading::Expires
                    | Heading::Expired
                    | Heading::To
                    | Heading::Flag(Flag::Removed)),
                ) => {
                    columns.ends.push((column, heading));
                }
                Some(Heading::Flag(Flag::BlockedSince)) => {
                    columns.added = columns.added.or(Some(column));
                }
                Some(Heading::Flag(Flag::Blocks | Flag::Bad)) => {
                    ranked.push((Place::Blocked, 0, column));
                }
                Some(Heading::Dated) => columns.candidates.push(column),
                None if name.is_empty() => columns.candidates.push(column),
                None => {
                    columns.candidates.push(column);
                    columns.unknown.push((column, name.to_vec()));
                }
                // Exports of DNS zones call it so.
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
            Some(column) => vec![(Place::Entry, column)],
            None => ranked
                .into_iter()
                .map(|(place, _, column)| (place, column))
                .collect(),
        };
        let named = fields.iter().filter(|name| !name.is_empty()).count();
        columns.width = named;
        (known > 1 || known == 1 && named > 1 || columns.is_given && known > 0).then_some(columns)
    }

    /// Returns whether a heading below rows can only be that of another table: it names a column of
    /// entries, or of lists, as `allowed_email` does.
    pub(super) fn begin_a_table(&self, names: Fields<'_>) -> bool {
        let is_list = |name: &[u8]| {
            let flags = [Flag::Allows, Flag::Blocks].map(Heading::Flag);
            name.iter().any(|b| b" _-".contains(b))
                && Heading::of(name).is_some_and(|heading| flags.contains(&heading))
        };
        !self.is_given
            && (self.name_a_sender() || self.unknown.is_empty() && names.iter().any(is_list))
    }

    /// Returns whether a column is known to name a sender or an entry, not only by a flag.
    pub(super) fn name_a_sender(&self) -> bool {
        let mut columns = self.entries.iter();
        columns.any(|(place, _)| *place != Place::Blocked)
    }

    /// Returns the columns by their content, if the first record has an entry.
    ///
    /// With `is_under_unknown`, none of their names is known, and they can mean anything.
    pub(super) fn of_row(
        fields: Fields<'_>,
        given: Option<usize>,
        is_under_unknown: bool,
    ) -> Option<Self> {
        let found = || {
            let address = fields.iter().position(is_address);
            address.or_else(|| fields.iter().position(looks_like_entry))
        };
        Some(Self {
            entries: vec![(Place::Entry, given.or_else(found)?)],
            is_given: given.is_some(),
            is_under_unknown,
            added: fields.iter().position(|field| Day::read(field).is_some()),
            ..Self::default()
        })
    }

    /// Returns why a row lists nobody; `None` if it lists somebody.
    fn skip(&self, fields: Fields<'_>) -> Result<Option<Skip>, RejectReason> {
        let mut verdict = Verdict::default();
        let mut is_short = false;
        let blocked = self
            .values(fields)
            .find(|(place, _)| *place == Place::Blocked);
        for &(column, heading) in &self.deciding {
            match fields.get(column) {
                // `Email,BlockedSenders,TrustedSenders`: this column names others.
                Some(value)
                    if heading == Heading::Flag(Flag::Allows)
                        && holds_entry(value)
                        && blocked.is_some_and(|(_, text)| !is_same(text, value)) => {}
                Some(value) => {
                    if let (Heading::Kind | Heading::Status, Some(skip)) = (heading, whose(value)) {
                        return Ok(Some(skip));
                    }
                    verdict.add(heading, value);
                }
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
            return bare_table::skip(fields, self.is_under_unknown);
        }
        let unknown = || {
            let columns = self.unknown.iter();
            columns.filter_map(|(column, _)| fields.get(*column))
        };
        // A column for actions has said what happens.
        let has_action = self
            .deciding
            .iter()
            .any(|(_, heading)| *heading == Heading::Action);
        let is_recipient = |value| whose(value) == Some(Skip::NotSender);
        if !has_action && unknown().any(|value| takes_off(value) || is_recipient(value)) {
            return Err(RejectReason::UnclearWord);
        }
        // Nothing else is said about the sender.
        if self.width == 2 && unknown().any(is_no) {
            return Err(RejectReason::UnclearAnswer);
        }
        Ok(None)
    }

    /// Returns what is known for reading a row without a heading.
    fn bare(&self) -> Bare {
        Bare {
            column: self.entries.first().map(|&(_, column)| column),
            is_given: self.is_given,
        }
    }

    /// Returns the entry of a row, from the columns that are known to name it; `None` if they are
    /// blank.
    ///
    /// # Errors
    /// When they name several.
    fn named<'f>(&self, fields: Fields<'f>) -> Result<Option<&'f [u8]>, RejectReason> {
        let mut best: Option<(Place, &[u8])> = None;
        for (place, text) in self.values(fields) {
            match best {
                None => best = Some((place, text)),
                // An address takes precedence over its own domain.
                Some((other, part)) if is_part_of(part, text) => best = Some((other, text)),
                Some((other, _)) if other != place || place == Place::Sender => {}
                Some((_, other)) if holds_entry(text) && !is_same(text, other) => {
                    return Err(RejectReason::SecondEntry);
                }
                Some(_) => {}
            }
        }
        Ok(best.map(|(_, text)| text))
    }

    /// Returns whether a row has a local part in a separate column.
    fn has_local_part(&self, fields: Fields<'_>) -> bool {
        let mut parts = self.local_parts.iter();
        !self.is_given
            && parts.any(|column| {
                let part = fields.get(*column);
                part.is_some_and(|part| !is_blank(part) && part != b"*")
            })
    }

    /// Returns the values of the columns that name the sender, the best first.
    fn values<'f>(&self, fields: Fields<'f>) -> impl Iterator<Item = (Place, &'f [u8])> {
        let in_column = move |&(place, column): &(Place, usize)| Some((place, fields.get(column)?));
        self.entries
            .iter()
            .filter_map(in_column)
            .filter(|(place, text)| match place {
                // It may say yes or no.
                Place::Blocked => holds_entry(text),
                // The day since when, called `from`.
                Place::Sender => !text.is_empty() && !Day::is_date(text),
                Place::Entry | Place::Host => !text.is_empty(),
            })
    }

    /// Returns whether a row takes off what a row before it has listed.
    fn take_back(&mut self, fields: Fields<'_>) -> bool {
        if self.deciding.is_empty() {
            return false;
        }
        let entry = self.values(fields).next().map(|(_, entry)| entry);
        let said = self.deciding.iter();
        let said = said.filter_map(|&(column, heading)| Some((heading, fields.get(column)?)));
        entry.is_some_and(|entry| self.changes.take_back(entry, said))
    }

    /// Reports columns of unknown meaning that may end or deny something.
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

/// Reads one row of the table, cut from `record`.
pub(crate) fn row(record: &[u8], fields: Fields<'_>, columns: &mut Columns, out: &mut Out<'_>) {
    if !fields.is_whole {
        return out.reject(RejectReason::ManyFields, record);
    }
    if fields.iter().all(<[u8]>::is_empty) {
        return out.skip(Skip::Blank);
    }
    let said = columns.skip(fields);
    if columns.take_back(fields) {
        return out.reject(RejectReason::Withdrawal, record);
    }
    match fields.get(0) {
        // Spreadsheets write `whitelist` once, and leave the cells below it empty.
        Some(b"") if columns.is_off_above && said == Ok(None) => {
            return out.reject(RejectReason::EmptyCell, record);
        }
        Some(first) if !first.is_empty() => {
            let is_word = first.iter().any(u8::is_ascii_alphabetic) && !looks_like_entry(first);
            columns.is_off_above = is_word && said != Ok(None);
        }
        _ => {}
    }
    match said {
        Ok(None) => {}
        Ok(Some(skip)) => return out.skip(skip),
        Err(reason) => return out.reject(reason, record),
    }
    let value = |&(column, heading): &(usize, Heading)| Some((heading, fields.get(column)?));
    let expires = match earliest(columns.ends.iter().filter_map(value)) {
        Ok(expires) => expires,
        Err((reason, text)) => return out.reject(reason, text),
    };
    let added = columns.added.and_then(|column| fields.get(column));
    let item = RawEntry {
        added: added.and_then(Day::read),
        expires,
        ..RawEntry::new(b"")
    };
    if columns.has_heading {
        // A column of blocked senders may be a flag beside another that names the sender.
        match columns.named(fields) {
            Ok(Some(text)) if !text.contains(&b'@') && columns.has_local_part(fields) => {
                return out.reject(RejectReason::SplitAddress, record);
            }
            Ok(Some(text)) => out.raw_entry(RawEntry { text, ..item }, Wildcards::Star),
            Ok(None) if columns.name_a_sender() => {
                return out.reject(RejectReason::NoColumn, record);
            }
            Ok(None) => by_candidates(record, fields, columns, item, out),
            Err(reason) => return out.reject(reason, record),
        }
    } else {
        bare_table::row(record, fields, columns.bare(), item, out);
    }
    columns.report(fields, out);
}

/// Lists the only entry of a row, if no heading is known to name the sender.
fn by_candidates(
    record: &[u8],
    fields: Fields<'_>,
    columns: &Columns,
    item: RawEntry<'_>,
    out: &mut Out<'_>,
) {
    let mut found = columns
        .candidates
        .iter()
        .filter_map(|&column| fields.get(column))
        .filter(|field| holds_entry(field));
    let Some(text) = found.next() else {
        return out.reject(RejectReason::NoColumn, record);
    };
    let others: Vec<&[u8]> = found.collect();
    // An address takes precedence over its own domain.
    let text = others
        .iter()
        .copied()
        .find(|other| is_part_of(text, other))
        .unwrap_or(text);
    if others.iter().any(|other| !is_same(other, text)) {
        out.reject(RejectReason::SecondEntry, record);
    } else {
        out.raw_entry(RawEntry { text, ..item }, Wildcards::Star);
    }
}
