//! The arrays and objects that are open in a JSON list, and what their keys mean.

use crate::list::meaning::headings::Heading;
use crate::list::meaning::label::Meaning;
use crate::list::row::Skip;
use crate::list::row::entry::looks_like_entry;

/// An open array or object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) is_object: bool,
    /// An array in an array: a row of a table.
    pub(super) is_row: bool,
    /// An object of objects with numbers as names, as in STIX 2.0; the next such object begins at 0
    /// again.
    pub(super) is_numbered: bool,
    /// What its strings are.
    pub(super) holds: Holds,
    /// Its key says that it holds entries.
    pub(super) is_list: bool,
    /// It is the value of a key, not one of several in an array.
    pub(super) is_member: bool,
    /// It says with several keys what one value says: `"expires": {"$date": "2026-01-01"}`.
    pub(super) value_of: Option<Heading>,
    /// Its key is an entry, and it is about that entry.
    pub(super) is_keyed: bool,
    /// One of its keys holds a list of others: `"entries": [...]`.
    pub(super) has_list: bool,
    /// Where its keys, values, fields and held items begin.
    pub(super) text: usize,
    pub(super) fields: usize,
    pub(super) held: usize,
    /// Where the key of the next value begins in `text`, once it is read.
    pub(super) key: Option<usize>,
    /// Why nobody inside it is listed, once it has said so: `{"action": "allow", "addresses":
    /// [...]}`.
    pub(super) skips_all: Option<Skip>,
    /// It has more text than is kept.
    pub(super) too_long: bool,
    /// Something inside it is an item.
    pub(super) has_items: bool,
    /// Items inside it were listed before it could say what they are.
    pub(super) is_released: bool,
    /// It has a value that may mean an allowance.
    pub(super) is_unclear: bool,
}

/// What the strings of an array or object are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    Entries,
    /// Nobody is listed, for this reason.
    Skipped(Skip),
    /// Identifiers of recipients, in STIX.
    Recipients,
    /// Nothing is known about them.
    Other,
}

/// A known key, and the place of its value in `text`.
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
    /// The identifier by which other objects refer to this one.
    Id,
    /// The name of a list of allowed senders.
    Name,
    /// `"ok": true` is the answer of a program, unless the object names a sender.
    Answer,
    /// What a list of known good names says about the object.
    Skipped(Skip),
    /// An unknown name whose value is `false` or a day.
    Unknown,
}

impl Holds {
    /// Returns what an array or object under the key `name` holds, and whether its key says so.
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

/// Keys of arrays whose strings are entries, besides the keys that name a sender and those that
/// speak of refusal.
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
