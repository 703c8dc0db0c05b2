//! One connection of a mail server, from accept to close.
//!
//! A task that reads what is there, gives it to its [`Session`], and writes all answers
//! at once. It holds no read buffer: it waits for bytes with none, then borrows one of
//! its thread for the moment in which it reads, decides and writes, and nothing in there
//! waits. An incomplete packet is kept by the session. So ten thousand idle connections
//! cost their tasks and no more.
//!
//! ```text
//!   wait until readable -> [ read -> session -> write ] -> wait ...
//!                                     |           | could not write all
//!                                     |           v
//!                                     |    wait until writable, and read nothing meanwhile
//!                                     | an answer is not known yet
//!                                     v
//!                      wait until the handler has it, and read nothing meanwhile
//! ```
//!
//! A real message takes some ten microseconds a step. A step that will take longer, since a long
//! packet is complete or steps before it took long, is made in the [`slow_lane`](super::slow_lane), a
//! thread of its own: the connection goes there as a whole, with the input that it has, and comes
//! back with the answer. So however many senders make their messages as costly as they can, the worker
//! goes on with the others at once.
//!
//! Per round trip that is one `recv` and one `send`. Deadlines cost nothing here: a
//! connection notes in its [`ConnectionState`] until when it may live, and its worker ends the
//! ones that are over.

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
use super::slow_lane::{LONG_PACKET_BYTES, Pace, processor_time, step_in};
use super::socket::Transport;
use super::state::{ConnectionState, IDLE_SECONDS, PACKET_SECONDS, WRITE_SECONDS};
use crate::milter::{Handler, Session, Status};

/// Read at once. Postfix writes 4 KiB at a time, so this takes all it has sent.
const READ_BYTES: usize = 8 << 10;

/// A turn ends after so many reads. A mail server waits after each of its own, so that only one
/// gone wild comes here.
const READS_A_TURN: u32 = 4;
/// Less input than this makes no long step, and its time is not taken.
const TIMED_BYTES: usize = 1 << 10;

/// How a connection ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// In order, by the mail server.
    Closed,
    /// Another process goes on with it.
    Detached(Detached),
    /// The mail server broke the protocol ([`ProtocolError::kind`](crate::milter::ProtocolError::kind)).
    Broken(&'static str),
    /// A read or write failed.
    Lost,
}

/// How a turn ended.
enum Turn {
    /// There may be more to do, after the others have had theirs.
    Over,
    /// The next step is one for the slow lane.
    Long,
    /// The connection has ended; with a history when it is only left.
    Last(Option<Vec<u8>>),
}

/// Both directions of a thread's current connection.
struct Buffers {
    input: Box<[u8]>,
    output: Vec<u8>,
}

thread_local! {
    /// Borrowed inside one poll, never across one.
    static BUFFERS: RefCell<Buffers> = RefCell::new(Buffers {
        input: vec![0; READ_BYTES].into_boxed_slice(),
        output: Vec::new(),
    });
}

/// A connection: the socket, the session, and what could not be dealt with at once. It lives in a box, so that
/// its way to the slow lane and back takes no room in its task.
pub(super) struct Connection<S, H> {
    stream: S,
    session: Session<H>,
    state: Arc<ConnectionState>,
    /// Answers that the socket did not take yet. Empty but for a stuck mail server.
    unsent: Vec<u8>,
    /// Input that must wait until they are sent, or for a turn in the slow lane.
    unread: Vec<u8>,
    /// The session has ended: close once all is sent.
    ending: bool,
    /// The session has ended by this kind of error.
    broken: Option<&'static str>,
    pace: Pace,
    /// Makes room for another connection when this one is gone. One that was taken over
    /// may be above the limit.
    _permit: Option<OwnedSemaphorePermit>,
}

