//! The sources of a report, and the history for it.
//!
//! A restart does not lose the history and the last decisions: they are in a file of the state folder.

use std::error::Error;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::history::{History, counts};
use crate::daemon::{Asker, Traffic};
use crate::metrics::Counter;
use crate::snapshot::{Decision, Live};
use blocklist_filter::base::clock::now_s;
use blocklist_filter::base::lock::lock;
use blocklist_filter::base::replacement::Replacement;
use blocklist_filter::base::throttle::Throttle;
use blocklist_filter::base::whole_file;

const NAME: &str = "status.json";
/// Most bytes of the file: a larger one is not ours.
const MAX_BYTES: u64 = 16 << 20;
/// Seconds of history that a crash loses at most.
const PAUSE_S: u64 = 300;

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Kept {
    history: History,
    decisions: Vec<Arc<Decision>>,
}

/// The sources of the report.
pub struct Status {
    pub(super) live: Arc<Live>,
    pub(super) traffic: Arc<Traffic>,
    pub(super) log_lines_lost: Arc<Counter>,
    history: Mutex<History>,
    saving: Throttle<PAUSE_S>,
}

impl Status {
    /// Creates it from its sources.
    pub fn new(live: Arc<Live>, traffic: Arc<Traffic>, log_lines_lost: Arc<Counter>) -> Self {
        Self {
            live,
            traffic,
            log_lines_lost,
            history: Mutex::default(),
            saving: Throttle::default(),
        }
    }

    /// Records the counts since the last call.
    pub fn tick(&self) {
        drop(self.sample());
    }

    /// Returns whether whoever asks sees whose mail was decided.
    pub(super) fn shows_addresses(&self, asker: Asker) -> bool {
        asker == Asker::Administrator || self.live.snapshot().config.status.show_addresses
    }

    /// Returns the last decisions, the newest first, with or without whose mail was decided.
    pub(super) fn decisions(&self, shows_addresses: bool) -> Vec<Arc<Decision>> {
        let mut decisions = self.live.counters.decisions.all();
        if !shows_addresses {
            for decision in &mut decisions {
                Arc::make_mut(decision).who = None;
            }
        }
        decisions
    }

    /// Updates and returns the history of the last day.
    pub(super) fn sample(&self) -> MutexGuard<'_, History> {
        let counters = &self.live.counters;
        let verdicts = counts(&counters.verdicts, |name| name);
        let snapshot = self.live.snapshot();
        let lists = snapshot.policy.lists().iter().zip(&snapshot.counts);
        let lists = lists.map(|(list, counts)| (list.name().to_owned(), counts.list.hits.sum()));
        let hits = lists.chain(counters.decisions.hits()).collect();
        let mut history = lock(&self.history);
        history.sample(now_s(), &verdicts, &hits);
        history
    }

    fn kept_file(&self) -> PathBuf {
        self.live.snapshot().config.state.join(NAME)
    }

    /// Continues what an earlier run has saved. Mail does not depend on it, so nothing is an error.
    pub fn restore(&self) {
        // What was just read is not saved at once.
        self.saving.is_due(Instant::now());
        let file = self.kept_file();
        let kept = match whole_file::read(&file, MAX_BYTES, "the history of the status") {
            Ok(None) => return,
            Ok(Some(kept)) => serde_json::from_slice(&kept).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match kept {
            Ok(Kept { history, decisions }) => {
                *self.sample() = history;
                self.live.counters.decisions.restore(decisions);
            }
            Err(error) => {
                tracing::warn!(file = %file.display(), %error, "the history of the status begins anew");
            }
        }
    }

    /// Saves it every few minutes. Call it often.
    pub fn upkeep(&self) {
        if self.saving.is_due(Instant::now()) {
            self.save();
        }
    }

    /// Saves it now.
    pub fn save(&self) {
        let kept = Kept {
            history: self.sample().clone(),
            decisions: self.live.counters.decisions.all(),
        };
        let file = self.kept_file();
        // Only the daemon's user may read it: it has addresses.
        let save = || -> Result<(), Box<dyn Error>> {
            let kept = serde_json::to_vec(&kept)?;
            Ok(Replacement::claim_as_created(&file)?.commit_with(&kept)?)
        };
        if let Err(error) = save() {
            tracing::debug!(file = %file.display(), %error, "cannot keep the history of the status");
        }
    }
}
