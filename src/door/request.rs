//! A request, whatever the door.

use std::net::IpAddr;

use crate::milter::ProtocolError;

/// Most bytes of a request: a header block of 768 KiB in base64, and the rest.
pub(super) const REQUEST_BYTES_MAX: usize = 1 << 20;
/// Most recipients of a request: a mail server takes as many in one message.
pub(super) const RECIPIENTS_MAX: usize = 1_000;

/// What a mail server asks. What it does not say is empty.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    /// The envelope sender.
    pub(super) sender: Vec<u8>,
    /// The recipients of the message that it has already accepted.
    pub(super) earlier: Vec<Vec<u8>>,
    /// Whether it has refused a recipient of the message on our answer.
    pub(super) has_refused: bool,
    /// The recipient that it asks about.
    pub(super) recipient: Option<Vec<u8>>,
    /// The SMTP client.
    pub(super) client: Option<IpAddr>,
    /// Its host name.
    pub(super) client_name: Vec<u8>,
    /// The login name, if the client is authenticated.
    pub(super) login: Vec<u8>,
    /// The queue id.
    pub(super) queue_id: Vec<u8>,
    /// The same for all requests about one message.
    pub(super) instance: Vec<u8>,
    /// The header block.
    pub(super) headers: Vec<u8>,
    /// What is asked.
    pub(super) stage: Stage,
}

/// At which step of SMTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// One at which there is nothing to decide.
    #[default]
    Other,
    /// A recipient.
    Recipient,
    /// The whole message: no more is asked about it.
    Message,
}

/// The request at the start of the input, and its length in bytes; `None` if it is not complete.
pub(super) type Found = Result<Option<(Request, usize)>, ProtocolError>;

/// A fault of a request.
pub(super) fn fault(why: &'static str) -> ProtocolError {
    ProtocolError::Request(why)
}
