//! The interface to the code that decides about messages.

use std::borrow::Cow;
use std::task::{Context, Poll};

use super::command::Client;
use super::edit::Edit;
use super::macros::{MacroLists, Macros};
#[cfg(doc)]
use super::packet::HEADER_BYTES_MAX;
use super::reply::Reply;
use blocklist_filter::rfc5322::{Nesting, Role, quoted};

/// A mailbox of the envelope, with what is known of its form. Each form has its own reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mailbox<T> {
    /// As the client wrote it: the text after `MAIL FROM:` or `RCPT TO:`, usually with angle brackets,
    /// without the ESMTP parameters.
    Written(T),
    /// As the mail server understood it: local part and domain, unquoted, divided by the last `@`.
    Understood(T),
    /// In one of these forms, it is unknown which. Where both are possible, both readings count.
    Either(T),
}

impl<T: AsRef<[u8]>> Mailbox<T> {
    /// Returns the same mailbox, borrowed.
    pub fn borrowed(&self) -> Mailbox<&[u8]> {
        match self {
            Self::Written(text) => Mailbox::Written(text.as_ref()),
            Self::Understood(text) => Mailbox::Understood(text.as_ref()),
            Self::Either(text) => Mailbox::Either(text.as_ref()),
        }
    }
}

impl<'a> Mailbox<&'a [u8]> {
    /// Returns what a client may have written, if it is in that form.
    pub fn as_written(self) -> Option<&'a [u8]> {
        match self {
            Self::Written(text) => Some(text),
            Self::Understood(_) => None,
            Self::Either(text) => may_be_written(text).then_some(text),
        }
    }

    /// Returns it as a client writes it, with the quotes that it needs.
    pub fn written(self) -> Cow<'a, [u8]> {
        match self {
            Self::Written(text) | Self::Either(text) => text.into(),
            Self::Understood(text) => quoted(text),
        }
    }
}

/// Whether a text may be as written: in brackets, or with quotes or backslashes that leave an `@` outside.
/// Without these, it is the same in both forms, or certainly unquoted.
fn may_be_written(text: &[u8]) -> bool {
    let mut nesting = Nesting::with_escapes_outside().without_comments();
    let (mut has_marks, mut is_divided) = (text.starts_with(b"<") && text.ends_with(b">"), false);
    for &byte in text {
        match nesting.step(byte) {
            Role::Delimiter => has_marks = true,
            Role::Outside => is_divided |= byte == b'@',
            Role::Escaped | Role::Quoted | Role::Comment => {}
        }
    }
    has_marks && is_divided && nesting.is_outside()
}

/// Decides about the messages of one connection.
///
/// The calls come in the order of SMTP, even if the mail server sends something else: `mail`
/// begins a message, then `rcpt`, `header`, and once each `end_of_headers` and `end_of_message`.
/// After a verdict that ends the message, the next call is not for that message; `mail` may follow
/// any call.
///
/// While a call runs, its thread does nothing else, so it must not block. A handler that cannot
/// answer `rcpt` or `end_of_headers` yet returns [`Reply::Later`], and gives the answer in
/// `poll_later`; no other call comes before that.
pub trait Handler {
    /// Returns the macros to request. The handler sees no others. A server that is too old for
    /// requests sends those that it is configured to send.
    fn macros(&self) -> MacroLists {
        &[]
    }

    /// A client has connected to the mail server. [`Client::default()`] means that the previous
    /// client has disconnected, and the next one is still unknown.
    fn connect(&mut self, _client: &Client<'_>, _macros: &Macros) {}

    /// A message begins. Discard everything about an earlier message.
    fn mail(&mut self, _sender: Mailbox<&[u8]>, _macros: &Macros) {}

    /// One recipient. A refusal ([`Reply::Reject`], [`Reply::Tempfail`], [`Reply::Text`]) concerns
    /// this recipient only; [`Reply::Accept`] and [`Reply::Discard`] end the whole message.
    fn rcpt(&mut self, recipient: Mailbox<&[u8]>, macros: &Macros) -> Reply;

    /// A recipient that the mail server has accepted, whatever was said about it.
    fn accepted(&mut self, _recipient: Mailbox<&[u8]>) {}

    /// Returns what is kept of a recipient for another process that continues the message; its
    /// [`rcpt`](Handler::rcpt) gets this in place of the argument.
    fn recipient_to_keep<'a>(&self, argument: &'a [u8]) -> Cow<'a, [u8]> {
        argument.into()
    }

    /// Called in place of [`rcpt`](Handler::rcpt) if another process would not get this recipient,
    /// because there are too many. [`Reply::Continue`] accepts that, and `rcpt` follows.
    fn too_many_recipients(&mut self) -> Reply {
        Reply::Tempfail
    }

    /// One header, in the order of the message. The line breaks of a folded value are LF and the
    /// original white space. Name and value have at most [`HEADER_BYTES_MAX`] bytes together;
    /// longer ones are cut. Returns whether another process that continues the message must get it.
    fn header(&mut self, _name: &[u8], _value: &[u8]) -> bool {
        false
    }

    /// The message continues that of another process, which could not keep all of it: recipients or
    /// headers are missing.
    fn mark_incomplete(&mut self) {}

    /// Some headers with this name may be missing, or parts of them.
    fn mark_cut(&mut self, _name: &[u8]) {}

    /// Returns the answer to a question of another door that is not understood.
    fn not_understood(&self) -> Reply {
        Reply::Tempfail
    }

    /// A recipient was refused before, over another connection, and the message was counted with it.
    fn mark_counted(&mut self) {}

    /// The mail server asks no more about the message: it does not hear the verdict that follows.
    fn mark_unheard(&mut self) {}

    /// Returns whether a recipient was refused, and the message was counted with it.
    fn is_counted(&self) -> bool {
        false
    }

    /// The headers are complete. Called once for every message that gets to this point.
    fn end_of_headers(&mut self, macros: &Macros) -> Reply;

    /// The message is complete. The `edits` are applied if the message is accepted.
    fn end_of_message(&mut self, macros: &Macros, edits: &mut Vec<Edit>) -> Reply;

    /// The current message ends here, without a verdict.
    fn abort(&mut self) {}

    /// Returns the answer to a step that got [`Reply::Later`], which must be another. `Pending` wakes
    /// the task of `cx` when it should ask again; it is also asked now and then without that, so
    /// that a handler without a timer notices that it has waited too long.
    fn poll_later(&mut self, _cx: &mut Context<'_>) -> Poll<Reply> {
        Poll::Ready(Reply::Tempfail)
    }
}
