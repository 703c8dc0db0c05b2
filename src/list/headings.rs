//! What columns of tables and keys of JSON objects are called.
//!
//! Collected from exports of Microsoft 365, Google Workspace, Barracuda, StopForumSpam
//! and from what people name such columns. Compared without case and without what
//! stands between words; a remark in parentheses does not count: `Policy (block, exempt)` is `policy`.

/// What a column or key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heading {
    /// Names the sender; the lowest number is the one to trust when there are several.
    Entry(usize),
    /// What happens to the sender: whatever is no refusal lists nobody.
    Action,
    /// May say what happens to the sender, but often says something else: `active`, `Sender`.
    Status,
    /// How bad the sender is.
    Score,
    /// The day it was added.
    Added,
    /// The day it ends.
    Expires,
    /// What a sender, or somebody who complains of one, may have written.
    FreeText,
}

impl Heading {
    /// What `name` is for; nothing when it is not known.
    pub(super) fn of(name: &[u8]) -> Option<Self> {
        let name = without_remark(name);
        let rank = |names: &[&str]| names.iter().position(|known| is_called(name, known));
        if let Some(rank) = rank(ENTRY) {
            return Some(Self::Entry(rank));
        }
        [
            (ACTION, Self::Action),
            (STATUS, Self::Status),
            (SCORE, Self::Score),
            (ADDED, Self::Added),
            (EXPIRES, Self::Expires),
            (FREE_TEXT, Self::FreeText),
        ]
        .into_iter()
        .find(|(names, _)| rank(names).is_some())
        .map(|(_, heading)| heading)
    }
}

/// `Policy (block, exempt)` -> `Policy`.
fn without_remark(name: &[u8]) -> &[u8] {
    let end = memchr::memchr(b'(', name).unwrap_or(name.len());
    name.get(..end).unwrap_or(name).trim_ascii()
}

/// Whether `name` is `known` but for case and what stands between words: `ExpirationDate`,
/// `expiration_date`, `Expiration date`.
fn is_called(name: &[u8], known: &str) -> bool {
    let written = name.iter().filter(|b| !is_between(**b));
    let known = known.bytes().filter(|b| !is_between(*b));
    written.map(u8::to_ascii_lowercase).eq(known)
}

fn is_between(byte: u8) -> bool {
    matches!(byte, b' ' | b'_' | b'-' | b'.' | b'/')
}

const ENTRY: &[&str] = &[
    "email",
    "mail",
    "email address",
    "mail address",
    "sender",
    "sender address",
    "sender email",
    "sender email address",
    "from",
    "from address",
    "mailfrom",
    "address",
    "address or domain",
    "email or domain",
    "email address or domain",
    "address/domain",
    "domain/address",
    "domain or address",
    "domain or email",
    "value",
    "entry",
    "pattern",
    "domain",
    "domain name",
    "sender domain",
    "hostname",
    "host",
    "indicator",
    "ban email",
    "e-mail-adresse",
    "absender",
    "absenderadresse",
    "adresse",
    "adresse e-mail",
    "courriel",
    "correo",
    "correo electr\u{f3}nico",
    "remitente",
    "indirizzo",
    "mittente",
    "afzender",
];

const ACTION: &[&str] = &[
    "action",
    "policy",
    "verdict",
    "disposition",
    "decision",
    "treatment",
    "allow/block",
    "block/allow",
    "rule action",
    "permission",
    "aktion",
    "accion",
    "acci\u{f3}n",
    "azione",
    "actie",
];

const STATUS: &[&str] = &[
    "status",
    "state",
    "list type",
    "list name",
    "address list",
    "address list name",
    "liste",
    "lista",
    "statut",
    "estado",
    "stato",
    "list",
    "listed",
    "type",
    "category",
    "class",
    "classification",
    "kind",
    "mode",
    "result",
    "rule",
];

const SCORE: &[&str] = &["score", "spam score", "points", "weight", "spamminess"];

const FREE_TEXT: &[&str] = &[
    "comment",
    "comments",
    "company",
    "description",
    "display name",
    "first name",
    "full name",
    "last name",
    "login",
    "message",
    "name",
    "nick",
    "nickname",
    "note",
    "notes",
    "reason",
    "remark",
    "remarks",
    "sender name",
    "subject",
    "text",
    "title",
    "user",
    "username",
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
    "last modified date time",
    "created date time",
    "modified",
    "updated",
    "timestamp",
    "last seen",
    "first seen",
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
    "expiration date time",
    "expiration time",
    "remove on",
    "valid until",
    "until",
    "valid to",
    "end date",
    "ban end",
];

#[cfg(test)]
mod tests {
    use super::Heading;

    #[test]
    fn headings_of_real_exports() {
        for (name, heading) in [
            ("Email Address", Some(Heading::Entry(2))),
            ("email_address", Some(Heading::Entry(2))),
            ("EmailAddress", Some(Heading::Entry(2))),
            ("E-Mail", Some(Heading::Entry(0))),
            ("Policy (block, exempt, quarantine)", Some(Heading::Action)),
            ("Last updated", Some(Heading::Added)),
            ("Remove on", Some(Heading::Expires)),
            ("ExpirationDate", Some(Heading::Expires)),
            ("UserName", Some(Heading::FreeText)),
            ("Modified by", None),
            ("", None),
        ] {
            assert_eq!(Heading::of(name.as_bytes()), heading, "{name}");
        }
    }
}
