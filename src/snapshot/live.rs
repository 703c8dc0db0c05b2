//! The snapshot in effect, its replacement, and the state that survives a reload: counters, the circuit breaker.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::{error, info};

use super::copies::Copies;
use super::differences::report_changes;
use super::lease::Shelf;
use super::loss::{Loss, REST, Rest};
use super::trouble::{Reloads, Trouble};
use super::{Complaint, Counters, Error, Lease, Snapshot, Tried};
use crate::base::access;
use crate::base::clock::now_s;
use crate::base::memory;
use crate::base::numbers::counted;
use crate::config::{self, Config};
use crate::policy::{Change, CircuitBreaker};

/// The snapshot in effect, and the state that survives a reload.
pub struct Live {
    shelf: Shelf,
    config_path: Option<PathBuf>,
    /// Allows one reload at a time. Contains filters that were read for a refused reload.
    reloading: Mutex<Tried>,
    /// Since when the files whose change removes something have not changed.
    rest: Mutex<Option<Rest>>,
    /// Never locked while a file is read, so that status queries do not wait for it.
    trouble: Mutex<Trouble>,
    copies: Mutex<Copies>,
    /// Counts since the start.
    pub counters: Counters,
    circuit_breaker: CircuitBreaker,
    started: Instant,
    cases: AtomicU64,
    failure_reported_s: AtomicU64,
    has_room_for: fn(u64) -> bool,
}

/// The result of a reload.
#[derive(Debug, PartialEq, Eq)]
pub enum Reloaded {
    /// Something new is in effect.
    Changed,
    /// Nothing had changed.
    Same,
    /// Refused for this reason: the old snapshot stays in effect.
    Kept(String),
    /// The change removes something, and the files may still be being written. The old snapshot stays in effect
    /// until the files have not changed for `REST`; [`Live::upkeep`] checks this.
    Waits,
}

impl Live {
    /// Puts a snapshot into effect. If there is a path, a reload reads the configuration from it.
    pub fn new(mut snapshot: Snapshot, config_path: Option<PathBuf>) -> Self {
        let counters = Counters::default();
        snapshot.counts = counters.of(&snapshot.policy);
        let mut tried = Tried::default();
        tried.remember(snapshot.files());
        Self {
            shelf: Shelf::new(snapshot),
            config_path,
            reloading: Mutex::new(tried),
            rest: Mutex::default(),
            trouble: Mutex::default(),
            copies: Mutex::default(),
            counters,
            circuit_breaker: CircuitBreaker::default(),
            started: Instant::now(),
            cases: AtomicU64::new(0),
            failure_reported_s: AtomicU64::new(0),
            has_room_for: memory::has_room_for,
        }
    }

