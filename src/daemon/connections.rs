//! The connections of one worker: they come, get turns, go to the slow lane and return, and end.
//!
//! System calls cost more than everything else here: a connection is added to the epoll once, for edges, and leaves it by
//! being closed. The memory of a session that has ended serves the next.
//!
//! Each has a numbered place. The next connection gets the place of one that has ended: its number, its waker, its place in a
//! queue. So a sign may reach a later connection than it was meant for, which then gets a turn without anything to do.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Waker;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};

use super::Service;
use super::accept::ConnectionLimit;
use super::bell::Bell;
use super::connection::{Buffers, Connection, Ended, Next, Signs, Turn};
use super::handover::Detached;
use super::shutdown::Stop;
use super::slow_lane::{Return, SlowLane, Visit};
use super::socket::Socket;
use super::traffic::Cut;
use crate::door::Conversation;
use crate::endpoint::Door;
use crate::milter::{Handler, Session};

/// Sessions kept for later connections: as many as often end and begin together. Each takes up to three KiB.
const SPARE_MAX: usize = 64;

pub(super) struct Means<S: Service> {
    pub(super) bell: Arc<Bell>,
    pub(super) service: Arc<S>,
    /// The connection limit of all workers.
    pub(super) limit: Arc<ConnectionLimit>,
    pub(super) slow_lane: Arc<SlowLane<S::Handler>>,
    /// How long messages in progress may take when the daemon stops.
    pub(super) drain: Duration,
}

pub(super) struct Connections<S: Service> {
    pub(super) means: Means<S>,
    epoll: Arc<OwnedFd>,
    /// Where connections come back to from the slow lane.
    home: Sender<Return<S::Handler>>,
    returned: Receiver<Return<S::Handler>>,
    pub(super) places: Places<S::Handler>,
    buffers: Buffers,
    #[allow(clippy::vec_box, reason = "a conversation holds its session in a box")]
    spare: Vec<Box<Session<S::Handler>>>,
    detached: Vec<Detached>,
    /// Another process takes over.
    detaches: bool,
    /// Some may wait for an answer of their handler.
    pub(super) has_late: bool,
}

impl<S: Service> Connections<S> {
    pub(super) fn new(means: Means<S>, epoll: Arc<OwnedFd>) -> Self {
        let (home, returned) = channel();
        Self {
            means,
            epoll,
            home,
            returned,
            places: Places {
                places: Vec::new(),
                free: Vec::new(),
                due: VecDeque::new(),
            },
            buffers: Buffers::default(),
            spare: Vec::new(),
            detached: Vec::new(),
            detaches: false,
            has_late: false,
        }
    }

    pub(super) fn now(&self) -> u32 {
        self.means.bell.heartbeat.load(Relaxed)
    }

    /// Begins a connection that is counted already.
    pub(super) fn begin(&mut self, stream: Socket, door: Door) -> io::Result<()> {
        let spare = (door == Door::Milter).then(|| self.spare.pop()).flatten();
        let session = match spare {
            Some(session) => Conversation::Milter(session),
            None => Conversation::new(door, self.means.service.handler(door)),
        };
        self.add(stream, session, Vec::new()).map(drop)
    }

    pub(super) fn resume(&mut self, connection: Detached) {
        self.means.limit.take_over();
        if let Err(error) = self.try_to_resume(connection) {
            tracing::warn!(%error, "cannot take over a connection");
            self.means.limit.give_back();
        }
    }

    fn try_to_resume(&mut self, connection: Detached) -> io::Result<()> {
        let stream = Socket::new(connection.socket)?;
        let handler = |door| self.means.service.handler(door);
        let session = Conversation::resume(handler, &connection.history);
        let is_foreign = || io::Error::other("this version does not understand its state");
        let (session, unread) = session.ok_or_else(is_foreign)?;
        let place = self.add(stream, session, unread)?;
        self.places.set_due(place);
        Ok(())
    }

    /// Adds a connection that is counted already, with the number of its place for its events.
    fn add(
        &mut self,
        stream: Socket,
        session: Conversation<S::Handler>,
        unread: Vec<u8>,
    ) -> io::Result<usize> {
        let connection = Connection::new(stream, session, unread, self.now());
        let place = self.places.next();
        let data = EventData::new_u64(place as u64);
        epoll::add(&*self.epoll, &connection, data, INPUT)?;
        self.places.add(connection, &self.means.bell);
        self.means.limit.traffic.opened.increment();
        Ok(place)
    }

    pub(super) fn note(&mut self, place: u64, flags: EventFlags) {
        let number = usize::try_from(place).unwrap_or(usize::MAX);
        if let Some(place) = self.places.get_mut(number) {
            let hung_up = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
            place.signs.readable |= flags.intersects(EventFlags::IN | hung_up);
            place.signs.hung_up |= flags.intersects(hung_up);
            self.places.set_due(number);
        }
    }

