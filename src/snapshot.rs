//! Everything a verdict depends on, exchanged as one: configuration, filters, whitelist.
//!
//! ```text
//!   files change -> Live::reload -> Snapshot::build, beside the running one -> checks
//!                     all well:  one atomic store; messages under way keep what they began with
//!                     any doubt: the old one stays, one error in the log, tried again later
//! ```
//!
//! A filter whose file is still the same one (device, inode, size, time of change) is not read
//! again but shared with the snapshot before. What makes a new file doubtful beyond what
//! [`Filter::open`] refuses: an older generation than the one in force, pages that answer random
//! keys more than twice as often as declared (a file that says yes to everybody is well formed
//! too), a hit on an address of `must_miss`, other address rules than this program's.

use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwap;
use thiserror::Error;
use tracing::{error, info, warn};

use crate::address::escaped;
use crate::config::{self, Config, ListSettings, OnError};
use crate::filter::{self, Filter, Load};
use crate::list::{Format, Reader, Row};
use crate::policy::{
    self, Action, Circumstances, Desk, Entries, Outcome, Policy, RejectShare, Seen,
};
use crate::sender::{Identity, Sender};

/// Random keys that a new filter is asked. At 1e-6 and twice the rate 2 hits are expected of a
/// million; what is looked for is a file that says yes to a visible part of all mail.
const PROBES_MEMORY: u64 = 1_000_000;
/// The same for a filter on disk, where each may be a read.
const PROBES_DISK: u64 = 2_000;
/// Rejected whitelist lines that an error shows.
const LINES_SHOWN: usize = 5;

/// Why there is no new snapshot.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] config::Error),
    /// A filter cannot be read or vouched for.
    #[error("list {list}: {source}")]
    Filter {
        /// Name of the list.
        list: String,
        /// Why.
        source: filter::Error,
    },
    /// A filter does not go with this program.
    #[error("list {list}: {}: {source}", path.display())]
    List {
        /// Name of the list.
        list: String,
        /// The filter.
        path: PathBuf,
        /// Why.
        source: policy::Error,
    },
    /// A filter is older than the one in force.
    #[error(
        "list {list}: {}: generation {found} is older than generation {running} in force; rebuild it, or restart to go back",
        path.display()
    )]
    Older {
        /// Name of the list.
        list: String,
        /// The filter.
        path: PathBuf,
        /// Its generation.
        found: u64,
        /// The generation in force.
        running: u64,
    },
    /// A filter hits far more than it declares.
    #[error("list {list}: {}: hits {found:.1e} of random keys, {declared:.1e} are declared; rebuild it", path.display())]
    Rate {
        /// Name of the list.
        list: String,
        /// The filter.
        path: PathBuf,
        /// Share of random keys it hits.
        found: f64,
        /// Share it declares.
        declared: f64,
    },
    /// An address that must never be listed is.
    #[error("list {list}: {}: hits {address}, which is among must_miss", path.display())]
    MustMiss {
        /// Name of the list.
        list: String,
        /// The filter.
        path: PathBuf,
        /// The address, as configured.
        address: String,
    },
    /// A whitelist cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Lines of a whitelist are not understood: whoever they were to protect would not be.
    #[error("{}", lines.join("\n"))]
    Whitelist {
        /// The first such lines, as `file:line: reason`.
        lines: Vec<String>,
    },
    /// One of these, about a list, with the place of the list's filter in the configuration.
    #[error("{}:{line}:{column}: {error}", config.display())]
    Placed {
        /// The configuration.
        config: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong.
        error: Box<Error>,
    },
    /// Several of these.
    #[error("{}", errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Several {
        /// All of them.
        errors: Vec<Self>,
    },
}

impl Error {
    /// The same with the places of those lists that it is about.
    fn placed(self, config: &Path, places: &[(String, (usize, usize))]) -> Self {
        // Not deeper than this: several are never among several.
        if let Self::Several { errors } = self {
            let errors = errors
                .into_iter()
                .map(|error| error.placed(config, places))
                .collect();
            return Self::Several { errors };
        }
        let about = match &self {
            Self::Filter { list, .. }
            | Self::List { list, .. }
            | Self::Older { list, .. }
            | Self::Rate { list, .. }
            | Self::MustMiss { list, .. } => list,
            Self::Config(_)
            | Self::Unreadable { .. }
            | Self::Whitelist { .. }
            | Self::Placed { .. }
            | Self::Several { .. } => return self,
        };
        let Some(&(_, (line, column))) = places.iter().find(|(list, _)| list == about) else {
            return self;
        };
        Self::Placed {
            config: config.to_owned(),
            line,
            column,
            error: Box::new(self),
        }
    }
}

