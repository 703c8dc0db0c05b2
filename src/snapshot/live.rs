//! The snapshot in effect, its replacement, and the state that survives a reload: counters, the circuit breaker.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tracing::{error, info, warn};

use super::assemble::{Assembled, Files, Start};
use super::copies::Copies;
use super::filters::Round;
use super::in_effect::{InEffect, OLD_MAX};
use super::problems::{Problems, Reloads};
use super::whitelists::{REST, Waiting};
use super::{Counters, Error, Problem, Snapshot};
use crate::config::Config;
use crate::endpoint::DoorState;
use crate::policy::CircuitBreaker;
use blocklist_filter::base::lock::lock;
use blocklist_filter::base::memory;
use blocklist_filter::base::numbers::counted;
use blocklist_filter::base::throttle::Throttle;

/// How long to wait after a reload that has refused a file before the next attempt, if no file changes.
const TRY_AGAIN: Duration = Duration::from_secs(30);

/// The snapshot in effect, and the state that survives a reload.
pub struct Live {
    in_effect: InEffect,
    config_path: Option<PathBuf>,
    /// Locked during a reload.
    files: Mutex<Files>,
    /// Never locked while a file is read, so that status queries do not wait for it.
    problems: Mutex<Problems>,
    copies: Mutex<Copies>,
    /// Counts since the start.
    pub counters: Counters,
    pub(crate) circuit_breaker: CircuitBreaker,
    started: Instant,
    started_with: Config,
    cases: AtomicU64,
    failure: Throttle<60>,
    has_room_for: fn(u64) -> bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Whether something new is in effect.
    pub changed: bool,
    /// Why files are not in effect as they are, one line each.
    pub refused: Vec<String>,
    /// The removals that take effect when their files have not changed for some time.
    pub waiting: Vec<String>,
}

/// What happens to mail if all is well.
pub(crate) const MAIL_IS_CHECKED: &str = "mail is checked";

impl Live {
    /// Puts a configuration into effect. If there is a path, a reload reads it again from there.
    ///
    /// # Errors
    /// All errors of the files that it names and for which no copy stands in.
    pub fn new(config: Config, config_path: Option<PathBuf>) -> Result<Self, Error> {
        Self::of(Files::default(), config, config_path)
    }

    /// The same as a running daemon has it, whose copies show what is in effect. What it would refuse to load is not used
    /// here either.
    ///
    /// # Errors
    /// Likewise.
    pub fn as_served(config: Config) -> Result<Self, Error> {
        let mut files = Files::default();
        files.filters.remember_copies(&config);
        Self::of(files, config, None)
    }

    fn of(mut files: Files, config: Config, config_path: Option<PathBuf>) -> Result<Self, Error> {
        let assembled = files.assemble(config, Round::first(Instant::now()));
        let mut faults = assembled.faults;
        let live = Self::with(files, assembled.snapshot, config_path);
        lock(&live.problems).note_files(&faults, assembled.builds);
        faults.retain(|fault| fault.instead.is_none());
        Error::of(faults.into_iter().map(|fault| fault.error).collect())?;
        Ok(live)
    }

    /// Puts all that is good into effect.
    pub fn start(start: Start) -> Self {
        let mut files = Files::default();
        let path = start.path.clone();
        let assembled = files.start(start, Instant::now());
        let live = Self::with(files, assembled.snapshot, Some(path));
        let snapshot = live.snapshot();
        report_changes(&snapshot, None, &live.started_with);
        let mut problems = lock(&live.problems);
        problems.note_files(&assembled.faults, assembled.builds);
        problems.look(&snapshot, live.started);
        drop(problems);
        live
    }

    fn with(mut files: Files, mut snapshot: Snapshot, config_path: Option<PathBuf>) -> Self {
        let counters = Counters::default();
        snapshot.counts = counters.of(&snapshot.policy);
        files.filters.remember(snapshot.files());
        let started_with = snapshot.config.clone();
        let started = Instant::now();
        // Files may have changed since they were read.
        files.again = Some(started);
        Self {
            in_effect: InEffect::new(snapshot),
            config_path,
            files: Mutex::new(files),
            problems: Mutex::default(),
            copies: Mutex::default(),
            counters,
            circuit_breaker: CircuitBreaker::default(),
            started,
            started_with,
            cases: AtomicU64::new(0),
            failure: Throttle::default(),
            has_room_for: memory::has_room_for,
        }
    }

