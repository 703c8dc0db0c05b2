//! One thread that accepts connections and serves them.
//!
//! Each worker waits in its own epoll(7) for all its connections, and has its own descriptor of every listening socket. A
//! connection stays with the worker that has accepted it. The work per packet is a few microseconds, so moving connections
//! between threads would cost more than it saves. Only much longer work is done elsewhere
//! ([`slow_lane`](super::slow_lane)).
//!
//! ```text
//!   wait -> [ connections with news ] -> [ those with more to do ] -> [ what other threads say ] -> [ accept ] -> wait
//! ```
//!
//! System calls cost more than everything else here, so there is one for each change: a connection is added to the epoll
//! once, for edges, and leaves it by being closed; a listening socket wakes one worker, which accepts one connection. Memory
//! of a session that has ended serves the next.

use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Waker;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::Service;
use super::bell::Bell;
use super::connection::{Buffers, Connection, Ended, Next, Signs, Turn};
use super::handover::Detached;
use super::limit::ConnectionLimit;
use super::listen::Listener;
use super::shutdown::{Ending, Stop};
use super::slow_lane::{Home, SlowLane, Visit};
use super::socket::Stream;
use super::traffic::Cut;
use super::watchdog::Heartbeat;
use crate::door::Conversation;
use crate::endpoint::Door;
use crate::milter::Session;

/// How often deadlines are checked. All deadlines are whole seconds.
const SECOND: Duration = Duration::from_secs(1);
/// How often a worker looks at what does not wake it: an answer that is late, a connection limit that was reached, a lack of
/// descriptors or memory.
const LOOK: Duration = Duration::from_millis(100);
/// Events per wait.
const EVENTS_MAX: usize = 256;
/// Sessions kept for later connections: as many as often end and begin together. Each takes up to three KiB.
const SPARE_MAX: usize = 64;

/// Numbers of events: below these, it is the place of a connection.
const SOCKETS: u64 = 1 << 32;
const BELL: u64 = u64::MAX;

/// For a listening socket: wakes only one of the workers that wait for it.
const NEW: EventFlags = EventFlags::IN.union(EventFlags::EXCLUSIVE);
/// For a connection. Not `OUT`, which would wake for each answer that was read.
const INPUT: EventFlags = EventFlags::IN
    .union(EventFlags::RDHUP)
    .union(EventFlags::ET);

/// The data that a worker gets.
pub(super) struct Shared<S: Service> {
    pub(super) service: Arc<S>,
    /// Shows that this worker makes progress: the seconds that it has counted.
    pub(super) heartbeat: Heartbeat,
    /// The connection limit of all workers.
    pub(super) limit: Arc<ConnectionLimit>,
    /// Runs long steps.
    pub(super) slow_lane: SlowLane<S::Handler>,
    /// How long messages in progress may take when the daemon stops.
    pub(super) drain: Duration,
}

/// The place of a connection.
struct Place<H> {
    state: State<H>,
    signs: Signs,
    waker: Waker,
    /// The epoll waits until it can write.
    awaits_space: bool,
    /// It is among those that wait for an answer.
    is_late: bool,
}

enum State<H> {
    Free,
    Here(Connection<H>),
    /// In the slow lane.
    Away,
}

/// A worker.
pub(super) struct Worker<S: Service> {
    shared: Shared<S>,
    sockets: Vec<(Door, Listener)>,
    epoll: OwnedFd,
    home: Arc<Home<S::Handler>>,
    places: Vec<Place<S::Handler>>,
    free: Vec<usize>,
    buffers: Buffers,
    #[allow(clippy::vec_box, reason = "a conversation holds its session in a box")]
    spare: Vec<Box<Session<S::Handler>>>,
    /// Connections that have more to do.
    again: Vec<usize>,
    /// Connections that wait for an answer of their handler.
    late: Vec<usize>,
    /// Whether new connections wake it.
    listens: bool,
    /// Seconds since the start.
    now: u32,
    ending: Option<Ending>,
    detached: Vec<Detached>,
}

