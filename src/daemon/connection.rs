//! One connection of a mail server, from accept to close.
//!
//! Each connection is a task. It reads the available bytes, passes them to its [`Conversation`], and writes all answers at
//! once. It has no read buffer of its own: while it reads, decides and writes, it borrows the buffer of its thread, and
//! does not wait. The session stores an incomplete packet. So ten thousand idle connections need memory only for their
//! tasks.
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
//! A step of a real message takes about ten microseconds. If a step is expected to take longer, because a long packet is
//! complete or earlier steps took long, the session stops before it ([`Status::Long`]), and it runs in the
//! [`slow_lane`](super::slow_lane), a separate thread: the whole connection moves there, and comes back with the answer. So
//! the worker can serve other connections at once, however many senders send messages that are as costly as possible.
//!
//! A round trip needs one `recv` and one `send`. Timeouts cost nothing here: a connection stores its deadline in its
//! [`ConnectionState`], and the worker ends connections whose deadline has passed.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::ReadBuf;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::yield_now;

use super::handover::Detached;
use super::slow_lane::{LONG_PACKET_BYTES, Pace, step_in};
use super::socket::Transport;
use super::state::{ConnectionState, IDLE_SECONDS, PACKET_SECONDS, WRITE_SECONDS};
use crate::door::Conversation;
use crate::milter::{Handler, Status};

/// Bytes per read. Postfix writes 4 KiB at a time, so one read gets all of it.
const READ_BYTES: usize = 8 << 10;

/// A turn ends after this many reads. A normal mail server waits for answers, so only a faulty one reaches this.
const READS_A_TURN: u32 = 4;
/// With less input than this, a step is never long, and its time is not measured.
const TIMED_BYTES: usize = 1 << 10;

/// How a connection ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// Normally, by the mail server.
    Closed,
    /// Another process continues it.
    Detached(Detached),
    /// The mail server broke the protocol ([`ProtocolError::kind`](crate::milter::ProtocolError::kind)).
    Broken(&'static str),
    /// A read or write failed.
    Lost,
}

/// How a turn ended. (A turn is what a task does before other tasks of its thread run.)
enum Turn {
    /// There may be more to do, after other connections have been served.
    Over,
    /// The next step must run in the slow lane.
    Long,
    /// The connection has ended. It has a history if another process continues it.
    Last(Option<Vec<u8>>),
}

/// The buffers for both directions of a thread's current connection.
struct Buffers {
    input: Box<[u8]>,
    output: Vec<u8>,
}

thread_local! {
    /// Borrowed only within one poll.
    static BUFFERS: RefCell<Buffers> = RefCell::new(Buffers {
        input: vec![0; READ_BYTES].into_boxed_slice(),
        output: Vec::new(),
    });
}

/// A connection: the socket, the session, and unprocessed input and output. It is boxed, so that moving it to the slow lane
/// and back needs no memory in its task.
pub(super) struct Connection<S, H> {
    stream: S,
    session: Conversation<H>,
    state: Arc<ConnectionState>,
    /// Answers that the socket has not accepted yet. Empty, unless the mail server does not read.
    unsent: Vec<u8>,
    /// Input that must wait until these are sent, or for the slow lane.
    unread: Vec<u8>,
    /// A command is complete that is too long for this thread.
    is_long: bool,
    /// The session has ended: close the connection when all answers are sent.
    ending: bool,
    /// The session has ended with this kind of error.
    broken: Option<&'static str>,
    pace: Pace,
    /// Allows another connection when this one ends. `None` if it was taken over above the limit.
    _permit: Option<OwnedSemaphorePermit>,
}

