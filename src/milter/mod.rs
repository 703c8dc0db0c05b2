//! The milter protocol: what the mail server says, and what may be answered.
//!
//! Bytes in, bytes out. Nothing here opens a socket, looks at a clock, waits, or knows
//! what a blocklist is. [`Session`] takes the bytes of one connection as they come and
//! calls a [`Handler`]; what is to be sent back is appended to a buffer.
//!
//! ```text
//!  packet     u32 length N (big-endian), one letter, N - 1 bytes of payload
//!
//!  the mail server sends                                  we answer
//!  O  negotiation: version, actions, steps                O, once
//!  D  macros of the step whose letter follows             never
//!  C  client: host, family, port, address                 c        (*)
//!  H  HELO, declined                                      c, if it comes after all
//!  M  MAIL: argument, ESMTP parameters                    c        (*)
//!  R  RCPT: argument, ESMTP parameters                    a verdict
//!  T  DATA, declined                                      c, if it comes after all
//!  L  one header: name, value                             c        (*)
//!  N  end of headers                                      a verdict
//!  B  body, declined                                      c or s, if it comes after all
//!  E  end of message                                      edits, then a verdict
//!  U  SMTP command the server does not know, declined     c, if it comes after all
//!  A  abort: forget the message                           never
//!  K  another client follows on this connection           never
//!  Q  quit                                                never; we hang up
//!
//!  (*) unless we agreed with the server that no answer comes
//! ```
//!
//! Order: `O C H (M R+ T L* N B* E)* Q`. Any of `C H M` starts its phase anew, with
//! or without `A` before it; `A` may come at any time. `N` may be missing: the end of
//! the message ends the headers too. A verdict other than "continue" ends a message
//! early; the next one begins with `M`.
//!
//! A verdict may take a while (a record is read from a slow disk). The connection then
//! waits for it: no input is taken until the answer is written, so that what the server
//! sent ahead, an `A` or `Q` too, comes after it as always.
//!
//! Round trips cost more than all else here, so only three steps are answered: RCPT,
//! end of headers and end of message. What nobody needs is declined at negotiation, and
//! what is only to be seen (client, MAIL, headers) goes unanswered, if the server can do
//! that. Over TCP whoever reads the socket must then acknowledge at once what it does not
//! answer, or each message stalls 40 ms (`daemon::connection`).
//!
//! There is no RFC; the reference is libmilter's `mfdef.h` and the two clients,
//! Sendmail's `milter.c` and Postfix's `milter8.c`.
#![warn(clippy::indexing_slicing)]

mod command;
mod edit;
mod history;
mod macros;
mod negotiate;
mod packet;
mod reply;
mod session;

use std::task::{Context, Poll};

pub use command::{Client, Family};
pub use edit::{Edit, EditError};
pub use macros::{Macros, Stage};
pub use negotiate::Wanted;
pub use reply::{REPLY_LINE_BYTES_MAX, REPLY_LINES_MAX, Reply, ReplyText, ReplyTextError};
pub use session::{Progress, ProtocolError, Session, Status};

/// Decides about the messages of one connection.
///
/// The calls come in the order of SMTP, whatever the mail server sends: [`mail`] begins
/// a message, then [`rcpt`], [`header`], and once each [`end_of_headers`] and
/// [`end_of_message`]. No call follows a verdict that ended the message; [`mail`] may
/// follow anything.
///
/// The calls are plain functions: while one runs, nothing else of its thread does. They
/// must not wait. A handler that cannot answer [`rcpt`] or [`end_of_headers`] yet says
/// [`Reply::Later`], and gives the answer in [`poll_later`]: until then no other call comes.
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
    fn wanted(&self) -> Wanted;

    /// A client has connected to the mail server. With [`Client::default()`]: the
    /// client before has gone, and nothing is known of the next one yet.
    fn connect(&mut self, client: &Client<'_>, macros: &Macros);

    /// A message begins. `argument` is what the client wrote after `MAIL FROM:`, usually
    /// with its angle brackets, without the ESMTP parameters. Everything known of a
    /// message before is void now.
    fn mail(&mut self, argument: &[u8], macros: &Macros);

    /// One recipient, as the client wrote it after `RCPT TO:`. A refusal
    /// ([`Reply::Reject`], [`Reply::Tempfail`], [`Reply::Text`]) concerns this recipient
    /// alone; [`Reply::Accept`] and [`Reply::Discard`] end the whole message.
    fn rcpt(&mut self, argument: &[u8], macros: &Macros) -> Reply;

    /// One header, in the order of the message. The line breaks of a folded value are
    /// LF and the white space that followed. At most [`HEADER_BYTES_MAX`] bytes of name
    /// and value together; a longer one is cut.
    fn header(&mut self, name: &[u8], value: &[u8]);

    /// The headers are complete. Called once for every message that comes so far.
    fn end_of_headers(&mut self, macros: &Macros) -> Reply;

    /// The message is complete. The `edits` are made if the message is accepted.
    fn end_of_message(&mut self, macros: &Macros, edits: &mut Vec<Edit>) -> Reply;

    /// The message under way ends here, without a verdict.
    fn abort(&mut self);

    /// The answer to a step that got [`Reply::Later`], as soon as there is one; `Pending`
    /// wakes the task of `cx` when it is worth asking again. Never called without a
    /// [`Reply::Later`] before it; the answer itself is not [`Reply::Later`].
    fn poll_later(&mut self, _cx: &mut Context<'_>) -> Poll<Reply> {
        Poll::Ready(Reply::Tempfail)
    }
}

pub use packet::HEADER_BYTES_MAX;
