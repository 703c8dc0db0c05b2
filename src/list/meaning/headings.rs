//! Names of table columns and of keys of JSON objects.
//!
//! Collected from exports of Microsoft 365, Google Workspace, Barracuda and StopForumSpam, and from
//! names that people give to such columns. Case and the separators between words are ignored, and
//! so is a remark in parentheses: `Policy (block, exempt)` is `policy`.

use super::column_name::Name;
use super::flag::Flag;

/// What a column or key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heading {
    /// Names the sender. If there are several, trust the one with the lowest number.
    Entry(usize),
    /// What happens to the sender; anything but a refusal lists nobody.
    Action,
    /// Whether the entry is active: `active`, `cleared`.
    Status,
    /// May say what happens to the sender, but often says something else, such as `Sender`.
    Kind,
    /// How bad the sender is.
    Score,
    /// How likely it is that the sender is bad.
    Probability,
    /// White or black, as in the tables of amavis.
    WhiteOrBlack,
    /// Its values are yes or no.
    Flag(Flag),
    /// The day it was added.
    Added,
    /// Another day, which ends nothing.
    Dated,
    /// The day it ends.
    Expires,
    /// The day it ends, or whether it has ended.
    Expired,
    /// A local part or a user: that of the address if the sender's column has only a domain.
    LocalPart,
    /// What the author of the list noted.
    Remark,
    /// Text that a sender, or somebody who complains about one, may have written.
    FreeText,
    /// Somebody else: who reported it, a contact, a recipient.
    Mention,
    /// A recipient, or the day it ends: `to`.
    To,
}

impl Heading {
    /// Returns the meaning of a name that is known as a whole.
    pub(crate) fn listed(name: &Name) -> Option<Self> {
        let rank = |names: &[&str]| names.iter().position(|known| name.is(known));
        if let Some(rank) = rank(ENTRY) {
            return Some(Self::Entry(rank));
        }
        [
            (ACTION, Self::Action),
            (STATUS, Self::Status),
            (KIND, Self::Kind),
            (SCORE, Self::Score),
            (WHITE_OR_BLACK, Self::WhiteOrBlack),
            (ADDED, Self::Added),
            (EXPIRES, Self::Expires),
            (LOCAL_PART, Self::LocalPart),
            (REMARK, Self::Remark),
            (FREE_TEXT, Self::FreeText),
            (&["to"], Self::To),
        ]
        .into_iter()
        .find(|(names, _)| rank(names).is_some())
        .map(|(_, heading)| heading)
    }
}

/// What the name of a column says about the sender in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// It is blocked: `blocked sender`. The values may also be yes and no.
    Blocked,
    /// It sent something: `from`.
    Sender,
    /// It is an entry of some kind: `email`.
    Entry,
    /// It is a server, perhaps of the sender.
    Host,
}

impl Place {
    /// Returns the place of a name with this rank.
    pub(crate) fn of(rank: usize) -> Self {
        if is_sender(rank) {
            Self::Sender
        } else if is_host(rank) {
            Self::Host
        } else {
            Self::Entry
        }
    }
}

/// The rank of a name composed of words for senders.
pub(super) const SENDER_BY_WORDS: usize = usize::MAX;

/// The rank of a name composed of words for entries.
pub(super) const ENTRY_BY_WORDS: usize = usize::MAX - 1;

/// Returns whether a column of this rank names somebody who sent something.
fn is_sender(rank: usize) -> bool {
    let is_known =
        |name: &&str| name.split(' ').any(|word| SENDING.contains(&word)) || SENDING.contains(name);
    rank == SENDER_BY_WORDS || ENTRY.get(rank).is_some_and(is_known)
}

/// Returns whether a column of this rank names a server.
fn is_host(rank: usize) -> bool {
    ENTRY
        .get(rank)
        .is_some_and(|name| matches!(*name, "host" | "hostname"))
}

