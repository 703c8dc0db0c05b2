//! The daemon's service with an observer that stores its last decision.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::daemon::Service;
use crate::screen::{Decision, Observer, Screen};
use crate::snapshot::Live;

/// The last decision of the daemon.
#[derive(Clone, Debug, Default)]
pub(super) struct LastDecision {
    pub(super) identity: &'static str,
    pub(super) list: String,
    pub(super) reason: &'static str,
    pub(super) spent: Duration,
}

/// The daemon's service with an observer.
pub(super) struct ObservedService {
    pub(super) live: Arc<Live>,
    pub(super) last: Arc<Mutex<LastDecision>>,
}

impl Service for ObservedService {
    type Handler = Screen<DecisionObserver>;

    fn handler(&self) -> Self::Handler {
        Screen::with_observer(
            Arc::clone(&self.live),
            DecisionObserver(Arc::clone(&self.last)),
        )
    }

    fn watched(&self) -> Vec<PathBuf> {
        Vec::new()
    }
}

pub(super) struct DecisionObserver(Arc<Mutex<LastDecision>>);

impl Observer for DecisionObserver {
    fn decided(&mut self, decision: &Decision<'_>) {
        let hit = decision
            .verdict
            .hit
            .and_then(|index| decision.hits.get(index));
        let list = hit.and_then(|hit| decision.snapshot.policy.lists().get(hit.list));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = LastDecision {
            identity: hit.map_or("", |hit| hit.identity.name()),
            list: list.map_or_else(String::new, |list| list.name().to_owned()),
            reason: decision.exemption.map_or_else(
                || decision.verdict.reason.name(),
                |exemption| exemption.name(),
            ),
            spent: decision.spent,
        };
    }
}
