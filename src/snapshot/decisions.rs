//! The last decisions other than plain acceptance: what an administrator asks for first.
//!
//! They are in memory, the newest first; the status page keeps them over a restart. Addresses are kept only while `[status] show_addresses` allows it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// Decisions that are remembered.
const DECISIONS_MAX: usize = 1_000;

/// One decision. Texts from outside are escaped and shortened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Decision {
    /// Rises with each decision, also over restarts.
    pub number: u64,
    /// When, in seconds since 1970.
    pub time_s: u64,
    /// The case id in the reply and the log; empty if no list names a sender.
    pub case: String,
    /// The action that was taken: `accept`, `reject` ...
    pub action: String,
    /// Why: `listed`, `whitelisted`, `dry-run` ...
    pub reason: String,
    /// The list that names the sender.
    pub list: String,
    /// The text list that the entry comes from.
    pub source: String,
    /// The field with the sender.
    pub identity: String,
    /// The parts that tell whose mail it was, if these may be kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<Who>,
}

/// Whose mail was decided. What is unknown is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Who {
    /// The sender, as written.
    pub sender: String,
    /// The entry that lists it.
    pub entry: String,
    /// The file with this entry.
    pub file: String,
    /// The recipient, if it was decided for one.
    pub recipient: String,
    /// The SMTP client.
    pub client: String,
    /// The mail server's queue id.
    pub queue_id: String,
}

/// The last decisions.
#[derive(Debug)]
pub struct Decisions(Mutex<VecDeque<Arc<Decision>>>);

impl Default for Decisions {
    fn default() -> Self {
        Self(Mutex::new(VecDeque::with_capacity(DECISIONS_MAX)))
    }
}

impl Decisions {
    fn ring(&self) -> MutexGuard<'_, VecDeque<Arc<Decision>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a decision in place of the oldest.
    pub fn remember(&self, mut decision: Decision) {
        let mut ring = self.ring();
        decision.number = ring.front().map_or(0, |last| last.number) + 1;
        ring.truncate(DECISIONS_MAX - 1);
        ring.push_front(Arc::new(decision));
    }

    /// The decisions that `is_wanted`, the newest first.
    pub fn select(&self, is_wanted: impl Fn(&Decision) -> bool) -> Vec<Arc<Decision>> {
        let ring = self.ring();
        ring.iter().filter(|one| is_wanted(one)).cloned().collect()
    }

    /// The number of the last decision; 0 if there is none.
    pub fn last(&self) -> u64 {
        self.ring().front().map_or(0, |last| last.number)
    }

    /// Forgets whose mail was decided.
    pub fn forget_who(&self) {
        for decision in self.ring().iter_mut() {
            if decision.who.is_some() {
                Arc::make_mut(decision).who = None;
            }
        }
    }

    /// Adds the decisions of an earlier run, the newest first. Those since the start stay newer.
    pub fn restore(&self, saved: Vec<Arc<Decision>>) {
        let mut ring = self.ring();
        let last = saved.first().map_or(0, |one| one.number);
        for decision in ring.iter_mut() {
            Arc::make_mut(decision).number += last;
        }
        ring.extend(saved);
        ring.truncate(DECISIONS_MAX);
    }
}
