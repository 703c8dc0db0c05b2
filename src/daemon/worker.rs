//! One thread that accepts connections and serves them.
//!
//! Each worker waits in its own epoll(7) for all its connections, and has its own descriptor of every listening socket. A
//! connection stays with its worker: the work per packet is a few microseconds, less than moving it would cost. Only much
//! longer work is done elsewhere ([`slow_lane`](super::slow_lane)).
//!
//! ```text
//!   wait -> [ note events ] -> [ hear other threads ] -> [ one turn for each connection that is due ] -> [ accept ] -> wait
//! ```

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use super::Service;
use super::accept::{Acceptor, SOCKETS};
use super::connections::{Connections, Means};
use super::handover::Detached;
use super::shutdown::{Ending, Stop};
use super::socket::Socket;
use crate::endpoint::Door;

/// How often deadlines are checked. All deadlines are whole seconds.
const SECOND: Duration = Duration::from_secs(1);
/// How often a worker looks at what does not wake it: an answer that is late, a connection limit that was reached, a lack of
/// descriptors or memory.
const LOOK: Duration = Duration::from_millis(100);
const EVENTS_MAX: usize = 256;

const BELL: u64 = u64::MAX;

pub(super) struct Worker<S: Service> {
    epoll: Arc<OwnedFd>,
    acceptor: Acceptor,
    pub(super) connections: Connections<S>,
    ending: Option<Ending>,
}

impl<S: Service> Worker<S> {
    pub(super) fn new(sockets: Vec<(Door, Socket)>, means: Means<S>) -> io::Result<Self> {
        let epoll = Arc::new(epoll::create(CreateFlags::CLOEXEC)?);
        let rings = EventFlags::IN | EventFlags::ET;
        epoll::add(&*epoll, &*means.bell, EventData::new_u64(BELL), rings)?;
        let limit = Arc::clone(&means.limit);
        Ok(Self {
            acceptor: Acceptor::new(Arc::clone(&epoll), sockets, limit)?,
            connections: Connections::new(means, Arc::clone(&epoll)),
            epoll,
            ending: None,
        })
    }

    /// Serves until it must stop, and then until the last connection has ended or detached. Returns those that have detached.
    pub(super) fn run(mut self) -> io::Result<Vec<Detached>> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut second = Instant::now() + SECOND;
        let mut look = second;
        while !self.has_ended() {
            let has_to_look = self.connections.has_late || self.acceptor.is_paused();
            let next = match has_to_look {
                true => look.min(second),
                false => second,
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
        Ok(self.connections.close())
    }

    pub(super) fn turn(&mut self, patience: Duration, events: &mut Vec<Event>) -> io::Result<()> {
        let patience = match self.connections.places.due() {
            0 => patience,
            _ => Duration::ZERO,
        };
        self.wait(patience, events)?;
        let open = self.connections.places.open();
        for event in events.iter() {
            let number = event.data.u64();
            if number < SOCKETS {
                self.connections.note(number, event.flags);
            }
        }
        if self.connections.means.bell.is_heard()
            && let Some(stop) = self.connections.hear()
        {
            self.stop(stop);
        }
        self.connections.serve();
        if self.connections.places.open() < open {
            self.acceptor.try_again();
        }
        // Last, because a new connection may get the place of one that has just ended.
        for event in events.iter() {
            let number = event.data.u64();
            if (SOCKETS..BELL).contains(&number)
                && let Some((stream, door)) = self.acceptor.accept(number)
                && let Err(error) = self.connections.begin(stream, door)
            {
                self.acceptor.give_up(&error);
            }
        }
        Ok(())
    }

    fn wait(&self, patience: Duration, events: &mut Vec<Event>) -> io::Result<()> {
        // Rounded up: otherwise it would not wait at all in the last millisecond.
        let millis = u64::try_from(patience.as_nanos().div_ceil(1_000_000)).unwrap_or(1000);
        let patience = Timespec::try_from(Duration::from_millis(millis));
        let patience = patience.map_err(io::Error::other)?;
        events.clear();
        match epoll::wait(&*self.epoll, spare_capacity(events), Some(&patience)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn look(&mut self, now: Instant) {
        self.connections.wake_late();
        self.acceptor.try_again();
        self.acceptor.note_waiting(now);
    }

    /// Counts a second, and ends the connections whose deadline has passed; at the end of the daemon also idle ones.
    pub(super) fn second(&mut self) {
        let now = self.connections.count_second();
        let mut idle = None;
        if let Some(ending) = &mut self.ending {
            let has_queue = self.acceptor.has_queue();
            idle = ending.second(now, has_queue, self.connections.means.drain);
        }
        self.connections.sweep(now, idle);
        self.acceptor.try_again();
    }

    fn stop(&mut self, stop: Stop) {
        if self.ending.is_some_and(|ending| ending.stop == stop) {
            return;
        }
        let drain = self.connections.means.drain;
        self.ending = Some(Ending::new(stop, self.connections.now(), drain));
        match stop {
            Stop::Stay => self.acceptor.stop(),
            // When our descriptors are closed, new connections go to the next process, if there is one.
            Stop::HandOver | Stop::Finish | Stop::Now => self.acceptor.close(),
        }
        if stop == Stop::HandOver {
            self.connections.detach();
        }
    }

    /// Whether there is nothing left to do, or no time for it.
    pub(super) fn has_ended(&self) -> bool {
        let (open, now) = (self.connections.places.open(), self.connections.now());
        self.ending
            .is_some_and(|ending| open == 0 || ending.is_over(now, open))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::rig::{MAIL, RCPT, Site};
    use crate::daemon::traffic::Cut;
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

        // After a restart, too, an SMTP client may be silent for hours.
        let mut idle = site.negotiated();
        site.stop(Stop::HandOver);
        let (_, detached) = site.end();
        let mut next = Site::with(10, detached);
        assert!((7209..=7212).contains(&next.seconds_to_end(&mut idle)));
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
}
