//! What is open in a JSON list, and what its keys are for.

use super::super::entry::looks_like_entry;
use super::super::headings::Heading;
use super::super::label::Meaning;
use super::super::row::Skip;

/// An open array or object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) is_object: bool,
    /// An array in an array: a row of a table.
    pub(super) is_row: bool,
    /// An object of objects that have numbers for names, as in STIX 2.0, which count from 0 again in the
    /// next.
    pub(super) is_numbered: bool,
    /// What its strings are.
    pub(super) holds: Holds,
    /// Its key says that it holds entries.
    pub(super) is_list: bool,
    /// It is the value of a key, not one of several in an array.
    pub(super) is_member: bool,
    /// It says in several words what a key says: `"expires": {"$date": "2026-01-01"}`.
    pub(super) value_of: Option<Heading>,
    /// Its key is an entry, which it is about.
    pub(super) is_keyed: bool,
    /// A key of it holds a list of others: `"entries": [...]`.
    pub(super) has_list: bool,
    /// Where its keys, values, fields and held items begin.
    pub(super) text: usize,
    pub(super) fields: usize,
    pub(super) held: usize,
    /// Where the key for the next value begins in `text`, once read.
    pub(super) key: Option<usize>,
    /// Why nobody inside it is listed, once it has said so: `{"action": "allow", "addresses":
    /// [...]}`.
    pub(super) own: Option<Skip>,
    /// It has more text than is kept.
    pub(super) too_long: bool,
    /// Something inside it is an item.
    pub(super) has_items: bool,
    /// Items inside it have gone out before it could say what they are.
    pub(super) is_released: bool,
    /// It has a value that may mean that it allows.
    pub(super) is_unclear: bool,
}

/// What the strings of an array or object are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    Entries,
    /// Nobody who is listed, for this reason.
    Skipped(Skip),
    /// Identifiers of recipients, in STIX.
    Recipients,
    /// Nothing known.
    Other,
}

/// A key that is known, and the place of its value in `text`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) key: FieldKey,
    pub(super) value: usize,
    pub(super) end: usize,
    pub(super) line: u64,
}

/// What the key of a field says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldKey {
    Heading(Heading),
    /// The name by which other objects speak of this one.
    Id,
    /// The name of a list that allows.
    Name,
    /// `"ok": true`, the answer of a program, unless the object names somebody.
    Answer,
    /// What a list of known good names makes of the object.
    Skipped(Skip),
    /// A name that is not known, whose value is `false` or a day.
    Unknown,
}

impl Holds {
    /// What an array or object under the key `name` holds, and whether its key says so.
    pub(super) fn of(name: &[u8], is_object: bool, parent: &Frame) -> (Self, bool) {
        if matches!(name, b"to_refs" | b"cc_refs" | b"bcc_refs") {
            return (Self::Recipients, false);
        }
        let is_list = || {
            matches!(Heading::of(name), Some(Heading::Entry(_)))
                || LISTS
                    .iter()
                    .any(|list| list.as_bytes().eq_ignore_ascii_case(name))
        };
        if looks_like_entry(name) {
            return (parent.holds, parent.is_list);
        }
        match Meaning::of(name) {
            Meaning::Skipped(skip) => (Self::Skipped(skip), false),
            Meaning::Listed => (Self::Entries, true),
            Meaning::Unknown if is_list() => (Self::Entries, true),
            // `{"results": {"17": {"email": ...}}}`.
            Meaning::Unknown if is_object => {
                let is_record = parent.is_list || name.iter().any(u8::is_ascii_digit);
                let holds = if is_record {
                    Self::Entries
                } else {
                    Self::Other
                };
                (holds, false)
            }
            Meaning::Unknown => (Self::Other, false),
        }
    }
}

/// Keys of arrays whose strings are entries, beside those of objects and those that speak
/// of refusal.
const LISTS: &[&str] = &[
    "attribute",
    "attributes",
    "data",
    "event",
    "feed",
    "indicators",
    "iocs",
    "object",
    "objects",
    "records",
    "response",
    "result",
    "results",
    "rows",
];
