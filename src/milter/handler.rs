//! What decides about messages, as the protocol sees it.

use std::task::{Context, Poll};

use super::command::Client;
use super::edit::Edit;
use super::macros::Macros;
use super::negotiate::Wanted;
#[cfg(doc)]
use super::packet::HEADER_BYTES_MAX;
use super::reply::Reply;

/// Decides about the messages of one connection.
///
/// The calls come in the order of SMTP, whatever the mail server sends: [`mail`] begins
/// a message, then [`rcpt`], [`header`], and once each [`end_of_headers`] and
/// [`end_of_message`]. No call follows a verdict that ended the message; [`mail`] may
/// follow anything.
///
/// The calls are plain functions: while one runs, nothing else of its thread does. They
/// must not wait. Those without a reply do nothing by default. A handler that cannot answer
/// [`rcpt`] or [`end_of_headers`] yet says [`Reply::Later`], and gives the answer in
/// [`poll_later`]: until then no other call comes.
///
/// [`mail`]: Handler::mail
/// [`rcpt`]: Handler::rcpt
/// [`header`]: Handler::header
/// [`end_of_headers`]: Handler::end_of_headers
/// [`end_of_message`]: Handler::end_of_message
/// [`poll_later`]: Handler::poll_later
pub trait Handler {
    /// What this handler needs to see and may want to change. Asked once, when the mail
    /// server opens the negotiation.
    fn wanted(&self) -> Wanted {
        Wanted::default()
    }

    /// A client has connected to the mail server. With [`Client::default()`]: the
    /// client before has gone, and nothing is known of the next one yet.
    fn connect(&mut self, _client: &Client<'_>, _macros: &Macros) {}

    /// A message begins. `argument` is what the client wrote after `MAIL FROM:`, usually
    /// with its angle brackets, without the ESMTP parameters. Everything known of a
    /// message before is void now.
    fn mail(&mut self, _argument: &[u8], _macros: &Macros) {}

    /// One recipient, as the client wrote it after `RCPT TO:`. A refusal
    /// ([`Reply::Reject`], [`Reply::Tempfail`], [`Reply::Text`]) concerns this recipient
    /// alone; [`Reply::Accept`] and [`Reply::Discard`] end the whole message.
    fn rcpt(&mut self, argument: &[u8], macros: &Macros) -> Reply;

    /// One header, in the order of the message. The line breaks of a folded value are
    /// LF and the white space that followed. At most [`HEADER_BYTES_MAX`] bytes of name
    /// and value together; a longer one is cut.
    fn header(&mut self, _name: &[u8], _value: &[u8]) {}

    /// The headers are complete. Called once for every message that comes so far.
    fn end_of_headers(&mut self, macros: &Macros) -> Reply;

    /// The message is complete. The `edits` are made if the message is accepted.
    fn end_of_message(&mut self, macros: &Macros, edits: &mut Vec<Edit>) -> Reply;

    /// The message under way ends here, without a verdict.
    fn abort(&mut self) {}

    /// The answer to a step that got [`Reply::Later`], as soon as there is one; `Pending`
    /// wakes the task of `cx` when it is worth asking again. Never called without a
    /// [`Reply::Later`] before it; the answer itself is not [`Reply::Later`].
    fn poll_later(&mut self, _cx: &mut Context<'_>) -> Poll<Reply> {
        Poll::Ready(Reply::Tempfail)
    }
}
