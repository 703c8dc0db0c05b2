//! One thread that accepts connections and serves them.
//!
//! Each worker has a runtime of its own, of one thread, and its own descriptor of every
//! listening socket; a connection stays with the worker that accepted it. The work per
//! packet is a few microseconds, so handing a connection from thread to thread would
//! cost more than it evens out.
//!
//! The worker owns its connections: it hears when one ends or panics (which concerns
//! that one alone), and once a second it sweeps out those whose time is over, so that no
//! connection needs a timer. Above the limit of connections it stops accepting: a mail
//! server then waits in the queue of the socket, which is better than to be hung up on.
//!
//! ```text
//!  Serving --+-- HandOver: each connection leaves, with its history, between two commands
//!            +-- Finish: idle connections end, messages go on
//!            +-- Stay: nothing ends; if mail servers wait in vain to be accepted, Finish
//!                        |  no connection left, or the time is over
//!                        v
//!                      done
//! ```

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::AddressFamily;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use super::Service;
use super::connection::{Connection, Ended, Life};
use super::handover::Left;
use super::listen::Listener;
use super::traffic::{Cut, Traffic};
use super::watchdog::Pulse;
use crate::milter::{Handler, Session};

/// How long accepting pauses when the process has no descriptors or no memory left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often connections are looked over. All deadlines are whole seconds.
const SWEEP: Duration = Duration::from_secs(1);
/// At the end, a connection without a message is closed after this long without a word.
/// It costs an SMTP session its filter, even one whose MAIL the server holds back until
/// RCPT; but as long as this process is there, all new sessions are without any.
const FINISH_IDLE_SECONDS: u32 = 2;
/// When mail servers have waited to be accepted for so long, no other process does it.
const ALONE_SECONDS: u32 = 4;

/// What goes on and on is said again after this long.
const SAID_AGAIN: Duration = Duration::from_secs(60);

/// What a worker is given.
pub(super) struct Shared<S> {
    pub(super) service: Arc<S>,
    /// Shows that this worker is alive.
    pub(super) pulse: Pulse,
    /// The connections there may be, in all workers.
    pub(super) room: Arc<Room>,
    /// Says when the daemon is to stop, and how.
    pub(super) stop: watch::Receiver<Option<Stop>>,
    /// How long messages under way may take then.
    pub(super) drain: Duration,
}

/// What becomes of the connections at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Another process goes on with them.
    HandOver,
    /// New ones are refused until this process is gone: it ends soon.
    Finish,
    /// Another process may serve new ones already: these end in their own time.
    Stay,
}

/// Serves until it is told to stop, and then until the last connection has ended or left.
pub(super) async fn run<S: Service>(
    listeners: Vec<Listener>,
    taken: Vec<Left>,
    mut shared: Shared<S>,
) -> io::Result<Vec<Left>> {
    let mut sockets = listeners
        .into_iter()
        .map(Socket::new)
        .collect::<io::Result<Vec<_>>>()?;
    let mut worker = Worker {
        now: Arc::clone(&shared.pulse),
        tasks: JoinSet::new(),
        lives: HashMap::new(),
        slow_lane: Arc::new(Semaphore::new(1)),
        left: Vec::new(),
        traffic: Arc::clone(&shared.room.traffic),
    };
    for left in taken {
        worker.resume(left, &shared);
    }
    let mut sweep = interval(SWEEP);
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let stop = loop {
        tokio::select! {
            (stream, permit) = accept(&sockets, &shared.room) => {
                let session = Session::new(shared.service.handler());
                worker.spawn(stream, session, Some(permit));
            }
            Some(ended) = worker.tasks.join_next_with_id() => worker.reap(ended),
            _ = sweep.tick() => worker.sweep(None),
            stop = shared.stop.wait_for(Option::is_some) => {
                // Without anybody to say it, the daemon as a whole is gone.
                break stop.ok().and_then(|stop| *stop).unwrap_or(Stop::Finish);
            }
        }
    };
    let mut end = None;
    let mut alone = 0;
    if stop == Stop::HandOver {
        worker.leave();
    }
    if stop != Stop::Stay {
        end = Some(Instant::now() + shared.drain);
        // Closing our own sends new mail servers to the next process, if there is one.
        sockets.clear();
    }
    loop {
        tokio::select! {
            ended = worker.tasks.join_next_with_id() => match ended {
                Some(ended) => worker.reap(ended),
                None => return Ok(worker.left),
            },
            _ = sweep.tick() => {
                let waiting = sockets.iter().any(Socket::has_queue);
                alone = if waiting { alone + 1 } else { 0 };
                if alone > ALONE_SECONDS && end.is_none() {
                    tracing::info!("not accepting new connections, finishing messages in progress");
                    end = Some(Instant::now() + shared.drain);
                }
                let finish = stop != Stop::HandOver && end.is_some();
                worker.sweep(finish.then_some(FINISH_IDLE_SECONDS));
            }
            () = sleep_until(end.unwrap_or_else(Instant::now)), if end.is_some() => {
                tracing::warn!(
                    connections = worker.tasks.len(),
                    "the time to finish is over, closing remaining connections"
                );
                worker.tasks.shutdown().await;
                return Ok(worker.left);
            }
        }
    }
}

