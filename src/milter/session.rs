//! One connection of a mail server: which command may come when, and what is answered.
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
//!
//! Invariants: each awaited command has exactly one answer, in order; no other command
//! has any; a message leaves nothing behind for the next, on whatever way it ends. What
//! is awaited follows from the negotiation alone ([`Agreed::is_awaited`]).
//!
//! Once decided, a mail server sends nothing more of the message. Should one ask all the
//! same, it hears the same verdict again rather than wait for ever; what it sends
//! without asking is counted off.
//!
//! A handler may answer RCPT and the end of the headers later. Until it does the session
//! stands still ([`Status::Waiting`]): it takes no input, and so keeps the order of answers
//! however the input is split.

use std::task::{Context, Poll, ready};

use super::command::{Client, header, string};
use super::edit::EditError;
use super::history::History;
use super::macros::{MACRO_BYTES_MAX, Macros};
use super::negotiate::Agreed;
use super::packet::{BadLength, Packet, Packets};
use super::reply::write_packet;
use super::{HEADER_BYTES_MAX, Handler, Reply, Wanted};

/// Bytes of a negotiation that are read: the three numbers. A later version may add to
/// them. Of this packet and of all others the rest is counted off.
const OFFER_BYTES_MAX: usize = 12;
/// Of CONNECT: a host name has 255, a unix path 108.
const CONNECT_BYTES_MAX: usize = 4 << 10;
/// Of MAIL and RCPT. SMTP allows 512 with all parameters, servers some 2,000, and Postfix
/// whatever `line_length_limit` says.
const ENVELOPE_BYTES_MAX: usize = 64 << 10;
/// Once this much waits to be sent, no further command is read before it has been. A
/// mail server waits for each answer, so that only a broken one comes here.
const OUTPUT_BYTES_MAX: usize = 64 << 10;

/// Whether the connection stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// More may come.
    Open,
    /// The mail server is done: close, once the output is written.
    Quit,
    /// An answer is not known yet: poll it ([`Session::poll_answer`]). No input is taken
    /// until then.
    Waiting,
}

/// What came of some input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes taken off the front of the input. Less than all of them only after
    /// [`Status::Quit`], while an answer is waited for, or while so much output waits that
    /// it must be written first.
    pub taken: usize,
    /// How many commands were complete with it.
    pub commands: usize,
    /// Whether the connection stays.
    pub status: Status,
}

/// Why a connection must be closed: the other side does not speak the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// A packet of a length that none can have.
    #[error("a packet {:?} of {length} bytes", char::from(*letter))]
    Length {
        /// Its letter.
        letter: u8,
        /// The length it announced.
        length: u32,
    },
    /// A letter that stands for no command.
    #[error("an unknown command {:?}", char::from(*.0))]
    Unknown(u8),
    /// A command before the negotiation, or a second negotiation.
    #[error("a command {:?} in place of the negotiation, or a second negotiation", char::from(*.0))]
    Negotiation(u8),
    /// A negotiation that cannot be answered.
    #[error("an offer that is cut short, or of a protocol version before 2")]
    Offer,
    /// A command that belongs to a message, and there is none.
    #[error("a command {:?} outside of a message", char::from(*.0))]
    OutsideMessage(u8),
    /// A command without the argument it must have.
    #[error("a command {:?} without an argument", char::from(*.0))]
    NoArgument(u8),
}

impl ProtocolError {
    /// The names of all kinds, for counting.
    pub const KINDS: [&'static str; 6] = [
        "packet-length",
        "unknown-command",
        "negotiation",
        "offer",
        "outside-message",
        "no-argument",
    ];

    /// The name of its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Length { .. } => "packet-length",
            Self::Unknown(_) => "unknown-command",
            Self::Negotiation(_) => "negotiation",
            Self::Offer => "offer",
            Self::OutsideMessage(_) => "outside-message",
            Self::NoArgument(_) => "no-argument",
        }
    }
}

