//! Accepting connections, up to the limit. No error ends it: after one, a worker pauses, and soon tries again.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::limit::ConnectionLimit;
use super::socket::Socket;
use crate::endpoint::Door;

/// Wakes only one of the workers that wait for a socket: of those that have nothing to do, the one that was added first.
const NEW: EventFlags = EventFlags::IN.union(EventFlags::EXCLUSIVE);

/// A worker lets another one have the next connection after so many: queueing up takes two system calls.
const IN_A_ROW: u32 = 4;

/// The listening sockets of a worker, which add their events to its epoll.
pub(super) struct Acceptor {
    epoll: Arc<OwnedFd>,
    sockets: Vec<(Door, Socket)>,
    /// The number of the event of the first socket.
    first: u64,
    limit: Arc<ConnectionLimit>,
    state: State,
    /// Number of accepted connections since the worker has queued up.
    accepted: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// New connections wake the worker.
    Listening,
    /// The limit is reached, or an error must be waited out.
    Paused,
    /// No more connections are accepted.
    Stopped,
}

impl Acceptor {
    /// Accepts connections from now on. The sockets have events with the numbers from `first` up.
    ///
    /// # Errors
    /// The epoll does not take them.
    pub(super) fn new(
        epoll: Arc<OwnedFd>,
        sockets: Vec<(Door, Socket)>,
        first: u64,
        limit: Arc<ConnectionLimit>,
    ) -> io::Result<Self> {
        let mut acceptor = Self {
            epoll,
            sockets,
            first,
            limit,
            state: State::Paused,
            accepted: 0,
        };
        acceptor.listen()?;
        Ok(acceptor)
    }

    /// Accepts one connection, after the event with this number, and counts it.
    pub(super) fn accept(&mut self, event: u64) -> Option<(Socket, Door)> {
        if self.state != State::Listening {
            return None;
        }
        let number = usize::try_from(event.checked_sub(self.first)?).ok()?;
        let (door, listener) = self.sockets.get(number)?;
        if !self.limit.take() {
            self.pause();
            return None;
        }
        match listener.accept() {
            Ok(stream) => {
                let door = *door;
                self.accepted += 1;
                if self.accepted >= IN_A_ROW {
                    self.accepted = 0;
                    if let Err(error) = self.queue_up(event, listener) {
                        self.wait_out(&error);
                    }
                }
                Some((stream, door))
            }
            Err(error) => {
                self.limit.give_back();
                match error.kind() {
                    // Another worker was faster, or the mail server has already closed the connection: not an error.
                    io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted => {}
                    _ => self.wait_out(&error),
                }
                None
            }
        }
    }

    /// Lets the next connection of a socket wake another worker. Otherwise the first worker would get all connections while it
    /// is not busy, and would be alone with them when all their mail servers send at once.
    fn queue_up(&self, event: u64, listener: &Socket) -> io::Result<()> {
        epoll::delete(&*self.epoll, listener)?;
        self.add(event, listener)
    }

    /// Waits for connections of a socket, behind the workers that already do. Those that are in its queue count, too.
    fn add(&self, event: u64, listener: &Socket) -> io::Result<()> {
        let data = EventData::new_u64(event);
        Ok(epoll::add(&*self.epoll, listener, data, NEW)?)
    }

    /// Notes that the connection that was accepted last could not be served.
    pub(super) fn give_up(&mut self, error: &io::Error) {
        self.limit.give_back();
        self.wait_out(error);
    }

    /// Pauses because of an error, for example a lack of descriptors or memory.
    fn wait_out(&mut self, error: &io::Error) {
        self.limit.note_failure(error, Instant::now());
        self.pause();
    }

    /// Whether it would accept connections, and cannot.
    pub(super) fn is_paused(&self) -> bool {
        self.state == State::Paused
    }

    /// Accepts connections again after a pause, if that is possible.
    pub(super) fn try_again(&mut self) {
        if self.is_paused()
            && !self.limit.is_reached()
            && let Err(error) = self.listen()
        {
            self.wait_out(&error);
        }
    }

    /// Counts a mail server that must wait because of the limit.
    pub(super) fn note_waiting(&self, now: Instant) {
        if self.is_paused() && self.limit.is_reached() && self.has_queue() {
            self.limit.note_waiting(now);
        }
    }

    /// Whether a mail server waits to be accepted.
    pub(super) fn has_queue(&self) -> bool {
        let sockets = self.sockets.iter();
        let mut ready: Vec<PollFd<'_>> = sockets
            .map(|(_, socket)| PollFd::new(socket, PollFlags::IN))
            .collect();
        rustix::event::poll(&mut ready, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// Accepts no more connections.
    pub(super) fn stop(&mut self) {
        self.pause();
        self.state = State::Stopped;
    }

    /// The same, and closes its descriptors of the sockets.
    pub(super) fn close(&mut self) {
        self.stop();
        self.sockets.clear();
    }

    fn listen(&mut self) -> io::Result<()> {
        for (event, (_, listener)) in (self.first..).zip(&self.sockets) {
            self.add(event, listener)?;
        }
        self.state = State::Listening;
        Ok(())
    }

    fn pause(&mut self) {
        for (_, listener) in &self.sockets {
            // It may not have been added.
            let _ = epoll::delete(&*self.epoll, listener);
        }
        self.state = State::Paused;
    }
}

#[cfg(test)]
mod tests {
    use crate::daemon::rig::{OFFER, Site};

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
}
