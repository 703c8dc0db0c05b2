//! The sources of a report, and the history for it.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};

use super::counts::verdict_name;
use super::history::History;
use crate::base::clock::now_s;
use crate::base::lock::lock;
use crate::daemon::Traffic;
use crate::metrics::Counter;
use crate::snapshot::Live;

/// The sources of the report.
pub struct Status {
    pub(super) live: Arc<Live>,
    pub(super) traffic: Arc<Traffic>,
    pub(super) log_lines_lost: Arc<Counter>,
    history: Mutex<History>,
    /// When the history was saved last, in seconds since 1970.
    pub(super) saved_s: AtomicU64,
}

impl Status {
    /// Creates it from its sources.
    pub fn new(live: Arc<Live>, traffic: Arc<Traffic>, log_lines_lost: Arc<Counter>) -> Self {
        Self {
            live,
            traffic,
            log_lines_lost,
            history: Mutex::default(),
            saved_s: AtomicU64::new(0),
        }
    }

    /// Records the counts since the last call.
    pub fn tick(&self) {
        drop(self.sample());
        self.forget();
    }

    /// Forgets addresses that the configuration does not allow to show any more.
    pub(super) fn forget(&self) {
        if !self.live.snapshot().config.status.show_addresses {
            self.live.counters.decisions.forget_who();
        }
    }

    /// Updates and returns the history of the last day.
    pub(super) fn sample(&self) -> MutexGuard<'_, History> {
        let counters = &self.live.counters;
        let verdicts = counters.verdicts.iter();
        let verdicts = verdicts.map(|(verdict, count)| (verdict_name(verdict).to_owned(), count));
        let snapshot = self.live.snapshot();
        let lists = snapshot.policy.lists().iter().zip(&snapshot.counts);
        let lists = lists.map(|(list, counts)| (list.name().to_owned(), counts.list.hits.sum()));
        let hits = lists.chain(counters.decisions.hits()).collect();
        let mut history = lock(&self.history);
        history.sample(now_s(), &verdicts.collect(), &hits);
        history
    }
}