/// The connections of one thread.
struct Worker {
    /// Seconds since the start, counted by the sweep.
    now: Pulse,
    tasks: JoinSet<Ended>,
    lives: HashMap<Id, (AbortHandle, Arc<Life>)>,
    /// One permit: connections that take their time go on one after the other.
    slow_lane: Arc<Semaphore>,
    /// The connections that have left for another process.
    left: Vec<Left>,
    traffic: Arc<Traffic>,
}

impl Worker {
    fn spawn<H: Handler + Send + 'static>(
        &mut self,
        stream: Stream,
        session: Session<H>,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        self.traffic.opened.increment();
        let life = Arc::new(Life::new(Arc::clone(&self.now)));
        let kept = Arc::clone(&life);
        let lane = Arc::clone(&self.slow_lane);
        let task = match stream {
            Stream::Unix(stream) => self
                .tasks
                .spawn(Connection::new(stream, session, life, permit).serve(lane)),
            Stream::Tcp(stream) => self
                .tasks
                .spawn(Connection::new(stream, session, life, permit).serve(lane)),
        };
        self.lives.insert(task.id(), (task, kept));
    }

    /// Goes on with a connection of the process before.
    fn resume<S: Service>(&mut self, left: Left, shared: &Shared<S>) {
        let session = Session::resume(shared.service.handler(), &left.history);
        match (Stream::from_socket(left.socket), session) {
            (Ok(stream), Some(session)) => {
                let permit = Arc::clone(&shared.room.permits).try_acquire_owned();
                self.spawn(stream, session, permit.ok());
            }
            (Err(error), _) => tracing::warn!(%error, "cannot take over a connection"),
            (Ok(_), None) => tracing::warn!(
                "cannot take over a connection: this version does not understand its state"
            ),
        }
    }

    /// Asks all connections to leave.
    fn leave(&self) {
        for (_, life) in self.lives.values() {
            life.leave();
        }
    }

    /// Forgets a connection that has ended, and keeps one that has left.
    fn reap(&mut self, ended: Result<(Id, Ended), JoinError>) {
        self.traffic.closed.increment();
        let id = match ended {
            Ok((id, ended)) => {
                match ended {
                    Ended::Closed => {}
                    Ended::Left(left) => self.left.push(left),
                    Ended::Broken(kind) => self.traffic.protocol_errors.increment(kind),
                    Ended::Lost => self.traffic.cut.increment(Cut::Lost),
                }
                id
            }
            Err(error) => {
                if error.is_panic() {
                    self.traffic.cut.increment(Cut::Panic);
                    tracing::error!("internal error: a connection failed");
                }
                error.id()
            }
        };
        self.lives.remove(&id);
    }

    /// Counts a second, and ends the connections whose time is over; when `idle` is
    /// given, also those that have been idle for so many seconds.
    fn sweep(&mut self, idle: Option<u32>) {
        self.now.fetch_add(1, Relaxed);
        for (task, life) in self.lives.values() {
            if life.is_over() {
                self.traffic.cut.increment(Cut::Timeout);
                tracing::info!("closing a connection: timeout");
                task.abort();
            } else if idle.is_some_and(|seconds| life.is_idle_for(seconds)) {
                task.abort();
            }
        }
    }
}

