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

use tokio::sync::watch;
use tokio::time::{Instant, Interval, sleep_until};

use super::connections::Connections;
use super::handover::Detached;
use super::socket::Socket;
use crate::endpoint::Door;

/// At the end, a connection without a message is closed after this long without a command. Its SMTP session loses the filter,
/// even if the client has already sent MAIL, which the server may delay until RCPT. But as long as this process runs, all
/// new sessions are unfiltered.
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

/// Serves the open connections until the last one has ended or detached; for no longer than `drain` if other processes wait
/// for the end. Returns the detached connections. `sweep` ticks once a second.
pub(super) async fn finish(
    stop: Stop,
    mut stops: watch::Receiver<Option<Stop>>,
    mut sockets: Vec<(Door, Socket)>,
    mut connections: Connections,
    mut sweep: Interval,
    drain: Duration,
) -> Vec<Detached> {
    let mut end = None;
    let mut alone = 0;
    if stop == Stop::HandOver {
        connections.detach();
    }
    if stop != Stop::Stay {
        end = Some(Instant::now() + drain);
        // When our descriptors are closed, new connections go to the next process, if there is one.
        sockets.clear();
    }
    loop {
        tokio::select! {
            ended = connections.next_end() => match ended {
                Some(ended) => connections.reap(ended),
                None => return connections.close().await,
            },
            _ = sweep.tick() => {
                let waiting = sockets.iter().any(|(_, socket)| socket.has_queue());
                alone = if waiting { alone + 1 } else { 0 };
                if alone > ALONE_SECONDS && end.is_none() {
                    tracing::info!("not accepting new connections, finishing messages in progress");
                    end = Some(Instant::now() + drain);
                }
                let finish = stop != Stop::HandOver && end.is_some();
                connections.sweep(finish.then_some(FINISH_IDLE_SECONDS));
            }
            () = until_now(&mut stops) => return connections.close().await,
            () = sleep_until(end.unwrap_or_else(Instant::now)), if end.is_some() => {
                tracing::warn!(
                    connections = connections.len(),
                    "the time for messages in progress is over, closing the remaining connections"
                );
                return connections.close().await;
            }
        }
    }
}

/// Waits until all connections must be closed at once.
async fn until_now(stops: &mut watch::Receiver<Option<Stop>>) {
    let now = |stop: &Option<Stop>| *stop == Some(Stop::Now);
    if stops.wait_for(now).await.is_err() {
        // The sender is gone: this can no longer be requested.
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::rig::{
        END_OF_HEADERS, LATE_RCPT, LATE_SECONDS, MAIL, OFFER, RCPT, Site, answer, seconds_to_end,
    };
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;
    use tokio::time::{sleep, timeout};

    #[tokio::test(start_paused = true)]
    async fn draining_ends_the_idle_and_lets_messages_finish() {
        let site = Site::new(10);
        let mut idle = site.negotiated().await;
        let mut busy = site.negotiated().await;
        let mut stuck = site.negotiated().await;
        busy.write_all(MAIL).await.expect("written");
        stuck.write_all(MAIL).await.expect("written");
        // When an answer has arrived, everything before it was read.
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

        // This connection never ends its message, and is closed when the time is over.
        let begun = Instant::now();
        seconds_to_end(&mut stuck).await;
        assert!(begun.elapsed().as_secs() <= 20);
        assert!(site.worker.await.expect("no panic").is_ok());
    }

    /// The sockets belong to a service manager, and another process may listen on them.
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
    async fn connections_detach_at_once() {
        let site = Site::new(10);
        let _idle = site.negotiated().await;
        let mut half = site.negotiated().await;
        half.write_all(&MAIL[..7]).await.expect("written");
        let mut waits = site.negotiated().await;
        waits.write_all(MAIL).await.expect("written");
        waits.write_all(LATE_RCPT).await.expect("written");
        waits.write_all(RCPT).await.expect("written");
        let mut begun = site.connect().await;
        begun.write_all(&OFFER[..7]).await.expect("written");
        sleep(Duration::from_secs(1)).await;
        let stopped = Instant::now();
        site.stop.send_replace(Some(Stop::HandOver));
        let detached = site.worker.await.expect("no panic").expect("in order");
        assert_eq!(
            (detached.len(), stopped.elapsed()),
            (4, Duration::default())
        );

        // The next process has all that was read.
        let next = Site::with(10, detached);
        half.write_all(&MAIL[7..]).await.expect("written");
        half.write_all(RCPT).await.expect("written");
        assert_eq!(answer(&mut half).await, b'y');
        assert_eq!(answer(&mut waits).await, b'y');
        assert_eq!(stopped.elapsed().as_secs(), LATE_SECONDS);
        assert_eq!(answer(&mut waits).await, b'y');
        begun.write_all(&OFFER[7..]).await.expect("written");
        assert_eq!(answer(&mut begun).await, b'O');
        drop(next);
    }

    /// Nobody else waits for a mail server that does not read its answers.
    #[tokio::test(start_paused = true)]
    async fn a_deaf_mail_server_is_left() {
        let site = Site::new(10);
        let mut deaf = site.negotiated().await;
        deaf.write_all(MAIL).await.expect("written");
        // Each gets an answer of 13 KB.
        let asks = async { while deaf.write_all(RCPT).await.is_ok() {} };
        assert!(timeout(Duration::from_secs(5), asks).await.is_err());
        let stopped = Instant::now();
        site.stop.send_replace(Some(Stop::HandOver));
        let detached = site.worker.await.expect("no panic").expect("in order");
        assert_eq!(
            (detached.len(), stopped.elapsed()),
            (0, Duration::default())
        );
    }

    /// A second signal to stop.
    #[tokio::test(start_paused = true)]
    async fn the_second_signal_ends_what_stays() {
        let site = Site::new(10);
        let mut idle = site.negotiated().await;
        site.stop.send_replace(Some(Stop::Stay));
        sleep(Duration::from_secs(1)).await;
        let begun = Instant::now();
        site.stop.send_replace(Some(Stop::Now));
        let detached = site.worker.await.expect("no panic").expect("in order");
        assert_eq!((detached.len(), begun.elapsed().as_secs()), (0, 0));
        assert_eq!(idle.read(&mut [0]).await.expect("the end"), 0);
    }

    /// This connection is not idle: this process must send its answer.
    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_late_is_waited_for_at_the_end() {
        let site = Site::new(10);
        let mut waits = site.negotiated().await;
        waits.write_all(MAIL).await.expect("written");
        waits.write_all(LATE_RCPT).await.expect("written");
        sleep(Duration::from_secs(1)).await;
        let begun = Instant::now();
        site.stop.send_replace(Some(Stop::Finish));
        assert_eq!(
            (answer(&mut waits).await, begun.elapsed().as_secs()),
            (b'y', LATE_SECONDS - 1)
        );
        waits.write_all(END_OF_HEADERS).await.expect("still served");
        assert_eq!(answer(&mut waits).await, b'a');
        assert!(site.worker.await.expect("no panic").is_ok());
    }
}