/// Words in names of columns that hold somebody who sent something.
pub(super) const SENDING: &[&str] = &[
    "absender",
    "absenderadresse",
    "afzender",
    "avsandare",
    "ban email",
    "expediteur",
    "from",
    "mailfrom",
    "mittente",
    "nadawca",
    "remetente",
    "remitente",
    "reply to",
    "return path",
    "sender",
    "senders",
    "spammer",
    "spammers",
    "отправитель",
];

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
    "envelope from",
    "envelope sender",
    "smtp from",
    "return path",
    "reply to",
    "spammer",
    "ioc",
    "observable",
    "addr",
    "emails",
    "e-mail-adresse",
    "absender",
    "absenderadresse",
    "adresse",
    "adresse e-mail",
    "courriel",
    "correo",
    "correo electronico",
    "remitente",
    "indirizzo",
    "mittente",
    "afzender",
    "expediteur",
    "avsandare",
    "remetente",
    "nadawca",
    "отправитель",
];

const ACTION: &[&str] = &[
    "action",
    "policy",
    "verdict",
    "disposition",
    "decision",
    "treatment",
    "handling",
    "disposal",
    "allow/block",
    "block/allow",
    "rule action",
    "permission",
    "aktion",
    "accion",
    "acao",
    "akcja",
    "atgard",
    "handling",
    "massnahme",
    "действие",
    "操作",
    "処理",
    "azione",
    "actie",
];

const STATUS: &[&str] = &[
    "status",
    "state",
    "statut",
    "estado",
    "stato",
    "zustand",
    "op",
    "operation",
];

const KIND: &[&str] = &[
    "list type",
    "list name",
    "address list",
    "address list name",
    "liste",
    "lista",
    "list",
    "type",
    "category",
    "change",
    "class",
    "classification",
    "kind",
    "mode",
    "result",
    "role",
    "direction",
    "field",
    "rule",
];

const SCORE: &[&str] = &[
    "score",
    "spam score",
    "points",
    "weight",
    "spamminess",
    "confidence",
    "confidence level",
];

const WHITE_OR_BLACK: &[&str] = &[
    "wb",
    "wblist",
    "bw",
    "bwlist",
    "white black",
    "white or black",
];

const LOCAL_PART: &[&str] = &["local", "local part", "localpart", "user", "username"];

const REMARK: &[&str] = &[
    "comment", "comments", "note", "notes", "reason", "remark", "remarks",
];

const FREE_TEXT: &[&str] = &[
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
    "sender name",
    "subject",
    "text",
    "title",
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
    "listed at",
    "listed on",
    "listed since",
    "valid from",
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
    use super::{Flag, Heading};

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
            ("UserName", Some(Heading::LocalPart)),
            ("Modified by", Some(Heading::Mention)),
            ("Sender (From)", Some(Heading::Entry(4))),
            ("Return-Path", Some(Heading::Entry(32))),
            ("spam_email", Some(Heading::Flag(Flag::Bad))),
            ("from_addr", Some(Heading::Entry(usize::MAX))),
            ("blocked_until", Some(Heading::Expires)),
            ("valid_through", Some(Heading::Expires)),
            ("G\u{fc}ltig bis", Some(Heading::Expires)),
            ("expire_at", Some(Heading::Expires)),
            ("end_time", Some(Heading::Expires)),
            ("unban date", Some(Heading::Expires)),
            ("expired", Some(Heading::Expired)),
            ("risk_score", Some(Heading::Score)),
            ("reputation score", None),
            ("email status", Some(Heading::Status)),
            ("reporter_email", Some(Heading::Mention)),
            ("recipient", Some(Heading::Mention)),
            ("To", Some(Heading::To)),
            ("published_at", Some(Heading::Dated)),
            ("never expires", None),
            ("weekend", None),
            ("", None),
        ] {
            assert_eq!(Heading::of(name.as_bytes()), heading, "{name}");
        }
    }
}
