//! One thread that accepts connections and serves them.
//!
//! Each worker has its own runtime with one thread, and its own descriptor of every listening socket. A connection stays with
//! the worker that has accepted it. The work per packet is a few microseconds, so moving connections between threads would
//! cost more than it saves. Only much longer work is done elsewhere ([`slow_lane`](super::slow_lane)).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::Service;
use super::accept::{ConnectionLimit, accept};
use super::connections::Connections;
use super::handover::Detached;
use super::listen::Listener;
use super::shutdown::{Stop, finish};
use super::socket::Socket;
use super::watchdog::Heartbeat;
use crate::door::Conversation;
use crate::endpoint::Door;

/// How often deadlines are checked. All deadlines are whole seconds.
const SWEEP: Duration = Duration::from_secs(1);

/// The data that a worker gets.
pub(super) struct Shared<S> {
    pub(super) service: Arc<S>,
    /// Shows that this worker makes progress.
    pub(super) heartbeat: Heartbeat,
    /// The connection limit of all workers.
    pub(super) limit: Arc<ConnectionLimit>,
    /// Runs long steps.
    pub(super) slow_lane: Handle,
    /// When and how the daemon must stop.
    pub(super) stop: watch::Receiver<Option<Stop>>,
    /// How long messages in progress may take then.
    pub(super) drain: Duration,
}

/// Serves until it must stop, and then until the last connection has ended or detached.
pub(super) async fn run<S: Service>(
    listeners: Vec<(Door, Listener)>,
    taken_over: Vec<Detached>,
    mut shared: Shared<S>,
) -> io::Result<Vec<Detached>> {
    let sockets = listeners
        .into_iter()
        .map(|(door, listener)| Socket::new(listener).map(|socket| (door, socket)))
        .collect::<io::Result<Vec<_>>>()?;
    let mut connections = Connections::new(
        Arc::clone(&shared.heartbeat),
        Arc::clone(&shared.limit.traffic),
        shared.slow_lane.clone(),
    );
    for connection in taken_over {
        let permit = shared.limit.try_permit();
        connections.resume(connection, shared.service.handler(), permit);
    }
    let mut sweep = interval(SWEEP);
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let stop = loop {
        tokio::select! {
            (stream, door, permit) = accept(&sockets, &shared.limit) => {
                let session = Conversation::new(door, shared.service.handler());
                connections.spawn(stream, session, Some(permit));
            }
            Some(ended) = connections.next_end() => connections.reap(ended),
            _ = sweep.tick() => connections.sweep(None),
            stop = shared.stop.wait_for(Option::is_some) => {
                // If the sender is gone, the whole daemon is gone.
                break stop.ok().and_then(|stop| *stop).unwrap_or(Stop::Finish);
            }
        }
    };
    let Shared {
        stop: stops, drain, ..
    } = shared;
    Ok(finish(stop, stops, sockets, connections, sweep, drain).await)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::rig::{MAIL, RCPT, Site, seconds_to_end};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::{Instant, sleep};

    #[tokio::test(start_paused = true)]
    async fn each_kind_of_waiting_has_its_limit() {
        let site = Site::new(10);
        let mut silent = site.connect().await;
        assert!((29..=32).contains(&seconds_to_end(&mut silent).await));

        let mut idle = site.negotiated().await;
        assert!((7209..=7212).contains(&seconds_to_end(&mut idle).await));

        // Sending single bytes does not extend the deadline.
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
    async fn who_takes_no_answers_is_not_read_from_and_then_cut() {
        let site = Site::new(10);
        let mut deaf = site.negotiated().await;
        deaf.write_all(MAIL).await.expect("written");
        let begun = Instant::now();
        let mut written = 0;
        // Each gets an answer of 13 KB, and the client does not read.
        while deaf.write_all(RCPT).await.is_ok() {
            written += 1;
        }
        assert!((29..=34).contains(&begun.elapsed().as_secs()));
        assert!(written < 200_000, "it is not read on without end");
    }

    /// After a restart, too, an SMTP client may be silent for hours.
    #[tokio::test(start_paused = true)]
    async fn a_connection_that_was_taken_over_has_the_time_of_any_other() {
        let site = Site::new(10);
        let mut idle = site.negotiated().await;
        sleep(Duration::from_secs(1)).await;
        site.stop.send_replace(Some(Stop::HandOver));
        let detached = site.worker.await.expect("no panic").expect("in order");
        assert_eq!(detached.len(), 1);

        let next = Site::with(10, detached);
        assert!((7209..=7212).contains(&seconds_to_end(&mut idle).await));
        drop(next);
    }
}