impl From<BadLength> for ProtocolError {
    fn from(bad: BadLength) -> Self {
        Self::Length {
            letter: bad.letter,
            length: bad.length,
        }
    }
}

/// One connection of a mail server.
#[derive(Debug)]
pub struct Session<H> {
    packets: Packets,
    talk: Talk<H>,
    /// What the handler has not heard again yet of the history; its answers go nowhere.
    replay: Option<Vec<u8>>,
}

impl<H: Handler> Session<H> {
    /// A connection that has just been made.
    pub fn new(handler: H) -> Self {
        Self {
            packets: Packets::default(),
            talk: Talk {
                handler,
                wanted: Wanted::default(),
                agreed: Agreed::default(),
                phase: Phase::Opening,
                macros: Macros::default(),
                history: History::default(),
                waiting: None,
                replays: false,
            },
            replay: None,
        }
    }

    /// A connection that another session has served so far, which left this
    /// [`history`](Self::history); `None` if that makes no sense.
    ///
    /// The handler hears all of it again; what it answers was answered before, and goes
    /// nowhere. If it refuses now what was accepted then, the rest of the message is put off.
    pub fn resume(handler: H, history: &[u8]) -> Option<Self> {
        let mut session = Self::new(handler);
        if history.is_empty() {
            return Some(session);
        }
        let (agreed, packets) = Agreed::of_numbers(history)?;
        let talk = &mut session.talk;
        talk.wanted = talk.handler.wanted();
        // Not negotiated anew: the mail server keeps to what it was answered.
        talk.agreed = agreed;
        talk.macros.keep(talk.wanted.macros);
        talk.phase = Phase::Between;
        talk.replays = true;
        session.replay = Some(packets.to_vec());
        session.replay_history().then_some(session)
    }

    /// Gives the handler what is left of the history, until it wants to answer later; `false`
    /// if that makes no sense.
    fn replay_history(&mut self) -> bool {
        while !self.is_waiting()
            && let Some(mut history) = self.replay.take_if(|history| !history.is_empty())
        {
            match self.receive(&history, &mut Vec::new()) {
                Ok(progress) if progress.status != Status::Quit => {
                    history.drain(..progress.taken);
                    self.replay = Some(history);
                }
                Ok(_) | Err(_) => return false,
            }
        }
        if !self.is_waiting() {
            self.replay = None;
            self.talk.replays = false;
        }
        self.is_waiting() || !self.is_inside_packet()
    }

    /// What [`resume`](Self::resume) needs to go on from here, in this program or a later
    /// version of it; `None` where nobody else can: inside a packet, while an answer is not
    /// known yet, and from the first header of a message to its end.
    pub fn history(&self) -> Option<Vec<u8>> {
        if self.is_inside_packet() || self.is_waiting() {
            return None;
        }
        if !self.is_negotiated() {
            return Some(Vec::new());
        }
        let packets = self.talk.history.packets()?;
        let mut history: Vec<u8> = self.talk.agreed.numbers().collect();
        history.extend_from_slice(packets);
        Some(history)
    }