/// Which file stood under a path when it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl Mark {
    fn of(path: &Path) -> io::Result<Self> {
        let file = std::fs::metadata(path)?;
        Ok(Self {
            device: file.dev(),
            inode: file.ino(),
            size: file.size(),
            changed: (file.ctime(), file.ctime_nsec()),
        })
    }
}

/// An opened filter and the file it came from.
#[derive(Debug)]
struct Loaded {
    path: PathBuf,
    load: Load,
    mark: Option<Mark>,
    filter: Arc<Filter>,
}

/// Everything a verdict depends on.
#[derive(Debug)]
pub struct Snapshot {
    /// The settings.
    pub config: Config,
    /// The lists and the whitelist.
    pub policy: Policy,
    loaded: Vec<Loaded>,
}

impl Snapshot {
    /// Opens and checks all that a configuration names. What `old` has open already is shared.
    ///
    /// # Errors
    /// All doubts.
    pub fn build(config: Config, old: Option<&Self>) -> Result<Self, Error> {
        let mut policy = Policy::new();
        let mut loaded = Vec::new();
        let mut errors = Vec::new();
        for settings in config.enabled_lists() {
            let added = open(settings, old).and_then(|file| {
                let list_error = |source| Error::List {
                    list: settings.terms.name.clone(),
                    path: settings.filter.clone(),
                    source,
                };
                policy
                    .add_list(settings.terms.clone(), file.filter.clone())
                    .map_err(list_error)?;
                loaded.push(file);
                Ok(())
            });
            errors.extend(added.err());
        }
        match whitelist(&config) {
            Ok(entries) => policy.whitelist = entries,
            Err(error) => errors.push(error),
        }
        policy.whitelist_wants_dkim = config.whitelist.require_dkim;
        for recipient in &config.exempt.recipients {
            // Checked when the configuration was read.
            let _ = policy.exempt_recipients.add(recipient.as_bytes());
        }
        policy.undecided = Some(match config.on_error {
            OnError::Tempfail => Action::Tempfail,
            OnError::Accept => Action::Log,
        });
        let snapshot = Self {
            config,
            policy,
            loaded,
        };
        errors.extend(snapshot.check_must_miss().err());
        match errors.pop() {
            None => Ok(snapshot),
            Some(error) if errors.is_empty() => Err(error),
            Some(error) => {
                errors.push(error);
                Err(Error::Several { errors })
            }
        }
    }

    fn check_must_miss(&self) -> Result<(), Error> {
        let mut desk = Desk::default();
        let mut found = None;
        for address in &self.config.safety.must_miss {
            for identity in Identity::ALL {
                let sender = Sender {
                    identity,
                    address: address.as_bytes(),
                    weak: false,
                };
                let now = Circumstances {
                    today: 0,
                    aligned: &|_| false,
                };
                self.policy
                    .examine(&sender, now, &mut desk, &mut Vec::new(), |seen| {
                        if let Seen::Entry {
                            list,
                            outcome: Outcome::Listed(_) | Outcome::Unproved,
                            ..
                        } = seen
                        {
                            found.get_or_insert_with(|| (list, address.clone()));
                        }
                    });
            }
        }
        let Some((list, address)) = found else {
            return Ok(());
        };
        let name = self
            .policy
            .lists()
            .get(list)
            .map(|list| list.name().to_owned())
            .unwrap_or_default();
        let path = self
            .loaded
            .get(list)
            .map(|file| file.path.clone())
            .unwrap_or_default();
        Err(Error::MustMiss {
            list: name,
            path,
            address,
        })
    }

    /// Things an admin should know although they are no errors.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.policy.lists().is_empty() {
            warnings.push("no list is enabled: every message is accepted".to_owned());
        }
        for list in self.policy.lists() {
            let spec = list.filter.spec();
            if !spec.records {
                let innocents = spec.fpr * 100_000.0;
                warnings.push(format!(
                    "list {}: the filter has no records to prove a hit: of 100,000 innocent senders about {innocents:.1} \
                     will be treated as listed, always the same ones; build it without --no-records",
                    list.name()
                ));
            }
            if list.terms.action == Action::Discard {
                warnings.push(format!(
                    "list {}: action \"discard\" loses mail without a word to anyone (RFC 5321 section 6.2); \"reject\" tells the sender",
                    list.name()
                ));
            }
        }
        warnings
    }
}