    /// The snapshot in effect, to be held only for a moment.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.shelf.lease().1
    }

    /// The snapshot in effect, for a message: keep the lease until its end, and the snapshot only for this step.
    pub fn lease(&self) -> (Lease, Arc<Snapshot>) {
        self.shelf.lease()
    }

    /// Seconds since the start.
    pub fn uptime_s(&self) -> u64 {
        self.started.elapsed().as_secs()
    }

    /// Counts a decided message for the circuit breaker.
    pub fn count_refusal(&self, refused: bool, config: &Config) -> Option<Change> {
        let limit = config.safety.max_reject_share.share();
        self.circuit_breaker.count(refused, self.uptime_s(), limit)
    }

    /// Whether the circuit breaker is on: refusals are turned into tags.
    pub fn is_circuit_breaker_on(&self, config: &Config) -> bool {
        let limit = config.safety.max_reject_share.share();
        self.circuit_breaker.is_on(self.uptime_s(), limit)
    }

    /// A number for the next decision.
    pub fn next_case(&self) -> u64 {
        self.cases.fetch_add(1, Ordering::Relaxed)
    }

    /// Logs that a filter cannot be read, at most once a minute.
    pub fn tell_failure(&self, list: &str, failure: &str) {
        const PERIOD_S: u64 = 60;
        let now = self.uptime_s() + PERIOD_S;
        let reported = self.failure_reported_s.load(Ordering::Relaxed);
        let due = now >= reported + PERIOD_S;
        if due
            && self
                .failure_reported_s
                .compare_exchange(reported, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            error!(
                list,
                reason = failure,
                "cannot read the filter; its hits are unknown"
            );
        }
    }

    /// Reads configuration, filters and whitelists again, and puts them into effect if all checks succeed.
    /// An administrator asked for this reload, so the removal of lists or whitelist entries is intended.
    ///
    /// Blocks while it reads files; do not call it in an async task.
    pub fn reload(&self) -> Reloaded {
        self.reload_as(true, Instant::now())
    }

    /// The same, because files have changed. If a change removes something, a file may be incomplete (`loss`).
    pub fn reload_changed(&self) -> Reloaded {
        self.reload_as(false, Instant::now())
    }

    fn reload_as(&self, is_asked: bool, now: Instant) -> Reloaded {
        let mut tried = lock(&self.reloading);
        let old = self.snapshot();
        let began = Instant::now();
        let new = match &self.config_path {
            Some(path) if let Some(fault) = fault_of_pipe(path) => Err(fault.into()),
            Some(path) => match Config::load_what_is_good(path) {
                (config, None) => Snapshot::rebuild(config, &old, &mut tried),
                // There was no valid configuration before, so there is none to keep.
                (config, Some(fault)) if old.is_without_config() => {
                    Ok(Snapshot::without_config(config, fault))
                }
                (_, Some(fault)) => Err(fault.into()),
            },
            None => Snapshot::rebuild(old.config.clone(), &old, &mut tried),
        };
        let loss = match &new {
            Ok(new) if !is_asked => Loss::of(new, &old),
            _ => None,
        };
        let new = match loss {
            Some(loss) if loss.is_total => Err(Error::Loss(loss.to_string())),
            Some(loss) if !self.have_rested(&old, &loss, now) => return Reloaded::Waits,
            _ => new,
        };
        let new = new.and_then(|new| {
            if !new.is_same(&old) {
                self.load_pages(&new)?;
            }
            Ok(new)
        });
        match new {
            Ok(new) => {
                // A file that is still bad need not be read again until it changes.
                match new.is_as_configured() {
                    true => tried.clear(),
                    false => tried.tidy(),
                }
                *lock(&self.rest) = None;
                if lock(&self.trouble).accept() {
                    info!(
                        "configuration, filters and whitelists can be loaded again: the problem is solved"
                    );
                }
                if new.is_same(&old) {
                    return Reloaded::Same;
                }
                tried.remember(new.files());
                self.replace(new, old, began);
                Reloaded::Changed
            }
            Err(doubt) => {
                let doubt = doubt.to_string();
                tried.tidy();
                *lock(&self.rest) = None;
                self.counters.reloads_refused.increment();
                lock(&self.trouble).refuse(&doubt);
                Reloaded::Kept(doubt)
            }
        }
    }

    /// Whether the text files have not changed for [`REST`]. Otherwise records their present state.
    fn have_rested(&self, old: &Snapshot, loss: &Loss, now: Instant) -> bool {
        let paths = self.texts(old);
        let mut rest = lock(&self.rest);
        match &*rest {
            Some(known) if known.is_of(&paths) => known.is_over(now),
            _ => {
                *rest = Some(Rest::begin(&paths, now));
                info!(
                    "a change {loss}: it takes effect when the files have not changed for {} s, or by \
                     blocklist-milter reload",
                    REST.as_secs()
                );
                false
            }
        }
    }

    /// The configuration and the whitelists.
    fn texts(&self, snapshot: &Snapshot) -> Vec<PathBuf> {
        let whitelist = &snapshot.config.whitelist;
        (self.config_path.iter())
            .chain(&whitelist.files)
            .chain(&whitelist.correspondents)
            .cloned()
            .collect()
    }

    /// Loads the pages of new filters into memory if there is enough memory for both the old and the new ones.
    fn load_pages(&self, new: &Snapshot) -> Result<(), Error> {
        let lacking = new.lacking_pages();
        let bytes = lacking.iter().map(|filter| filter.memory_bytes()).sum();
        // First, free the snapshots that old messages still hold.
        if (self.has_room_for)(bytes) || (self.take_back() && (self.has_room_for)(bytes)) {
            for filter in lacking {
                filter
                    .load_pages()
                    .map_err(|source| Error::Pages { source })?;
            }
        }
        Ok(())
    }

    /// Puts a snapshot into effect. If its pages do not fit into memory together with the old ones, look-ups read
    /// them from disk until the old ones are freed.
    fn replace(&self, mut new: Snapshot, old: Arc<Snapshot>, began: Instant) {
        report_changes(&new, &old, began);
        new.counts = self.counters.of(&new.policy);
        drop(old);
        let new = Arc::new(new);
        self.shelf.replace(Arc::clone(&new));
        self.counters.reloads.increment();
        lock(&self.trouble).reloads.good_s = Some(now_s());
        if !new.lacking_pages().is_empty() {
            info!(
                "not enough memory for old and new pages: look-ups read from disk until the new pages are loaded"
            );
            self.take_back();
            self.load_lacking_pages(&new);
        }
    }

    /// Loads pages that are still on disk into memory; `false` if there is not enough memory.
    fn load_lacking_pages(&self, snapshot: &Snapshot) -> bool {
        for filter in snapshot.lacking_pages() {
            if !(self.has_room_for)(filter.memory_bytes()) {
                return false;
            }
            if let Err(failure) = filter.load_pages() {
                error!(reason = %failure, "cannot load the pages into memory, look-ups read from disk");
                return false;
            }
            info!(list = filter.spec().name, "pages are in memory");
        }
        true
    }

    /// Revokes all old snapshots from the messages that hold them, and frees them.
    fn take_back(&self) -> bool {
        /// Longer than any step of a message.
        const PATIENCE: Duration = Duration::from_secs(10);
        let began = Instant::now();
        while !self.shelf.take_back() {
            if began.elapsed() > PATIENCE {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }

    /// Regular work: frees old snapshots, checks the parts of filters that a start has not read, puts changes into
    /// effect that had to wait until the files were unchanged for a while, makes copies of good filters, and logs
    /// current problems again every hour. `false`: not finished, call again soon.
    ///
    /// Do not call it in an async task, as for [`reload`](Self::reload).
    pub fn upkeep(&self, now: Instant) -> bool {
        let rested = lock(&self.rest).as_ref().map(|rest| rest.is_over(now));
        if rested == Some(true) {
            self.reload_as(false, now);
        }
        let freed = self.shelf.tidy() && rested != Some(false);
        let snapshot = self.snapshot();
        let is_checked = std::mem::replace(&mut lock(&self.trouble).start_is_checked, true);
        if !is_checked {
            self.check_start(&snapshot);
        }
        let snapshot = self.snapshot();
        self.load_lacking_pages(&snapshot);
        let mut copies = lock(&self.copies);
        let mut trouble = lock(&self.trouble);
        let is_copied = copies.update(&snapshot, |filter| !trouble.is_damaged(filter), now);
        trouble.note_copies(&copies.problems);
        trouble.look(&snapshot, now);
        freed && is_copied
    }

    /// Reads the filters of a start completely. If one is damaged, its last good copy is put into effect.
    fn check_start(&self, snapshot: &Snapshot) {
        let mut bad = Vec::new();
        for (settings, file) in snapshot.config.enabled_lists().zip(&snapshot.loaded) {
            let Some(file) = file else { continue };
            // With one thread only, because mail is served at the same time.
            if let Err(fault) = file.filter.check(1) {
                error!(reason = %fault, "a filter in effect is damaged");
                lock(&self.trouble).damage(&file.filter, fault.to_string());
                let list = settings.terms.name.clone();
                let fault = Error::Filter {
                    list: list.clone(),
                    source: fault,
                };
                bad.push((list, fault.to_string()));
            }
        }
        let _alone = lock(&self.reloading);
        let began = Instant::now();
        let old = self.snapshot();
        let still = bad.into_iter().filter(|(list, _)| {
            let before = snapshot.filter_of(list);
            before.is_some_and(|before| old.files().any(|now| Arc::ptr_eq(&now.filter, before)))
        });
        if let Some(new) = old.with_copies(still) {
            self.replace(new, old, began);
        }
    }

    /// The current problems, the worst first. Never waits for a reload or a check.
    pub fn complaints(&self) -> Vec<Complaint> {
        lock(&self.trouble).complaints(&self.snapshot())
    }

    /// The last reloads.
    pub fn last_reloads(&self) -> Reloads {
        lock(&self.trouble).reloads.clone()
    }

    /// The state in one line, for `systemctl status`.
    pub fn status(&self) -> String {
        let snapshot = self.snapshot();
        if let Some(first) = self.complaints().into_iter().next() {
            return first.text;
        }
        let lists = snapshot.policy.lists();
        let entries: u64 = snapshot.files().map(|file| file.filter.entries()).sum();
        format!(
            "serving {}, {}, {} on the whitelist",
            counted(lists.len() as u64, "list", "lists"),
            counted(entries, "entry", "entries"),
            snapshot.policy.whitelist.len()
        )
    }

    /// The files whose changes require a [`reload`](Self::reload).
    pub fn files(&self) -> Vec<PathBuf> {
        let snapshot = self.snapshot();
        self.config_path
            .iter()
            .cloned()
            .chain(snapshot.config.files().map(Path::to_owned))
            .collect()
    }
}

/// At a start, the configuration may be a pipe. A reload would wait for its data forever.
fn fault_of_pipe(path: &Path) -> Option<config::Error> {
    match access::open_regular(path) {
        Err(source) if source.kind() == ErrorKind::InvalidInput => {
            let path = path.to_owned();
            Some(config::Error::Unreadable { path, source })
        }
        _ => None,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::{self, Plan, Progress};

    /// The main thread asks before it tells systemd that mail is served.
    #[test]
    fn how_it_is_can_be_told_while_files_are_read() {
        let config = Config::parse("", Path::new("c.toml")).unwrap();
        let live = Live::new(Snapshot::build(config).unwrap(), None);
        let _reads = lock(&live.reloading);
        assert!(
            live.status().starts_with("serving 0 lists"),
            "{}",
            live.status()
        );
    }

    /// If the old and the new pages do not fit into memory together, the new ones are read from disk until the old
    /// ones are freed, even if a client keeps a message open.
    #[test]
    fn pages_are_exchanged_in_little_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let build = |entries: &str| {
            std::fs::write(path("spam.list"), entries).unwrap();
            let plan = Plan::new(path("spam.blf"), vec![path("spam.list")]);
            compile::build(&plan, &Progress::new()).unwrap();
        };
        build("first@bad.example\n");
        let text = "[[list]]\nname = 'spam'\nfilter = 'spam.blf'\n";
        let config = Config::parse(text, &path("c.toml")).unwrap();
        let mut live = Live::new(Snapshot::build(config).unwrap(), None);
        let filter = |live: &Live| live.snapshot().policy.lists()[0].filter().cloned().unwrap();
        let old = Arc::downgrade(&filter(&live));
        let (lease, snapshot) = live.lease();
        drop(snapshot);

        live.has_room_for = |_| false;
        build("second@bad.example\n");
        assert_eq!(live.reload(), Reloaded::Changed);
        assert_eq!(old.strong_count(), 0);
        assert!(lease.snapshot().is_none());
        let new = filter(&live);
        assert!(!new.is_in_memory());
        assert_eq!(new.entries(), 1);
        assert!(
            live.status().starts_with("not enough memory"),
            "{}",
            live.status()
        );

        live.has_room_for = |_| true;
        live.upkeep(Instant::now());
        assert!(new.is_in_memory());
        assert!(
            live.status().starts_with("serving 1 list"),
            "{}",
            live.status()
        );
    }
}
