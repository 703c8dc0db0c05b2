//! The sender fields, and a sender found in one of them.

use std::fmt;

use blocklist_filter::base::named::named;

named! {
    /// The field that names a sender; for a header, its name is that of the field.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Identity {
        /// The argument of MAIL FROM.
        MailFrom = "mail-from",
        /// `From:`
        From = "from",
        /// `Sender:`
        Sender = "sender",
        /// `Reply-To:`
        ReplyTo = "reply-to",
        /// `Return-Path:` as received. It is not trusted: it adds a sender and replaces none.
        ReturnPath = "return-path",
        /// `Resent-From:`
        ResentFrom = "resent-from",
        /// `Resent-Sender:`
        ResentSender = "resent-sender",
        /// `Resent-Reply-To:`
        ResentReplyTo = "resent-reply-to",
    }
}

impl Identity {
    /// Returns the identity of a header with this name, in upper or lower case. Blanks before the
    /// colon (`From :`, RFC 5322 section 4.5) do not matter.
    pub fn of_header(name: &[u8]) -> Option<Self> {
        let name = name.trim_ascii();
        Self::ALL
            .into_iter()
            .filter(|identity| *identity != Self::MailFrom)
            .find(|identity| name.eq_ignore_ascii_case(identity.name().as_bytes()))
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One address of a message, and where it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sender<'a> {
    /// The field.
    pub identity: Identity,
    /// The address as written; [`blocklist_filter::address`] reduces it to its canonical form. It has an `@`
    /// with text on both sides, and at most [`super::MAX_ADDRESS_BYTES`] bytes.
    pub address: &'a [u8],
    /// How certain it is that this is a sender.
    pub strength: Strength,
}

/// How certain it is that an address in a field names a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strength {
    /// It is where an address belongs.
    Strong,
    /// It is only inside quotes, a comment, a group's name or an encoded word, in a field that
    /// names no mailbox; or it is all that stands before a mailbox without a domain.
    Weak,
    /// Some mail programs show it; others show the address beside it instead.
    Doubtful,
}
