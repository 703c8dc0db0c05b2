//! The state of a connection: which command may come when, and its answer.
//!
//! ```text
//!            O            M, and any command of a message       E, or a verdict
//!  Opening ----> Between ------------------------------> Message -------+
//!                  ^  ^                                   |  |          |
//!                  |  +---------- A, C, H, K ------------+   | verdict  |
//!                  |                                         v before E |
//!                  +------------- E, A, C, H, K, M ------- Decided      |
//!                  +----------------------------------------------------+
//! ```
//! (the codes of [`Command`]; `Message` is `Headers`, then `Body`)
//!
//! Invariants: each awaited command ([`Agreed::is_awaited`]) gets exactly one answer, in order; no
//! other command gets any. No state of a message remains for the next one, however it ends.
//!
//! After a verdict, a mail server sends nothing more of the message. If one asks anyway, it gets
//! the same verdict again, so that it does not wait forever; packets that need no answer are
//! skipped.

use std::task::{Context, Poll, ready};

use super::command::{Client, header, string};
use super::error::{ProtocolError, Unsendable};
use super::handler::{Handler, Mailbox};
use super::history::History;
use super::macros::{MACRO_BYTES_MAX, Macros};
use super::negotiate::Agreed;
use super::packet::{HEADER_BYTES_MAX, write_packet};
use super::protocol::{Command, SMFIR_SKIP};
use super::reply::Reply;

/// Bytes of a negotiation that are read: the three numbers. A later version may append more.
const OFFER_BYTES_MAX: usize = 12;
/// Bytes read of CONNECT. A host name has at most 255, a unix path 108.
const CONNECT_BYTES_MAX: usize = 4 << 10;
/// Bytes read of MAIL and RCPT. SMTP allows 512 with all parameters, servers allow about 2,000, and
/// Postfix up to its `line_length_limit`.
const ENVELOPE_BYTES_MAX: usize = 64 << 10;

/// Whether the connection stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Open; more input may come.
    Open,
    /// The mail server has quit: close the connection when the output is written.
    Quit,
    /// An answer is pending: poll it ([`Session::poll_answer`](super::Session::poll_answer)). No
    /// input is taken until then.
    Waiting,
    /// The next command is longer than allowed. It was not processed.
    Long,
}

#[derive(Debug)]
enum Phase {
    Opening,
    Between,
    /// Inside a message, before the end of its headers.
    Headers,
    /// Inside a message, after the end of its headers.
    Body,
    /// Inside a message that has its verdict already.
    Decided(Reply),
}

#[derive(Debug)]
pub(super) struct State<H> {
    handler: H,
    agreed: Agreed,
    phase: Phase,
    macros: Macros,
    history: History,
    /// The command whose answer is pending.
    waiting: Option<Command>,
    /// Whether the input is a history, so the mail server already has the answers.
    replays: bool,
}

impl<H: Handler> State<H> {
    pub(super) fn new(handler: H) -> Self {
        Self {
            handler,
            agreed: Agreed::default(),
            phase: Phase::Opening,
            macros: Macros::default(),
            history: History::default(),
            waiting: None,
            replays: false,
        }
    }

    pub(super) fn renew(&mut self) {
        self.end_client();
        self.agreed = Agreed::default();
        self.phase = Phase::Opening;
        self.replays = false;
    }

