//! The last decisions other than plain acceptance: what an administrator asks for first.
//!
//! The status page keeps them over a restart, and decides who sees whose mail it was.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use crate::policy::Reason;
use blocklist_filter::base::lock::lock;

/// Decisions that are remembered.
const DECISIONS_MAX: usize = 1_000;
/// Kinds of hits that are counted; only the configuration decides how many there are.
const HITS_MAX: usize = 10_000;

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
    /// Where the mail server asked: `milter`, `policy` ...; empty in one of an older version.
    pub door: String,
    /// The action that was taken: `accept`, `reject` ...; `none` if the mail server could not be told.
    pub action: String,
    /// Why: `listed`, `whitelisted`, `dry-run` ...
    pub reason: String,
    /// The list that names the sender.
    pub list: String,
    /// The text list that the entry comes from.
    pub source: String,
    /// The field with the sender.
    pub identity: String,
    /// The parts that tell whose mail it was; `None` for those who may not see them.
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
    pub client: String,
    pub queue_id: String,
}

/// The last decisions, and how many were made about hits.
#[derive(Debug, Default)]
pub struct Decisions(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    last: VecDeque<Arc<Decision>>,
    hits: BTreeMap<String, u64>,
}

impl Remembered {
    /// Counts a hit, and whether it harmed nobody.
    fn count(&mut self, decision: &Decision) {
        let Decision { list, source, .. } = decision;
        let of = match list == source || source.is_empty() {
            true => list.clone(),
            false => format!("{list}, {source}"),
        };
        let is_trial = decision.reason == Reason::DryRun.name();
        let is_cleared = decision.action == "accept" && !is_trial;
        for (kind, counts) in [("all", true), ("cleared", is_cleared), ("trial", is_trial)] {
            let key = format!("{kind} {of}");
            let is_known = self.hits.len() < HITS_MAX || self.hits.contains_key(&key);
            if counts && is_known {
                *self.hits.entry(key).or_default() += 1;
            }
        }
    }
}

impl Decisions {
    /// Remembers a decision in place of the oldest.
    pub fn remember(&self, mut decision: Decision) {
        let mut remembered = lock(&self.0);
        if !decision.list.is_empty() {
            remembered.count(&decision);
        }
        let last = &mut remembered.last;
        decision.number = last.front().map_or(0, |last| last.number) + 1;
        last.truncate(DECISIONS_MAX - 1);
        last.push_front(Arc::new(decision));
    }

    /// Messages with a hit since the start: `all LIST, SOURCE`, `cleared LIST, SOURCE` for those that were
    /// accepted in spite of it, and `trial LIST, SOURCE` for those of a list in dry run. The source is left out
    /// if it has the name of the list.
    pub fn hits(&self) -> BTreeMap<String, u64> {
        lock(&self.0).hits.clone()
    }

    /// The decisions, the newest first.
    pub fn all(&self) -> Vec<Arc<Decision>> {
        lock(&self.0).last.iter().cloned().collect()
    }

    /// Adds the decisions of an earlier run, the newest first. Those since the start stay newer.
    pub fn restore(&self, saved: Vec<Arc<Decision>>) {
        let last = &mut lock(&self.0).last;
        let number = saved.first().map_or(0, |one| one.number);
        for decision in last.iter_mut() {
            Arc::make_mut(decision).number += number;
        }
        last.extend(saved);
        last.truncate(DECISIONS_MAX);
    }
}