    /// Takes bytes as they came, and appends to `out` what is to be sent back. Packets may
    /// be split anywhere.
    ///
    /// # Errors
    /// [`ProtocolError`]: write what is in `out`, then close. Nothing may be given to
    /// this session after that, nor after [`Status::Quit`].
    pub fn receive(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Progress, ProtocolError> {
        let mut rest = input;
        let mut commands = 0;
        let mut status = self.talk.status();
        while status == Status::Open && out.len() < OUTPUT_BYTES_MAX {
            let talk = &mut self.talk;
            let Some(packet) = self.packets.next(&mut rest, |letter| talk.keep(letter))? else {
                break;
            };
            status = self.talk.command(&packet, out)?;
            commands += 1;
        }
        Ok(Progress {
            taken: input.len() - rest.len(),
            commands,
            status,
        })
    }

    /// Appends the answer that was not known yet, as soon as it is; ready at once when none
    /// is waited for. When it is ready, give the input that was not taken.
    pub fn poll_answer(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<()> {
        while let Some(letter) = self.talk.waiting {
            let talk = &mut self.talk;
            let reply = ready!(talk.handler.poll_later(cx));
            talk.waiting = None;
            if self.replay.is_some() {
                talk.conclude(letter, reply, &mut Vec::new());
                // A history that makes no sense any more leaves no message.
                self.replay_history();
            } else {
                talk.conclude(letter, reply, out);
            }
        }
        Poll::Ready(())
    }

    /// Is there an answer that is not known yet?
    pub fn is_waiting(&self) -> bool {
        self.talk.waiting.is_some()
    }

    /// Has the opening negotiation been completed?
    pub fn is_negotiated(&self) -> bool {
        !matches!(self.talk.phase, Phase::Opening)
    }

    /// Has a packet begun that is not complete yet?
    pub fn is_inside_packet(&self) -> bool {
        self.packets.is_inside()
    }

    /// How much is kept of a packet that is not complete yet.
    pub fn held_bytes(&self) -> usize {
        self.packets.held_bytes()
    }

    /// Is a message under way that has no verdict yet?
    pub fn is_inside_message(&self) -> bool {
        matches!(self.talk.phase, Phase::Message { .. })
    }

    /// The handler, for tests and for the last words at the end of a connection.
    pub fn handler(&self) -> &H {
        &self.talk.handler
    }
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

/// All of a session but the cutting of packets.
#[derive(Debug)]
struct Talk<H> {
    handler: H,
    wanted: Wanted,
    agreed: Agreed,
    phase: Phase,
    macros: Macros,
    history: History,
    /// The command whose answer is not known yet.
    waiting: Option<u8>,
    /// What comes is a history: the mail server has its answers.
    replays: bool,
}

impl<H: Handler> Talk<H> {
    /// How much of a packet's payload is wanted, now.
    fn keep(&self, letter: u8) -> usize {
        match letter {
            b'O' => OFFER_BYTES_MAX,
            b'C' => CONNECT_BYTES_MAX,
            b'M' | b'R' => ENVELOPE_BYTES_MAX,
            b'D' => MACRO_BYTES_MAX,
            b'L' if self.wanted.headers && self.phase.is_inside_headers() => HEADER_BYTES_MAX,
            _ => 0,
        }
    }

    fn status(&self) -> Status {
        match self.waiting {
            Some(_) => Status::Waiting,
            None => Status::Open,
        }
    }

    /// Acts on one command.
    fn command(&mut self, packet: &Packet<'_>, out: &mut Vec<u8>) -> Result<Status, ProtocolError> {
        let &Packet { letter, payload } = packet;
        tracing::trace!(command = %char::from(letter), bytes = payload.len());
        match (&self.phase, letter) {
            (_, b'Q') => {
                self.end_message();
                return Ok(Status::Quit);
            }
            (Phase::Opening, b'O') => {
                self.negotiate(payload, out)?;
                return Ok(Status::Open);
            }
            (Phase::Opening, _) | (_, b'O') => return Err(ProtocolError::Negotiation(letter)),
            _ => {}
        }
        let reply = match letter {
            b'D' => {
                self.macros.read(payload);
                self.history.macros(payload);
                return Ok(Status::Open);
            }
            b'A' => {
                self.end_message();
                return Ok(Status::Open);
            }
            b'K' => {
                self.end_message();
                self.macros.end_client();
                self.history.end_client();
                self.handler.connect(&Client::default(), &self.macros);
                return Ok(Status::Open);
            }
            b'C' => {
                self.abort();
                self.macros.begin_client();
                self.history.connect(payload);
                self.handler.connect(&Client::read(payload), &self.macros);
                Reply::Continue
            }
            b'H' => {
                self.abort();
                self.history.end_message();
                Reply::Continue
            }
            b'M' => {
                self.abort();
                self.mail(payload)?;
                Reply::Continue
            }
            b'R' | b'T' | b'L' | b'N' | b'B' | b'E' => {
                self.inside_message(letter, payload, out)?;
                return Ok(self.status());
            }
            b'U' => Reply::Continue,
            _ => return Err(ProtocolError::Unknown(letter)),
        };
        self.answer(letter, &reply, out);
        Ok(Status::Open)
    }

    fn negotiate(&mut self, offer: &[u8], out: &mut Vec<u8>) -> Result<(), ProtocolError> {
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
        write_packet(out, b'O', &[&payload]);
        Ok(())
    }

    fn mail(&mut self, payload: &[u8]) -> Result<(), ProtocolError> {
        if payload.is_empty() {
            return Err(ProtocolError::NoArgument(b'M'));
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

    /// A command that is part of a message.
    fn inside_message(
        &mut self,
        letter: u8,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), ProtocolError> {
        let headers_ended = match &self.phase {
            Phase::Opening | Phase::Between => return Err(ProtocolError::OutsideMessage(letter)),
            Phase::Decided(verdict) => {
                self.answer(letter, verdict, out);
                if letter == b'E' {
                    self.history.end_message();
                    self.phase = Phase::Between;
                }
                return Ok(());
            }
            Phase::Message { headers_ended } => *headers_ended,
        };
        let reply = match letter {
            b'R' if payload.is_empty() => return Err(ProtocolError::NoArgument(letter)),
            b'R' => {
                let argument = string(payload).0;
                self.macros.begin_recipient();
                self.history.rcpt(argument);
                self.handler.rcpt(argument, &self.macros)
            }
            b'L' => {
                self.history.begin_headers();
                if self.wanted.headers && !headers_ended {
                    let (name, value) = header(payload);
                    self.handler.header(name, value);
                }
                Reply::Continue
            }
            b'N' | b'B' | b'E' if !headers_ended => {
                self.phase = Phase::Message {
                    headers_ended: true,
                };
                self.history.begin_headers();
                self.handler.end_of_headers(&self.macros)
            }
            _ => Reply::Continue,
        };
        self.conclude(letter, reply, out);
        Ok(())
    }

    /// What follows from the handler's answer to a command of a message.
    fn conclude(&mut self, letter: u8, reply: Reply, out: &mut Vec<u8>) {
        match (letter, &reply) {
            (_, Reply::Later) => {
                self.waiting = Some(letter);
                return;
            }
            (b'E', Reply::Continue) => return self.end_of_message(out),
            (b'B', Reply::Continue) if self.agreed.skips() => {
                return write_packet(out, b's', &[]);
            }
            _ => {}
        }
        self.answer(letter, &reply, out);
        if letter == b'R' {
            self.history.end_rcpt(matches!(reply, Reply::Continue));
        }
        let ends = match &reply {
            Reply::Continue | Reply::Later => false,
            Reply::Accept | Reply::Discard => true,
            Reply::Reject | Reply::Tempfail | Reply::Text(_) => letter != b'R' || self.replays,
        };
        let refuses = !matches!(reply, Reply::Accept | Reply::Discard);
        if ends && self.replays {
            // The mail server has heard that this recipient is accepted, and goes on. It hears what has
            // become of it at its next command; nobody can take over before the end of the message.
            self.history.begin_headers();
            self.phase = Phase::Decided(if refuses { Reply::Tempfail } else { reply });
        } else if ends {
            self.history.end_message();
            self.phase = if letter == b'E' {
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
        self.answer(b'E', &reply, out);
        self.history.end_message();
        self.phase = Phase::Between;
    }

    /// Answers a command, if an answer is awaited.
    fn answer(&self, letter: u8, reply: &Reply, out: &mut Vec<u8>) {
        if self.agreed.is_awaited(letter) {
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