impl<S: Transport, H: Handler + Send + 'static> Connection<S, H> {
    pub(super) fn new(
        stream: S,
        mut session: Conversation<H>,
        state: Arc<ConnectionState>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Box<Self> {
        let unread = session.take_unread();
        let connection = Box::new(Self {
            stream,
            session,
            state,
            unsent: Vec::new(),
            unread,
            is_long: false,
            ending: false,
            broken: None,
            pace: Pace::default(),
            _permit: permit,
        });
        // A connection that was taken over is negotiated, and may be inside a message.
        connection.note(true);
        connection
    }

    /// Serves the mail server until it quits, closes the connection, or breaks the protocol, or until another process
    /// takes over. Long steps run in the `slow_lane`.
    pub(super) async fn serve(mut self: Box<Self>, slow_lane: Handle) -> Ended {
        let ended = loop {
            let turn = poll_fn(|cx| BUFFERS.with_borrow_mut(|buffers| self.poll_turn(cx, buffers)));
            match turn.await {
                Ok(Turn::Over) => yield_now().await,
                Ok(Turn::Long) => {
                    // The mail server is not the cause of this delay, so its deadline is extended.
                    self.state.extend(IDLE_SECONDS);
                    let step = async move {
                        let made = self.catch_up().await;
                        (self, made)
                    };
                    let Some((connection, made)) = step_in(&slow_lane, step).await else {
                        return Ended::Lost;
                    };
                    self = connection;
                    if let Err(error) = made {
                        break Err(error);
                    }
                }
                Ok(Turn::Last(history)) => break Ok(history),
                Err(error) => break Err(error),
            }
        };
        // A mail server may disconnect at any time; a debug message is enough.
        let ended = ended.and_then(|history| {
            let Some(history) = history else {
                return Ok(self.broken.map_or(Ended::Closed, Ended::Broken));
            };
            let socket = self.stream.into_socket()?;
            Ok(Ended::Detached(Detached { socket, history }))
        });
        ended.unwrap_or_else(|error| {
            tracing::debug!(%error, "a connection was lost");
            Ended::Lost
        })
    }

    /// One turn: until there is nothing to do, or other connections must be served.
    fn poll_turn(&mut self, cx: &mut Context<'_>, buffers: &mut Buffers) -> Poll<io::Result<Turn>> {
        self.state.wake_by(cx);
        for _ in 0..READS_A_TURN {
            if let Some(end) = ready!(self.poll_step(cx, buffers))? {
                return Poll::Ready(Ok(end));
            }
        }
        Poll::Ready(Ok(Turn::Over))
    }

    /// The next step: unfinished work of earlier steps, or one read and its processing. `None`: there may be another step.
    fn poll_step(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &mut Buffers,
    ) -> Poll<io::Result<Option<Turn>>> {
        let sent = self.poll_unsent(cx)?;
        if self.state.detaches() {
            // Nobody waits for a mail server that does not read.
            let goes_on = sent.is_ready() && !self.ending;
            if !goes_on || self.session.may_end() {
                let history = goes_on.then(|| self.session.history(&self.unread));
                return Poll::Ready(Ok(Some(Turn::Last(history.flatten()))));
            }
        }
        ready!(sent);
        if self.ending {
            return Poll::Ready(Ok(Some(Turn::Last(None))));
        }
        let is_slow = self.pace.is_slow(self.state.now());
        let most = if is_slow { 0 } else { LONG_PACKET_BYTES };
        if self.is_behind() {
            if self.is_long || is_slow && self.session.is_waiting() {
                return Poll::Ready(Ok(Some(Turn::Long)));
            }
            return self.poll_rest(cx, most, buffers).map_ok(|()| None);
        }
        let mut read = ReadBuf::new(&mut buffers.input);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut read))?;
        let input = read.filled();
        if input.is_empty() {
            self.session.close();
            return Poll::Ready(Ok(Some(Turn::Last(None))));
        }
        // Removes the rest of a connection that ended in the middle of a step.
        buffers.output.clear();
        let taken = self.receive(most, input, &mut buffers.output);
        self.unread
            .extend_from_slice(input.get(taken..).unwrap_or_default());
        self.reply(cx, &buffers.output)?;
        Poll::Ready(Ok(None))
    }

    /// Whether there is unfinished work to do before the next read.
    fn is_behind(&self) -> bool {
        self.is_long || self.session.is_waiting() || !self.unread.is_empty()
    }

    /// Runs in the slow lane, until there is no unfinished work, the mail server does not accept an answer, or another
    /// process takes over.
    async fn catch_up(&mut self) -> io::Result<()> {
        loop {
            let mut detaches = false;
            poll_fn(|cx| {
                self.state.wake_by(cx);
                detaches = self.state.detaches();
                if detaches {
                    return Poll::Ready(Ok(()));
                }
                BUFFERS.with_borrow_mut(|buffers| self.poll_rest(cx, usize::MAX, buffers))
            })
            .await?;
            if detaches || !self.is_behind() || !self.unsent.is_empty() || self.ending {
                return Ok(());
            }
            yield_now().await;
        }
    }

    /// One step without reading: with an answer that has arrived, or with stored input.
    fn poll_rest(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
        buffers: &mut Buffers,
    ) -> Poll<io::Result<()>> {
        buffers.output.clear();
        if self.session.is_waiting() {
            // Nothing is read until then, so a closed connection is noticed only afterwards.
            let begun = self.pace.begin(self.state.now());
            let answer = self.session.poll_answer(cx, &mut buffers.output);
            self.pace.note(&begun, self.state.now());
            ready!(answer);
            self.note(true);
        } else {
            let mut input = std::mem::take(&mut self.unread);
            let taken = self.receive(most, &input, &mut buffers.output);
            if taken < input.len() {
                input.drain(..taken);
                self.unread = input;
            }
        }
        Poll::Ready(self.reply(cx, &buffers.output))
    }

    /// Passes input to the session, up to a command with more than `most` bytes. Returns how much of it was processed.
    fn receive(&mut self, most: usize, input: &[u8], output: &mut Vec<u8>) -> usize {
        let inside_packet = self.session.is_inside_packet();
        let is_timed = self.is_long || input.len() >= TIMED_BYTES;
        let begun = is_timed.then(|| self.pace.begin(self.state.now()));
        let received = self.session.receive_up_to(most, input, output);
        if let Some(begun) = begun {
            self.pace.note(&begun, self.state.now());
        }
        self.is_long = false;
        match received {
            Ok(progress) => {
                self.is_long = progress.status == Status::Long;
                self.ending = progress.status == Status::Quit;
                self.note(!inside_packet || progress.commands > 0);
                progress.taken
            }
            Err(error) => {
                tracing::info!(%error, "closing a connection: the peer does not speak the protocol of this socket; check what else connects to it");
                self.ending = true;
                self.broken = Some(error.kind());
                input.len()
            }
        }
    }

    /// Sets the deadline for the next event. `begun`: if a packet is incomplete, it is a new one.
    fn note(&self, begun: bool) {
        let state = &self.state;
        state.note_message(self.session.is_inside_message());
        if !self.session.is_negotiated() {
            // The deadline counts from the accept, even if bytes arrive slowly.
        } else if !self.session.is_inside_packet() {
            state.extend(IDLE_SECONDS);
        } else if begun {
            state.extend(PACKET_SECONDS);
        }
    }

    /// Writes the answers, if there are any. What the socket does not accept at once is stored.
    fn reply(&mut self, cx: &mut Context<'_>, output: &[u8]) -> io::Result<()> {
        if output.is_empty() {
            self.stream.acknowledge();
        }
        let mut rest = output;
        while !rest.is_empty() {
            match Pin::new(&mut self.stream).poll_write(cx, rest) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(written)) => rest = rest.get(written..).unwrap_or_default(),
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => {
                    self.unsent.extend_from_slice(rest);
                    self.state.extend(WRITE_SECONDS);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Sends stored answers; ready when all are sent.
    fn poll_unsent(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.unsent.is_empty() {
            return Poll::Ready(Ok(()));
        }
        while !self.unsent.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.unsent))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unsent.drain(..written);
            self.state.extend(WRITE_SECONDS);
        }
        self.unsent = Vec::new();
        self.note(true);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::rig::{BUSY, Busy, Wild, lane, received};
    use crate::daemon::slow_lane::SLOW_SECONDS;
    use crate::endpoint::Door;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use std::task::Waker;
    use tokio::io::AsyncWrite;

    #[test]
    fn one_that_never_stops_does_not_keep_the_others_waiting() {
        let reads = Arc::default();
        let stream = Wild {
            reads: Arc::clone(&reads),
        };
        let lane = lane();
        let state = Arc::new(ConnectionState::new(Arc::default()));
        let serving = Connection::new(stream, Conversation::new(Door::Milter, Busy), state, None);
        let mut serving = std::pin::pin!(serving.serve(lane.handle().clone()));
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(serving.as_mut().poll(cx).is_pending());
        assert!((1..=READS_A_TURN).contains(&reads.load(Relaxed)));
        // It continues where it was, and ends with the stream.
        while serving.as_mut().poll(cx).is_pending() {
            lane.block_on(yield_now());
        }
        assert_eq!(reads.load(Relaxed), 1001);
    }

    #[test]
    fn long_steps_are_made_in_the_slow_lane() {
        let cx = &mut Context::from_waker(Waker::noop());
        let lane = lane();
        let (mut peer, stream) = tokio::io::duplex(64 << 10);
        let now = Arc::<AtomicU32>::default();
        let state = Arc::new(ConnectionState::new(Arc::clone(&now)));
        let serving = Connection::new(stream, Conversation::new(Door::Milter, Busy), state, None);
        let mut serving = std::pin::pin!(serving.serve(lane.handle().clone()));
        // Answers from the worker, and then from the slow lane.
        let mut serve = |bytes: &[u8]| {
            let written = Pin::new(&mut peer).poll_write(cx, bytes);
            assert!(matches!(written, Poll::Ready(Ok(n)) if n == bytes.len()));
            let mut go = || {
                for _ in 0..10 {
                    assert!(serving.as_mut().poll(cx).is_pending());
                }
                received(&mut peer)
            };
            let worker = go();
            lane.block_on(async {
                for _ in 0..10 {
                    yield_now().await;
                }
            });
            (worker, go())
        };
        let packet = |code: u8, payload: &[u8]| {
            let length = u32::try_from(1 + payload.len()).expect("it is short");
            [&length.to_be_bytes(), &[code][..], payload].concat()
        };
        let rcpt = packet(b'R', b"<c>\0");
        assert_eq!(
            serve(b"\0\0\0\x0dO\0\0\0\x06\0\0\x01\xff\0\x1f\xff\xff"),
            (17, 0)
        );
        // A recipient after a long packet, which arrives in one piece or in two.
        let mail = packet(b'M', &[b'm'; 5000]);
        assert_eq!(serve(&[&*mail, &rcpt].concat()), (0, 5));
        let (head, tail) = mail.split_at(4_500);
        assert_eq!(serve(head), (0, 0));
        assert_eq!(serve(&[tail, &rcpt].concat()), (0, 5));
        // In case the machine was so slow that even this counted as long.
        now.fetch_add(SLOW_SECONDS, Relaxed);
        assert_eq!(serve(&rcpt), (5, 0), "this one is short");

        // A short packet that takes long to process.
        let header = packet(b'L', &[BUSY, b"\0", &[b'v'; TIMED_BYTES], b"\0"].concat());
        let long = [&*header, &rcpt].concat();
        assert_eq!(serve(&long), (5, 0));
        assert_eq!(serve(&long), (5, 0), "the machine may have been busy");
        assert_eq!(serve(&rcpt), (0, 5), "the next one may take as long");
        assert_eq!(serve(&rcpt[..7]), (0, 0));
        now.fetch_add(SLOW_SECONDS, Relaxed);
        assert_eq!(serve(&rcpt[7..]), (5, 0), "but not for ever");
    }
}
