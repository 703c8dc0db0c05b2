//! Rows of a table without a heading: the fields beside the entry can mean anything.
//!
//! ```text
//!   spam@bad.example,12,2026-03-01          listed
//!   friend@good.example,allow               taken off
//!   friend@good.example,false               rejected: nothing says what is false
//!   spam@bad.example,12,me@us.example       rejected: one of them is the sender
//!   recipient,me@us.example                 taken off
//!   info,bad.example                        rejected: perhaps the domain of one address
//! ```
//!
//! A word of allowance counts in any field. If a field may be a remark or the sender's own
//! words, but could also take the sender off the list, the row is rejected.

use super::out::Out;
use crate::list::meaning::action::Action;
use crate::list::meaning::answer::number;
use crate::list::meaning::headings::Heading;
use crate::list::meaning::phrase::Phrase;
use crate::list::meaning::verdict::{is_no, takes_off};
use crate::list::meaning::whose::whose;
use crate::list::row::day::Day;
use crate::list::row::entry::{Wildcards, is_address, is_part_of, is_same, looks_like_entry};
use crate::list::row::reject_reason::RejectReason;
use crate::list::row::{RawEntry, Skip};
use crate::list::text::fields::Fields;

/// What is known about the columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bare {
    /// The column of the first entry, or the one that the user gave.
    pub(crate) column: Option<usize>,
    /// Whether the user gave it.
    pub(super) is_given: bool,
}

/// Returns why a row lists nobody, or an error if that is unclear. With `is_under_unknown`,
/// there are column names of which none is known, and a word may be an action in any language.
pub(crate) fn skip(
    fields: Fields<'_>,
    is_under_unknown: bool,
) -> Result<Option<Skip>, RejectReason> {
    if fields.get(0).is_some_and(is_statement) {
        return Err(RejectReason::Statement);
    }
    let is_entry = |field: &[u8]| is_address(field) || looks_like_entry(field);
    let mut is_unclear = false;
    let mut days = fields.iter().filter_map(written_day);
    let day = days.next();
    let has_two_days = days.any(|other| Some(other) != day);
    let (mut others, mut zeros, mut words) = (0, 0, 0);
    for word in fields.iter().filter(|field| !field.is_empty()) {
        if is_entry(word) {
            continue;
        }
        others += 1;
        zeros += usize::from(number(word) == Some(0.0));
        let has_letters = word.iter().any(|b| b.is_ascii_alphabetic() || *b >= 0x80);
        words += usize::from(has_letters && written_day(word).is_none());
        // White, in a table of amavis; the sides of `diff -y`.
        is_unclear |= matches!(word, b"W" | b"w" | b"<" | b">" | b"|");
        match Action::of(word).or_else(|| negative(word)) {
            Some(Action::Allow) => return Ok(Some(Skip::Allow)),
            Some(Action::Other) if is_decided(word) => return Ok(Some(Skip::OtherAction)),
            Some(Action::Other) => is_unclear |= is_undecided(word),
            Some(Action::Block) => {}
            None => match whose(word) {
                Some(Skip::NotSender) => return Ok(Some(Skip::NotSender)),
                Some(_) => is_unclear = true,
                None => {
                    is_unclear |=
                        takes_off(word) || is_no(word) || Phrase::beginning(word).takes_off();
                }
            },
        }
    }
    if is_under_unknown && words > 0 {
        Err(RejectReason::UnknownHeading)
    } else if is_unclear || others == 1 && zeros == 1 {
        Err(RejectReason::UnclearWord)
    } else if has_two_days {
        Err(RejectReason::SecondDay)
    } else {
        Ok(None)
    }
}

/// Reads a day that is not a bare number; its text, if it is unclear which day it is.
fn written_day(field: &[u8]) -> Option<Result<Day, &[u8]>> {
    let is_number = field.iter().all(u8::is_ascii_digit);
    (!is_number && Day::is_date(field)).then(|| Day::read(field).ok_or(field))
}

fn is_one_of(word: &[u8], known: &[&[u8]]) -> bool {
    known.iter().any(|known| known.eq_ignore_ascii_case(word))
}

