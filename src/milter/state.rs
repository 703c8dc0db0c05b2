//! The state of a connection: which command may come when, and what is answered.
//!
//! ```text
//!            O            M, and anything of a message          E, or a verdict
//!  Opening ----> Between ------------------------------> Message -------+
//!                  ^  ^                                   |  |          |
//!                  |  +---------- A, C, H, K ------------+   | verdict  |
//!                  |                                         v before E |
//!                  +------------- E, A, C, H, K, M ------- Decided      |
//!                  +----------------------------------------------------+
//! ```
//! (the codes of [`Command`])
//!
//! Invariants: each awaited command has exactly one answer, in order; no other command
//! has any; a message leaves nothing behind for the next, on whatever way it ends. What
//! is awaited follows from the negotiation alone ([`Agreed::is_awaited`]).
//!
//! Once decided, a mail server sends nothing more of the message. Should one ask all the
//! same, it gets the same verdict again and need not wait for ever; what it sends
//! without asking is skipped.

use std::task::{Context, Poll, ready};

use super::command::{Client, header, string};
use super::edit::EditError;
use super::error::ProtocolError;
use super::handler::Handler;
use super::history::History;
use super::macros::{MACRO_BYTES_MAX, Macros};
use super::negotiate::{Agreed, Wanted};
use super::packet::{HEADER_BYTES_MAX, Packet, write_packet};
use super::protocol::{Command, SMFIR_SKIP};
use super::reply::Reply;

/// Bytes of a negotiation that are read: the three numbers. A later version may add to
/// them. Of this packet and of all others the rest is skipped.
const OFFER_BYTES_MAX: usize = 12;
/// Of CONNECT: a host name has 255, a unix path 108.
const CONNECT_BYTES_MAX: usize = 4 << 10;
/// Of MAIL and RCPT. SMTP allows 512 with all parameters, servers some 2,000, and Postfix
/// whatever `line_length_limit` says.
const ENVELOPE_BYTES_MAX: usize = 64 << 10;

/// Whether the connection stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// More may come.
    Open,
    /// The mail server is done: close, once the output is written.
    Quit,
    /// An answer is not known yet: poll it ([`Session::poll_answer`](super::Session::poll_answer)). No input is taken
    /// until then.
    Waiting,
}

/// Where in the protocol we are.
#[derive(Debug)]
enum Phase {
    /// Nothing is negotiated yet.
    Opening,
    /// No message is under way.
    Between,
    /// A message is under way.
    Message { headers_ended: bool },
    /// This message was decided before its end.
    Decided(Reply),
}

impl Phase {
    fn is_inside_headers(&self) -> bool {
        matches!(
            self,
            Self::Message {
                headers_ended: false
            }
        )
    }
}

/// A handler, and how far its connection has come.
#[derive(Debug)]
pub(super) struct State<H> {
    handler: H,
    wanted: Wanted,
    agreed: Agreed,
    phase: Phase,
    macros: Macros,
    history: History,
    /// The command whose answer is not known yet.
    waiting: Option<Command>,
    /// What comes is a history: the mail server has its answers.
    replays: bool,
}

impl<H: Handler> State<H> {
    pub(super) fn new(handler: H) -> Self {
        Self {
            handler,
            wanted: Wanted::default(),
            agreed: Agreed::default(),
            phase: Phase::Opening,
            macros: Macros::default(),
            history: History::default(),
            waiting: None,
            replays: false,
        }
    }