    /// Takes what other threads have to say. Returns how the worker must stop.
    pub(super) fn hear(&mut self) -> Option<Stop> {
        while let Ok((number, back)) = self.returned.try_recv() {
            match (back, self.places.get_mut(number)) {
                (Ok(connection), Some(place)) => {
                    place.state = State::Here(connection);
                    self.places.set_due(number);
                }
                (Err(ended), _) => self.end(number, ended),
                (Ok(_), None) => {}
            }
        }
        let mut news = self.means.bell.news();
        let woken = std::mem::take(&mut news.woken);
        woken.into_iter().for_each(|place| self.places.wake(place));
        news.stop
    }

    /// Gives each connection that is due one turn. Who becomes due meanwhile gets the next.
    pub(super) fn serve(&mut self) {
        for _ in 0..self.places.due() {
            if let Some(place) = self.places.next_due() {
                self.serve_one(place);
            }
        }
    }

    fn serve_one(&mut self, number: usize) {
        let now = self.now();
        let Some(place) = self.places.get_mut(number) else {
            return;
        };
        // In the slow lane, it gets its turn when it returns.
        let State::Here(connection) = &mut place.state else {
            return;
        };
        let mut turn = Turn {
            now,
            detaches: self.detaches,
            waker: &place.waker,
            buffers: &mut self.buffers,
        };
        let signs = &mut place.signs;
        let next = catch_unwind(AssertUnwindSafe(|| connection.turn(signs, &mut turn)));
        let goes_on = match next.unwrap_or(Next::End(Ended::Cut(Cut::Panic))) {
            Next::End(ended) => return self.end(number, ended),
            Next::Again => {
                self.places.set_due(number);
                true
            }
            // Something wakes it.
            Next::Wait => {
                self.has_late |= connection.is_waiting();
                place.await_space(&self.epoll, number)
            }
            Next::Long => match std::mem::replace(&mut place.state, State::Away) {
                State::Here(connection) => self.means.slow_lane.take(Visit {
                    connection,
                    place: number,
                    waker: place.waker.clone(),
                    bell: Arc::clone(&self.means.bell),
                    home: self.home.clone(),
                }),
                State::Away | State::Free => false,
            },
        };
        if !goes_on {
            self.end(number, Ended::Cut(Cut::Lost));
        }
    }

    /// Has those that wait for an answer of their handler ask for it. Looks at all, but only while an answer is late: about a
    /// hundredth of a processor with 10,000 of them.
    pub(super) fn wake_late(&mut self) {
        if !std::mem::take(&mut self.has_late) {
            return;
        }
        for number in self.places.numbers() {
            if self.places.here(number).is_some_and(Connection::is_waiting) {
                self.places.wake(number);
            }
        }
    }

    pub(super) fn count_second(&self) -> u32 {
        self.means.bell.heartbeat.fetch_add(1, Relaxed) + 1
    }

    /// Ends those whose deadline has passed, and those without a message that have been silent for `idle` seconds.
    pub(super) fn sweep(&mut self, now: u32, idle: Option<u32>) {
        for number in self.places.numbers() {
            let Some(connection) = self.places.here(number) else {
                continue;
            };
            if connection.is_over(now) {
                self.end(number, Ended::Cut(Cut::Timeout));
            } else if idle.is_some_and(|seconds| connection.is_idle_for(seconds, now)) {
                self.end(number, Ended::Closed);
            }
        }
    }

    /// From now on, each leaves this process at its next turn, which is due.
    pub(super) fn detach(&mut self) {
        self.detaches = true;
        let numbers = self.places.numbers();
        numbers.for_each(|place| self.places.set_due(place));
    }

    pub(super) fn close(mut self) -> Vec<Detached> {
        for number in self.places.numbers() {
            self.end(number, Ended::Closed);
        }
        self.detached
    }

    fn end(&mut self, number: usize, ended: Ended) {
        let Some(state) = self.places.take(number) else {
            return;
        };
        let traffic = &self.means.limit.traffic;
        match (ended, state) {
            (Ended::Detached(history), State::Here(connection)) => {
                self.detached.push(connection.into_detached(history));
            }
            (Ended::Closed, State::Here(connection)) if self.spare.len() < SPARE_MAX => {
                self.spare.extend(connection.into_session());
            }
            (Ended::Closed | Ended::Detached(_), _) => {}
            (Ended::Broken(error), _) => {
                traffic.protocol_errors.increment(error.kind());
                // One of a mail server that asks otherwise comes with each message.
                if traffic.broken.is_due(Instant::now()) {
                    tracing::warn!(%error, "closing a connection: the peer does not speak the protocol of this socket; check what else connects to it");
                }
            }
            (Ended::Cut(cut), _) => {
                traffic.cut.increment(cut);
                match cut {
                    Cut::Lost => {}
                    Cut::Timeout => tracing::info!("closing a connection: timeout"),
                    Cut::Panic => tracing::error!("internal error: a connection failed"),
                }
            }
        }
        // Counted when its descriptor is closed.
        traffic.closed.increment();
        self.means.limit.give_back();
    }
}

/// What the epoll waits for. Not `OUT`, which would wake for each answer that was read.
const INPUT: EventFlags = EventFlags::IN
    .union(EventFlags::RDHUP)
    .union(EventFlags::ET);

