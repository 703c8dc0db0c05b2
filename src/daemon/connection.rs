//! One connection of a mail server, from accept to close.
//!
//! A connection has no thread, no task and no read buffer: ten thousand idle ones need memory only for their sessions. Its
//! worker gives it a turn when there is something to do: it reads the available bytes, passes them to its [`Conversation`],
//! and writes all answers at once.
//!
//! ```text
//!   wait until readable -> [ read -> session -> write ] -> wait ...
//!                                     |           | could not write all
//!                                     |           v
//!                                     |    wait until writable, without reading
//!                                     | an answer is not known yet
//!                                     v
//!                      wait for the handler's answer, without reading
//! ```
//!
//! A step of a real message takes about ten microseconds. If one may take longer, because a long packet is complete or
//! earlier steps took long, the session stops before it ([`Status::Long`]). The whole connection moves to the
//! [`slow_lane`](super::slow_lane), and comes back with the answer: costly messages keep nobody else waiting.
//!
//! A round trip needs one `recv` and one `send`, and timeouts need none: a connection stores its deadline, and the worker ends
//! those whose deadline has passed.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::handover::Detached;
use super::socket::Socket;
use super::traffic::Cut;
use crate::door::Conversation;
use crate::milter::{Handler, ProtocolError, Session, Status};

/// Bytes per read. Postfix writes 4 KiB at a time, so one read gets all of it.
const READ_BYTES: usize = 8 << 10;
/// A turn ends after this many reads. A normal mail server waits for answers, so only a faulty one reaches this.
const READS_A_TURN: u32 = 4;

/// From accept to the end of the negotiation.
const NEGOTIATION_SECONDS: u32 = 30;
/// From the first byte of a packet to its last.
const PACKET_SECONDS: u32 = 60;
/// Between commands, as in libmilter: an SMTP client may be as slow as its mail server allows.
const IDLE_SECONDS: u32 = 7210;
/// For the mail server to accept an answer.
const WRITE_SECONDS: u32 = 30;

/// A step with a longer packet counts as long. Headers of real messages are shorter.
const LONG_PACKET_BYTES: usize = 4 << 10;
/// With less input than this, a step is never long, and its time is not measured.
pub(super) const TIMED_BYTES: usize = 1 << 10;
/// A step with more CPU time counts as long. Steps of real messages take about ten microseconds; those of messages that are
/// made to be costly take milliseconds.
pub(super) const LONG_STEP: Duration = Duration::from_micros(100);
/// For this long after a long step, further steps of the connection count as long, too. So a sender needs a new connection
/// for every two long steps in a worker.
pub(super) const SLOW_SECONDS: u32 = 10;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// By the mail server, or while it was idle at the end of the daemon.
    Closed,
    /// Another process continues it, with this history.
    Detached(Vec<u8>),
    /// The mail server broke the protocol.
    Broken(ProtocolError),
    /// Before the mail server has closed it.
    Cut(Cut),
}

/// What a connection needs after a turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Another turn when something has happened.
    Wait,
    /// Another turn, after other connections had theirs.
    Again,
    /// The next step must run in the slow lane.
    Long,
    End(Ended),
}

/// What has happened since its last turn, as far as is known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Signs {
    pub(super) readable: bool,
    /// The mail server writes no more: what there is to read ends.
    pub(super) hung_up: bool,
    /// The answer may be known now.
    pub(super) woken: bool,
}

pub(super) struct Turn<'a> {
    /// The second of its worker.
    pub(super) now: u32,
    /// Another process takes over.
    pub(super) detaches: bool,
    pub(super) waker: &'a Waker,
    pub(super) buffers: &'a mut Buffers,
}

/// Those of a thread, for both directions of its current connection.
pub(super) struct Buffers {
    input: Box<[u8]>,
    output: Vec<u8>,
}

impl Default for Buffers {
    fn default() -> Self {
        Self {
            input: vec![0; READ_BYTES].into_boxed_slice(),
            output: Vec::new(),
        }
    }
}

pub(super) struct Connection<H> {
    stream: Socket,
    session: Conversation<H>,
    /// Answers that the mail server does not read yet.
    unsent: Vec<u8>,
    /// Input that must wait until these are sent, or for the slow lane.
    unread: Vec<u8>,
    /// A command is complete that is too long for its worker.
    is_long: bool,
    /// The slow lane has asked for the answer, and it is not known yet.
    is_parked: bool,
    /// How it ends when all answers are sent.
    ending: Option<Ended>,
    pace: Pace,
    deadline: u32,
    last_active: u32,
}

impl<H: Handler> Connection<H> {
    /// Begins or continues in this second, with input that the previous process has not processed.
    pub(super) fn new(stream: Socket, session: Conversation<H>, unread: Vec<u8>, now: u32) -> Self {
        let mut connection = Self {
            stream,
            session,
            unsent: Vec::new(),
            unread,
            is_long: false,
            is_parked: false,
            ending: None,
            pace: Pace::default(),
            deadline: now + NEGOTIATION_SECONDS,
            last_active: now,
        };
        // One that was taken over is negotiated, and may be inside a message.
        connection.note(true, now);
        connection
    }

