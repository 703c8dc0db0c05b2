//! A worker under test, with a service that answers at length.
//!
//! Nothing here waits, except for a slow lane: a test gives the worker its turns, and counts its seconds.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::epoll::Event;
use rustix::time::ClockId;
use tempfile::TempDir;

use super::Service;
use super::accept::ConnectionLimit;
use super::bell::Bell;
use super::connection::{LONG_STEP, time_by};
use super::connections::Means;
use super::handover::Detached;
use super::shutdown::Stop;
use super::slow_lane::SlowLane;
use super::socket::Socket;
use super::traffic::Traffic;
use super::watchdog::Heartbeat;
use super::worker::Worker;
use crate::endpoint::Door;
use crate::milter::{Edit, Handler, Macros, Mailbox, Reply, ReplyText};

pub(super) const LATE_SECONDS: u32 = 6;
pub(super) const DRAIN_SECONDS: u32 = 20;

/// Answers each recipient at length, some of them late, and takes every message, some with much work.
pub(super) struct Verbose {
    text: ReplyText,
    seconds: Heartbeat,
    late: u32,
}

/// The name of a header that makes much work.
pub(super) const BUSY: &[u8] = b"Busy";

impl Handler for Verbose {
    fn rcpt(&mut self, recipient: Mailbox<&[u8]>, _: &Macros) -> Reply {
        match &*recipient.written() {
            b"<l>" => {
                self.late = self.seconds.load(Relaxed) + LATE_SECONDS;
                Reply::Later
            }
            b"<where>" => match thread::current().name() {
                Some("slow lane 1") => Reply::Tempfail,
                _ => Reply::Continue,
            },
            _ => Reply::Text(self.text.clone()),
        }
    }
    /// Nobody is woken.
    fn poll_later(&mut self, _: &mut Context<'_>) -> Poll<Reply> {
        match self.seconds.load(Relaxed) < self.late {
            true => Poll::Pending,
            false => Poll::Ready(Reply::Text(self.text.clone())),
        }
    }
    fn header(&mut self, name: &[u8], _: &[u8]) -> bool {
        let time = || time_by(ClockId::ThreadCPUTime);
        let begun = time();
        while name == BUSY && time() < begun + 2 * LONG_STEP {}
        false
    }
    fn end_of_headers(&mut self, _: &Macros) -> Reply {
        Reply::Accept
    }
    fn end_of_message(&mut self, _: &Macros, _: &mut Vec<Edit>) -> Reply {
        Reply::Accept
    }
}

/// With the seconds of the worker.
pub(super) struct Talk(Heartbeat);

impl Service for Talk {
    type Handler = Verbose;
    fn handler(&self, _: Door) -> Verbose {
        let line = "x".repeat(400);
        Verbose {
            text: ReplyText::new(550, "5.7.1", &[line.as_str(); 32]).expect("a good text"),
            seconds: Arc::clone(&self.0),
            late: 0,
        }
    }
}

pub(super) const OFFER: &[u8] = b"\0\0\0\x0dO\0\0\0\x06\0\0\x01\xff\0\x1f\xff\xff";
pub(super) const MAIL: &[u8] = b"\0\0\0\x05M<a>\0";
pub(super) const RCPT: &[u8] = b"\0\0\0\x05R<c>\0";
pub(super) const LATE_RCPT: &[u8] = b"\0\0\0\x05R<l>\0";
pub(super) const END_OF_HEADERS: &[u8] = b"\0\0\0\x01N";

pub(super) struct Site {
    pub(super) worker: Worker<Talk>,
    pub(super) traffic: Arc<Traffic>,
    pub(super) folder: TempDir,
    events: Vec<Event>,
    begun: Instant,
    pub(super) seconds: u32,
}

impl Site {
    pub(super) fn new(connections_max: usize) -> Self {
        Self::with(connections_max, Vec::new())
    }

