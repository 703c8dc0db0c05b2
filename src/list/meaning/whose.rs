//! Whose address it is, according to a word beside it: a recipient's, a reporter's, a contact's.
//!
//! ```text
//!   Type,Address                      {"email": "me@us.example", "role": "reporter"}
//!   Recipient,me@us.example
//! ```

use super::column_name::Name;
use super::phrase_words::Word;
use crate::list::row::Skip;

/// Returns why an address of this type is not a sender's. Knows the words that people use, and
/// the types of MISP attributes.
pub(crate) fn whose(kind: &[u8]) -> Option<Skip> {
    // A variable: `$rcpt`
    let kind = kind.strip_prefix(b"$").unwrap_or(kind);
    let is_word = kind
        .first()
        .is_some_and(|b| b.is_ascii_alphabetic() || *b >= 0x80);
    if !is_word || kind.contains(&b'@') {
        return None;
    }
    kind_of_address(kind).or_else(|| by_words(kind))
}

fn by_words(kind: &[u8]) -> Option<Skip> {
    let name = Name::of(kind)?;
    let mut found = None;
    for word in name.words() {
        if RECIPIENTS.contains(&word) {
            found = Some(Skip::NotSender);
        } else if OTHERS.contains(&word) {
            found = found.or(Some(Skip::Mention));
        } else if Word::of(word).0 != Word::Filling {
            return None;
        }
    }
    found
}

const RECIPIENTS: &[&str] = &[
    "addressee",
    "ausgehend",
    "bcc",
    "cc",
    "destinataire",
    "destinatar",
    "destinatario",
    "empfanger",
    "modtager",
    "mottagare",
    "mottaker",
    "odbiorca",
    "ontvanger",
    "outbound",
    "outgoing",
    "rcpt",
    "receiver",
    "receivers",
    "recipient",
    "recipients",
    "to",
    "victim",
    "victims",
    "opfer",
    "victime",
    "victima",
    "получатель",
    "受信者",
    "收件人",
];

/// Words for somebody else.
const OTHERS: &[&str] = &[
    "admin",
    "administrator",
    "admins",
    "analyst",
    "author",
    "complainant",
    "contact",
    "contacts",
    "creator",
    "customer",
    "customers",
    "kontakt",
    "kunde",
    "kunden",
    "maintainer",
    "melder",
    "moderator",
    "operator",
    "owner",
    "owners",
    "registrant",
    "registrar",
    "reporter",
    "reporters",
    "requester",
    "submitter",
];

/// Returns why an address of this type is not a sender's: the types of MISP attributes.
fn kind_of_address(kind: &[u8]) -> Option<Skip> {
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

/// Types of addresses that send. The types of subjects, headers and attachments begin alike.
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
