//! What the values of an object say about everything inside it, and which keys name a list.

use crate::list::meaning::action::Action;
use crate::list::meaning::flag::Flag;
use crate::list::meaning::headings::Heading;
use crate::list::meaning::phrase::Phrase;
use crate::list::meaning::status::is_phrase_of_allowance;
use crate::list::row::Skip;

/// Returns why nobody inside an object is listed, if one of its values says so about all of
/// them. An unknown action (`"action": "report"`), a score and a type are about the sender that
/// the object names.
pub(super) fn verdict_of_all(heading: Heading, value: &[u8]) -> Option<Skip> {
    match heading {
        Heading::Action => Action::in_column(value)?.skip(),
        Heading::Status | Heading::Kind | Heading::Flag(Flag::Allows) => {
            let said = heading.says(value);
            matches!(said, Ok(Some(Action::Allow))).then_some(Skip::Allow)
        }
        _ => None,
    }
}

/// Returns whether a key and its value name a list of allowed senders: `"name": "Whitelist"`.
pub(super) fn names_allowed(key: &[u8], value: &[u8]) -> bool {
    let is_name = [
        &b"name"[..],
        b"title",
        b"displayname",
        b"display_name",
        b"id",
        b"label",
        b"group",
        b"folder",
        b"key",
        b"slug",
    ]
    .iter()
    .any(|name| name.eq_ignore_ascii_case(key));
    let is_off = || {
        matches!(
            Phrase::of(value).whole(),
            Some(Action::Allow | Action::Other)
        )
    };
    is_name && (is_phrase_of_allowance(value) || is_off())
}

/// Returns whether a key inside an object that represents a value holds that value: `$date`,
/// `name`.
pub(super) fn is_value_name(key: &[u8]) -> bool {
    is_time_name(key)
        || [
            &b"action"[..],
            b"code",
            b"id",
            b"key",
            b"label",
            b"name",
            b"state",
            b"status",
            b"type",
            b"until",
            b"value",
        ]
        .iter()
        .any(|name| name.eq_ignore_ascii_case(key))
}

/// Returns whether such a key holds a time.
pub(super) fn is_time_name(key: &[u8]) -> bool {
    key.first() == Some(&b'$')
        || [
            &b"at"[..],
            b"date",
            b"datetime",
            b"iso",
            b"time",
            b"timestamp",
        ]
        .iter()
        .any(|name| name.eq_ignore_ascii_case(key))
}
