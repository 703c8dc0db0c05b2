//! The snapshot in force, its replacement, and what outlives it: counts, the brake.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwap;
use tracing::{error, info, warn};

use super::{Error, Snapshot};
use crate::config::Config;
use crate::policy::RejectShare;

/// Counts since the start, for the log.
#[derive(Debug, Default)]
pub struct Counters {
    /// Messages decided.
    pub messages: AtomicU64,
    /// Messages refused, for now or for good, at least for one recipient.
    pub refused: AtomicU64,
    /// Messages tagged, quarantined or discarded.
    pub marked: AtomicU64,
    /// Recipients asked to come in a transaction of their own.
    pub deferred: AtomicU64,
    /// Look-ups that hit a page and that the records proved innocent.
    pub false_positives: AtomicU64,
    /// Look-ups that failed.
    pub failures: AtomicU64,
    /// Reloads that put something new in force.
    pub reloads: AtomicU64,
    /// Reloads that kept the old.
    pub reloads_refused: AtomicU64,
}

impl Counters {
    /// One more.
    pub fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// What is in force now, and what outlives a reload.
pub struct Live {
    current: ArcSwap<Snapshot>,
    config_path: Option<PathBuf>,
    /// One reload at a time; the last error, so that it is said once.
    last_error: Mutex<Option<String>>,
    /// Counts since the start.
    pub counters: Counters,
    /// The share of refused messages.
    pub brake: RejectShare,
    started: Instant,
    cases: AtomicU64,
    failure_told_s: AtomicU64,
}

/// What a reload did.
#[derive(Debug, PartialEq, Eq)]
pub enum Reloaded {
    /// Something new is in force.
    Changed,
    /// Nothing had changed.
    Same,
    /// A doubt: the old is still in force.
    Kept(String),
}

impl Live {
    /// Puts a snapshot in force. With a path, a reload reads the configuration from there again.
    pub fn new(snapshot: Snapshot, config_path: Option<PathBuf>) -> Self {
        Self {
            current: ArcSwap::from_pointee(snapshot),
            config_path,
            last_error: Mutex::default(),
            counters: Counters::default(),
            brake: RejectShare::default(),
            started: Instant::now(),
            cases: AtomicU64::new(0),
            failure_told_s: AtomicU64::new(0),
        }
    }

    /// What is in force. Take it once a message, and keep it to its end.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Seconds since the start.
    pub fn uptime_s(&self) -> u64 {
        self.started.elapsed().as_secs()
    }

    /// A number for the next decision.
    pub fn next_case(&self) -> u64 {
        self.cases.fetch_add(1, Ordering::Relaxed)
    }

    /// Says at most once a minute that a filter cannot be read, and counts each time.
    pub fn tell_failure(&self, list: &str, failure: &str) {
        const PERIOD_S: u64 = 60;
        Counters::add(&self.counters.failures);
        let now = self.uptime_s() + PERIOD_S;
        let told = self.failure_told_s.load(Ordering::Relaxed);
        let due = now >= told + PERIOD_S;
        if due
            && self
                .failure_told_s
                .compare_exchange(told, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            error!(
                list,
                reason = failure,
                "the filter cannot be read; its hits are not known"
            );
        }
    }

    /// Reads configuration, filters and whitelists again, and puts them in force if nothing is doubtful.
    ///
    /// Blocks on files for as long as it takes to read them; not for an async task.
    pub fn reload(&self) -> Reloaded {
        let mut last_error = self
            .last_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let old = self.snapshot();
        let began = Instant::now();
        let built = match &self.config_path {
            Some(path) => Config::load(path).map_err(Error::from),
            None => Ok(old.config.clone()),
        }
        .and_then(|config| Snapshot::build(config, Some(&old)));
        match built {
            Ok(new) => {
                let recovered = last_error.take().is_some();
                if new.is_same(&old) {
                    if recovered {
                        info!("what kept the old configuration and filters in force is mended");
                    }
                    return Reloaded::Same;
                }
                report_changes(&new, &old, began);
                self.current.store(Arc::new(new));
                Counters::add(&self.counters.reloads);
                Reloaded::Changed
            }
            Err(doubt) => {
                let doubt = doubt.to_string();
                Counters::add(&self.counters.reloads_refused);
                if last_error.as_ref() != Some(&doubt) {
                    error!(
                        reason = doubt.replace('\n', "; ").as_str(),
                        "reload refused, the old stays in force"
                    );
                    *last_error = Some(doubt.clone());
                }
                Reloaded::Kept(doubt)
            }
        }
    }

    /// The folders and files whose changes call for a [`reload`](Self::reload).
    pub fn files(&self) -> Vec<PathBuf> {
        let snapshot = self.snapshot();
        self.config_path
            .iter()
            .cloned()
            .chain(snapshot.config.files().map(Path::to_owned))
            .collect()
    }
}

impl Snapshot {
    fn is_same(&self, old: &Self) -> bool {
        let filters = self.loaded.len() == old.loaded.len()
            && self
                .loaded
                .iter()
                .zip(&old.loaded)
                .all(|(new, old)| Arc::ptr_eq(&new.filter, &old.filter));
        filters
            && self.policy.whitelist == old.policy.whitelist
            && self.config.to_string() == old.config.to_string()
    }
}

fn report_changes(new: &Snapshot, old: &Snapshot, began: Instant) {
    for (list, loaded) in new.policy.lists().iter().zip(&new.loaded) {
        if !old
            .loaded
            .iter()
            .any(|before| Arc::ptr_eq(&before.filter, &loaded.filter))
        {
            let spec = list.filter.spec();
            info!(
                list = list.name(),
                filter = %loaded.path.display(),
                generation = spec.generation,
                entries = list.filter.entries(),
                "filter in force"
            );
        }
    }
    let restart = new.config.needs_restart(&old.config);
    if !restart.is_empty() {
        warn!(
            settings = restart.join(", "),
            "these settings come into force at the next restart only"
        );
    }
    for warning in new.warnings() {
        if !old.warnings().contains(&warning) {
            warn!("{warning}");
        }
    }
    let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    info!(
        lists = new.policy.lists().len(),
        whitelist = new.policy.whitelist.len(),
        ms,
        "reloaded"
    );
}