impl<S: Transport, H: Handler + Send + 'static> Connection<S, H> {
    pub(super) fn new(
        stream: S,
        session: Session<H>,
        state: Arc<ConnectionState>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Box<Self> {
        let connection = Box::new(Self {
            stream,
            session,
            state,
            unsent: Vec::new(),
            unread: Vec::new(),
            ending: false,
            broken: None,
            pace: Pace::default(),
            _permit: permit,
        });
        // One that was taken over is negotiated, and perhaps inside a message.
        connection.note(true);
        connection
    }

    /// Serves the mail server until it quits, closes the connection, or breaks the protocol; or until
    /// another process is to go on. Long steps are made in the `slow_lane`.
    pub(super) async fn serve(mut self: Box<Self>, slow_lane: Handle) -> Ended {
        let ended = loop {
            let turn = poll_fn(|cx| BUFFERS.with_borrow_mut(|buffers| self.poll_turn(cx, buffers)));
            match turn.await {
                Ok(Turn::Over) => yield_now().await,
                Ok(Turn::Long) => {
                    // It is not the mail server now that lets the others wait.
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
        // A mail server may vanish at any point; that is not worth more than this.
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

    /// One turn: until there is nothing to do, or others have theirs.
    fn poll_turn(&mut self, cx: &mut Context<'_>, buffers: &mut Buffers) -> Poll<io::Result<Turn>> {
        self.state.wake_by(cx);
        for _ in 0..READS_A_TURN {
            if let Some(end) = ready!(self.poll_step(cx, buffers))? {
                return Poll::Ready(Ok(end));
            }
        }
        Poll::Ready(Ok(Turn::Over))
    }

    /// The next step: what is left of earlier ones, or one read and what comes of it. `None`: there
    /// may be another one.
    fn poll_step(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &mut Buffers,
    ) -> Poll<io::Result<Option<Turn>>> {
        ready!(self.poll_unsent(cx))?;
        if self.ending {
            return Poll::Ready(Ok(Some(Turn::Last(None))));
        }
        if self.is_behind() {
            if self.will_be_long(&self.unread) {
                return Poll::Ready(Ok(Some(Turn::Long)));
            }
            return self.poll_rest(cx, buffers).map_ok(|()| None);
        }
        if self.state.detaches()
            && let Some(history) = self.session.history()
        {
            return Poll::Ready(Ok(Some(Turn::Last(Some(history)))));
        }
        let mut read = ReadBuf::new(&mut buffers.input);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut read))?;
        let input = read.filled();
        if input.is_empty() {
            return Poll::Ready(Ok(Some(Turn::Last(None))));
        }
        if self.will_be_long(input) {
            self.unread.extend_from_slice(input);
            return Poll::Ready(Ok(Some(Turn::Long)));
        }
        // Whatever a connection left there that ended in the middle.
        buffers.output.clear();
        let taken = self.receive(input, &mut buffers.output);
        self.unread
            .extend_from_slice(input.get(taken..).unwrap_or_default());
        self.reply(cx, &buffers.output)?;
        Poll::Ready(Ok(None))
    }

    /// Whether something is to be done before more is read.
    fn is_behind(&self) -> bool {
        self.session.is_waiting() || !self.unread.is_empty()
    }

    /// Whether a step with this input is one for the slow lane.
    fn will_be_long(&self, input: &[u8]) -> bool {
        let longest = self.session.longest_command(input);
        let is_slow = self.pace.is_slow(self.state.now());
        longest.is_some_and(|bytes| is_slow || bytes > LONG_PACKET_BYTES)
            || is_slow && self.session.is_waiting()
    }

    /// In the slow lane: until nothing is left to do before more is read, or the mail server does not
    /// take an answer.
    async fn catch_up(&mut self) -> io::Result<()> {
        loop {
            poll_fn(|cx| BUFFERS.with_borrow_mut(|buffers| self.poll_rest(cx, buffers))).await?;
            if !self.is_behind() || !self.unsent.is_empty() || self.ending {
                return Ok(());
            }
            yield_now().await;
        }
    }

    /// One step with what is there: an answer that was waited for, or input that was put by.
    fn poll_rest(&mut self, cx: &mut Context<'_>, buffers: &mut Buffers) -> Poll<io::Result<()>> {
        buffers.output.clear();
        if self.session.is_waiting() {
            // Nothing is read meanwhile; a closed connection is noticed afterwards.
            let begun = processor_time();
            let answer = self.session.poll_answer(cx, &mut buffers.output);
            self.pace.note(begun, self.state.now());
            ready!(answer);
            self.note(true);
        } else {
            let mut input = std::mem::take(&mut self.unread);
            let taken = self.receive(&input, &mut buffers.output);
            if taken < input.len() {
                input.drain(..taken);
                self.unread = input;
            }
        }
        Poll::Ready(self.reply(cx, &buffers.output))
    }

    /// Gives input to the session; how much it took.
    fn receive(&mut self, input: &[u8], output: &mut Vec<u8>) -> usize {
        let inside_packet = self.session.is_inside_packet();
        let begun = (input.len() >= TIMED_BYTES).then(processor_time);
        let received = self.session.receive(input, output);
        if let Some(begun) = begun {
            self.pace.note(begun, self.state.now());
        }
        match received {
            Ok(progress) => {
                self.ending = progress.status == Status::Quit;
                self.note(!inside_packet || progress.commands > 0);
                progress.taken
            }
            Err(error) => {
                tracing::info!(%error, "closing a connection: the peer does not speak the milter protocol; check what else connects to this socket");
                self.ending = true;
                self.broken = Some(error.kind());
                input.len()
            }
        }
    }

    /// Notes what is waited for now. `begun`: an incomplete packet is not the one that was
    /// waited for before.
    fn note(&self, begun: bool) {
        let state = &self.state;
        state.note_message(self.session.is_inside_message());
        if !self.session.is_negotiated() {
            // The clock runs from the accept on, whatever trickles in.
        } else if !self.session.is_inside_packet() {
            state.extend(IDLE_SECONDS);
        } else if begun {
            state.extend(PACKET_SECONDS);
        }
    }

    /// Writes the answers, if there are any; what the socket does not take at once is put by.
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

    /// Sends what was put by; ready when nothing is left.
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
        let serving = Connection::new(stream, Session::new(Busy), state, None);
        let mut serving = std::pin::pin!(serving.serve(lane.handle().clone()));
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(serving.as_mut().poll(cx).is_pending());
        assert!((1..=READS_A_TURN).contains(&reads.load(Relaxed)));
        // It goes on where it was, and ends with the stream.
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
        let serving = Connection::new(stream, Session::new(Busy), state, None);
        let mut serving = std::pin::pin!(serving.serve(lane.handle().clone()));
        // Answers of the worker, and then of the slow lane.
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
        // A recipient behind a long packet, which comes in one piece or in two.
        let mail = packet(b'M', &[b'm'; 5000]);
        assert_eq!(serve(&[&*mail, &rcpt].concat()), (0, 5));
        let (head, tail) = mail.split_at(4_500);
        assert_eq!(serve(head), (0, 0));
        assert_eq!(serve(&[tail, &rcpt].concat()), (0, 5));
        // On a machine where even that took long.
        now.fetch_add(SLOW_SECONDS, Relaxed);
        assert_eq!(serve(&rcpt), (5, 0), "this one is short");

        // One that is no longer than others, but takes long.
        let header = packet(b'L', &[BUSY, b"\0", &[b'v'; TIMED_BYTES], b"\0"].concat());
        assert_eq!(serve(&[&*header, &rcpt].concat()), (5, 0));
        assert_eq!(serve(&rcpt), (0, 5), "the next one may take as long");
        assert_eq!(serve(&rcpt[..7]), (0, 0));
        now.fetch_add(SLOW_SECONDS, Relaxed);
        assert_eq!(serve(&rcpt[7..]), (5, 0), "but not for ever");
    }
}