    /// Sets the agreement of an earlier session, to which the mail server keeps, and returns the
    /// packets of its history, which must be processed next.
    pub(super) fn resume<'h>(&mut self, history: &'h [u8]) -> Option<&'h [u8]> {
        let (agreed, packets) = Agreed::of_numbers(history)?;
        if agreed == Agreed::default() {
            return Some(packets);
        }
        self.agreed = agreed;
        self.macros.keep(self.handler.macros());
        self.phase = Phase::Between;
        self.replays = true;
        Some(packets)
    }

    /// From now on the input comes from the mail server. `is_lost`: a part of the message is missing.
    pub(super) fn end_replay(&mut self, is_lost: bool) {
        self.replays = false;
        if is_lost && self.is_inside_message() {
            self.history.is_lost = true;
            self.handler.mark_incomplete();
        }
    }

    pub(super) fn history(&self) -> (impl Iterator<Item = u8>, &History) {
        (self.agreed.numbers(), &self.history)
    }

    pub(super) fn handler(&self) -> &H {
        &self.handler
    }

    pub(super) fn is_negotiated(&self) -> bool {
        !matches!(self.phase, Phase::Opening)
    }

    pub(super) fn is_inside_message(&self) -> bool {
        matches!(self.phase, Phase::Headers | Phase::Body)
    }

    pub(super) fn keep(&self, command: Command) -> usize {
        match command {
            Command::Negotiate => OFFER_BYTES_MAX,
            Command::Connect => CONNECT_BYTES_MAX,
            Command::Mail | Command::Rcpt => ENVELOPE_BYTES_MAX,
            Command::Macro => MACRO_BYTES_MAX,
            Command::Header if matches!(self.phase, Phase::Headers) => HEADER_BYTES_MAX,
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

    pub(super) fn command(
        &mut self,
        command: Command,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Status, ProtocolError> {
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
            // Postfix repeats those of the end of the headers for each header. They come once more
            // at the end.
            Command::Macro if payload.first() == Some(&Command::Header.code()) => {}
            Command::Macro => {
                self.macros.read(payload);
                self.history.macros(payload);
            }
            Command::Abort => self.end_message(),
            Command::QuitNewConnection => self.end_client(),
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
            Command::Rcpt => self.in_message(command, out, |state| state.rcpt(payload))?,
            // Most commands are headers. The answer is always to continue, and changes no phase.
            Command::Header if self.is_inside_message() => {
                self.header(payload);
                self.answer(command, &Reply::Continue, out);
                self.history.end_command(true);
            }
            Command::Header | Command::Data => {
                self.in_message(command, out, |_| Ok(Reply::Continue))?;
            }
            Command::EndOfHeaders | Command::Body | Command::EndOfMessage => {
                self.in_message(command, out, |state| Ok(state.end_headers(command)))?;
            }
        }
        Ok(self.status())
    }

    fn negotiate(&mut self, offer: &[u8], out: &mut Vec<u8>) -> Result<(), ProtocolError> {
        if self.is_negotiated() {
            return Err(ProtocolError::NegotiatedTwice);
        }
        self.agreed = Agreed::on(offer).ok_or(ProtocolError::Offer)?;
        self.macros.keep(self.handler.macros());
        self.phase = Phase::Between;
        tracing::debug!(
            version = self.agreed.version,
            actions = format_args!("{:#x}", self.agreed.actions),
            steps = format_args!("{:#x}", self.agreed.steps),
            "negotiated"
        );
        // Directly to the output: a connection allocates nothing of its own.
        let begin = out.len();
        write_packet(out, Command::Negotiate.code(), &[]);
        self.agreed.write(self.handler.macros(), out);
        let length = u32::try_from(out.len() - begin - 4).unwrap_or(u32::MAX);
        if let Some(prefix) = out.get_mut(begin..begin + 4) {
            prefix.copy_from_slice(&length.to_be_bytes());
        }
        Ok(())
    }

    fn mail(&mut self, payload: &[u8]) -> Result<(), ProtocolError> {
        if payload.is_empty() {
            return Err(ProtocolError::NoArgument(Command::Mail));
        }
        self.macros.begin_message();
        self.phase = Phase::Headers;
        let argument = string(payload).0;
        self.history.mail(argument);
        self.handler.mail(Mailbox::Written(argument), &self.macros);
        Ok(())
    }

    /// Processes a command of a message.
    fn in_message(
        &mut self,
        command: Command,
        out: &mut Vec<u8>,
        act: impl FnOnce(&mut Self) -> Result<Reply, ProtocolError>,
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
            Phase::Headers | Phase::Body => {
                let reply = act(self)?;
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
        let kept = self.handler.recipient_to_keep(argument);
        if !self.history.has_space(kept.len()) {
            let reply = self.handler.too_many_recipients();
            if reply != Reply::Continue {
                return Ok(reply);
            }
        }
        self.history.rcpt(&kept);
        Ok(self.handler.rcpt(Mailbox::Written(argument), &self.macros))
    }

    fn header(&mut self, payload: &[u8]) {
        if matches!(self.phase, Phase::Headers) {
            let (name, value) = header(payload);
            if self.handler.header(name, value) {
                self.history.header(payload);
            }
        }
    }

    /// The first command after the headers ends them, whichever it is.
    fn end_headers(&mut self, command: Command) -> Reply {
        if matches!(self.phase, Phase::Body) {
            return Reply::Continue;
        }
        self.phase = Phase::Body;
        self.history.end_of_headers(command);
        self.handler.end_of_headers(&self.macros)
    }

    pub(super) fn poll_answer(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<()> {
        if let Some(command) = self.waiting {
            let reply = ready!(self.handler.poll_later(cx));
            self.waiting = None;
            self.conclude(command, reply, out);
        }
        Poll::Ready(())
    }

    fn conclude(&mut self, command: Command, reply: Reply, out: &mut Vec<u8>) {
        match (command, &reply) {
            (_, Reply::Later) => {
                self.waiting = Some(command);
                return;
            }
            (Command::EndOfMessage, Reply::Continue) => return self.end_of_message(out),
            (Command::Body, Reply::Continue) if self.agreed.skips() => {
                self.history.end_command(true);
                return write_packet(out, SMFIR_SKIP, &[]);
            }
            _ => {}
        }
        self.answer(command, &reply, out);
        self.history.end_command(matches!(reply, Reply::Continue));
        let ends = match &reply {
            Reply::Continue | Reply::Later => false,
            Reply::Accept | Reply::Discard => true,
            Reply::Reject | Reply::Tempfail | Reply::Text(_) => {
                command != Command::Rcpt || self.replays
            }
        };
        let refuses = !matches!(reply, Reply::Accept | Reply::Discard);
        if ends && self.replays {
            // For the mail server this recipient is accepted, and it continues. It gets the new
            // verdict at its next command, and what comes until then is not seen.
            self.history.is_lost = true;
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

    fn end_of_message(&mut self, out: &mut Vec<u8>) {
        let mut edits = Vec::new();
        let reply = self.handler.end_of_message(&self.macros, &mut edits);
        if matches!(reply, Reply::Continue | Reply::Accept) {
            for edit in &edits {
                let written = if self.agreed.allows(edit.action()) {
                    edit.write(out)
                } else {
                    let why = "the mail server does not allow this change";
                    Err(Unsendable(why.to_owned()))
                };
                if let Err(error) = written {
                    tracing::warn!(change = %edit, %error, "a change to the message was skipped");
                }
            }
        }
        self.answer(Command::EndOfMessage, &reply, out);
        self.history.end_message();
        self.phase = Phase::Between;
    }

    fn answer(&self, command: Command, reply: &Reply, out: &mut Vec<u8>) {
        if self.agreed.is_awaited(command) {
            reply.write(out);
        }
    }

    /// Drops the current message, and the macros that came for it.
    fn end_message(&mut self) {
        self.abort();
        self.macros.end_message();
        self.history.end_message();
    }

    /// Drops the current message and all about its client.
    fn end_client(&mut self) {
        self.end_message();
        self.macros.end_client();
        self.history.end_client();
        self.handler.connect(&Client::default(), &self.macros);
    }

    /// Drops the current message, but keeps the macros: those of the command that ends it have
    /// already come.
    fn abort(&mut self) {
        match self.phase {
            Phase::Opening | Phase::Between => {}
            Phase::Headers | Phase::Body => {
                self.handler.abort();
                self.phase = Phase::Between;
            }
            Phase::Decided(_) => self.phase = Phase::Between,
        }
    }
}