/// A listening socket of this thread's runtime.
enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// A connection that was accepted.
enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    fn new(listener: Listener) -> io::Result<Self> {
        match listener {
            Listener::Unix(listener) => UnixListener::from_std(listener).map(Self::Unix),
            Listener::Tcp(listener) => TcpListener::from_std(listener).map(Self::Tcp),
        }
    }

    /// Does somebody wait to be accepted?
    fn has_queue(&self) -> bool {
        let mut ready = [PollFd::from_borrowed_fd(self.as_fd(), PollFlags::IN)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        rustix::event::poll(&mut ready, Some(&now)).is_ok_and(|ready| ready > 0)
    }

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Stream>> {
        match self {
            Self::Unix(listener) => listener
                .poll_accept(cx)
                .map_ok(|(stream, _)| Stream::Unix(stream)),
            Self::Tcp(listener) => listener.poll_accept(cx).map_ok(|(stream, _)| {
                // Answers have five bytes, and the mail server waits for them.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "TCP_NODELAY");
                }
                Stream::Tcp(stream)
            }),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(listener) => listener.as_fd(),
            Self::Tcp(listener) => listener.as_fd(),
        }
    }
}

impl Stream {
    /// A connected socket, for this thread's runtime.
    fn from_socket(socket: OwnedFd) -> io::Result<Self> {
        if rustix::net::getsockname(&socket)?.address_family() == AddressFamily::UNIX {
            let stream = std::os::unix::net::UnixStream::from(socket);
            stream.set_nonblocking(true)?;
            UnixStream::from_std(stream).map(Self::Unix)
        } else {
            let stream = std::net::TcpStream::from(socket);
            stream.set_nonblocking(true)?;
            TcpStream::from_std(stream).map(Self::Tcp)
        }
    }
}

/// Room for connections, and what hinders them, said once in a while and not for each.
pub(super) struct Room {
    /// One permit for each connection there may be.
    permits: Arc<Semaphore>,
    full: Notice,
    failing: Notice,
    traffic: Arc<Traffic>,
}

impl Room {
    pub(super) fn new(connections_max: usize, traffic: Arc<Traffic>) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(connections_max)),
            full: Notice::default(),
            failing: Notice::default(),
            traffic,
        }
    }

    /// As soon as there may be one more.
    async fn permit(&self) -> OwnedSemaphorePermit {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return permit;
        }
        self.traffic.full.increment();
        if self.full.is_due() {
            tracing::warn!("connection limit reached, mail servers must wait");
        }
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        permit.expect("this semaphore is never closed")
    }
}

/// When a thing was last said that any worker may find at every turn.
#[derive(Default)]
struct Notice(Mutex<Option<Instant>>);

impl Notice {
    /// Is it to be said now?
    fn is_due(&self) -> bool {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = said.is_none_or(|at| at.elapsed() >= SAID_AGAIN);
        if due {
            *said = Some(Instant::now());
        }
        due
    }
}

