//! One connection of a mail server: bytes in, bytes out.
//!
//! The packets are cut out of the stream, and each is a command for the [`State`]. A handler may
//! answer RCPT and the end of the headers later. Until it does the session stands still
//! ([`Status::Waiting`]): it takes no input, and so keeps the order of answers however the input is
//! split.
//!
//! Between two processes a session is handed over as its [`history`](Session::history).

use std::task::{Context, Poll, ready};

use super::error::ProtocolError;
use super::handler::Handler;
use super::packet::Packets;
use super::state::{State, Status};

/// Once this much waits to be sent, no further command is read before it has been. A
/// mail server waits for each answer, so that only a broken one comes here.
const OUTPUT_BYTES_MAX: usize = 64 << 10;

/// The result of some input.
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

/// One connection of a mail server.
#[derive(Debug)]
pub struct Session<H> {
    packets: Packets,
    state: State<H>,
    /// What the handler has not been given again yet of the history; its answers are dropped.
    replay: Option<Vec<u8>>,
}

impl<H: Handler> Session<H> {
    /// A connection that has just been made.
    pub fn new(handler: H) -> Self {
        Self {
            packets: Packets::default(),
            state: State::new(handler),
            replay: None,
        }
    }

    /// A connection that another session has served so far, which left this
    /// [`history`](Self::history); `None` if that makes no sense.
    ///
    /// The handler is given all of it again; its answers are dropped, since the mail server has them.
    /// If it refuses now what was accepted then, the rest of the message gets a temporary failure.
    pub fn resume(handler: H, history: &[u8]) -> Option<Self> {
        let mut session = Self::new(handler);
        if history.is_empty() {
            return Some(session);
        }
        let packets = session.state.resume(history)?.to_vec();
        session.replay = Some(packets);
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
            self.state.end_replay();
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
        self.state.history()
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
        let mut status = self.state.status();
        while status == Status::Open && out.len() < OUTPUT_BYTES_MAX {
            let state = &mut self.state;
            let Some(packet) = self
                .packets
                .next(&mut rest, |command| state.keep(command))?
            else {
                break;
            };
            status = self.state.command(&packet, out)?;
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
        while self.is_waiting() {
            if self.replay.is_some() {
                ready!(self.state.poll_answer(cx, &mut Vec::new()));
                // A history that makes no sense any more leaves no message.
                self.replay_history();
            } else {
                ready!(self.state.poll_answer(cx, out));
            }
        }
        Poll::Ready(())
    }

    /// Is there an answer that is not known yet?
    pub fn is_waiting(&self) -> bool {
        self.state.status() == Status::Waiting
    }

    /// Has the opening negotiation been completed?
    pub fn is_negotiated(&self) -> bool {
        self.state.is_negotiated()
    }

    /// Has a packet begun that is not complete yet?
    pub fn is_inside_packet(&self) -> bool {
        self.packets.is_inside()
    }

    /// How long the longest command is that this input completes, in bytes, without what is counted
    /// off; `None`: it completes none, and [`receive`](Self::receive) only keeps it.
    pub fn longest_command(&self, input: &[u8]) -> Option<usize> {
        let keep = |command| self.state.keep_at_most(command);
        self.packets.longest(input, keep)
    }

    /// Is a message under way that has no verdict yet?
    pub fn is_inside_message(&self) -> bool {
        self.state.is_inside_message()
    }

    /// The handler, for tests and for the last words at the end of a connection.
    pub fn handler(&self) -> &H {
        self.state.handler()
    }
}
