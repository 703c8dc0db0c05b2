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
//! A real message takes some ten microseconds a step. A connection that takes longer, or is
//! about to, goes on in the slow lane of its worker: one connection of it has a turn, then all
//! others that have something to do, then the next one of it. So however many senders make their
//! messages as costly as they can, nobody else waits for more than one of them.
//!
//! Per round trip that is one `recv` and one `send`. Deadlines cost nothing here: a
//! connection notes in its [`ConnectionState`] until when it may live, and its worker ends the
//! ones that are over.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::ReadBuf;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;

use super::handover::Detached;
use super::socket::Transport;
use super::state::{ConnectionState, IDLE_SECONDS, PACKET_SECONDS, WRITE_SECONDS};
use crate::milter::{Handler, Session, Status};

/// Read at once. Postfix writes 4 KiB at a time, so this takes all it has sent.
const READ_BYTES: usize = 8 << 10;

/// A turn ends after so many reads. A mail server waits after each of its own, so that only one
/// gone wild comes here.
const READS_A_TURN: u32 = 4;
/// And after this time.
const TURN: Duration = Duration::from_micros(200);
/// A packet of which so much is there without its end will take its time. The headers of real
/// messages are shorter.
const LONG_PACKET_BYTES: usize = 4 << 10;

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

/// A connection: the socket, the session, and what could not be dealt with at once.
pub(super) struct Connection<S, H> {
    stream: S,
    session: Session<H>,
    state: Arc<ConnectionState>,
    /// Answers that the socket did not take yet. Empty but for a stuck mail server.
    unsent: Vec<u8>,
    /// Input that must wait until they are sent. Empty but for a broken one.
    unread: Vec<u8>,
    /// The session has ended: close once all is sent.
    ending: bool,
    /// The session has ended by this kind of error.
    broken: Option<&'static str>,
    /// Makes room for another connection when this one is gone. One that was taken over
    /// may be above the limit.
    _permit: Option<OwnedSemaphorePermit>,
}