/// The next connection, as soon as there may be one more. Never fails: what goes wrong
/// is waited out.
async fn accept(sockets: &[Socket], room: &Room) -> (Stream, OwnedSemaphorePermit) {
    let permit = room.permit().await;
    loop {
        let accepted = poll_fn(|cx| {
            let mut ready = sockets.iter().map(|socket| socket.poll_accept(cx));
            ready.find(Poll::is_ready).unwrap_or(Poll::Pending)
        });
        match accepted.await {
            Ok(stream) => return (stream, permit),
            // The mail server was gone before we came: its own affair.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                if room.failing.is_due() {
                    tracing::error!(%error, "cannot accept connections, retrying");
                }
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::Cause;
    use crate::milter::{Client, Edit, Macros, Reply, ReplyText, Wanted};
    use std::os::unix::net::UnixListener as StdUnixListener;
    use std::path::PathBuf;
    use std::pin::Pin;
    use tempfile::TempDir;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::task::JoinHandle;
    use tokio::time::Sleep;

    /// Answers each recipient at length, some of them late, and takes every message.
    struct Verbose {
        text: ReplyText,
        late: Option<Pin<Box<Sleep>>>,
    }

    const LATE_SECONDS: u64 = 6;

    impl Handler for Verbose {
        fn wanted(&self) -> Wanted {
            Wanted::default()
        }
        fn connect(&mut self, _: &Client<'_>, _: &Macros) {}
        fn mail(&mut self, _: &[u8], _: &Macros) {}
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
        fn header(&mut self, _: &[u8], _: &[u8]) {}
        fn end_of_headers(&mut self, _: &Macros) -> Reply {
            Reply::Accept
        }
        fn end_of_message(&mut self, _: &Macros, _: &mut Vec<Edit>) -> Reply {
            Reply::Accept
        }
        fn abort(&mut self) {}
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
        fn reload(&self, _: Cause) -> bool {
            true
        }
    }

    const OFFER: &[u8] = b"\0\0\0\x0dO\0\0\0\x06\0\0\x01\xff\0\x1f\xff\xff";
    const MAIL: &[u8] = b"\0\0\0\x05M<a>\0";
    const RCPT: &[u8] = b"\0\0\0\x05R<c>\0";
    const LATE_RCPT: &[u8] = b"\0\0\0\x05R<l>\0";
    const END_OF_HEADERS: &[u8] = b"\0\0\0\x01N";

    /// A worker in the runtime of the test, whose time passes as soon as nothing else is
    /// left to do.
    struct Site {
        worker: JoinHandle<io::Result<Vec<Left>>>,
        stop: watch::Sender<Option<Stop>>,
        room: Arc<Room>,
        folder: TempDir,
    }

    impl Site {
        fn new(connections_max: usize) -> Self {
            Self::with(connections_max, Vec::new())
        }

        /// One that goes on with these connections.
        fn with(connections_max: usize, taken: Vec<Left>) -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let listener = StdUnixListener::bind(folder.path().join("m")).expect("a socket");
            listener.set_nonblocking(true).expect("a socket");
            let (stop, stopped) = watch::channel(None);
            let room = Arc::new(Room::new(connections_max, Arc::default()));
            let line = "x".repeat(400);
            let lines = vec![line.as_str(); 32];
            let text = ReplyText::new(550, "5.7.1", &lines).expect("a good text");
            let shared = Shared {
                service: Arc::new(Verbose { text, late: None }),
                pulse: Pulse::default(),
                room: Arc::clone(&room),
                stop: stopped,
                drain: Duration::from_secs(20),
            };
            let worker = tokio::spawn(run(vec![Listener::Unix(listener)], taken, shared));
            Self {
                worker,
                stop,
                room,
                folder,
            }
        }

        async fn connect(&self) -> UnixStream {
            UnixStream::connect(self.folder.path().join("m"))
                .await
                .expect("a connection")
        }

        /// A connection that has sent its offer, and read the answer.
        async fn negotiated(&self) -> UnixStream {
            let mut stream = self.connect().await;
            stream.write_all(OFFER).await.expect("written");
            let mut answer = [0; 17];
            stream.read_exact(&mut answer).await.expect("an answer");
            stream
        }
    }

    /// Reads until the other side hangs up; after how many seconds that was.
    async fn seconds_to_end(stream: &mut UnixStream) -> u64 {
        let begun = Instant::now();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        begun.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn each_kind_of_waiting_has_its_limit() {
        let site = Site::new(10);
        let mut silent = site.connect().await;
        assert!((29..=32).contains(&seconds_to_end(&mut silent).await));

        let mut idle = site.negotiated().await;
        assert!((7209..=7212).contains(&seconds_to_end(&mut idle).await));

        // A byte now and then does not make it longer.
        let mut slow = site.negotiated().await;
        let begun = Instant::now();
        for byte in &MAIL[..8] {
            slow.write_all(&[*byte]).await.expect("written");
            sleep(Duration::from_secs(5)).await;
        }
        seconds_to_end(&mut slow).await;
        assert!((59..=62).contains(&begun.elapsed().as_secs()));
    }

    /// Each piece ends inside a packet, but each packet is soon complete.
    #[tokio::test(start_paused = true)]
    async fn a_packet_has_its_time_from_its_own_first_byte() {
        let site = Site::new(10);
        let mut steady = site.negotiated().await;
        let stream = MAIL.repeat(10);
        for piece in stream.chunks(MAIL.len() - 1) {
            steady.write_all(piece).await.expect("still served");
            sleep(Duration::from_secs(20)).await;
        }
        steady.write_all(RCPT).await.expect("still served");
        steady.readable().await.expect("an answer");
        let mut answer = [0; 5];
        steady.read_exact(&mut answer).await.expect("an answer");
    }

    #[tokio::test(start_paused = true)]
    async fn what_goes_on_is_said_once_a_minute() {
        let notice = Notice::default();
        assert!(notice.is_due());
        assert!(!notice.is_due());
        sleep(SAID_AGAIN - Duration::from_secs(1)).await;
        assert!(!notice.is_due());
        sleep(Duration::from_secs(1)).await;
        assert!(notice.is_due());
        assert!(!notice.is_due());
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_no_answers_is_not_read_from_and_then_cut() {
        let site = Site::new(10);
        let mut deaf = site.negotiated().await;
        deaf.write_all(MAIL).await.expect("written");
        let begun = Instant::now();
        let mut written = 0;
        // 13 KB of answer to each; nobody takes them.
        while deaf.write_all(RCPT).await.is_ok() {
            written += 1;
        }
        assert!((29..=34).contains(&begun.elapsed().as_secs()));
        assert!(written < 200_000, "it is not read on without end");
    }

    #[tokio::test(start_paused = true)]
    async fn above_the_limit_mail_servers_wait() {
        let site = Site::new(2);
        let first = site.negotiated().await;
        let _second = site.negotiated().await;
        let mut third = site.connect().await;
        third.write_all(OFFER).await.expect("written");
        sleep(Duration::from_secs(10)).await;
        assert!(third.try_read(&mut [0; 1]).is_err(), "nothing to read yet");
        drop(first);
        let mut answer = [0; 17];
        third.read_exact(&mut answer).await.expect("an answer");
        assert_eq!(site.room.permits.available_permits(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn draining_ends_the_idle_and_lets_messages_finish() {
        let site = Site::new(10);
        let mut idle = site.negotiated().await;
        let mut busy = site.negotiated().await;
        let mut stuck = site.negotiated().await;
        busy.write_all(MAIL).await.expect("written");
        stuck.write_all(MAIL).await.expect("written");
        // Once an answer is there, what came before it has been read.
        stuck.write_all(RCPT).await.expect("written");
        stuck.readable().await.expect("an answer");
        busy.write_all(RCPT).await.expect("written");
        busy.readable().await.expect("an answer");

        site.stop.send_replace(Some(Stop::Finish));
        assert!(seconds_to_end(&mut idle).await <= 4);
        let refused = UnixStream::connect(site.folder.path().join("m")).await;
        assert!(refused.is_err());

        sleep(Duration::from_secs(5)).await;
        busy.write_all(END_OF_HEADERS).await.expect("still served");
        let mut answers = Vec::new();
        busy.read_to_end(&mut answers)
            .await
            .expect("closed in order");
        assert!(answers.ends_with(b"\0\0\0\x01a"));

        // This one never ends its message, and is cut at the end of the time.
        let begun = Instant::now();
        seconds_to_end(&mut stuck).await;
        assert!(begun.elapsed().as_secs() <= 20);
        assert!(site.worker.await.expect("no panic").is_ok());
    }

    /// The sockets are a service manager's, and another process may listen on them.
    #[tokio::test(start_paused = true)]
    async fn sessions_stay_unless_others_wait_in_vain() {
        let site = Site::new(10);
        let mut idle = site.negotiated().await;
        site.stop.send_replace(Some(Stop::Stay));
        sleep(Duration::from_secs(3600)).await;
        idle.write_all(MAIL).await.expect("still served");
        idle.write_all(RCPT).await.expect("still served");
        idle.read_exact(&mut [0; 5]).await.expect("an answer");

        let _waits = site.connect().await;
        let begun = Instant::now();
        seconds_to_end(&mut idle).await;
        assert!((20..=30).contains(&begun.elapsed().as_secs()));
        assert!(site.worker.await.expect("no panic").is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn connections_leave_between_two_commands() {
        let site = Site::new(10);
        let _idle = site.negotiated().await;
        let mut half = site.negotiated().await;
        half.write_all(&MAIL[..7]).await.expect("written");
        let mut stuck = site.negotiated().await;
        stuck.write_all(&MAIL[..7]).await.expect("written");
        sleep(Duration::from_secs(1)).await;
        site.stop.send_replace(Some(Stop::HandOver));
        sleep(Duration::from_secs(1)).await;
        half.write_all(&MAIL[7..]).await.expect("still served");
        let left = site.worker.await.expect("no panic").expect("in order");
        let mut histories: Vec<_> = left.iter().map(|left| left.history.len()).collect();
        histories.sort_unstable();
        assert_eq!(histories, [12, 12 + MAIL.len()]);
    }

    /// An SMTP client may be silent for hours after a restart as before.
    #[tokio::test(start_paused = true)]
    async fn a_connection_that_was_taken_over_has_the_time_of_any_other() {
        let site = Site::new(10);
        let mut idle = site.negotiated().await;
        sleep(Duration::from_secs(1)).await;
        site.stop.send_replace(Some(Stop::HandOver));
        let left = site.worker.await.expect("no panic").expect("in order");
        assert_eq!(left.len(), 1);

        let next = Site::with(10, left);
        assert!((7209..=7212).contains(&seconds_to_end(&mut idle).await));
        drop(next);
    }

    /// It is neither idle nor to be left: its answer comes from here.
    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_late_is_waited_for_at_the_end() {
        for stop in [Stop::Finish, Stop::HandOver] {
            let site = Site::new(10);
            let mut waits = site.negotiated().await;
            waits.write_all(MAIL).await.expect("written");
            waits.write_all(LATE_RCPT).await.expect("written");
            sleep(Duration::from_secs(1)).await;
            let begun = Instant::now();
            site.stop.send_replace(Some(stop));
            let mut prefix = [0; 5];
            waits.read_exact(&mut prefix).await.expect("an answer");
            assert_eq!(
                (prefix[4], begun.elapsed().as_secs()),
                (b'y', LATE_SECONDS - 1)
            );
            let length = prefix.first_chunk().map_or(0, |n| u32::from_be_bytes(*n));
            let mut text = vec![0; length as usize - 1];
            waits.read_exact(&mut text).await.expect("all of it");
            if stop == Stop::Finish {
                waits.write_all(END_OF_HEADERS).await.expect("still served");
                waits.read_exact(&mut prefix).await.expect("an answer");
            }
            let left = site.worker.await.expect("no panic").expect("in order");
            assert_eq!(left.len(), usize::from(stop == Stop::HandOver));
        }
    }
}
