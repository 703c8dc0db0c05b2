//! What a report is made from, and the history that is kept for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::counts::verdict_name;
use super::history::History;
use crate::clock::now_s;
use crate::daemon::Traffic;
use crate::metrics::Counter;
use crate::snapshot::Live;

/// Where the report comes from.
pub struct Status {
    pub(super) live: Arc<Live>,
    pub(super) traffic: Arc<Traffic>,
    pub(super) log_lines_lost: Arc<Counter>,
    history: Mutex<History>,
}

impl Status {
    /// Reports on these.
    pub fn new(live: Arc<Live>, traffic: Arc<Traffic>, log_lines_lost: Arc<Counter>) -> Self {
        Self {
            live,
            traffic,
            log_lines_lost,
            history: Mutex::default(),
        }
    }

    /// Notes what has been counted since the last time.
    pub fn tick(&self) {
        drop(self.sample());
    }

    /// The last day up to now.
    pub(super) fn sample(&self) -> MutexGuard<'_, History> {
        let counters = &self.live.counters;
        let verdicts = counters.verdicts.iter();
        let verdicts = verdicts.map(|(verdict, count)| (verdict_name(verdict).to_owned(), count));
        let snapshot = self.live.snapshot();
        let lists = snapshot.policy.lists().iter().zip(&snapshot.counts);
        let lists = lists.map(|(list, counts)| (list.name().to_owned(), counts.list.hits.sum()));
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.sample(now_s(), verdicts.collect(), &lists.collect());
        history
    }
}
