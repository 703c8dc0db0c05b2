//! The fields of a decision in the log. They are named here only, for the daemon that writes them
//! and for the commands that read them.

use crate::base::named::named;

/// The text of the log line of a decision; its fields follow.
pub const DECISION: &str = "message";

named! {
    /// A field of a decision in the log.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Field {
        /// The number of messages that the line counts, if not one: 0 for what becomes of a further
        /// recipient, or of the message after a refused recipient; more in the hourly line of
        /// `accepted = false`.
        Messages = "messages",
        /// The queue id of the message at the mail server.
        QueueId = "queue_id",
        /// Address of the client.
        Client = "client",
        /// The Message-ID, if there is no queue id.
        MessageId = "message_id",
        /// The recipient, if the decision is about one only.
        Recipient = "recipient",
        /// The field with the listed sender.
        Identity = "identity",
        /// The sender as written.
        Address = "address",
        /// The entry that lists it.
        Entry = "entry",
        /// The list.
        List = "list",
        /// The text list that the entry is from.
        Source = "source",
        /// The action.
        Action = "action",
        /// The reason.
        Reason = "reason",
        /// The action that the list would have taken.
        Unsoftened = "unsoftened",
        /// `false` if no record confirms the hit.
        Proved = "proved",
        /// Why a filter could not be read.
        Failure = "failure",
        /// The entry of the whitelist that exempted the sender.
        Whitelist = "whitelist",
        /// Further hits.
        Also = "also",
        /// Whether not all senders were looked up.
        Truncated = "truncated",
        /// The case id in the reply.
        Case = "case",
        /// Time for the message, in microseconds.
        Us = "us",
    }
}
