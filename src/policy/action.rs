//! What a list may do with a message. All that is known of an action is in its row; whatever else
//! depends on it follows from its [`Effect`].

use std::fmt;
use std::str::FromStr;

/// What an action does to the SMTP transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The message is accepted as it is.
    Accept,
    /// The message is accepted, and marked at its end.
    Mark(Mark),
    /// The message is accepted and dropped.
    Drop,
    /// The client gets a reply of this class, 4 or 5, and keeps the message.
    Refuse {
        /// The first digit of the reply code.
        class: u16,
        /// The template of a list that has none of its own.
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
        /// What happens to a message, weakest first: of several hits the strongest decides.
        ///
        /// An answer that the sending side gets is stronger than one it does not get, so that no message
        /// is lost in silence while another list would have refused it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Action {
            $($(#[$doc])* $variant,)*
        }

        impl Action {
            /// All, weakest first, with the names the configuration uses.
            pub const NAMES: [(&'static str, Self); [$($name),*].len()] =
                [$(($name, Self::$variant)),*];

            /// Its name in the configuration, the log and JSON.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// What it does.
            pub const fn effect(self) -> Effect {
                match self {
                    $(Self::$variant => $effect,)*
                }
            }

            /// What an admin who configures it should know.
            pub const fn warning(self) -> Option<&'static str> {
                match self {
                    $(Self::$variant => $warning,)*
                }
            }
        }
    };
}

actions! {
    /// Nothing; the hit is logged and counted.
    Log = "log", Effect::Accept, warning: None;
    /// Delivered with a header `X-Sender-Blocklist`.
    Tag = "tag", Effect::Mark(Mark::Header), warning: None;
    /// Accepted and held.
    Quarantine = "quarantine", Effect::Mark(Mark::Hold), warning: None;
    /// Accepted and dropped.
    Discard = "discard", Effect::Drop, warning: Some(
        "loses mail without notice to anyone (RFC 5321 section 6.2); \"reject\" tells the sender"
    );
    /// Refused for now.
    Tempfail = "tempfail", Effect::Refuse {
        class: 4,
        reply: "451 4.7.1 {address} is on the sender blocklist {list}, try again later (case {case})",
    }, warning: None;
    /// Refused for good.
    Reject = "reject", Effect::Refuse {
        class: 5,
        reply: "550 5.7.1 {address} is on the sender blocklist {list} (case {case})\n\
                If this is wrong, write to {contact}",
    }, warning: None;
}

impl Action {
    /// Whether the sending side gets a refusal and keeps the message.
    pub const fn refuses(self) -> bool {
        self.reply_class().is_some()
    }

    /// The class of the reply codes that go with it, 4 or 5; none if it does not refuse.
    pub const fn reply_class(self) -> Option<u16> {
        match self.effect() {
            Effect::Refuse { class, .. } => Some(class),
            Effect::Accept | Effect::Mark(_) | Effect::Drop => None,
        }
    }
}

impl FromStr for Action {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        let mut rows = Self::NAMES.iter();
        rows.find(|row| row.0 == name).map(|row| row.1).ok_or(())
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