    /// Takes over what was agreed in an earlier session, and gives the packets of its history, which
    /// are to follow. Not negotiated again: the mail server keeps to what it was answered.
    pub(super) fn resume<'h>(&mut self, history: &'h [u8]) -> Option<&'h [u8]> {
        let (agreed, packets) = Agreed::of_numbers(history)?;
        self.wanted = self.handler.wanted();
        self.agreed = agreed;
        self.macros.keep(self.wanted.macros);
        self.phase = Phase::Between;
        self.replays = true;
        Some(packets)
    }

    /// The history has come to its end: from now on the mail server speaks.
    pub(super) fn end_replay(&mut self) {
        self.replays = false;
    }

    /// What [`resume`](Self::resume) takes; `None` within a message whose headers have begun.
    pub(super) fn history(&self) -> Option<Vec<u8>> {
        if !self.is_negotiated() {
            return Some(Vec::new());
        }
        let packets = self.history.packets()?;
        let mut history: Vec<u8> = self.agreed.numbers().collect();
        history.extend_from_slice(packets);
        Some(history)
    }

    pub(super) fn handler(&self) -> &H {
        &self.handler
    }

    pub(super) fn is_negotiated(&self) -> bool {
        !matches!(self.phase, Phase::Opening)
    }

    pub(super) fn is_inside_message(&self) -> bool {
        matches!(self.phase, Phase::Message { .. })
    }

    /// How much of a packet's payload is wanted, now.
    pub(super) fn keep(&self, command: Command) -> usize {
        if command == Command::Header && !self.phase.is_inside_headers() {
            return 0;
        }
        self.keep_at_most(command)
    }

    /// How much of it is ever wanted.
    pub(super) fn keep_at_most(&self, command: Command) -> usize {
        match command {
            Command::Negotiate => OFFER_BYTES_MAX,
            Command::Connect => CONNECT_BYTES_MAX,
            Command::Mail | Command::Rcpt => ENVELOPE_BYTES_MAX,
            Command::Macro => MACRO_BYTES_MAX,
            Command::Header if self.wanted.headers => HEADER_BYTES_MAX,
            Command::Header
            | Command::Abort
            | Command::Body
            | Command::Data
            | Command::EndOfHeaders
            | Command::EndOfMessage
            | Command::Helo
            | Command::Quit
            | Command::QuitNewConnection
            | Command::Unknown => 0,
        }
    }

    pub(super) fn status(&self) -> Status {
        match self.waiting {
            Some(_) => Status::Waiting,
            None => Status::Open,
        }
    }

    /// Acts on one command.
    pub(super) fn command(
        &mut self,
        packet: &Packet<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Status, ProtocolError> {
        let &Packet { command, payload } = packet;
        tracing::trace!(command = command.name(), bytes = payload.len());
        if !self.is_negotiated() && !matches!(command, Command::Negotiate | Command::Quit) {
            return Err(ProtocolError::NotNegotiated(command));
        }
        match command {
            Command::Quit => {
                self.end_message();
                return Ok(Status::Quit);
            }
            Command::Negotiate => self.negotiate(payload, out)?,
            Command::Macro => {
                self.macros.read(payload);
                self.history.macros(payload);
            }
            Command::Abort => self.end_message(),
            Command::QuitNewConnection => {
                self.end_message();
                self.macros.end_client();
                self.history.end_client();
                self.handler.connect(&Client::default(), &self.macros);
            }
            Command::Connect => {
                self.abort();
                self.macros.begin_client();
                self.history.connect(payload);
                self.handler.connect(&Client::read(payload), &self.macros);
                self.answer(command, &Reply::Continue, out);
            }
            Command::Helo => {
                self.abort();
                self.history.end_message();
                self.answer(command, &Reply::Continue, out);
            }
            Command::Mail => {
                self.abort();
                self.mail(payload)?;
                self.answer(command, &Reply::Continue, out);
            }
            Command::Unknown => self.answer(command, &Reply::Continue, out),
            Command::Rcpt => self.in_message(command, out, |state, _| state.rcpt(payload))?,
            Command::Header => self.in_message(command, out, |state, headers_ended| {
                state.header(payload, headers_ended);
                Ok(Reply::Continue)
            })?,
            Command::Data => self.in_message(command, out, |_, _| Ok(Reply::Continue))?,
            Command::EndOfHeaders | Command::Body | Command::EndOfMessage => {
                self.in_message(command, out, |state, headers_ended| {
                    Ok(if headers_ended {
                        Reply::Continue
                    } else {
                        state.end_of_headers()
                    })
                })?;
            }
        }
        Ok(self.status())
    }

    fn negotiate(&mut self, offer: &[u8], out: &mut Vec<u8>) -> Result<(), ProtocolError> {
        if self.is_negotiated() {
            return Err(ProtocolError::NegotiatedTwice);
        }
        self.wanted = self.handler.wanted();
        self.agreed = Agreed::on(offer, &self.wanted).ok_or(ProtocolError::Offer)?;
        self.macros.keep(self.wanted.macros);
        self.phase = Phase::Between;
        tracing::debug!(
            version = self.agreed.version,
            actions = format_args!("{:#x}", self.agreed.actions),
            steps = format_args!("{:#x}", self.agreed.steps),
            "negotiated"
        );
        let mut payload = Vec::new();
        self.agreed.write(self.wanted.macros, &mut payload);
        write_packet(out, Command::Negotiate.code(), &[&payload]);
        Ok(())
    }

    fn mail(&mut self, payload: &[u8]) -> Result<(), ProtocolError> {
        if payload.is_empty() {
            return Err(ProtocolError::NoArgument(Command::Mail));
        }
        self.macros.begin_message();
        self.phase = Phase::Message {
            headers_ended: false,
        };
        let argument = string(payload).0;
        self.history.mail(argument);
        self.handler.mail(argument, &self.macros);
        Ok(())
    }

    /// A command that is part of a message; `act` gets whether its headers have ended.
    fn in_message(
        &mut self,
        command: Command,
        out: &mut Vec<u8>,
        act: impl FnOnce(&mut Self, bool) -> Result<Reply, ProtocolError>,
    ) -> Result<(), ProtocolError> {
        match &self.phase {
            Phase::Opening | Phase::Between => Err(ProtocolError::OutsideMessage(command)),
            Phase::Decided(verdict) => {
                self.answer(command, verdict, out);
                if command == Command::EndOfMessage {
                    self.history.end_message();
                    self.phase = Phase::Between;
                }
                Ok(())
            }
            &Phase::Message { headers_ended } => {
                let reply = act(self, headers_ended)?;
                self.conclude(command, reply, out);
                Ok(())
            }
        }
    }

    fn rcpt(&mut self, payload: &[u8]) -> Result<Reply, ProtocolError> {
        if payload.is_empty() {
            return Err(ProtocolError::NoArgument(Command::Rcpt));
        }
        let argument = string(payload).0;
        self.macros.begin_recipient();
        self.history.rcpt(argument);
        Ok(self.handler.rcpt(argument, &self.macros))
    }

    fn header(&mut self, payload: &[u8], headers_ended: bool) {
        self.history.begin_headers();
        if self.wanted.headers && !headers_ended {
            let (name, value) = header(payload);
            self.handler.header(name, value);
        }
    }

    fn end_of_headers(&mut self) -> Reply {
        self.phase = Phase::Message {
            headers_ended: true,
        };
        self.history.begin_headers();
        self.handler.end_of_headers(&self.macros)
    }

    /// Appends the answer that was not known yet, as soon as it is.
    pub(super) fn poll_answer(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<()> {
        if let Some(command) = self.waiting {
            let reply = ready!(self.handler.poll_later(cx));
            self.waiting = None;
            self.conclude(command, reply, out);
        }
        Poll::Ready(())
    }

    /// What follows from the handler's answer to a command of a message.
    fn conclude(&mut self, command: Command, reply: Reply, out: &mut Vec<u8>) {
        match (command, &reply) {
            (_, Reply::Later) => {
                self.waiting = Some(command);
                return;
            }
            (Command::EndOfMessage, Reply::Continue) => return self.end_of_message(out),
            (Command::Body, Reply::Continue) if self.agreed.skips() => {
                return write_packet(out, SMFIR_SKIP, &[]);
            }
            _ => {}
        }
        self.answer(command, &reply, out);
        if command == Command::Rcpt {
            self.history.end_rcpt(matches!(reply, Reply::Continue));
        }
        let ends = match &reply {
            Reply::Continue | Reply::Later => false,
            Reply::Accept | Reply::Discard => true,
            Reply::Reject | Reply::Tempfail | Reply::Text(_) => {
                command != Command::Rcpt || self.replays
            }
        };
        let refuses = !matches!(reply, Reply::Accept | Reply::Discard);
        if ends && self.replays {
            // The mail server knows that this recipient is accepted, and goes on. It gets the new
            // verdict at its next command; nobody can take over before the end of the message.
            self.history.begin_headers();
            self.phase = Phase::Decided(if refuses { Reply::Tempfail } else { reply });
        } else if ends {
            self.history.end_message();
            self.phase = if command == Command::EndOfMessage {
                Phase::Between
            } else {
                Phase::Decided(reply)
            };
        }
    }

    /// The message is complete, and nothing has decided it yet.
    fn end_of_message(&mut self, out: &mut Vec<u8>) {
        let mut edits = Vec::new();
        let reply = self.handler.end_of_message(&self.macros, &mut edits);
        if matches!(reply, Reply::Continue | Reply::Accept) {
            for edit in &edits {
                let written = if self.agreed.allows(edit.action()) {
                    edit.write(out)
                } else {
                    Err(EditError::NotAgreed)
                };
                if let Err(error) = written {
                    tracing::warn!(?edit, %error, "a change to the message was skipped");
                }
            }
        }
        self.answer(Command::EndOfMessage, &reply, out);
        self.history.end_message();
        self.phase = Phase::Between;
    }

    /// Answers a command, if an answer is awaited.
    fn answer(&self, command: Command, reply: &Reply, out: &mut Vec<u8>) {
        if self.agreed.is_awaited(command) {
            reply.write(out);
        }
    }

    /// Forgets the message under way, and the macros that came for it.
    fn end_message(&mut self) {
        self.abort();
        self.macros.end_message();
        self.history.end_message();
    }

    /// Forgets the message under way, but not the macros: those of the command that ends
    /// it have come already.
    fn abort(&mut self) {
        match self.phase {
            Phase::Opening | Phase::Between => {}
            Phase::Message { .. } => {
                self.handler.abort();
                self.phase = Phase::Between;
            }
            Phase::Decided(_) => self.phase = Phase::Between,
        }
    }
}
