//! Other doors to the same engine: text protocols in which a mail server asks about one message.
//!
//! | door | asks | is asked by |
//! |---|---|---|
//! | `milter` | about a message as it arrives, see [`milter`](crate::milter) | Postfix, Sendmail |
//! | `policy` | about a recipient, or a message with its headers | Exim (`${readsocket}`), Postfix (`check_policy_service`) |
//! | `socketmap` | about an envelope sender | Postfix, Sendmail |
//! | `rspamd` | the same, by HTTP | rspamd (external map) |
//!
//! A [`Conversation`] takes the bytes of one connection, and gives the bytes to answer. A request
//! becomes the same calls of a [`Handler`] as the commands of a milter, so everything about lists,
//! replies, counters and the log is that of the milter. Nothing here opens a socket.
#![warn(clippy::indexing_slicing)]

mod policy;
mod request;
mod rspamd;
mod socketmap;
mod text;

use std::task::{Context, Poll};

use crate::endpoint::Door;
use crate::milter::{Handler, Progress, ProtocolError, Session};
use text::{Protocol, TextSession};

/// One connection of a mail server.
pub enum Conversation<H> {
    /// Of a milter.
    Milter(Box<Session<H>>),
    /// Of another door.
    Text(Box<TextSession<H>>),
}

impl<H: Handler> Conversation<H> {
    /// Begins a conversation.
    pub fn new(door: Door, handler: H) -> Self {
        let protocol = match door {
            Door::Milter => return Self::Milter(Box::new(Session::new(handler))),
            Door::Policy => Protocol {
                door,
                read: policy::read,
                write: |answer, _, out| policy::write(answer, out),
                refuse: policy::write,
            },
            Door::SocketMap => Protocol {
                door,
                read: socketmap::read,
                write: |answer, _, out| socketmap::write(answer, out),
                refuse: |_, _| {},
            },
            Door::Rspamd => Protocol {
                door,
                read: rspamd::read,
                write: rspamd::write,
                refuse: |_, out| rspamd::refuse(out),
            },
        };
        Self::Text(Box::new(TextSession::new(protocol, handler)))
    }

    /// Ends it. Returns its session for the next one, if its memory is worth that.
    pub fn renew(self) -> Option<Box<Session<H>>> {
        match self {
            Self::Milter(mut session) => session.renew().then_some(session),
            Self::Text(_) => None,
        }
    }

    /// Continues one from its [`history`](Self::history), which says the door; `None` if that is invalid.
    /// Also returns the input that was not yet processed, which comes before any other.
    pub fn resume(handler: impl FnOnce(Door) -> H, history: &[u8]) -> Option<(Self, Vec<u8>)> {
        // A milter's is empty, or begins with a version of the protocol, a small number.
        if let [] | [0, ..] = history {
            let (session, unread) = Session::resume(handler(Door::Milter), history)?;
            return Some((Self::Milter(Box::new(session)), unread));
        }
        let (name, rest) = history.split_at_checked(memchr::memchr(b' ', history)?)?;
        let door = Door::from_name(std::str::from_utf8(name).ok()?)?;
        let mut conversation = Self::new(door, handler(door));
        let Self::Text(session) = &mut conversation else {
            return None;
        };
        let unread = session.resume(rest.get(1..)?)?;
        Some((conversation, unread))
    }

    /// Returns what [`resume`](Self::resume) needs in another process, at any time. `unread` is input
    /// that was not yet processed.
    pub fn history(&self, unread: &[u8]) -> Vec<u8> {
        match self {
            Self::Milter(session) => session.history(unread),
            Self::Text(session) => session.history(unread),
        }
    }

    /// As [`Session::receive_up_to`].
    ///
    /// # Errors
    /// The peer violates the protocol; close the connection.
    pub fn receive_up_to(
        &mut self,
        most: usize,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Progress, ProtocolError> {
        match self {
            Self::Milter(session) => session.receive_up_to(most, input, out),
            Self::Text(session) => session.receive_up_to(most, input, out),
        }
    }

    /// As [`Session::poll_answer`].
    pub fn poll_answer(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<()> {
        match self {
            Self::Milter(session) => session.poll_answer(cx, out),
            Self::Text(session) => session.poll_answer(cx, out),
        }
    }

    /// As [`Session::is_waiting`].
    pub fn is_waiting(&self) -> bool {
        match self {
            Self::Milter(session) => session.is_waiting(),
            Self::Text(session) => session.is_waiting(),
        }
    }

    /// Returns whether the client wants no more than what was answered.
    pub fn has_ended(&self) -> bool {
        match self {
            Self::Milter(_) => false,
            Self::Text(session) => session.has_ended(),
        }
    }

    /// Returns whether the client has shown that it speaks the protocol.
    pub fn is_negotiated(&self) -> bool {
        match self {
            Self::Milter(session) => session.is_negotiated(),
            Self::Text(session) => session.has_answered(),
        }
    }

    /// Returns whether a command or a request has begun, and is not complete.
    pub fn is_inside_packet(&self) -> bool {
        match self {
            Self::Milter(session) => session.is_inside_packet(),
            Self::Text(session) => !session.is_idle(),
        }
    }

    /// Returns whether the client is in the middle of a message.
    pub fn is_inside_message(&self) -> bool {
        match self {
            Self::Milter(session) => session.is_inside_message(),
            Self::Text(session) => !session.is_idle(),
        }
    }

    /// The client has closed the connection.
    pub fn close(&mut self) {
        match self {
            Self::Milter(_) => {}
            Self::Text(session) => session.finish_message(),
        }
    }
}
