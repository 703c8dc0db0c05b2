//! What columns of tables and keys of JSON objects are called.
//!
//! Collected from exports of Microsoft 365, Google Workspace, Barracuda, StopForumSpam
//! and from what people name such columns. Compared without case; `_` and `-` stand for
//! a space; a remark in parentheses does not count: `Policy (block, exempt)` is `policy`.

/// What a column or key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heading {
    /// Names the sender; the lowest number is the one to trust when there are several.
    Entry(usize),
    /// What happens to the sender.
    Action,
    /// The day it was added.
    Added,
    /// The day it ends.
    Expires,
}

impl Heading {
    /// What `name` is for; nothing when it is not known.
    pub(super) fn of(name: &[u8]) -> Option<Self> {
        let name = without_remark(name);
        let rank = |names: &[&str]| names.iter().position(|known| is_called(name, known));
        if let Some(rank) = rank(ENTRY) {
            Some(Self::Entry(rank))
        } else if rank(ACTION).is_some() {
            Some(Self::Action)
        } else if rank(ADDED).is_some() {
            Some(Self::Added)
        } else if rank(EXPIRES).is_some() {
            Some(Self::Expires)
        } else {
            None
        }
    }
}

/// `Policy (block, exempt)` -> `Policy`.
fn without_remark(name: &[u8]) -> &[u8] {
    let end = memchr::memchr(b'(', name).unwrap_or(name.len());
    name.get(..end).unwrap_or(name).trim_ascii()
}

/// Whether `name` is `known` but for case and signs between words.
fn is_called(name: &[u8], known: &str) -> bool {
    name.len() == known.len()
        && name.iter().zip(known.bytes()).all(|(&written, known)| {
            written.eq_ignore_ascii_case(&known)
                || (known == b' ' && matches!(written, b'_' | b'-'))
        })
}

/// Addresses before anything that may be only a part of one.
const ENTRY: &[&str] = &[
    "email",
    "e-mail",
    "mail",
    "email address",
    "e-mail address",
    "emailaddress",
    "mail address",
    "sender",
    "sender address",
    "sender email",
    "sender email address",
    "from",
    "from address",
    "mailfrom",
    "mail from",
    "address",
    "address or domain",
    "email or domain",
    "email address or domain",
    "email address/domain",
    "address/domain",
    "domain/address",
    "domain or address",
    "domain or email",
    "value",
    "entry",
    "pattern",
    "domain",
    "domain name",
    "domainname",
    "sender domain",
    "hostname",
    "host",
];

const ACTION: &[&str] = &[
    "action",
    "policy",
    "verdict",
    "disposition",
    "listtype",
    "list type",
    "decision",
    "allow/block",
    "block/allow",
    "rule action",
    "permission",
];

const ADDED: &[&str] = &[
    "date",
    "added",
    "date added",
    "added on",
    "added at",
    "created",
    "created on",
    "created at",
    "creation date",
    "last updated",
    "last modified",
    "modified",
    "updated",
    "timestamp",
    "last seen",
    "lastseen",
    "first seen",
    "firstseen",
    "time",
];

const EXPIRES: &[&str] = &[
    "expires",
    "expires on",
    "expires at",
    "expiry",
    "expiry date",
    "expiration",
    "expiration date",
    "expiration time",
    "remove on",
    "valid until",
    "until",
    "valid to",
    "end date",
];

#[cfg(test)]
mod tests {
    use super::Heading;

    #[test]
    fn headings_of_real_exports() {
        for (name, heading) in [
            ("Email Address", Some(Heading::Entry(3))),
            ("email_address", Some(Heading::Entry(3))),
            ("Policy (block, exempt, quarantine)", Some(Heading::Action)),
            ("Last updated", Some(Heading::Added)),
            ("Remove on", Some(Heading::Expires)),
            ("Modified by", None),
            ("", None),
        ] {
            assert_eq!(Heading::of(name.as_bytes()), heading, "{name}");
        }
    }
}
