//! The connections of a worker, each in a numbered place.
//!
//! The next connection gets the place of one that has ended: its number, its waker, its place in a queue. So a sign may reach
//! a later connection than it was meant for, which then gets a turn without anything to do.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::Waker;

use rustix::event::epoll::{self, EventData, EventFlags};

use super::bell::Bell;
use super::connection::{Connection, Signs};
use crate::milter::Handler;

/// What the epoll waits for. Not `OUT`, which would wake for each answer that was read.
pub(super) const INPUT: EventFlags = EventFlags::IN
    .union(EventFlags::RDHUP)
    .union(EventFlags::ET);

/// A place, and what its worker knows about its connection.
pub(super) struct Place<H> {
    pub(super) state: State<H>,
    pub(super) signs: Signs,
    pub(super) waker: Waker,
    /// The epoll waits until there is space for answers.
    awaits_space: bool,
    is_due: bool,
}

impl<H: Handler> Place<H> {
    /// Has the epoll wait for space, if that is needed; `false` if it cannot.
    pub(super) fn await_space(&mut self, epoll: &OwnedFd, number: usize) -> bool {
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

/// Where the connection of a place is.
pub(super) enum State<H> {
    /// There is none.
    Free,
    Here(Connection<H>),
    /// In the slow lane.
    Away,
}

/// The places of a worker.
pub(super) struct Places<H> {
    places: Vec<Place<H>>,
    free: Vec<usize>,
    /// Those that get a turn, each once.
    due: VecDeque<usize>,
}

impl<H> Default for Places<H> {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
            due: VecDeque::new(),
        }
    }
}

impl<H> Places<H> {
    /// The place of the next connection.
    pub(super) fn next(&self) -> usize {
        self.free.last().copied().unwrap_or(self.places.len())
    }

    /// Gives a connection the next place, in which the bell can wake it.
    pub(super) fn add(&mut self, connection: Connection<H>, bell: &Arc<Bell>) {
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

    pub(super) fn get_mut(&mut self, number: usize) -> Option<&mut Place<H>> {
        self.places.get_mut(number)
    }

    pub(super) fn here(&self, number: usize) -> Option<&Connection<H>> {
        match &self.places.get(number)?.state {
            State::Here(connection) => Some(connection),
            State::Free | State::Away => None,
        }
    }

    /// Frees a place. Returns what was there; `None` if it was free.
    pub(super) fn take(&mut self, number: usize) -> Option<State<H>> {
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
    pub(super) fn numbers(&self) -> std::ops::Range<usize> {
        0..self.places.len()
    }

    pub(super) fn set_due(&mut self, number: usize) {
        if let Some(place) = self.places.get_mut(number)
            && !std::mem::replace(&mut place.is_due, true)
        {
            self.due.push_back(number);
        }
    }

    /// How many get a turn.
    pub(super) fn due(&self) -> usize {
        self.due.len()
    }

    /// The next that gets a turn: who has waited longest.
    pub(super) fn next_due(&mut self) -> Option<usize> {
        let number = self.due.pop_front()?;
        if let Some(place) = self.places.get_mut(number) {
            place.is_due = false;
        }
        Some(number)
    }

    /// Has a connection ask for its answer.
    pub(super) fn wake(&mut self, number: usize) {
        if let Some(place) = self.places.get_mut(number) {
            place.signs.woken = true;
            self.set_due(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::daemon::rig::Site;

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