impl<S: Service> Worker<S> {
    /// A worker that serves new connections of these sockets, and continues those of another process.
    pub(super) fn new(
        sockets: Vec<(Door, Listener)>,
        taken_over: Vec<Detached>,
        shared: Shared<S>,
    ) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let bell = Arc::new(Bell::new()?);
        let rings = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &*bell, EventData::new_u64(BELL), rings)?;
        let mut worker = Self {
            shared,
            sockets,
            epoll,
            home: Arc::new(Home::new(bell)),
            places: Vec::new(),
            free: Vec::new(),
            buffers: Buffers::default(),
            spare: Vec::new(),
            again: Vec::new(),
            late: Vec::new(),
            listens: false,
            now: 0,
            ending: None,
            detached: Vec::new(),
        };
        worker.listen()?;
        for connection in taken_over {
            worker.resume(connection);
        }
        Ok(worker)
    }

    /// What stops it.
    pub(super) fn bell(&self) -> Arc<Bell> {
        Arc::clone(&self.home.bell)
    }

    /// Serves until it must stop, and then until the last connection has ended or detached. Returns those that have detached.
    pub(super) fn run(mut self) -> io::Result<Vec<Detached>> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut second = Instant::now() + SECOND;
        let mut look = second;
        while !self.has_ended() {
            let has_to_look = !self.late.is_empty() || self.is_kept_from_listening();
            let next = if has_to_look {
                look.min(second)
            } else {
                second
            };
            let patience = next.saturating_duration_since(Instant::now());
            self.turn(patience, &mut events)?;
            let now = Instant::now();
            if now >= look {
                look = now + LOOK;
                self.look(now);
            }
            if now >= second {
                second = now + SECOND;
                self.second();
            }
        }
        self.close();
        Ok(self.detached)
    }

    /// Waits for events, and serves them.
    pub(super) fn turn(&mut self, patience: Duration, events: &mut Vec<Event>) -> io::Result<()> {
        let patience = if self.again.is_empty() {
            patience
        } else {
            Duration::ZERO
        };
        // Rounded up: otherwise it would not wait at all in the last millisecond.
        let patience = Duration::from_millis(
            u64::try_from(patience.as_nanos().div_ceil(1_000_000)).unwrap_or(1000),
        );
        let patience = Timespec::try_from(patience).map_err(io::Error::other)?;
        events.clear();
        match epoll::wait(&self.epoll, spare_capacity(events), Some(&patience)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut more = std::mem::take(&mut self.again);
        for event in events.iter() {
            let (number, flags) = (event.data.u64(), event.flags);
            if number < SOCKETS {
                self.note(number, flags);
            }
        }
        more.drain(..).for_each(|place| self.serve(place));
        if self.again.is_empty() {
            self.again = more;
        }
        if self.home.bell.is_heard() {
            self.hear();
        }
        // Last, because a new connection may get the place of one that has just ended.
        for event in events.iter() {
            let number = event.data.u64();
            if (SOCKETS..BELL).contains(&number) && self.listens {
                self.accept(number - SOCKETS);
            }
        }
        Ok(())
    }

    /// Serves a connection with an event.
    fn note(&mut self, number: u64, flags: EventFlags) {
        let place = usize::try_from(number).unwrap_or(usize::MAX);
        let Some(signs) = self.places.get_mut(place).map(|place| &mut place.signs) else {
            return;
        };
        let hung_up = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        signs.readable |= flags.intersects(EventFlags::IN | hung_up);
        signs.hung_up |= flags.intersects(hung_up);
        self.serve(place);
    }

    /// Gives a connection a turn, if it is here.
    fn serve(&mut self, number: usize) {
        let Some(place) = self.places.get_mut(number) else {
            return;
        };
        let State::Here(connection) = &mut place.state else {
            return;
        };
        let mut turn = Turn {
            now: self.now,
            detaches: self
                .ending
                .is_some_and(|ending| ending.stop == Stop::HandOver),
            waker: &place.waker,
            buffers: &mut self.buffers,
        };
        let signs = &mut place.signs;
        let next = catch_unwind(AssertUnwindSafe(|| connection.turn(signs, &mut turn)));
        match next.unwrap_or(Next::End(Ended::Failed)) {
            Next::Wait => {
                if connection.is_waiting() && !place.is_late {
                    place.is_late = true;
                    self.late.push(number);
                }
                if place.awaits_space != connection.has_unsent() {
                    place.awaits_space = !place.awaits_space;
                    let data = EventData::new_u64(number as u64);
                    let events = match place.awaits_space {
                        true => INPUT | EventFlags::OUT,
                        false => INPUT,
                    };
                    if epoll::modify(&self.epoll, &*connection, data, events).is_err() {
                        self.end(number, Ended::Lost);
                    }
                }
            }
            Next::Again => self.again.push(number),
            Next::Long => self.send_away(number),
            Next::End(ended) => self.end(number, ended),
        }
    }

    /// Sends a connection to the slow lane.
    fn send_away(&mut self, number: usize) {
        let Some(place) = self.places.get_mut(number) else {
            return;
        };
        let State::Here(connection) = std::mem::replace(&mut place.state, State::Away) else {
            return;
        };
        let visit = Visit {
            connection,
            place: number,
            now: self.now,
            waker: place.waker.clone(),
            home: Arc::clone(&self.home),
        };
        if !self.shared.slow_lane.take(visit) {
            self.end(number, Ended::Lost);
        }
    }

    /// Does what other threads have asked for.
    fn hear(&mut self) {
        let returns = std::mem::take(&mut *self.home.returns());
        for back in returns {
            match back.connection {
                Ok(connection) => {
                    if let Some(place) = self.places.get_mut(back.place) {
                        place.state = State::Here(connection);
                    }
                    self.serve(back.place);
                }
                Err(ended) => self.end(back.place, ended),
            }
        }
        let (woken, stop) = {
            let mut news = self.home.bell.news();
            (std::mem::take(&mut news.woken), news.stop)
        };
        woken.into_iter().for_each(|place| self.wake(place));
        if let Some(stop) = stop {
            self.stop(stop);
        }
    }

    /// Serves a connection whose answer may be known.
    fn wake(&mut self, number: usize) {
        if let Some(place) = self.places.get_mut(number) {
            place.signs.woken = true;
            self.serve(number);
        }
    }

    /// Accepts a connection. Never fails: after an error it waits and tries again.
    fn accept(&mut self, socket: u64) {
        let socket = usize::try_from(socket).unwrap_or(usize::MAX);
        let Some((door, listener)) = self.sockets.get(socket) else {
            return;
        };
        if !self.shared.limit.take() {
            return self.pause();
        }
        match Stream::accept(listener) {
            Ok(stream) => {
                let spare = (*door == Door::Milter).then(|| self.spare.pop()).flatten();
                let session = match spare {
                    Some(session) => Conversation::Milter(session),
                    None => Conversation::new(*door, self.shared.service.handler()),
                };
                self.add(stream, session);
            }
            Err(error) => {
                self.shared.limit.give_back();
                match error.kind() {
                    // Another worker was faster, or the mail server has already closed the connection: not an error.
                    io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted => {}
                    _ => {
                        self.shared.limit.note_failure(&error, Instant::now());
                        self.pause();
                    }
                }
            }
        }
    }

    /// Continues a connection of the previous process.
    fn resume(&mut self, connection: Detached) {
        self.shared.limit.take_over();
        let session = Session::resume(self.shared.service.handler(), &connection.history);
        match (Stream::from_socket(connection.socket), session) {
            (Ok(stream), Some(session)) => {
                let place = self.add(stream, Conversation::Milter(Box::new(session)));
                self.again.extend(place);
                return;
            }
            (Err(error), _) => tracing::warn!(%error, "cannot take over a connection"),
            (Ok(_), None) => tracing::warn!(
                "cannot take over a connection: this version does not understand its state"
            ),
        }
        self.shared.limit.give_back();
    }

    /// Adds a connection that is counted already. Returns its place.
    fn add(&mut self, stream: Stream, session: Conversation<S::Handler>) -> Option<usize> {
        let number = self.free.pop().unwrap_or(self.places.len());
        let connection = Connection::new(stream, session, self.now);
        let data = EventData::new_u64(number as u64);
        if let Err(error) = epoll::add(&self.epoll, &connection, data, INPUT) {
            tracing::error!(%error, "cannot serve a connection");
            self.shared.limit.give_back();
            if number < self.places.len() {
                self.free.push(number);
            }
            return None;
        }
        self.shared.limit.traffic.opened.increment();
        let state = State::Here(connection);
        match self.places.get_mut(number) {
            Some(place) => {
                place.state = state;
                place.signs = Signs::default();
                place.awaits_space = false;
            }
            None => self.places.push(Place {
                state,
                signs: Signs::default(),
                waker: self.home.bell.waker(number),
                awaits_space: false,
                is_late: false,
            }),
        }
        Some(number)
    }

    /// Ends a connection.
    fn end(&mut self, number: usize, ended: Ended) {
        let Some(place) = self.places.get_mut(number) else {
            return;
        };
        let state = std::mem::replace(&mut place.state, State::Free);
        self.free.push(number);
        let traffic = &self.shared.limit.traffic;
        match ended {
            Ended::Closed | Ended::Idle | Ended::Detached(_) => {}
            Ended::Broken(kind) => traffic.protocol_errors.increment(kind),
            Ended::Lost => traffic.cut.increment(Cut::Lost),
            Ended::Late => {
                traffic.cut.increment(Cut::Timeout);
                tracing::info!("closing a connection: timeout");
            }
            Ended::Failed => {
                traffic.cut.increment(Cut::Panic);
                tracing::error!("internal error: a connection failed");
            }
        }
        match (state, ended) {
            (State::Here(connection), Ended::Detached(history)) => {
                self.detached.push(connection.into_detached(history));
            }
            (State::Here(connection), Ended::Closed) if self.spare.len() < SPARE_MAX => {
                self.spare.extend(connection.into_session());
            }
            _ => {}
        }
        // Counted when its descriptor is closed.
        self.shared.limit.traffic.closed.increment();
        self.shared.limit.give_back();
        if self.is_kept_from_listening() {
            self.try_to_listen();
        }
    }

    /// Has new connections wake it.
    fn listen(&mut self) -> io::Result<()> {
        for (number, (_, listener)) in (SOCKETS..).zip(&self.sockets) {
            epoll::add(
                &self.epoll,
                listener.as_fd(),
                EventData::new_u64(number),
                NEW,
            )?;
        }
        self.listens = true;
        Ok(())
    }

    /// Accepts no connections for now.
    fn pause(&mut self) {
        for (_, listener) in &self.sockets {
            // It may not have been added.
            let _ = epoll::delete(&self.epoll, listener.as_fd());
        }
        self.listens = false;
    }

    /// Whether it would accept connections, and cannot.
    fn is_kept_from_listening(&self) -> bool {
        !self.listens && self.ending.is_none()
    }

    /// Accepts connections again, if that is possible.
    fn try_to_listen(&mut self) {
        if !self.shared.limit.is_reached()
            && let Err(error) = self.listen()
        {
            self.shared.limit.note_failure(&error, Instant::now());
            self.pause();
        }
    }

    /// Looks at what does not wake it.
    pub(super) fn look(&mut self, now: Instant) {
        for place in std::mem::take(&mut self.late) {
            if let Some(place) = self.places.get_mut(place) {
                place.is_late = false;
            }
            self.wake(place);
        }
        if self.is_kept_from_listening() {
            self.try_to_listen();
            if !self.listens && self.shared.limit.is_reached() && self.has_queue() {
                self.shared.limit.note_waiting(now);
            }
        }
    }

    /// Whether a mail server waits to be accepted.
    fn has_queue(&self) -> bool {
        let sockets = self.sockets.iter();
        let mut ready: Vec<PollFd<'_>> = sockets
            .map(|(_, socket)| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN))
            .collect();
        rustix::event::poll(&mut ready, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// Counts a second, and ends the connections whose deadline has passed; at the end of the daemon also idle ones.
    pub(super) fn second(&mut self) {
        self.now = self.shared.heartbeat.fetch_add(1, Relaxed) + 1;
        let has_queue = self.ending.is_some() && self.has_queue();
        let idle = (self.ending.as_mut())
            .and_then(|ending| ending.second(self.now, has_queue, self.shared.drain));
        for number in 0..self.places.len() {
            let Some(State::Here(connection)) = self.places.get(number).map(|place| &place.state)
            else {
                continue;
            };
            if connection.is_over(self.now) {
                self.end(number, Ended::Late);
            } else if idle.is_some_and(|seconds| connection.is_idle_for(seconds, self.now)) {
                self.end(number, Ended::Idle);
            }
        }
    }

    /// Begins to stop.
    fn stop(&mut self, stop: Stop) {
        if self.ending.is_some_and(|ending| ending.stop == stop) {
            return;
        }
        self.pause();
        self.ending = Some(Ending::new(stop, self.now, self.shared.drain));
        if stop != Stop::Stay {
            // When our descriptors are closed, new connections go to the next process, if there is one.
            self.sockets.clear();
        }
        if stop == Stop::HandOver {
            (0..self.places.len()).for_each(|place| self.serve(place));
        }
    }

    fn open(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Whether there is nothing left to do, or no time for it.
    pub(super) fn has_ended(&self) -> bool {
        self.ending
            .is_some_and(|ending| self.open() == 0 || ending.is_over(self.now, self.open()))
    }

    /// Closes all open connections.
    fn close(&mut self) {
        for number in 0..self.places.len() {
            let is_open = |place: &Place<_>| !matches!(place.state, State::Free);
            if self.places.get(number).is_some_and(is_open) {
                self.end(number, Ended::Closed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::rig::{LATE_RCPT, LATE_SECONDS, MAIL, OFFER, PANIC_RCPT, RCPT, Site};
    use std::io::Write;

    #[test]
    fn each_kind_of_waiting_has_its_limit() {
        let mut site = Site::new(10);
        let mut silent = site.connect();
        assert!((29..=32).contains(&site.seconds_to_end(&mut silent)));

        let mut idle = site.negotiated();
        assert!((7209..=7212).contains(&site.seconds_to_end(&mut idle)));

        // Sending single bytes does not extend the deadline.
        let mut slow = site.negotiated();
        let begun = site.seconds;
        for byte in &MAIL[..8] {
            slow.send(&[*byte]);
            site.wait(5);
        }
        site.seconds_to_end(&mut slow);
        assert!((59..=62).contains(&(site.seconds - begun)));
        assert_eq!(site.traffic.cut.get(Cut::Timeout), 3);
    }

    /// Each piece ends inside a packet, but each packet is soon complete.
    #[test]
    fn a_packet_has_its_time_from_its_own_first_byte() {
        let mut site = Site::new(10);
        let mut steady = site.negotiated();
        for piece in MAIL.repeat(10).chunks(MAIL.len() - 1) {
            steady.send(piece);
            site.wait(20);
        }
        steady.send(RCPT);
        site.serve();
        assert_eq!(steady.answer(), Some(b'y'));
    }

    #[test]
    fn who_takes_no_answers_is_not_read_from_and_then_cut() {
        let mut site = Site::new(10);
        let mut deaf = site.negotiated();
        deaf.send(MAIL);
        let begun = site.seconds;
        let mut written = 0;
        // Each gets an answer of 13 KB, and the client does not read.
        while site.seconds < begun + 40 {
            match deaf.0.write_all(RCPT) {
                Ok(()) => written += 1,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => site.wait(1),
                Err(_) => break,
            }
            site.serve();
        }
        assert!((29..=34).contains(&(site.seconds - begun)));
        assert!(written < 200_000, "it is not read on without end");
    }

    /// The answer comes when the mail server reads again.
    #[test]
    fn who_takes_answers_late_gets_all() {
        let mut site = Site::new(10);
        let mut slow = site.negotiated();
        slow.send(MAIL);
        const ASKED: usize = 100;
        slow.send(&RCPT.repeat(ASKED));
        site.wait(3);
        for _ in 0..ASKED {
            assert_eq!(slow.answer(), Some(b'y'));
            site.serve();
        }
    }

    #[test]
    fn an_answer_that_nobody_announces_is_noticed() {
        let mut site = Site::new(10);
        let mut waits = site.negotiated();
        waits.send(MAIL);
        waits.send(LATE_RCPT);
        waits.send(RCPT);
        site.wait(LATE_SECONDS - 1);
        assert_eq!(waits.answer(), None);
        site.wait(1);
        assert_eq!((waits.answer(), waits.answer()), (Some(b'y'), Some(b'y')));
    }

    #[test]
    fn a_panic_ends_its_own_connection_only() {
        let mut site = Site::new(10);
        let mut bad = site.negotiated();
        let mut good = site.negotiated();
        bad.send(MAIL);
        bad.send(PANIC_RCPT);
        assert_eq!(site.seconds_to_end(&mut bad), 0);
        assert_eq!(site.traffic.cut.get(Cut::Panic), 1);
        good.send(MAIL);
        good.send(RCPT);
        site.serve();
        assert_eq!(good.answer(), Some(b'y'));
    }

    /// The memory of a session serves the next one, and nothing of the session is in it.
    #[test]
    fn a_new_connection_begins_anew() {
        let mut site = Site::new(10);
        for _ in 0..3 {
            let mut client = site.negotiated();
            client.send(MAIL);
            client.send(&RCPT[..3]);
            site.serve();
            drop(client);
            site.serve();
            assert_eq!(site.worker.spare.len(), 1);
            // Outside of a message, this breaks the protocol.
            let mut client = site.negotiated();
            client.send(RCPT);
            assert_eq!(site.seconds_to_end(&mut client), 0);
        }
        assert_eq!(site.traffic.protocol_errors.sum(), 3);
        assert_eq!(site.traffic.open(), 0);
    }

    #[test]
    fn above_the_limit_mail_servers_wait() {
        let mut site = Site::new(2);
        let first = site.negotiated();
        let second = site.negotiated();
        // The limit is reached, and the queue is empty.
        site.wait(300);
        assert_eq!(site.traffic.full.get(), 0);
        let mut third = site.connect();
        third.send(OFFER);
        site.wait(50);
        assert_eq!((site.traffic.full.get(), third.answer()), (1, None));
        site.wait(60);
        assert_eq!(site.traffic.full.get(), 2);
        drop(first);
        site.wait(5);
        assert_eq!((site.traffic.full.get(), third.answer()), (2, Some(b'O')));
        let _fourth = site.connect();
        site.wait(5);
        assert_eq!(site.traffic.full.get(), 3);
        drop((second, third));
    }

    /// After a restart, too, an SMTP client may be silent for hours.
    #[test]
    fn a_connection_that_was_taken_over_has_the_time_of_any_other() {
        let mut site = Site::new(10);
        let mut idle = site.negotiated();
        site.wait(1);
        site.stop(Stop::HandOver);
        let (_, detached) = site.end();
        assert_eq!(detached.len(), 1);
        let mut next = Site::with(10, detached);
        assert!((7209..=7212).contains(&next.seconds_to_end(&mut idle)));
    }
}