/// Checks configuration, filters and whitelists as a start would; a report for an admin.
///
/// # Errors
/// All faults, those of filters with the place where the configuration names them.
pub fn check(config_path: &Path) -> Result<String, Error> {
    let config = Config::load(config_path)?;
    let places: Vec<_> = config
        .enabled_lists()
        .map(|list| (list.terms.name.clone(), list.place))
        .collect();
    let snapshot =
        Snapshot::build(config, None).map_err(|error| error.placed(config_path, &places))?;
    let mut report = format!("{}: good\n", config_path.display());
    for settings in &snapshot.config.lists {
        let name = &settings.terms.name;
        let Some(list) = snapshot
            .policy
            .lists()
            .iter()
            .find(|list| list.name() == name)
        else {
            let _ = writeln!(report, "list {name}: not enabled");
            continue;
        };
        let (spec, terms) = (list.filter.spec(), &list.terms);
        let identities: Vec<&str> = terms.check.iter().map(|identity| identity.name()).collect();
        let _ = writeln!(
            report,
            "list {name}: {}{}, {} entries, generation {}, checks {}",
            terms.action,
            if terms.dry_run { " (dry run)" } else { "" },
            list.filter.entries(),
            spec.generation,
            identities.join(", ")
        );
    }
    let _ = writeln!(
        report,
        "whitelist: {} entries",
        snapshot.policy.whitelist.len()
    );
    for warning in snapshot.warnings() {
        let _ = writeln!(report, "warning: {warning}");
    }
    Ok(report)
}

/// The filter of one list, shared with the old snapshot if its file is the same.
fn open(settings: &ListSettings, old: Option<&Snapshot>) -> Result<Loaded, Error> {
    let path = &settings.filter;
    let list = || settings.terms.name.clone();
    // Taken before opening: if the file is replaced in between, the next look sees a change.
    let mark = Mark::of(path).ok();
    let before = old.and_then(|old| old.loaded.iter().find(|loaded| loaded.path == *path));
    if let Some(before) = before
        && before.mark == mark
        && mark.is_some()
        && before.load == settings.load
    {
        return Ok(Loaded {
            path: path.clone(),
            load: before.load,
            mark,
            filter: before.filter.clone(),
        });
    }
    let filter = Filter::open(path, settings.load).map_err(|source| Error::Filter {
        list: list(),
        source,
    })?;
    if let Some(before) = before {
        let (found, running) = (filter.spec().generation, before.filter.spec().generation);
        if found < running && filter.spec().name == before.filter.spec().name {
            return Err(Error::Older {
                list: list(),
                path: path.clone(),
                found,
                running,
            });
        }
    }
    let probes = if settings.load == Load::Memory {
        PROBES_MEMORY
    } else {
        PROBES_DISK
    };
    let found = filter
        .measured_rate(probes)
        .map_err(|source| Error::Filter {
            list: list(),
            source,
        })?;
    let declared = filter.spec().fpr;
    if found > rate_bound(declared, probes) {
        return Err(Error::Rate {
            list: list(),
            path: path.clone(),
            found,
            declared,
        });
    }
    Ok(Loaded {
        path: path.clone(),
        load: settings.load,
        mark,
        filter: Arc::new(filter),
    })
}

/// Twice the declared rate and what chance may add: six standard deviations of a Poisson count.
fn rate_bound(declared: f64, probes: u64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "a few million")]
    let probes = probes as f64;
    let expected = 2.0 * declared * probes;
    (expected + 6.0 * expected.sqrt() + 6.0) / probes
}

fn whitelist(config: &Config) -> Result<Entries, Error> {
    let mut entries = Entries::default();
    for entry in &config.whitelist.entries {
        // Checked when the configuration was read.
        let _ = entries.add(entry.as_bytes());
    }
    let mut rejected = Vec::new();
    for path in &config.whitelist.files {
        let unreadable = |source| Error::Unreadable {
            path: path.clone(),
            source,
        };
        let mut refuse = |line: u64, why: &dyn std::fmt::Display, text: &[u8]| {
            rejected.push(format!(
                "{}:{line}: {why}: {}",
                path.display(),
                escaped(text)
            ));
        };
        let mut sink = |line: u64, row: Row<'_>| match row {
            Row::Item(item) => {
                if let Err(error) = entries.add(item.text) {
                    refuse(line, &error, item.text);
                }
            }
            Row::Rejected { reason, text } => refuse(line, &reason, text),
            Row::Skipped(_) => {}
        };
        let file = File::open(path).map_err(unreadable)?;
        Reader::new(Format::Plain)
            .read_all(file, &mut sink)
            .map_err(unreadable)?;
    }
    if rejected.is_empty() {
        return Ok(entries);
    }
    let more = rejected.len().saturating_sub(LINES_SHOWN);
    rejected.truncate(LINES_SHOWN);
    if more > 0 {
        rejected.push(format!("and {more} more lines of whitelists"));
    }
    Err(Error::Whitelist { lines: rejected })
}

/// Counts since the start, for the log.
#[derive(Debug, Default)]
pub struct Counters {
    /// Messages decided.
    pub messages: AtomicU64,
    /// Messages refused, for now or for good, at least for one recipient.
    pub refused: AtomicU64,
    /// Messages tagged, quarantined or discarded.
    pub marked: AtomicU64,
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
                    error!(reason = %doubt.replace('\n', "; "), "reload refused, the old stays in force");
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
