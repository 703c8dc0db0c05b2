//! One connection of a mail server: bytes in, bytes out.
//!
//! Splits the stream into packets; each is a command for the [`State`]. A handler may answer RCPT
//! and the end of the headers later. Until then the session pauses ([`Status::Waiting`]): it takes
//! no input, so the order of the answers does not depend on how the input is split.
//!
//! A session is passed from one process to another as its [`history`](Session::history).

use std::task::{Context, Poll, ready};

use super::error::ProtocolError;
use super::handler::Handler;
use super::packet::Packets;
use super::state::{State, Status};

/// With this much output waiting, no further command is read until it is sent. A mail server waits
/// for each answer, so only a broken one gets here.
const OUTPUT_BYTES_MAX: usize = 64 << 10;

/// The result of some input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes taken from the start of the input. All of them, except after [`Status::Quit`], while
    /// an answer is pending, or if so much output waits that it must be written first.
    pub taken: usize,
    /// Number of commands that the input completed.
    pub commands: usize,
    /// Whether the connection stays open.
    pub status: Status,
}

/// One connection of a mail server.
#[derive(Debug)]
pub struct Session<H> {
    packets: Packets,
    state: State<H>,
    /// The part of the history that the handler has not seen yet; its answers are dropped.
    replay: Option<Vec<u8>>,
}

impl<H: Handler> Session<H> {
    /// Starts a new connection.
    pub fn new(handler: H) -> Self {
        Self {
            packets: Packets::default(),
            state: State::new(handler),
            replay: None,
        }
    }

    /// Continues a connection that another session has served until now, from its
    /// [`history`](Self::history); `None` if the history is invalid.
    ///
    /// The handler gets all of it again. Its answers are dropped, because the mail server already
    /// has them. If it now refuses what was accepted then, the rest of the message gets a temporary
    /// failure.
    pub fn resume(handler: H, history: &[u8]) -> Option<Self> {
        let mut session = Self::new(handler);
        if history.is_empty() {
            return Some(session);
        }
        let packets = session.state.resume(history)?.to_vec();
        session.replay = Some(packets);
        session.replay_history().then_some(session)
    }

    /// Gives the handler the rest of the history, until it needs time for an answer; `false` if the
    /// history is invalid.
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

    /// Returns what [`resume`](Self::resume) needs to continue from here, in this program or a
    /// later version. Returns `None` where nobody else can continue: inside a packet, while an
    /// answer is pending, and from the first header of a message to its end.
    pub fn history(&self) -> Option<Vec<u8>> {
        if self.is_inside_packet() || self.is_waiting() {
            return None;
        }
        self.state.history()
    }

    /// Processes bytes as received, and appends the answers to `out`. Packets may be split
    /// anywhere.
    ///
    /// # Errors
    /// [`ProtocolError`]: write the content of `out`, then close. After that, or after
    /// [`Status::Quit`], this session must get no more input.
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

    /// Appends the pending answer as soon as it is known; ready at once if none is pending. Then
    /// pass the input again that was not taken.
    pub fn poll_answer(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<()> {
        while self.is_waiting() {
            if self.replay.is_some() {
                ready!(self.state.poll_answer(cx, &mut Vec::new()));
                // If the rest of the history is invalid, there is no message to continue.
                self.replay_history();
            } else {
                ready!(self.state.poll_answer(cx, out));
            }
        }
        Poll::Ready(())
    }

    /// Returns whether an answer is pending.
    pub fn is_waiting(&self) -> bool {
        self.state.status() == Status::Waiting
    }

    /// Returns whether the negotiation is complete.
    pub fn is_negotiated(&self) -> bool {
        self.state.is_negotiated()
    }

    /// Returns whether the stream is inside an incomplete packet.
    pub fn is_inside_packet(&self) -> bool {
        self.packets.is_inside()
    }

    /// Returns the length in bytes of the longest command that this input completes, without
    /// skipped bytes; `None` if it completes none, and [`receive`](Self::receive) only stores it.
    pub fn longest_command(&self, input: &[u8]) -> Option<usize> {
        let keep = |command| self.state.keep_at_most(command);
        self.packets.longest(input, keep)
    }

    /// Returns whether there is a message without a verdict.
    pub fn is_inside_message(&self) -> bool {
        self.state.is_inside_message()
    }

    /// Returns the handler, for tests and for the log at the end of a connection.
    pub fn handler(&self) -> &H {
        self.state.handler()
    }
}
