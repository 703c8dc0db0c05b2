//! The counters of the daemon since its start. All reports read them from here.
//!
//! The counters of a list belong to its name. A snapshot has those of its own lists and sources in the order of
//! their numbers, so a message needs no look-up by name. A reload passes the same counters to the next snapshot, and
//! a list that is removed and comes back continues with its old values.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::decisions::Decisions;
use crate::endpoint::Door;
use crate::metrics::{Counter, Each, Histogram};
use crate::policy::{Action, Evidence, Hit, Policy, Reason};
use crate::sender::Identity;
use blocklist_filter::base::lock::lock;

/// Sources that are counted separately for a list; all others share one counter. Most lists have only a few.
const SOURCES_MAX: usize = 1_000;
/// The name of the counter of further sources.
const OTHER_SOURCES: &str = "(others)";

/// Counts since the start.
#[derive(Debug)]
pub struct Counters {
    /// Messages by what happened (`Action::of_decisions`). A message that is refused for one recipient counts as refused.
    pub verdicts: Each<&'static str>,
    /// Messages by the door at which they were asked about.
    pub doors: Each<Door>,
    /// The same messages by reason.
    pub reasons: Each<Reason>,
    /// The accepted messages since the last line about them that have none of their own in the log.
    pub not_logged: Each<Reason>,
    /// How long each message took.
    pub durations: Histogram,
    /// Recipients that were deferred to a separate transaction.
    pub deferred: Counter,
    /// Messages that named more senders than were looked up.
    pub truncated: Counter,
    /// The last decisions.
    pub decisions: Decisions,
    /// By name; used when a snapshot is made, never for a message.
    lists: Mutex<BTreeMap<String, Known>>,
}

#[derive(Debug)]
pub struct ListCounters {
    /// Senders on the list, by sender field, including whitelisted ones. Several senders of a message in the
    /// same field count separately.
    pub hits: Each<Identity>,
    /// Messages that the list decided, by what happened.
    pub verdicts: Each<&'static str>,
    /// Hits on whitelisted addresses.
    pub whitelisted: Counter,
    /// Senders that could not be looked up, because the filter could not be read.
    pub undecided: Counter,
    /// Matches of the Bloom filter that the records did not confirm.
    pub false_positives: Counter,
    /// Look-ups that failed.
    pub failures: Counter,
}

/// All counters of a list's name.
#[derive(Debug, Default)]
struct Known {
    list: Arc<ListCounters>,
    sources: BTreeMap<String, Arc<Counter>>,
}

/// The counters of a list as one snapshot uses them.
#[derive(Clone, Debug)]
pub struct ListCounts {
    pub list: Arc<ListCounters>,
    /// Name and hits of each source, in the order of the filter's sources.
    sources: Vec<(String, Arc<Counter>)>,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            verdicts: Each::new(Action::of_decisions()),
            doors: Each::new(Door::ALL),
            reasons: Each::new(Reason::ALL),
            not_logged: Each::new(Reason::ALL),
            durations: Histogram::default(),
            deferred: Counter::default(),
            truncated: Counter::default(),
            decisions: Decisions::default(),
            lists: Mutex::default(),
        }
    }
}

impl Default for ListCounters {
    fn default() -> Self {
        Self {
            hits: Each::new(Identity::ALL),
            verdicts: Each::new(Action::of_decisions()),
            whitelisted: Counter::default(),
            undecided: Counter::default(),
            false_positives: Counter::default(),
            failures: Counter::default(),
        }
    }
}

impl Counters {
    /// The counters for the lists of a policy, in their order.
    pub(super) fn of(&self, policy: &Policy) -> Vec<ListCounts> {
        let mut known = lock(&self.lists);
        let lists = policy.lists().iter().map(|list| {
            let known = known.entry(list.name().to_owned()).or_default();
            let counters = &mut known.sources;
            let mut counter = |name: &str| {
                let is_one_too_many = counters.len() >= SOURCES_MAX && !counters.contains_key(name);
                let name = if is_one_too_many { OTHER_SOURCES } else { name };
                let counter = counters.entry(name.to_owned()).or_default();
                (name.to_owned(), Arc::clone(counter))
            };
            let sources = list
                .filter()
                .map_or(&[][..], |filter| &filter.spec().sources);
            ListCounts {
                list: Arc::clone(&known.list),
                sources: sources.iter().map(|source| counter(&source.name)).collect(),
            }
        });
        lists.collect()
    }

    /// Messages decided.
    pub fn messages(&self) -> u64 {
        self.verdicts.sum()
    }
}

impl ListCounts {
    /// Hits by the name of the source.
    pub fn by_source(&self) -> BTreeMap<String, u64> {
        let counts = self.sources.iter();
        counts
            .map(|(name, counter)| (name.clone(), counter.get()))
            .collect()
    }

    pub fn count(&self, hit: &Hit) {
        match &hit.evidence {
            Evidence::Undecided(_) => {
                self.list.undecided.increment();
                return;
            }
            Evidence::Proved(record) => {
                let source = usize::try_from(record.source).ok();
                if let Some(counter) = source.and_then(|source| self.sources.get(source)) {
                    counter.1.increment();
                }
            }
            Evidence::Unproved => {}
        }
        self.list.hits.increment(hit.identity);
        if hit.cleared.is_some() {
            self.list.whitelisted.increment();
        }
    }
}
