//! The fields of a decision in the log, named in one place for the daemon, which writes them, and for
//! the commands that read them.

/// The text of the log line of a decision; its fields follow.
pub const DECISION: &str = "message";

macro_rules! fields {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// A field of a decision in the log.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Field {
            $($(#[$doc])* $variant,)*
        }

        impl Field {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Its name in the log.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The field of this name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

fields! {
    /// What the mail server calls the message.
    QueueId = "queue_id",
    /// Address of the client.
    Client = "client",
    /// Message-ID, where there is no queue id.
    MessageId = "message_id",
    /// The recipient, if the decision is on one only.
    Recipient = "recipient",
    /// Where the listed sender stood.
    Identity = "identity",
    /// The sender as written.
    Address = "address",
    /// The entry it was found by.
    Entry = "entry",
    /// The list.
    List = "list",
    /// The text list that the entry is from.
    Source = "source",
    /// What was done.
    Action = "action",
    /// Why.
    Reason = "reason",
    /// What the list would have done.
    Unsoftened = "unsoftened",
    /// `false`: no record confirms the hit.
    Proved = "proved",
    /// Why a filter could not be read.
    Failure = "failure",
    /// The entry of the whitelist that exempted the sender.
    Whitelist = "whitelist",
    /// Further hits.
    Also = "also",
    /// Not all senders were looked up.
    Truncated = "truncated",
    /// The case id in the reply.
    Case = "case",
    /// Microseconds.
    Us = "us",
}