    /// One that goes on with these connections.
    pub(super) fn with(connections_max: usize, taken: Vec<Detached>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = UnixListener::bind(folder.path().join("m")).expect("a socket");
        let traffic = Arc::<Traffic>::default();
        let bell = Arc::new(Bell::new().expect("a descriptor"));
        let mut lanes = SlowLane::start_for(1).expect("a thread");
        let means = Means {
            service: Arc::new(Talk(Arc::clone(&bell.heartbeat))),
            bell,
            limit: Arc::new(ConnectionLimit::new(connections_max, Arc::clone(&traffic))),
            slow_lane: lanes.pop().expect("one thread"),
            drain: Duration::from_secs(DRAIN_SECONDS.into()),
        };
        let sockets = vec![(Door::Milter, Socket::new(listener).expect("a socket"))];
        let mut worker = Worker::new(sockets, means).expect("a worker");
        taken
            .into_iter()
            .for_each(|one| worker.connections.resume(one));
        Self {
            worker,
            traffic,
            folder,
            events: Vec::with_capacity(8),
            begun: Instant::now(),
            seconds: 0,
        }
    }

    pub(super) fn turn(&mut self) {
        let turn = self.worker.turn(Duration::ZERO, &mut self.events);
        turn.expect("no failure");
    }

    /// Gives the worker turns until it has nothing to do.
    pub(super) fn serve(&mut self) {
        (0..30).for_each(|_| self.turn());
    }

    /// The next answer, for which the slow lane may need time.
    pub(super) fn answer(&mut self, client: &mut Client) -> u8 {
        loop {
            self.serve();
            if let Some(answer) = client.answer() {
                return answer;
            }
        }
    }

    pub(super) fn wait(&mut self, seconds: u32) {
        for _ in 0..seconds {
            self.serve();
            self.seconds += 1;
            let now = self.begun + Duration::from_secs(self.seconds.into());
            self.worker.second();
            self.worker.look(now);
        }
        self.serve();
    }

    pub(super) fn stop(&mut self, stop: Stop) {
        self.worker.connections.means.bell.stop(stop);
        self.serve();
    }

    /// After how many seconds the worker has ended, and the connections that have detached then.
    pub(super) fn end(mut self) -> (u32, Vec<Detached>) {
        let begun = self.seconds;
        while !self.worker.has_ended() {
            self.wait(1);
        }
        let seconds = self.seconds - begun;
        (seconds, self.worker.run().expect("no failure"))
    }

    pub(super) fn connect(&self) -> Client {
        let stream = UnixStream::connect(self.folder.path().join("m")).expect("a connection");
        stream.set_nonblocking(true).expect("a socket");
        Client(stream)
    }

    /// A connection that has sent its offer, and read the answer.
    pub(super) fn negotiated(&mut self) -> Client {
        let mut client = self.connect();
        client.send(OFFER);
        self.serve();
        assert_eq!(client.answer(), Some(b'O'));
        client
    }

    /// After how many seconds it is closed.
    pub(super) fn seconds_to_end(&mut self, client: &mut Client) -> u32 {
        let begun = self.seconds;
        self.serve();
        while !client.is_closed() {
            self.wait(1);
            assert!(self.seconds - begun < 10_000, "it stays open");
        }
        self.seconds - begun
    }
}

pub(super) struct Client(pub(super) UnixStream);

impl Client {
    pub(super) fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("written");
    }

    /// The letter of the next answer, if there is one.
    pub(super) fn answer(&mut self) -> Option<u8> {
        let mut length = [0; 4];
        match self.0.read_exact(&mut length) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
            read => read.expect("an answer"),
        }
        let mut answer = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut answer).expect("all of it");
        answer.first().copied()
    }

    /// Reads what there is; whether the other side has closed the connection.
    pub(super) fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Err(error) => error.kind() != ErrorKind::WouldBlock,
            Ok(_) => true,
        }
    }
}