/// A place, and what its worker knows about its connection.
struct Place<H> {
    state: State<H>,
    signs: Signs,
    waker: Waker,
    /// The epoll waits until there is space for answers.
    awaits_space: bool,
    is_due: bool,
}

impl<H: Handler> Place<H> {
    /// Has the epoll wait for space, if that is needed; `false` if it cannot.
    fn await_space(&mut self, epoll: &OwnedFd, number: usize) -> bool {
        let State::Here(connection) = &self.state else {
            return true;
        };
        let needs_space = connection.has_unsent();
        if std::mem::replace(&mut self.awaits_space, needs_space) == needs_space {
            return true;
        }
        let events = match needs_space {
            true => INPUT | EventFlags::OUT,
            false => INPUT,
        };
        let data = EventData::new_u64(number as u64);
        epoll::modify(epoll, connection, data, events).is_ok()
    }
}

enum State<H> {
    Free,
    Here(Connection<H>),
    /// In the slow lane.
    Away,
}

pub(super) struct Places<H> {
    places: Vec<Place<H>>,
    free: Vec<usize>,
    /// Those that get a turn, each once.
    due: VecDeque<usize>,
}

impl<H> Places<H> {
    fn next(&self) -> usize {
        self.free.last().copied().unwrap_or(self.places.len())
    }

    /// Gives a connection the next place, in which the bell can wake it.
    fn add(&mut self, connection: Connection<H>, bell: &Arc<Bell>) {
        let number = self.next();
        self.free.pop();
        match self.places.get_mut(number) {
            Some(place) => {
                place.state = State::Here(connection);
                place.signs = Signs::default();
                place.awaits_space = false;
            }
            None => self.places.push(Place {
                state: State::Here(connection),
                signs: Signs::default(),
                waker: bell.waker(number),
                awaits_space: false,
                is_due: false,
            }),
        }
    }

    fn get_mut(&mut self, number: usize) -> Option<&mut Place<H>> {
        self.places.get_mut(number)
    }

    fn here(&self, number: usize) -> Option<&Connection<H>> {
        match &self.places.get(number)?.state {
            State::Here(connection) => Some(connection),
            State::Free | State::Away => None,
        }
    }

    /// Frees a place. Returns what was there; `None` if it was free.
    fn take(&mut self, number: usize) -> Option<State<H>> {
        let place = self.places.get_mut(number)?;
        match std::mem::replace(&mut place.state, State::Free) {
            State::Free => None,
            state => {
                self.free.push(number);
                Some(state)
            }
        }
    }

    pub(super) fn open(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// All places, with a connection or without.
    fn numbers(&self) -> std::ops::Range<usize> {
        0..self.places.len()
    }

    fn set_due(&mut self, number: usize) {
        if let Some(place) = self.places.get_mut(number)
            && !std::mem::replace(&mut place.is_due, true)
        {
            self.due.push_back(number);
        }
    }

    pub(super) fn due(&self) -> usize {
        self.due.len()
    }

    /// The next that gets a turn: who has waited longest.
    fn next_due(&mut self) -> Option<usize> {
        let number = self.due.pop_front()?;
        if let Some(place) = self.places.get_mut(number) {
            place.is_due = false;
        }
        Some(number)
    }

    /// Has a connection ask for its answer.
    fn wake(&mut self, number: usize) {
        if let Some(place) = self.places.get_mut(number) {
            place.signs.woken = true;
            self.set_due(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::daemon::rig::{MAIL, RCPT, Site};

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
            assert_eq!(site.worker.connections.spare.len(), 1);
            // Outside of a message, this breaks the protocol.
            let mut client = site.negotiated();
            client.send(RCPT);
            assert_eq!(site.seconds_to_end(&mut client), 0);
        }
        assert_eq!(site.traffic.protocol_errors.sum(), 3);
        assert_eq!(site.traffic.open(), 0);
    }

    /// Whatever has happened to it meanwhile: otherwise, one that never stops gets more and more turns.
    #[test]
    fn a_connection_gets_one_turn_at_a_time() {
        let mut site = Site::new(10);
        let _clients = [site.negotiated(), site.negotiated()];
        let places = &mut site.worker.connections.places;
        for place in [1, 0, 1, 1, 0] {
            places.set_due(place);
        }
        places.wake(1);
        assert_eq!(places.next_due(), Some(1));
        places.set_due(1);
        let rest: Vec<_> = std::iter::from_fn(|| places.next_due()).collect();
        assert_eq!(rest, [0, 1]);
    }

    #[test]
    fn a_place_is_free_once() {
        let mut site = Site::new(10);
        let _client = site.negotiated();
        let places = &mut site.worker.connections.places;
        assert!(places.take(0).is_some() && places.take(0).is_none());
        assert_eq!((places.open(), places.next()), (0, 0));
        let _next = site.negotiated();
        let places = &site.worker.connections.places;
        assert_eq!((places.open(), places.next()), (1, 1));
    }
}
