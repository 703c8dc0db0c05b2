//! A worker under test, with a service that answers at length; a handler with much work; mail servers and a slow lane
//! for a connection without a worker.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep, sleep};

use super::Service;
use super::accept::ConnectionLimit;
use super::handover::Detached;
use super::listen::Listener;
use super::shutdown::Stop;
use super::slow_lane::{LONG_STEP, processor_time};
use super::socket::Transport;
use super::watchdog::Heartbeat;
use super::worker::{Shared, run};
use crate::endpoint::Door;
use crate::milter::{Edit, Handler, Macros, Reply, ReplyText, Wanted};

/// Answers each recipient at length, some of them late, and takes every message.
pub(super) struct Verbose {
    text: ReplyText,
    late: Option<Pin<Box<Sleep>>>,
}

pub(super) const LATE_SECONDS: u64 = 6;

impl Handler for Verbose {
    fn rcpt(&mut self, argument: &[u8], _: &Macros) -> Reply {
        if argument == b"<l>" {
            self.late = Some(Box::pin(sleep(Duration::from_secs(LATE_SECONDS))));
            return Reply::Later;
        }
        Reply::Text(self.text.clone())
    }
    fn poll_later(&mut self, cx: &mut Context<'_>) -> Poll<Reply> {
        let late = self.late.as_mut().expect("it waits");
        late.as_mut()
            .poll(cx)
            .map(|()| Reply::Text(self.text.clone()))
    }
    fn end_of_headers(&mut self, _: &Macros) -> Reply {
        Reply::Accept
    }
    fn end_of_message(&mut self, _: &Macros, _: &mut Vec<Edit>) -> Reply {
        Reply::Accept
    }
}

impl Service for Verbose {
    type Handler = Self;
    fn handler(&self) -> Self {
        Self {
            text: self.text.clone(),
            late: None,
        }
    }
    fn watched(&self) -> Vec<PathBuf> {
        Vec::new()
    }
}

/// Takes every message, some with much work.
pub(super) struct Busy;

/// The name of a header that makes much work.
pub(super) const BUSY: &[u8] = b"Busy";

impl Handler for Busy {
    fn wanted(&self) -> Wanted {
        Wanted {
            headers: true,
            ..Wanted::default()
        }
    }
    fn rcpt(&mut self, _: &[u8], _: &Macros) -> Reply {
        Reply::Continue
    }
    fn header(&mut self, name: &[u8], _: &[u8]) -> bool {
        let begun = processor_time();
        while name == BUSY && processor_time() < begun + 2 * LONG_STEP {}
        false
    }
    fn end_of_headers(&mut self, _: &Macros) -> Reply {
        Reply::Accept
    }
    fn end_of_message(&mut self, _: &Macros, _: &mut Vec<Edit>) -> Reply {
        Reply::Accept
    }
}

/// A mail server that negotiates and then sends ABORT without end.
pub(super) struct Wild {
    pub(super) reads: Arc<AtomicU32>,
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

/// A slow lane that goes on only when a test has it do so.
pub(super) fn lane() -> Runtime {
    Builder::new_current_thread()
        .build()
        .expect("a runtime without anything")
}

impl Transport for DuplexStream {
    fn into_socket(self) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// What there is to read.
pub(super) fn received(stream: &mut DuplexStream) -> usize {
    let mut answers = [0; 100];
    let mut answers = ReadBuf::new(&mut answers);
    let cx = &mut Context::from_waker(Waker::noop());
    let _ = Pin::new(stream).poll_read(cx, &mut answers);
    answers.filled().len()
}

pub(super) const OFFER: &[u8] = b"\0\0\0\x0dO\0\0\0\x06\0\0\x01\xff\0\x1f\xff\xff";
pub(super) const MAIL: &[u8] = b"\0\0\0\x05M<a>\0";
pub(super) const RCPT: &[u8] = b"\0\0\0\x05R<c>\0";
pub(super) const LATE_RCPT: &[u8] = b"\0\0\0\x05R<l>\0";
pub(super) const END_OF_HEADERS: &[u8] = b"\0\0\0\x01N";

/// A worker in the runtime of the test, whose time passes as soon as nothing else is
/// left to do.
pub(super) struct Site {
    pub(super) worker: JoinHandle<io::Result<Vec<Detached>>>,
    pub(super) stop: watch::Sender<Option<Stop>>,
    pub(super) limit: Arc<ConnectionLimit>,
    pub(super) folder: TempDir,
}

impl Site {
    pub(super) fn new(connections_max: usize) -> Self {
        Self::with(connections_max, Vec::new())
    }

    /// One that goes on with these connections.
    pub(super) fn with(connections_max: usize, taken: Vec<Detached>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = StdUnixListener::bind(folder.path().join("m")).expect("a socket");
        listener.set_nonblocking(true).expect("a socket");
        let (stop, stopped) = watch::channel(None);
        let limit = Arc::new(ConnectionLimit::new(connections_max, Arc::default()));
        let line = "x".repeat(400);
        let lines = vec![line.as_str(); 32];
        let text = ReplyText::new(550, "5.7.1", &lines).expect("a good text");
        let shared = Shared {
            service: Arc::new(Verbose { text, late: None }),
            heartbeat: Heartbeat::default(),
            limit: Arc::clone(&limit),
            slow_lane: Handle::current(),
            stop: stopped,
            drain: Duration::from_secs(20),
        };
        let worker = tokio::spawn(run(
            vec![(Door::Milter, Listener::Unix(listener))],
            taken,
            shared,
        ));
        Self {
            worker,
            stop,
            limit,
            folder,
        }
    }

    pub(super) async fn connect(&self) -> UnixStream {
        UnixStream::connect(self.folder.path().join("m"))
            .await
            .expect("a connection")
    }

    /// A connection that has sent its offer, and read the answer.
    pub(super) async fn negotiated(&self) -> UnixStream {
        let mut stream = self.connect().await;
        stream.write_all(OFFER).await.expect("written");
        let mut answer = [0; 17];
        stream.read_exact(&mut answer).await.expect("an answer");
        stream
    }
}

/// The letter of the next answer.
pub(super) async fn answer(stream: &mut UnixStream) -> u8 {
    let length = stream.read_u32().await.expect("an answer");
    let mut answer = vec![0; length as usize];
    stream.read_exact(&mut answer).await.expect("all of it");
    answer[0]
}

/// Reads until the other side closes the connection; after how many seconds that was.
pub(super) async fn seconds_to_end(stream: &mut UnixStream) -> u64 {
    let begun = Instant::now();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    begun.elapsed().as_secs()
}
