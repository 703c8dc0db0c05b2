//! The actions of a list on a message.

use std::fmt;

use crate::endpoint::{Door, Extent};
use blocklist_filter::base::named::named;

named! {
    /// What happens to a message, weakest first. Of several hits the strongest decides.
    ///
    /// An action that the sender's server notices is stronger than one that it does not notice,
    /// so that no message is lost silently which another list would have refused.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Action {
        /// Does nothing; the hit is logged and counted.
        Log = "log",
        /// Delivers with a header `X-Sender-Blocklist`.
        Tag = "tag",
        /// Accepts, and holds the message: Postfix's hold queue, Sendmail's quarantine.
        Quarantine = "quarantine",
        /// Accepts, and drops the message.
        Discard = "discard",
        /// Refuses temporarily.
        Tempfail = "tempfail",
        /// Refuses permanently.
        Reject = "reject",
    }
}

impl Action {
    /// The name of what happens to a message if its action cannot be told to the mail server: nothing.
    pub const UNTOLD: &str = "none";

    /// Returns the name of what happens to a message; `accept` without an action.
    pub fn name_of(action: Option<Self>) -> &'static str {
        action.map_or("accept", Self::name)
    }

    /// Returns the names of what can happen to a message.
    pub fn of_decisions() -> impl Iterator<Item = &'static str> {
        let names = Self::NAMES.iter().map(|(name, _)| *name);
        [Self::name_of(None), Self::UNTOLD].into_iter().chain(names)
    }

    /// Returns the class of its reply codes, and its default reply; `None` if it does not refuse.
    pub const fn reply(self) -> Option<(u16, &'static str)> {
        match self {
            Self::Log | Self::Tag | Self::Quarantine | Self::Discard => None,
            Self::Tempfail => Some((
                4,
                "451 4.7.1 {address} is on the sender blocklist {list}, try again later (case {case})",
            )),
            Self::Reject => Some((
                5,
                "550 5.7.1 {address} is on the sender blocklist {list} (case {case})\n\
                 If this is wrong, write to {contact}",
            )),
        }
    }

    /// Returns whether the sender's server gets a refusal and keeps the message.
    pub const fn refuses(self) -> bool {
        self.reply().is_some()
    }

    /// Returns for whom it can be carried out at a door.
    pub const fn at(self, door: Door) -> Extent {
        match self {
            Self::Log | Self::Reject => Extent::Always,
            Self::Tempfail => door.answers().tempfail,
            Self::Tag | Self::Quarantine | Self::Discard => door.answers().changes,
        }
    }

    /// Returns a warning for an administrator who configures it.
    pub const fn warning(self) -> Option<&'static str> {
        match self {
            Self::Discard => Some(
                "loses mail without notice to anyone (RFC 5321 section 6.2); \"reject\" tells the sender",
            ),
            Self::Log | Self::Tag | Self::Quarantine | Self::Tempfail | Self::Reject => None,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