    pub(super) fn into_detached(self, history: Vec<u8>) -> Detached {
        let socket = self.stream.into();
        Detached { socket, history }
    }

    pub(super) fn into_session(self) -> Option<Box<Session<H>>> {
        self.session.renew()
    }

    pub(super) fn is_over(&self, now: u32) -> bool {
        now > self.deadline
    }

    /// Whether it has been silent, and outside of a message, for this long.
    pub(super) fn is_idle_for(&self, seconds: u32, now: u32) -> bool {
        !self.session.is_inside_message() && now >= self.last_active + seconds
    }

    /// Whether its handler answers later.
    pub(super) fn is_waiting(&self) -> bool {
        self.session.is_waiting()
    }

    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Serves the mail server until there is nothing to do, or other connections must be served.
    pub(super) fn turn(&mut self, signs: &mut Signs, turn: &mut Turn<'_>) -> Next {
        if std::mem::take(&mut signs.woken) {
            self.is_parked = false;
        }
        for _ in 0..READS_A_TURN {
            match self.step(signs, turn) {
                Ok(None) => {}
                Ok(Some(next)) => return next,
                Err(error) => return Next::End(lost(&error)),
            }
        }
        Next::Again
    }

    /// Unfinished work of earlier steps, or one read and its processing. `None`: there may be another step.
    fn step(&mut self, signs: &mut Signs, turn: &mut Turn<'_>) -> io::Result<Option<Next>> {
        let now = turn.now;
        let all_sent = self.send_rest(now)?;
        if turn.detaches {
            // Nobody waits for a mail server that does not read.
            let goes_on = all_sent && self.ending.is_none();
            return Ok(Some(Next::End(match goes_on {
                true => Ended::Detached(self.session.history(&self.unread)),
                false => self.ending.take().unwrap_or(Ended::Closed),
            })));
        }
        if !all_sent {
            return Ok(Some(Next::Wait));
        }
        if let Some(ended) = self.ending.take() {
            return Ok(Some(Next::End(ended)));
        }
        let is_slow = self.pace.is_slow(now);
        let most = if is_slow { 0 } else { LONG_PACKET_BYTES };
        if self.is_behind() {
            if self.is_parked {
                return Ok(Some(Next::Wait));
            }
            if self.is_long || is_slow && self.session.is_waiting() {
                // The mail server is not the cause of this delay.
                self.extend(IDLE_SECONDS, now);
                return Ok(Some(Next::Long));
            }
            let cx = &mut Context::from_waker(turn.waker);
            let advanced = self.advance(cx, most, now, &mut turn.buffers.output)?;
            return Ok((!advanced).then_some(Next::Wait));
        }
        if !signs.readable {
            return Ok(Some(Next::Wait));
        }
        let Buffers { input, output } = &mut *turn.buffers;
        let length = match self.stream.read(input) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                signs.readable = false;
                return Ok(Some(Next::Wait));
            }
            Err(error) => return Err(error),
        };
        if length == 0 {
            self.session.close();
            return Ok(Some(Next::End(Ended::Closed)));
        }
        // Less than the buffer holds was everything; more is announced again, but the end is not.
        signs.readable = length == input.len() || signs.hung_up;
        let input = input.get(..length).unwrap_or_default();
        output.clear();
        let taken = self.receive(most, input, now, output);
        self.unread
            .extend_from_slice(input.get(taken..).unwrap_or_default());
        self.reply(now, output)?;
        Ok(None)
    }

    /// Whether there is work to do before the next read.
    fn is_behind(&self) -> bool {
        self.is_long || self.session.is_waiting() || !self.unread.is_empty()
    }

    /// One step in the slow lane. Returns whether there is another one to make there: not if nothing is left, an answer is not
    /// known yet, or the mail server does not read one.
    pub(super) fn catch_up(
        &mut self,
        cx: &mut Context<'_>,
        now: u32,
        output: &mut Vec<u8>,
    ) -> Result<bool, Ended> {
        let advanced = self.advance(cx, usize::MAX, now, output);
        let advanced = advanced.map_err(|error| lost(&error))?;
        self.is_parked = !advanced;
        let goes_on = self.unsent.is_empty() && self.ending.is_none();
        Ok(advanced && self.is_behind() && goes_on)
    }

    /// One step with an answer that has arrived, or with stored input. `false` if an answer is not known yet.
    fn advance(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
        now: u32,
        output: &mut Vec<u8>,
    ) -> io::Result<bool> {
        // Removes the rest of a connection that ended in the middle of a step.
        output.clear();
        if self.session.is_waiting() {
            let begun = self.pace.time(now);
            let answer = self.session.poll_answer(cx, output);
            self.pace.note(begun, now);
            if answer == Poll::Pending {
                return Ok(false);
            }
            self.ending = self.session.has_ended().then_some(Ended::Closed);
            self.note(true, now);
        } else {
            let mut input = std::mem::take(&mut self.unread);
            let taken = self.receive(most, &input, now, output);
            if taken < input.len() {
                input.drain(..taken);
                self.unread = input;
            }
        }
        self.reply(now, output)?;
        Ok(true)
    }

    /// Passes input to the session, up to a command with more than `most` bytes. Returns how much of it was taken.
    fn receive(&mut self, most: usize, input: &[u8], now: u32, output: &mut Vec<u8>) -> usize {
        let inside_packet = self.session.is_inside_packet();
        let is_timed = self.is_long || input.len() >= TIMED_BYTES;
        let begun = is_timed.then(|| self.pace.time(now));
        let received = self.session.receive_up_to(most, input, output);
        if let Some(begun) = begun {
            self.pace.note(begun, now);
        }
        self.is_long = false;
        match received {
            Ok(progress) => {
                self.is_long = progress.status == Status::Long;
                self.ending = (progress.status == Status::Quit).then_some(Ended::Closed);
                self.note(!inside_packet || progress.commands > 0, now);
                progress.taken
            }
            Err(error) => {
                self.ending = Some(Ended::Broken(error));
                input.len()
            }
        }
    }

    /// Sets the deadline for the next event. `begun`: an incomplete packet is a new one.
    fn note(&mut self, begun: bool, now: u32) {
        if !self.session.is_negotiated() {
            // The deadline counts from the accept, even if bytes arrive slowly.
        } else if !self.session.is_inside_packet() {
            self.extend(IDLE_SECONDS, now);
        } else if begun {
            self.extend(PACKET_SECONDS, now);
        }
    }

    fn extend(&mut self, seconds: u32, now: u32) {
        self.deadline = now.saturating_add(seconds);
        self.last_active = now;
    }

    /// Writes the answers. What the socket does not accept at once is stored.
    fn reply(&mut self, now: u32, output: &[u8]) -> io::Result<()> {
        if output.is_empty() {
            self.stream.acknowledge();
            return Ok(());
        }
        let written = write_all(&self.stream, output)?;
        if written < output.len() {
            self.unsent
                .extend_from_slice(output.get(written..).unwrap_or_default());
            self.extend(WRITE_SECONDS, now);
        }
        Ok(())
    }

    /// Sends stored answers; `true` when all are sent.
    fn send_rest(&mut self, now: u32) -> io::Result<bool> {
        if self.unsent.is_empty() {
            return Ok(true);
        }
        let written = write_all(&self.stream, &self.unsent)?;
        if written > 0 {
            self.extend(WRITE_SECONDS, now);
        }
        self.unsent.drain(..written);
        if !self.unsent.is_empty() {
            return Ok(false);
        }
        self.unsent = Vec::new();
        self.note(true, now);
        Ok(true)
    }
}