impl<S: Transport, H: Handler> Connection<S, H> {
    pub(super) fn new(
        stream: S,
        session: Session<H>,
        state: Arc<ConnectionState>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Self {
        let connection = Self {
            stream,
            session,
            state,
            unsent: Vec::new(),
            unread: Vec::new(),
            ending: false,
            broken: None,
            _permit: permit,
        };
        // One that was taken over is negotiated, and perhaps inside a message.
        connection.note(true);
        connection
    }

    /// Serves the mail server until it quits, hangs up, or breaks the protocol; or until
    /// another process is to go on. `slow_lane` has one permit, for all connections of the worker.
    pub(super) async fn serve(mut self, slow_lane: Arc<Semaphore>) -> Ended {
        let mut in_lane = None;
        let ended = loop {
            let turn = poll_fn(|cx| {
                let permit = in_lane.take();
                BUFFERS.with_borrow_mut(|buffers| self.poll_turn(cx, buffers, permit.is_some()))
            });
            match turn.await {
                Ok(ControlFlow::Break(history)) => break Ok(history),
                Err(error) => break Err(error),
                Ok(ControlFlow::Continue(())) => {
                    in_lane = slow_lane.acquire().await.ok();
                    // Now the sockets are looked at, and all who are ready have a turn before.
                    yield_now().await;
                }
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

    /// One turn: until there is nothing to do, or it has become long. Breaks when the connection
    /// has ended; with a history when it is only left.
    fn poll_turn(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &mut Buffers,
        in_lane: bool,
    ) -> Poll<io::Result<ControlFlow<Option<Vec<u8>>>>> {
        self.state.wake_by(cx);
        let began = Instant::now();
        for _ in 0..READS_A_TURN {
            if !in_lane && self.session.held_bytes() > LONG_PACKET_BYTES {
                break;
            }
            let step = self.poll_step(cx, buffers)?;
            if let Poll::Ready(ControlFlow::Break(_)) = step {
                return step.map(Ok);
            }
            if began.elapsed() > TURN {
                break;
            }
            if step.is_pending() {
                return Poll::Pending;
            }
        }
        Poll::Ready(Ok(ControlFlow::Continue(())))
    }

    /// The next step: an answer that was waited for, or one read and what comes of it.
    fn poll_step(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &mut Buffers,
    ) -> Poll<io::Result<ControlFlow<Option<Vec<u8>>>>> {
        ready!(self.poll_unsent(cx))?;
        if self.ending {
            return Poll::Ready(Ok(ControlFlow::Break(None)));
        }
        if self.state.detaches()
            && self.unread.is_empty()
            && let Some(history) = self.session.history()
        {
            return Poll::Ready(Ok(ControlFlow::Break(Some(history))));
        }
        // Whatever a connection left there that ended in the middle.
        buffers.output.clear();
        if self.session.is_waiting() {
            // Nothing is read meanwhile; a mail server that hangs up is noticed afterwards.
            ready!(self.session.poll_answer(cx, &mut buffers.output));
            self.note(true);
        } else if self.unread.is_empty() {
            let mut read = ReadBuf::new(&mut buffers.input);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut read))?;
            let input = read.filled();
            if input.is_empty() {
                return Poll::Ready(Ok(ControlFlow::Break(None)));
            }
            let taken = self.receive(input, &mut buffers.output);
            self.unread
                .extend_from_slice(input.get(taken..).unwrap_or_default());
        } else {
            let mut input = std::mem::take(&mut self.unread);
            let taken = self.receive(&input, &mut buffers.output);
            if taken < input.len() {
                input.drain(..taken);
                self.unread = input;
            }
        }
        if buffers.output.is_empty() {
            self.stream.acknowledge();
        } else {
            self.write(cx, &buffers.output)?;
        }
        Poll::Ready(Ok(ControlFlow::Continue(())))
    }

    /// Gives input to the session; how much it took.
    fn receive(&mut self, input: &[u8], output: &mut Vec<u8>) -> usize {
        let inside_packet = self.session.is_inside_packet();
        match self.session.receive(input, output) {
            Ok(progress) => {
                self.ending = progress.status == Status::Quit;
                self.note(!inside_packet || progress.commands > 0);
                progress.taken
            }
            Err(error) => {
                tracing::info!(%error, "closing a connection: the peer does not speak the milter protocol");
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

    /// Writes the answers; what the socket does not take at once is put by.
    fn write(&mut self, cx: &mut Context<'_>, output: &[u8]) -> io::Result<()> {
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
    use crate::milter::{Client, Edit, Macros, Reply, Wanted};
    use std::os::fd::OwnedFd;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use std::task::Waker;
    use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};

    /// Takes every message.
    struct Open;

    impl Handler for Open {
        fn wanted(&self) -> Wanted {
            Wanted::default()
        }
        fn connect(&mut self, _: &Client<'_>, _: &Macros) {}
        fn mail(&mut self, _: &[u8], _: &Macros) {}
        fn rcpt(&mut self, _: &[u8], _: &Macros) -> Reply {
            Reply::Continue
        }
        fn header(&mut self, _: &[u8], _: &[u8]) {}
        fn end_of_headers(&mut self, _: &Macros) -> Reply {
            Reply::Accept
        }
        fn end_of_message(&mut self, _: &Macros, _: &mut Vec<Edit>) -> Reply {
            Reply::Accept
        }
        fn abort(&mut self) {}
    }

    /// A mail server that negotiates and then sends ABORT without end.
    struct Wild {
        reads: Arc<AtomicU32>,
    }

    impl Transport for Wild {
        fn into_socket(self) -> io::Result<OwnedFd> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    impl AsyncRead for Wild {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            into: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let reads = self.reads.fetch_add(1, Relaxed);
            if reads == 0 {
                into.put_slice(b"\0\0\0\x0dO\0\0\0\x06\0\0\x01\xff\0\x1f\xff\xff");
            } else if reads < 1000 {
                into.put_slice(&b"\0\0\0\x01A".repeat(1000));
            }
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Wild {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }
        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn one_that_never_stops_does_not_keep_the_others_waiting() {
        let reads = Arc::default();
        let stream = Wild {
            reads: Arc::clone(&reads),
        };
        let permits = Arc::new(Semaphore::new(1));
        let permit = permits.try_acquire_owned().expect("one is free");
        let state = Arc::new(ConnectionState::new(Arc::default()));
        let lane = Arc::new(Semaphore::new(1));
        let serving = Connection::new(stream, Session::new(Open), state, Some(permit)).serve(lane);
        let mut serving = std::pin::pin!(serving);
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(serving.as_mut().poll(cx).is_pending());
        assert!((1..=READS_A_TURN).contains(&reads.load(Relaxed)));
        // It goes on where it was, and ends with the stream.
        while serving.as_mut().poll(cx).is_pending() {}
        assert_eq!(reads.load(Relaxed), 1001);
    }

    impl Transport for DuplexStream {
        fn into_socket(self) -> io::Result<OwnedFd> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    /// What there is to read.
    fn received(stream: &mut DuplexStream) -> usize {
        let mut answers = [0; 100];
        let mut answers = ReadBuf::new(&mut answers);
        let cx = &mut Context::from_waker(Waker::noop());
        let _ = Pin::new(stream).poll_read(cx, &mut answers);
        answers.filled().len()
    }

    #[test]
    fn those_that_take_their_time_go_on_one_after_the_other() {
        let cx = &mut Context::from_waker(Waker::noop());
        let lane = Arc::new(Semaphore::new(1));
        let (mut peer, stream) = tokio::io::duplex(64 << 10);
        let state = Arc::new(ConnectionState::new(Arc::default()));
        let serving = Connection::new(stream, Session::new(Open), state, None);
        let mut serving = std::pin::pin!(serving.serve(Arc::clone(&lane)));
        let mut serve = |peer: &mut DuplexStream, bytes: &[u8]| {
            let written = Pin::new(peer).poll_write(cx, bytes);
            assert!(matches!(written, Poll::Ready(Ok(n)) if n == bytes.len()));
            for _ in 0..10 {
                assert!(serving.as_mut().poll(cx).is_pending());
            }
        };
        serve(
            &mut peer,
            b"\0\0\0\x0dO\0\0\0\x06\0\0\x01\xff\0\x1f\xff\xff",
        );
        assert_eq!(received(&mut peer), 17);
        // A recipient behind a long packet, of which one half is there.
        let mut mail = [&5001_u32.to_be_bytes()[..], b"M"].concat();
        mail.resize(4 + 5001, 0);
        let (head, tail) = mail.split_at(4_500);
        let tail = [tail, b"\0\0\0\x05R<c>\0"].concat();
        serve(&mut peer, head);
        let other = lane.try_acquire().expect("it is free");
        serve(&mut peer, &tail);
        assert_eq!(received(&mut peer), 0, "another one has its turn");
        drop(other);
        serve(&mut peer, b"");
        assert_eq!(received(&mut peer), 5);
        assert_eq!(lane.available_permits(), 1);
    }
}
