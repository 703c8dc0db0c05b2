//! The actions of a list on a message. Everything about an action is in its row; all other code
//! depends on its [`Effect`] only.

use std::fmt;

use crate::base::named::named;

/// The effect of an action on the SMTP transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Accepts the message unchanged.
    Accept,
    /// Accepts the message, and marks it at its end.
    Mark(Mark),
    /// Accepts the message and drops it.
    Drop,
    /// Replies with a code of this class, 4 or 5; the client keeps the message.
    Refuse {
        /// The first digit of the reply code.
        class: u16,
        /// The reply template for a list that has none.
        reply: &'static str,
    },
}

/// A mark on a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The header `X-Sender-Blocklist`.
    Header,
    /// Postfix's hold queue, Sendmail's quarantine.
    Hold,
}

macro_rules! actions {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $effect:expr, warning: $warning:expr;)*) => {
        named! {
            /// What happens to a message, weakest first. Of several hits the strongest decides.
            ///
            /// An action that the sender's server notices is stronger than one that it does not notice,
            /// so that no message is lost silently which another list would have refused.
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
            pub enum Action {
                $($(#[$doc])* $variant = $name,)*
            }
        }

        impl Action {
            /// Returns its effect.
            pub const fn effect(self) -> Effect {
                match self {
                    $(Self::$variant => $effect,)*
                }
            }

            /// Returns a warning for an administrator who configures it.
            pub const fn warning(self) -> Option<&'static str> {
                match self {
                    $(Self::$variant => $warning,)*
                }
            }
        }
    };
}

actions! {
    /// Does nothing; the hit is logged and counted.
    Log = "log", Effect::Accept, warning: None;
    /// Delivers with a header `X-Sender-Blocklist`.
    Tag = "tag", Effect::Mark(Mark::Header), warning: None;
    /// Accepts, and holds the message.
    Quarantine = "quarantine", Effect::Mark(Mark::Hold), warning: None;
    /// Accepts, and drops the message.
    Discard = "discard", Effect::Drop, warning: Some(
        "loses mail without notice to anyone (RFC 5321 section 6.2); \"reject\" tells the sender"
    );
    /// Refuses temporarily.
    Tempfail = "tempfail", Effect::Refuse {
        class: 4,
        reply: "451 4.7.1 {address} is on the sender blocklist {list}, try again later (case {case})",
    }, warning: None;
    /// Refuses permanently.
    Reject = "reject", Effect::Refuse {
        class: 5,
        reply: "550 5.7.1 {address} is on the sender blocklist {list} (case {case})\n\
                If this is wrong, write to {contact}",
    }, warning: None;
}

impl Action {
    /// Returns whether the sender's server gets a refusal and keeps the message.
    pub const fn refuses(self) -> bool {
        self.reply_class().is_some()
    }

    /// Returns the class of its reply codes, 4 or 5; `None` if it does not refuse.
    pub const fn reply_class(self) -> Option<u16> {
        match self.effect() {
            Effect::Refuse { class, .. } => Some(class),
            Effect::Accept | Effect::Mark(_) | Effect::Drop => None,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