impl<H> AsFd for Connection<H> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Whether the steps of a connection are long. Asking for the processor time of a thread takes a system call. So a step is
/// measured by the time that passed; the machine may be busy, so only after one that seemed long the processor time of the
/// next ones decides.
#[derive(Debug, Default)]
struct Pace {
    /// Until this second of its worker's clock, steps are long.
    slow_until: u32,
    /// Until this second, they are measured by processor time.
    doubted_until: u32,
}

impl Pace {
    fn is_slow(&self, now: u32) -> bool {
        now < self.slow_until
    }

    /// By the clock that measures the steps of this second.
    fn time(&self, now: u32) -> Duration {
        time_by(match now < self.doubted_until {
            true => ClockId::ThreadCPUTime,
            false => ClockId::Monotonic,
        })
    }

    fn note(&mut self, begun: Duration, now: u32) {
        if self.time(now).saturating_sub(begun) > LONG_STEP {
            let until = match now < self.doubted_until {
                true => &mut self.slow_until,
                false => &mut self.doubted_until,
            };
            *until = now.saturating_add(SLOW_SECONDS);
        }
    }
}

pub(super) fn time_by(clock: ClockId) -> Duration {
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}

/// Writes what the socket accepts; returns how much that was.
fn write_all(stream: &Socket, bytes: &[u8]) -> io::Result<usize> {
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        match stream.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(more) => written += more,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}

/// A mail server may disconnect at any time; a debug message is enough.
fn lost(error: &io::Error) -> Ended {
    tracing::debug!(%error, "a connection was lost");
    Ended::Cut(Cut::Lost)
}

#[cfg(test)]
mod tests {
    use crate::daemon::rig::Site;

    #[test]
    fn one_that_never_stops_does_not_keep_the_others_waiting() {
        let mut site = Site::new(10);
        let mut client = site.negotiated();
        client.send(&b"\0\0\0\x01A".repeat(10_000));
        drop(client);
        site.turn();
        assert_eq!(site.traffic.open(), 1, "it has not read all of this");
        // It continues where it was; in the slow lane if the machine is slow.
        while site.traffic.open() > 0 {
            site.serve();
        }
        assert_eq!(site.traffic.cut.sum(), 0);
    }
}
