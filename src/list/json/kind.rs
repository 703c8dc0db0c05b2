//! What the values of an object say of all that stands inside it, and of whom a type is.

use super::super::action::Action;
use super::super::flag::Flag;
use super::super::headings::Heading;
use super::super::row::Skip;

/// Why nobody inside an object is listed, where one of its values says so of all: an unknown
/// action (`"action": "report"`), a score and a type are those of the one whom the object names.
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

/// Why an address of this type is nobody's who sent something: the types of MISP attributes.
pub(super) fn kind_of_address(kind: &[u8]) -> Option<Skip> {
    let holds = |part: &[u8]| memchr::memmem::find(kind, part).is_some();
    if kind.starts_with(b"email-") && !SENDER_KINDS.contains(&kind) {
        return Some(Skip::NotSender);
    }
    if MENTION_KINDS.contains(&kind) {
        return Some(Skip::Mention);
    }
    let is_other = holds(b"dst")
        || holds(b"target-")
        || holds(b"recipient")
        || holds(b"victim")
        || holds(b"whois-")
        || holds(b"display-name");
    is_other.then_some(Skip::NotSender)
}

/// Types of addresses that send. Those of subjects, headers and attachments begin alike.
const SENDER_KINDS: &[&[u8]] = &[
    b"email-addr",
    b"email-address",
    b"email-domain",
    b"email-from",
    b"email-reply-to",
    b"email-sender",
    b"email-src",
];

/// Types of texts that may be about anybody.
const MENTION_KINDS: &[&[u8]] = &[
    b"comment",
    b"dns-soa-email",
    b"jabber-id",
    b"link",
    b"other",
    b"text",
];
