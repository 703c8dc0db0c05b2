//! The connections of one worker, each a task of its own.
//!
//! The worker is informed when one ends or panics, which does not affect the others, and ends those whose deadline has
//! passed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

use super::connection::{Connection, Ended};
use super::handover::Detached;
use super::socket::Stream;
use super::state::ConnectionState;
use super::traffic::{Cut, Traffic};
use super::watchdog::Heartbeat;
use crate::door::Conversation;
use crate::milter::{Handler, Session};

/// The result of a task.
pub(super) type Joined = Result<(Id, Ended), JoinError>;

/// The connections of one thread.
pub(super) struct Connections {
    /// Seconds since the start, counted by [`sweep`](Self::sweep).
    now: Heartbeat,
    tasks: JoinSet<Ended>,
    states: HashMap<Id, (AbortHandle, Arc<ConnectionState>)>,
    slow_lane: Handle,
    detached: Vec<Detached>,
    traffic: Arc<Traffic>,
}

impl Connections {
    /// Starts without connections.
    pub(super) fn new(now: Heartbeat, traffic: Arc<Traffic>, slow_lane: Handle) -> Self {
        Self {
            now,
            tasks: JoinSet::new(),
            states: HashMap::new(),
            slow_lane,
            detached: Vec::new(),
            traffic,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    pub(super) fn spawn<H: Handler + Send + 'static>(
        &mut self,
        stream: Stream,
        session: Conversation<H>,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        self.traffic.opened.increment();
        let state = Arc::new(ConnectionState::new(Arc::clone(&self.now)));
        let kept = Arc::clone(&state);
        let lane = self.slow_lane.clone();
        let task = match stream {
            Stream::Unix(stream) => self
                .tasks
                .spawn(Connection::new(stream, session, state, permit).serve(lane)),
            Stream::Tcp(stream) => self
                .tasks
                .spawn(Connection::new(stream, session, state, permit).serve(lane)),
        };
        self.states.insert(task.id(), (task, kept));
    }

    /// Continues a connection of the previous process.
    pub(super) fn resume<H: Handler + Send + 'static>(
        &mut self,
        connection: Detached,
        handler: H,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        let session = Session::resume(handler, &connection.history);
        match (Stream::from_socket(connection.socket), session) {
            (Ok(stream), Some(session)) => {
                self.spawn(stream, Conversation::Milter(Box::new(session)), permit);
            }
            (Err(error), _) => tracing::warn!(%error, "cannot take over a connection"),
            (Ok(_), None) => tracing::warn!(
                "cannot take over a connection: this version does not understand its state"
            ),
        }
    }

    /// Waits for the next connection to end; `None`: there are no connections.
    pub(super) async fn next_end(&mut self) -> Option<Joined> {
        self.tasks.join_next_with_id().await
    }

    /// Asks all connections to detach.
    pub(super) fn detach(&self) {
        for (_, state) in self.states.values() {
            state.detach();
        }
    }

    /// Removes a connection that has ended, and stores one that has detached.
    pub(super) fn reap(&mut self, joined: Joined) {
        self.traffic.closed.increment();
        let id = match joined {
            Ok((id, ended)) => {
                match ended {
                    Ended::Closed => {}
                    Ended::Detached(connection) => self.detached.push(connection),
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
        self.states.remove(&id);
    }

    /// Counts a second, and ends the connections whose deadline has passed; with `idle`, also those that have been idle for
    /// this many seconds.
    pub(super) fn sweep(&mut self, idle: Option<u32>) {
        self.now.fetch_add(1, Relaxed);
        for (task, state) in self.states.values() {
            if state.is_over() {
                self.traffic.cut.increment(Cut::Timeout);
                tracing::info!("closing a connection: timeout");
                task.abort();
            } else if idle.is_some_and(|seconds| state.is_idle_for(seconds)) {
                task.abort();
            }
        }
    }

    /// Closes all open connections. Returns those that have detached.
    pub(super) async fn close(mut self) -> Vec<Detached> {
        self.tasks.abort_all();
        while let Some(joined) = self.next_end().await {
            self.reap(joined);
        }
        self.detached
    }
}
