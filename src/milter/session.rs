//! One connection of a mail server: bytes in, bytes out.
//!
//! Splits the stream into packets; each is a command for the [`State`]. While an answer is pending
//! ([`Status::Waiting`]), it takes no input, so the order of the answers does not depend on how the
//! input is split. It is passed from one process to another as its [`history`](Session::history).

use std::task::{Context, Poll, ready};

use super::error::ProtocolError;
use super::handler::Handler;
use super::packet::{Next, Packets, split_at, write_packet};
use super::protocol::Command;
use super::state::{State, Status};

/// With this much output waiting, no further command is read until it is sent. A mail server waits
/// for each answer, so only a broken one gets here.
const OUTPUT_BYTES_MAX: usize = 64 << 10;

/// The result of some input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes taken from the start of the input. All of them, except after [`Status::Quit`] and
    /// [`Status::Long`], while an answer is pending, or if so much output waits that it must be
    /// written first.
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
    /// What the handler has not seen yet of the history that it continues.
    replay: Option<Replay>,
}

#[derive(Debug, Default)]
struct Replay {
    /// The packets whose answers are dropped.
    packets: Vec<u8>,
    /// Bytes of the following input that are not wanted.
    skip: u32,
    /// Whether packets are missing.
    is_lost: bool,
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

    /// Makes it the session of a new connection, with the memory of this one; `false` if an answer
    /// is pending.
    pub fn renew(&mut self) -> bool {
        if self.is_waiting() || self.replay.is_some() {
            return false;
        }
        self.packets.renew();
        self.state.renew();
        true
    }

    /// Continues a connection from the [`history`](Self::history) of another session; `None` if that
    /// is invalid. Also returns the input that was not yet processed, which comes before any other.
    ///
    /// The handler gets all of it again. Its answers are dropped if the mail server already has
    /// them. If it now refuses what was accepted then, the rest of the message gets a temporary
    /// failure. If the headers had ended, it decides again.
    pub fn resume(handler: H, history: &[u8]) -> Option<(Self, Vec<u8>)> {
        let (mut session, mut unread) = (Self::new(handler), Vec::new());
        if history.is_empty() {
            return Some((session, unread));
        }
        let rest = session.state.resume(history)?;
        let (packets, rest) = split_at(rest, Command::Negotiate);
        let mut replay = Replay {
            packets: packets.to_vec(),
            ..Replay::default()
        };
        if !rest.is_empty() {
            let [0, 0, 0, 6, _, a, b, c, d, is_lost, input @ ..] = rest else {
                return None;
            };
            replay.skip = u32::from_be_bytes([*a, *b, *c, *d]);
            replay.is_lost = *is_lost != 0;
            unread = input.to_vec();
        }
        session.replay = Some(replay);
        session.replay_history().then_some((session, unread))
    }

    /// Returns `false` if the history is invalid.
    fn replay_history(&mut self) -> bool {
        let Some(mut replay) = self.replay.take() else {
            return true;
        };
        while !self.is_waiting() && !replay.packets.is_empty() {
            match self.receive(&replay.packets, &mut Vec::new()) {
                Ok(progress) if progress.status != Status::Quit => {
                    replay.packets.drain(..progress.taken);
                }
                Ok(_) | Err(_) => return false,
            }
        }
        if self.is_waiting() {
            self.replay = Some(replay);
            return true;
        }
        let is_whole = !self.is_inside_packet();
        self.state.end_replay(replay.is_lost);
        self.packets.skip(replay.skip);
        is_whole
    }

    /// Returns what [`resume`](Self::resume) needs to continue from here, in this program or a
    /// later version, at any time. `unread` is input that was not yet processed.
    pub fn history(&self, unread: &[u8]) -> Vec<u8> {
        let (numbers, history) = self.state.history();
        let (answered, pending) = history.packets();
        let (begun, mut skip) = self.packets.unfinished();
        let mut is_lost = history.is_lost;
        let mut bytes: Vec<u8> = numbers.chain(answered.iter().copied()).collect();
        let rest = if let Some(replay) = &self.replay {
            // The mail server has the answer to the pending command.
            bytes.extend_from_slice(pending);
            bytes.extend_from_slice(&replay.packets);
            (skip, is_lost) = (replay.skip, replay.is_lost);
            unread.to_vec()
        } else {
            let mut rest = [pending, begun, unread].concat();
            if !pending.is_empty()
                && let Some(length) = rest.first_chunk_mut()
            {
                // The end of this packet is not wanted, but comes.
                *length = (u32::from_be_bytes(*length) + skip).to_be_bytes();
                skip = 0;
            }
            rest
        };
        if is_lost || skip > 0 || !rest.is_empty() {
            let payload = [&skip.to_be_bytes()[..], &[u8::from(is_lost)]];
            write_packet(&mut bytes, Command::Negotiate.code(), &payload);
            bytes.extend(rest);
        } else if !self.is_negotiated() {
            bytes.clear();
        }
        bytes
    }

    /// Processes bytes, split anywhere, and appends the answers to `out`.
    ///
    /// # Errors
    /// [`ProtocolError`]: write the content of `out`, then close. After that, or after
    /// [`Status::Quit`], this session must get no more input.
    pub fn receive(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Progress, ProtocolError> {
        self.receive_up_to(usize::MAX, input, out)
    }

    /// The same, but stops before a command with more than `most` bytes that are wanted
    /// ([`Status::Long`]). All of it may have been taken.
    pub fn receive_up_to(
        &mut self,
        most: usize,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Progress, ProtocolError> {
        let mut rest = input;
        let mut commands = 0;
        let mut status = self.state.status();
        while status == Status::Open && out.len() < OUTPUT_BYTES_MAX {
            let keep = |command| self.state.keep(command);
            match self.packets.next(&mut rest, keep, most)? {
                Next::Packet(command, payload) => {
                    status = self.state.command(command, payload, out)?;
                    commands += 1;
                }
                Next::Incomplete => break,
                Next::TooLong => status = Status::Long,
            }
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

    /// Returns whether there is a message without a verdict.
    pub fn is_inside_message(&self) -> bool {
        self.state.is_inside_message()
    }

    /// Returns the handler, for tests and for the log at the end of a connection.
    pub fn handler(&self) -> &H {
        self.state.handler()
    }
}
