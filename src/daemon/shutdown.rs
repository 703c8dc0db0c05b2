//! The end of a worker: what happens to its connections.
//!
//! ```text
//!  HandOver: each connection detaches at once, with its history and what was read of it
//!  Finish:   idle connections are closed, messages continue
//!  Stay:     nothing is closed; if no process accepts waiting mail servers: Finish
//!                        |  no connection left, the time is over, or Now
//!                        v
//!                      done
//! ```

use std::time::Duration;

/// At the end, a connection without a message is closed after this long without a command. Its SMTP session loses the filter;
/// but as long as this process runs, all new sessions are unfiltered.
const FINISH_IDLE_SECONDS: u32 = 2;
/// If mail servers have waited this long to be accepted, no other process accepts them.
const ALONE_SECONDS: u32 = 4;

/// What is done with the connections at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Another process continues them.
    HandOver,
    /// New connections are refused until this process has ended, so it ends soon.
    Finish,
    /// Another process may already serve new connections, so the open ones may end by themselves.
    Stay,
    /// All are closed, except those that have detached.
    Now,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    pub(super) stop: Stop,
    /// The second in which the time is over, if other processes wait for the end.
    over: Option<u32>,
    /// For how many seconds mail servers have waited.
    alone: u32,
}

impl Ending {
    pub(super) fn new(stop: Stop, now: u32, drain: Duration) -> Self {
        Self {
            stop,
            over: (stop != Stop::Stay).then(|| after(now, drain)),
            alone: 0,
        }
    }

    /// Counts a second. Returns the time after which an idle connection is closed now.
    pub(super) fn second(&mut self, now: u32, has_queue: bool, drain: Duration) -> Option<u32> {
        self.alone = if has_queue { self.alone + 1 } else { 0 };
        if self.alone > ALONE_SECONDS && self.over.is_none() {
            tracing::info!("not accepting new connections, finishing messages in progress");
            self.over = Some(after(now, drain));
        }
        let finishes = self.stop != Stop::HandOver && self.over.is_some();
        finishes.then_some(FINISH_IDLE_SECONDS)
    }

    /// Whether the `open` connections have no more time.
    pub(super) fn is_over(&self, now: u32, open: usize) -> bool {
        let is_over = self.over.is_some_and(|over| now >= over);
        if is_over && self.stop != Stop::Now {
            tracing::warn!(
                connections = open,
                "the time for messages in progress is over, closing the remaining connections"
            );
        }
        is_over || self.stop == Stop::Now
    }
}

fn after(now: u32, time: Duration) -> u32 {
    now.saturating_add(u32::try_from(time.as_secs()).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::rig::{
        DRAIN_SECONDS, END_OF_HEADERS, LATE_RCPT, LATE_SECONDS, MAIL, RCPT, Site,
    };
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn draining_ends_the_idle_and_lets_messages_finish() {
        let mut site = Site::new(10);
        let mut idle = site.negotiated();
        let mut busy = site.negotiated();
        let mut stuck = site.negotiated();
        for client in [&mut busy, &mut stuck] {
            client.send(MAIL);
            client.send(RCPT);
        }
        site.stop(Stop::Finish);
        let stopped = site.seconds;
        assert!(site.seconds_to_end(&mut idle) <= 4);
        assert!(UnixStream::connect(site.folder.path().join("m")).is_err());

        site.wait(5);
        busy.send(END_OF_HEADERS);
        site.wait(4);
        assert_eq!((busy.answer(), busy.answer()), (Some(b'y'), Some(b'a')));
        assert!(busy.is_closed());

        // This connection never ends its message, and is closed when the time is over.
        assert!(!stuck.is_closed());
        let already = site.seconds - stopped;
        let (seconds, _) = site.end();
        assert_eq!(already + seconds, DRAIN_SECONDS);
        assert!(stuck.is_closed());
    }

    /// The sockets belong to a service manager, and another process may listen on them.
    #[test]
    fn sessions_stay_unless_others_wait_in_vain() {
        let mut site = Site::new(10);
        let mut idle = site.negotiated();
        site.stop(Stop::Stay);
        site.wait(3600);
        idle.send(MAIL);
        idle.send(RCPT);
        site.serve();
        assert_eq!(idle.answer(), Some(b'y'));

        let _waits = site.connect();
        let (seconds, _) = site.end();
        assert!((20..=30).contains(&seconds));
        assert!(idle.is_closed());
    }

    #[test]
    fn a_connection_detaches_even_if_it_waits_for_an_answer() {
        let mut site = Site::new(10);
        let mut waits = site.negotiated();
        for packet in [MAIL, LATE_RCPT, RCPT] {
            waits.send(packet);
        }
        site.wait(1);
        site.stop(Stop::HandOver);
        let (seconds, detached) = site.end();
        assert_eq!((seconds, detached.len()), (0, 1));
        let mut next = Site::with(10, detached);
        next.wait(LATE_SECONDS - 1);
        assert_eq!(waits.answer(), None);
        next.wait(1);
        assert_eq!((waits.answer(), waits.answer()), (Some(b'y'), Some(b'y')));
    }

    /// Nobody else waits for a mail server that does not read its answers.
    #[test]
    fn a_deaf_mail_server_is_left() {
        let mut site = Site::new(10);
        let mut deaf = site.negotiated();
        deaf.send(MAIL);
        // Each gets an answer of 13 KB.
        while deaf.0.write_all(RCPT).is_ok() {}
        site.wait(5);
        site.stop(Stop::HandOver);
        let (seconds, detached) = site.end();
        assert_eq!((seconds, detached.len()), (0, 0));
    }

    /// This connection is not idle: this process must send its answer.
    #[test]
    fn an_answer_that_is_late_is_waited_for_at_the_end() {
        let mut site = Site::new(10);
        let mut waits = site.negotiated();
        waits.send(MAIL);
        waits.send(LATE_RCPT);
        site.wait(1);
        site.stop(Stop::Finish);
        site.wait(LATE_SECONDS - 1);
        assert_eq!(waits.answer(), Some(b'y'));
        waits.send(END_OF_HEADERS);
        site.serve();
        assert_eq!(waits.answer(), Some(b'a'));
        assert!(site.end().0 <= 4);
    }
}