    /// The snapshot in effect, to be held only for a moment. A message keeps a weak reference until its end.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.in_effect.snapshot()
    }

    /// Seconds since the start.
    pub fn uptime_s(&self) -> u64 {
        self.started.elapsed().as_secs()
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
        if self.failure.is_due(Instant::now()) {
            error!(
                list,
                reason = failure,
                "cannot read the filter; its hits are unknown"
            );
        }
    }

    /// Reads configuration, filters and whitelists again, and puts into effect what is good. An administrator asked for
    /// this reload, so the removal of lists or whitelist entries is intended. Blocks while it reads files.
    pub fn reload(&self) -> Reloaded {
        self.reload_at(true, Instant::now())
    }

    /// The same, because files have changed at or before `now`: they may still be being written.
    pub fn reload_changed(&self, now: Instant) -> Reloaded {
        self.reload_at(false, now)
    }

    /// Whether a file has changed since it was read, or must be read again now.
    pub fn is_out_of_date(&self, now: Instant) -> bool {
        let files = lock(&self.files);
        files.again.is_some_and(|again| again <= now)
            || files.states.have_changed()
            || self.snapshot().has_new_damage()
    }

    fn reload_at(&self, is_asked: bool, now: Instant) -> Reloaded {
        let mut files = lock(&self.files);
        // In case of a panic.
        files.again = Some(now + TRY_AGAIN);
        let old = self.snapshot();
        let began = Instant::now();
        let path = self.config_path.as_deref();
        let Assembled {
            snapshot: new,
            faults,
            waiting,
            builds,
        } = files.reload(path, &old, is_asked, now);
        let changed = !new.is_same(&old);
        files.wait(waiting, !faults.is_empty(), now);
        let mut problems = lock(&self.problems);
        problems.note_files(&faults, builds);
        problems.reloads.refused += u64::from(!faults.is_empty());
        drop(problems);
        if changed {
            self.load_pages(&new);
            files.filters.remember(new.files());
            self.replace(new, old, began);
        }
        let mut problems = lock(&self.problems);
        problems.look(&self.snapshot(), now);
        Reloaded {
            changed,
            refused: problems.of_files(),
            waiting: files.waiting.clone(),
        }
    }

    /// Loads the pages of new filters into memory if there is enough memory for both the old and the new ones.
    fn load_pages(&self, new: &Snapshot) {
        let lacking = new.lacking_pages();
        let bytes = lacking.iter().map(|filter| filter.memory_bytes()).sum();
        // First, free the snapshots that old messages still hold.
        if (self.has_room_for)(bytes) || (self.free_old() && (self.has_room_for)(bytes)) {
            self.load_lacking_pages(new);
        }
    }

    /// Puts a snapshot into effect. If its pages do not fit into memory together with the old ones, look-ups read
    /// them from disk until the old ones are freed.
    fn replace(&self, mut new: Snapshot, old: Arc<Snapshot>, began: Instant) {
        report_changes(&new, Some(&old), &self.started_with);
        let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        info!(
            lists = new.policy.lists().len(),
            whitelist = new.policy.whitelist.len(),
            correspondents = new.policy.correspondents.len(),
            ms,
            "reloaded"
        );
        new.counts = self.counters.of(&new.policy);
        drop(old);
        let new = Arc::new(new);
        self.in_effect.replace(Arc::clone(&new));
        lock(&self.problems).note_good_reload();
        if !new.lacking_pages().is_empty() {
            info!(
                "not enough memory for old and new pages: look-ups read from disk until the new pages are loaded"
            );
            self.free_old();
        }
    }

    /// Loads pages that are still on disk into memory, as far as there is room. Returns whether there were any.
    fn load_lacking_pages(&self, snapshot: &Snapshot) -> bool {
        let mut is_loaded = false;
        for filter in snapshot.lacking_pages() {
            if !(self.has_room_for)(filter.memory_bytes()) {
                break;
            }
            match filter.load_pages() {
                Ok(()) => is_loaded = true,
                Err(failure) => {
                    error!(reason = %failure, "cannot load the pages into memory, look-ups read from disk");
                }
            }
        }
        is_loaded
    }

    /// Frees all old snapshots, also those that messages began with.
    fn free_old(&self) -> bool {
        /// Longer than any step of a message.
        const PATIENCE: Duration = Duration::from_secs(10);
        let began = Instant::now();
        while !self.in_effect.free(0) {
            if began.elapsed() > PATIENCE {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }

    /// Regular work: frees old snapshots, checks the parts of filters that a start has not read, makes copies of what is
    /// in effect, and logs current problems again every hour. It blocks. `false`: not finished, call again soon.
    pub fn upkeep(&self, now: Instant) -> bool {
        self.read_unread(now);
        let freed = self.in_effect.free(OLD_MAX);
        let waits = !lock(&self.files).waiting.is_empty();
        let snapshot = self.snapshot();
        if self.load_lacking_pages(&snapshot) {
            info!("pages that were on disk are in memory");
        }
        let mut copies = lock(&self.copies);
        let is_copied = copies.update(&snapshot, self.config_path.as_deref(), now);
        let mut problems = lock(&self.problems);
        problems.copies.clone_from(&copies.problems);
        problems.look(&snapshot, now);
        freed && is_copied && !waits
    }

    /// Reads the filters of a start completely. One that is damaged is replaced by a better one, if there is one.
    fn read_unread(&self, now: Instant) {
        let snapshot = self.snapshot();
        let unread = snapshot.files().filter(|file| file.is_whole().is_none());
        let damaged = unread.filter(|file| file.read_whole().is_err());
        if damaged.count() > 0 {
            self.reload_at(false, now);
        }
    }

    /// The current problems, the worst first. Never waits for a reload or a check.
    pub fn problems(&self) -> Vec<Problem> {
        lock(&self.problems).all(&self.snapshot())
    }

    /// Notes which sockets for mail servers are open, until the end.
    pub fn note_doors(&self, doors: &[DoorState]) {
        let mut problems = lock(&self.problems);
        problems.doors = doors.to_vec();
        problems.look(&self.snapshot(), Instant::now());
    }

    /// Which sockets for mail servers are open.
    pub(crate) fn doors(&self) -> Vec<DoorState> {
        lock(&self.problems).doors.clone()
    }

    /// What lists and exemptions want of these sockets in vain, one line each.
    pub(crate) fn beyond(&self) -> Vec<String> {
        lock(&self.problems).beyond.clone()
    }

    /// Why files are not in effect as they are, one line each.
    pub fn faults(&self) -> Vec<String> {
        lock(&self.problems).of_files()
    }

    /// What happens to mail, and since when if it is not checked as configured.
    pub fn mail(&self) -> String {
        let unchecked = lock(&self.problems).mail();
        unchecked.unwrap_or_else(|| match self.snapshot().policy.lists().is_empty() {
            true => "all mail is accepted: no list is enabled".to_owned(),
            false => MAIL_IS_CHECKED.to_owned(),
        })
    }

    /// The reloads since the start.
    pub fn reloads(&self) -> Reloads {
        lock(&self.problems).reloads.clone()
    }

    /// The state in one line, for `systemctl status`.
    pub fn status(&self) -> String {
        let unchecked = lock(&self.problems).mail();
        let first = self.problems().into_iter().next().map(|first| first.text);
        let wrong: Vec<String> = unchecked.into_iter().chain(first).collect();
        if !wrong.is_empty() {
            return wrong.join(": ");
        }
        let snapshot = self.snapshot();
        let lists = snapshot.policy.lists();
        let entries: u64 = snapshot.files().map(|file| file.filter.entries()).sum();
        format!(
            "serving {}, {}, {} on the whitelist",
            counted(lists.len() as u64, "list", "lists"),
            counted(entries, "entry", "entries"),
            snapshot.policy.whitelist.len()
        )
    }

    /// The files whose changes require a [`reload`](Self::reload): those that were last read or looked for.
    pub fn files(&self) -> Vec<PathBuf> {
        lock(&self.files).states.paths()
    }
}

impl Files {
    /// Notes what waits, and when to read the files again.
    fn wait(&mut self, waiting: Vec<Waiting>, is_refused: bool, now: Instant) {
        let rests = waiting.iter().map(|one| one.rest);
        let pauses = rests.chain(is_refused.then_some(TRY_AGAIN));
        self.again = pauses.min().map(|pause| now + pause);
        let waiting: Vec<String> = waiting.into_iter().map(|one| one.what).collect();
        for what in waiting.iter().filter(|what| !self.waiting.contains(what)) {
            info!(
                "no longer in {what}: this takes effect when the file has not changed for {} s, or by blocklist-milter reload",
                REST.as_secs()
            );
        }
        self.waiting = waiting;
    }
}

fn report_changes(new: &Snapshot, old: Option<&Snapshot>, started_with: &Config) {
    for (list, choice) in new.policy.lists().iter().zip(&new.filters) {
        let Some(file) = &choice.file else { continue };
        let is_same = |before: &super::Loaded| Arc::ptr_eq(&before.filter, &file.filter);
        if !old.is_some_and(|old| old.files().any(is_same)) {
            info!(
                list = list.name(),
                filter = %file.path.display(),
                action = list.terms.action.name(),
                dry_run = list.terms.dry_run,
                generation = file.filter.spec().generation,
                entries = file.filter.entries(),
                "filter in effect"
            );
        }
    }
    let of_start = |snapshot: &Snapshot| snapshot.config.needs_restart(started_with);
    let restart = of_start(new);
    if !restart.is_empty() && old.map(of_start).as_ref() != Some(&restart) {
        warn!(
            settings = restart.join(", "),
            "these settings take effect only after a restart"
        );
    }
    let known = old.map_or_else(Vec::new, |old| old.warnings(None));
    for warning in new.warnings(None).iter().filter(|one| !known.contains(one)) {
        warn!("{warning}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blocklist_compile::compile::{self, Plan, Progress};
    use blocklist_filter::base::file_state::FileStates;
    use blocklist_filter::filter::{Answer, Key};
    use std::path::Path;

    /// The main thread asks before it tells systemd that mail is served.
    #[test]
    fn how_it_is_can_be_told_while_files_are_read() {
        let config = Config::parse("", Path::new("c.toml")).unwrap();
        let live = Live::new(config, None).unwrap();
        let _reads = lock(&live.files);
        let status = live.status();
        assert!(status.starts_with("serving 0 lists"), "{status}");
    }

    /// Whoever damages a disk tells nobody: the look-up that finds it is the reason to look at the file.
    #[test]
    fn damage_that_a_look_up_finds_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("spam.list"), "first@bad.example\n").unwrap();
        let plan = Plan::new(path("spam.blf"), vec![path("spam.list")]);
        compile::build(&plan, &Progress::new()).unwrap();
        std::fs::create_dir(path("state")).unwrap();
        let text = "state = 'state'\n[[list]]\nname = 'spam'\nfilter = 'spam.blf'\nload = 'disk'\n";
        let config = Config::parse(text, &path("c.toml")).unwrap();
        let live = Live::new(config, None).unwrap();
        while !live.upkeep(Instant::now()) {
            std::thread::yield_now();
        }
        live.reload();
        std::fs::write(path("spam.blf"), "damage").unwrap();
        // As if the file were as it was.
        let now = Instant::now();
        let mut files = lock(&live.files);
        files.states = FileStates::default();
        files.states.look(&path("spam.blf"), now);
        drop(files);
        assert!(!live.is_out_of_date(now));
        let snapshot = live.snapshot();
        let filter = snapshot.policy.lists()[0].filter().unwrap();
        let key = Key::of(b"first@bad.example", filter.spec().seed);
        assert!(matches!(filter.look_up(key), Ok(Answer::Listed(_))));
        assert!(live.is_out_of_date(now));
        let reloaded = live.reload();
        assert!(reloaded.changed, "{reloaded:?}");
        assert!(live.faults()[0].starts_with("the last good filter is in use"));
        assert!(!live.is_out_of_date(now));
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
        let mut live = Live::new(config, None).unwrap();
        let filter = |live: &Live| live.snapshot().policy.lists()[0].filter().cloned().unwrap();
        let old = Arc::downgrade(&filter(&live));
        let of_message = Arc::downgrade(&live.snapshot());

        live.has_room_for = |_| false;
        build("second@bad.example\n");
        assert!(live.reload().changed);
        assert_eq!(old.strong_count(), 0);
        assert!(of_message.upgrade().is_none());
        let new = filter(&live);
        assert!(!new.is_in_memory());
        assert_eq!(new.entries(), 1);
        let status = live.status();
        assert!(status.starts_with("not enough memory"), "{status}");

        live.has_room_for = |_| true;
        live.upkeep(Instant::now());
        assert!(new.is_in_memory());
        let status = live.status();
        assert!(status.starts_with("serving 1 list"), "{status}");
    }
}