/// Returns whether a word for another action is hardly a remark, as `info` may be.
fn is_decided(word: &[u8]) -> bool {
    is_one_of(word, &[b"defer", b"dunno", b"hold", b"quarantine"])
}

/// Returns whether a word for another action says that nothing happens to the sender.
fn is_undecided(word: &[u8]) -> bool {
    is_one_of(word, &[b"ignore", b"monitor", b"none", b"skip"])
}

/// Reads a negative score, also with a comma, as an allowance. Other numbers can mean anything.
fn negative(word: &[u8]) -> Option<Action> {
    let is_negative = matches!(word, [b'-', b'0'..=b'9', ..])
        && word
            .iter()
            .all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'.' | b','))
        && word.iter().any(|b| matches!(b, b'1'..=b'9'))
        && word.iter().filter(|&&b| b == b'-').count() == 1;
    is_negative.then_some(Action::Allow)
}

/// Lists the entry of a row, and handles the other fields.
pub(crate) fn row(
    record: &[u8],
    fields: Fields<'_>,
    columns: Bare,
    item: RawEntry<'_>,
    out: &mut Out<'_>,
) {
    let named = columns
        .column
        .and_then(|column| Some((column, fields.get(column)?)))
        .filter(|(_, field)| !field.is_empty());
    // An address takes precedence over a domain.
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
        return out.reject(RejectReason::NoColumn, record);
    };
    let others = || {
        let others = fields.iter().enumerate();
        others.filter(move |(other, field)| *other != column && !field.is_empty())
    };
    // A row of entries alone is a line of a plain list if white space follows a separator. Without
    // white space, it is a row of a table that names a server, a registrar or a recipient.
    let is_entry = |field: &[u8]| is_address(field) || looks_like_entry(field);
    let is_list = others().all(|(_, field)| is_entry(field))
        && (is_apart(record) || others().next().is_none());
    let is_one_of_several =
        |other: &[u8]| fits(other) && !is_same(other, text) || holds_several(other);
    let is_unclear =
        !is_list && !columns.is_given && others().any(|(_, other)| is_one_of_several(other));
    if is_unclear {
        return out.reject(RejectReason::SecondEntry, record);
    }
    let before = column.checked_sub(1).and_then(|before| fields.get(before));
    if !columns.is_given && !text.contains(&b'@') && before.is_some_and(may_be_local_part) {
        return out.reject(RejectReason::SplitAddress, record);
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
        } else if other.contains(&b'@') {
            out.skip(Skip::Mention);
        }
    }
}

/// Returns whether a word before a domain may be a local part: `info,bad.example`. A plain list
/// does not accept an unknown word before an entry either.
fn may_be_local_part(word: &[u8]) -> bool {
    let is_atom = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'+');
    let names_domain = || {
        let is_mail = is_one_of(word, &[b"mail", b"email", b"e-mail"]);
        !is_mail && matches!(Heading::of(word), Some(Heading::Entry(_)))
    };
    word.iter().all(is_atom)
        && word.iter().any(u8::is_ascii_alphabetic)
        && Day::read(word).is_none()
        && !Phrase::of(word).blocks()
        && !is_one_of(word, KINDS)
        && !names_domain()
}

/// Words that feeds use for the kind of a domain, besides words that block.
const KINDS: &[&[u8]] = &[
    b"adult",
    b"botnet",
    b"c2",
    b"casino",
    b"critical",
    b"disposable",
    b"gambling",
    b"high",
    b"low",
    b"medium",
    b"ransomware",
    b"suspicious",
    b"temporary",
    b"throwaway",
    b"trojan",
];

/// Returns whether a field holds several addresses, which may be senders or recipients.
fn holds_several(field: &[u8]) -> bool {
    let mut pieces = field
        .split(|b| b.is_ascii_whitespace() || matches!(b, b',' | b';' | b'|'))
        .filter(|piece| !piece.is_empty());
    pieces.clone().nth(1).is_some() && pieces.all(is_address)
}

/// Returns whether white space follows a separator, as people write lists.
fn is_apart(record: &[u8]) -> bool {
    [&b", "[..], b"; "]
        .iter()
        .any(|sign| memchr::memmem::find(record, sign).is_some())
}

/// Returns whether the first field of a row begins an SQL statement or the values of one.
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
