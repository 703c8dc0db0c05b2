//! The daemon's service with an observer that stores its last decision.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::base::lock::lock;
use crate::daemon::Service;
use crate::explain::RecordedDecision;
use crate::screen::{Decision, Observer, Screen};
use crate::snapshot::Live;

/// The last decision of the daemon.
#[derive(Clone, Default)]
pub(super) struct LastDecision(Arc<Mutex<RecordedDecision>>);

impl LastDecision {
    pub(super) fn take(&self) -> RecordedDecision {
        std::mem::take(&mut *lock(&self.0))
    }
}

impl Observer for LastDecision {
    fn decided(&mut self, decision: &Decision<'_>) {
        *lock(&self.0) = RecordedDecision::of(decision);
    }
}

/// The daemon's service with an observer.
pub(super) struct ObservedService {
    pub(super) live: Arc<Live>,
    pub(super) last: LastDecision,
}

impl Service for ObservedService {
    type Handler = Screen<LastDecision>;

    fn handler(&self) -> Self::Handler {
        Screen::with_observer(Arc::clone(&self.live), self.last.clone())
    }

    fn watched(&self) -> Vec<PathBuf> {
        Vec::new()
    }
}
