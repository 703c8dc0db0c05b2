//! From the files to a snapshot: what takes effect, what waits, and what stays in effect instead of a faulty file.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::filters::{Choice, Filters, Round};
use super::last_good::usable_copy;
use super::whitelists::{self, Waiting, Whitelist};
use super::{Error, FileProblem, Snapshot};
use crate::config::{self, Config, ListSettings, OnError};
use crate::policy::{Action, Policy};
use blocklist_filter::base::access;
use blocklist_filter::base::file_state::FileStates;
use blocklist_filter::filter::{BuildReport, Spec};
use blocklist_filter::lookup::Lookup;

const LAST_CONFIG: &str = "the last good configuration is in use";

/// The configuration of a start.
#[derive(Debug)]
pub struct Start {
    pub(super) path: PathBuf,
    /// What is good of the file.
    config: Config,
    fault: Option<config::Error>,
    last_good: Option<Config>,
}

impl Start {
    /// Reads the configuration, and its last good copy. The folder of the copy is the one that a faulty configuration
    /// still names, or the default.
    pub fn read(path: &Path) -> Self {
        let (config, fault) = Config::load_what_is_good(path);
        let copy = usable_copy(&config, path, "toml");
        Self {
            path: path.to_owned(),
            config,
            fault,
            last_good: copy.and_then(|copy| Config::load(&copy).ok()),
        }
    }

    /// The configuration to begin with; faulty settings have their defaults, if there is no good one.
    pub fn config(&self) -> &Config {
        let is_faulty = self.fault.is_some() || self.lost_lists();
        let last_good = self.last_good.as_ref().filter(|_| is_faulty);
        last_good.unwrap_or(&self.config)
    }

    /// Whether the configuration has lost all lists since it was in effect; only a requested reload may remove them.
    fn lost_lists(&self) -> bool {
        let last_good = self.last_good.as_ref();
        self.config.lists.is_empty() && last_good.is_some_and(|old| !old.lists.is_empty())
    }

    /// The good configurations, one of which takes effect.
    pub fn good(&self) -> impl Iterator<Item = &Config> {
        let config = Some(&self.config).filter(|_| self.fault.is_none());
        config.into_iter().chain(&self.last_good)
    }

    /// Returns why there is no configuration, not even a part of one.
    pub fn unreadable(self) -> Result<Self, Error> {
        match self.fault {
            Some(fault @ config::Error::Unreadable { .. }) if self.last_good.is_none() => {
                Err(fault.into())
            }
            _ => Ok(self),
        }
    }
}

/// Reads the configuration and all files that it names, completely. Returns the snapshot of a start, if there is one, and
/// all faults.
pub(crate) fn examine(config_path: &Path) -> (Option<Snapshot>, Vec<FileProblem>) {
    let start = Start::read(config_path);
    let is_unreadable = matches!(start.fault, Some(config::Error::Unreadable { .. }));
    let instead = start.last_good.map(|_| LAST_CONFIG.to_owned());
    let fault = start.fault.map(|fault| FileProblem {
        error: fault.into(),
        instead,
    });
    let mut faults = Vec::from_iter(fault);
    if is_unreadable {
        return (None, faults);
    }
    let round = Round {
        is_start: false,
        ..Round::first(Instant::now())
    };
    let read = Files::default().assemble(start.config, round);
    faults.extend(read.faults);
    (Some(read.snapshot), faults)
}

/// A snapshot, and the files that are not in it as they are.
#[derive(Debug)]
pub(super) struct Assembled {
    pub(super) snapshot: Snapshot,
    pub(super) faults: Vec<FileProblem>,
    pub(super) waiting: Vec<Waiting>,
    /// What the reports of the last builds say against lists.
    pub(super) builds: Vec<String>,
}

impl Assembled {
    /// Without a valid configuration, every sender is undecided.
    fn without_config(mut config: Config, fault: config::Error) -> Self {
        let unknown = ListSettings::unknown("configuration");
        let mut policy = Policy::default();
        let reason = "the configuration is faulty".into();
        policy.add(Arc::clone(&unknown.terms), None, Some(reason));
        configure(&mut policy, &config);
        config.lists = vec![unknown];
        Self {
            snapshot: Snapshot {
                config,
                policy,
                counts: Vec::new(),
                filters: vec![Choice::default()],
                whitelists: Vec::new(),
                is_configured: false,
            },
            faults: vec![FileProblem {
                error: fault.into(),
                instead: None,
            }],
            waiting: Vec::new(),
            builds: Vec::new(),
        }
    }

    /// An error if this configuration needs what has no good version, and `old` has one, or does not need it.
    fn no_worse_than(self, old: &Snapshot) -> Result<Self, Error> {
        let is_new = |fault: &FileProblem| fault.instead.is_none() && !old.lacks(&fault.error);
        let (new, known): (Vec<_>, Vec<_>) = self.faults.into_iter().partition(is_new);
        Error::of(new.into_iter().map(|fault| fault.error).collect())?;
        Ok(Self {
            faults: known,
            ..self
        })
    }

    /// Adds why this configuration is in effect, and not the one of the file.
    fn instead_of(mut self, error: Error) -> Self {
        let instead = Some(LAST_CONFIG.to_owned());
        self.faults.insert(0, FileProblem { error, instead });
        self
    }
}

/// What is known of the files.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) states: FileStates,
    pub(super) filters: Filters,
    /// When they are to be read again even if none changes.
    pub(super) again: Option<Instant>,
    /// The removals that wait; because of them, `again` is soon.
    pub(super) waiting: Vec<String>,
}

impl Files {
    pub(super) fn start(&mut self, start: Start, now: Instant) -> Assembled {
        let lost_lists = start.lost_lists();
        let mut with = |config| self.assemble(config, Round::first(now));
        match (start.fault, start.last_good) {
            (None, Some(last_good)) if lost_lists => {
                with(last_good).instead_of(Error::NoList(start.path))
            }
            (Some(fault), None) => Assembled::without_config(start.config, fault),
            (Some(fault), Some(last_good)) => with(last_good).instead_of(fault.into()),
            (None, None) => with(start.config),
            (None, Some(last_good)) => {
                let new = with(start.config);
                if new.faults.iter().all(|fault| fault.instead.is_some()) {
                    return new;
                }
                let old = with(last_good);
                match new.no_worse_than(&old.snapshot) {
                    Ok(new) => new,
                    Err(error) => old.instead_of(error),
                }
            }
        }
    }

    /// The snapshot that replaces `old`.
    pub(super) fn reload(
        &mut self,
        config_path: Option<&Path>,
        old: &Snapshot,
        is_asked: bool,
        now: Instant,
    ) -> Assembled {
        self.states.begin();
        let round = Round {
            filters: &old.filters,
            whitelists: &old.whitelists,
            before: &self.filters.begin(),
            is_start: false,
            is_asked,
            now,
        };
        let Some(path) = config_path else {
            return self.assemble(old.config.clone(), round);
        };
        let (_, rested) = self.states.look(path, now);
        let (config, fault) = read_config(path, &old.config);
        let is_free = is_asked || !old.is_configured;
        let (error, waiting) = match fault {
            Some(fault) if !old.is_configured => return Assembled::without_config(config, fault),
            Some(fault) => (Some(fault.into()), None),
            None if is_free => (None, None),
            None if config.lists.is_empty() && !old.config.lists.is_empty() => {
                (Some(Error::NoList(path.to_owned())), None)
            }
            None => {
                let removed = config.removes(&old.config);
                let what = removed.map(|what| format!("{}: {what}", path.display()));
                let waiting = what.and_then(|what| Waiting::for_rest(what, rested));
                (None, waiting)
            }
        };
        let error = match error {
            None if waiting.is_none() => match self.assemble(config, round).no_worse_than(old) {
                Ok(new) => return new,
                Err(error) => Some(error),
            },
            error => error,
        };
        let mut kept = self.assemble(old.config.clone(), round);
        kept.waiting.extend(waiting);
        match error {
            Some(error) => kept.instead_of(error),
            None => kept,
        }
    }

    /// The snapshot with this configuration.
    pub(super) fn assemble(&mut self, config: Config, round: Round<'_>) -> Assembled {
        let mut policy = Policy::default();
        let (mut filters, mut whitelists) = (Vec::new(), Vec::new());
        let (mut faults, mut waiting, mut builds) = (Vec::new(), Vec::new(), Vec::new());
        for list in config.enabled_lists() {
            let (state, _) = self.states.look(&list.filter, round.now);
            let (choice, fault) = self.filters.choose(list, state, &config, round);
            let report = BuildReport::path(&list.filter);
            self.states.look(&report, round.now);
            let filter = choice.filter();
            let build = BuildProblem::of(list, filter.map(|filter| filter.spec()));
            builds.extend(build.map(|problem| problem.text));
            // The address rules of a chosen filter are known.
            let lookup = filter.and_then(|filter| Lookup::new(Arc::clone(filter)).ok());
            let is_doubted = |fault: &&FileProblem| {
                let must_miss = matches!(fault.error, Error::MustMiss { .. });
                lookup.is_none() || must_miss && !choice.is_good
            };
            let doubt = fault.as_ref().filter(is_doubted);
            let doubt = doubt.map(|fault| fault.error.to_string().into());
            let terms = list.terms_with(filter.map(|filter| &**filter));
            policy.add(terms, lookup, doubt);
            filters.push(choice);
            faults.extend(fault);
        }
        for (path, names) in whitelists::files(&config.whitelist) {
            let (_, rested) = self.states.look(path, round.now);
            let mut old = round.whitelists.iter();
            let old = old.find(|file| file.path == path && file.names == names);
            let rested = (!round.is_asked).then_some(rested);
            let (file, read, wait) = Whitelist::read(path, names, old, rested);
            whitelists.push(file);
            faults.extend(read.err());
            waiting.extend(wait);
        }
        (policy.whitelist, policy.correspondents) = whitelists::united(&config, &whitelists);
        policy.whitelist_is_incomplete = whitelists.iter().any(|file| !file.is_whole);
        configure(&mut policy, &config);
        let snapshot = Snapshot {
            config,
            policy,
            counts: Vec::new(),
            filters,
            whitelists,
            is_configured: true,
        };
        Assembled {
            snapshot,
            faults,
            waiting,
            builds,
        }
    }
}

/// What the report of the last build says against a list.
pub(crate) struct BuildProblem {
    pub list: String,
    /// Whether the build failed; if not, it rejected lines.
    pub has_failed: bool,
    pub text: String,
}

impl BuildProblem {
    /// Returns what the report says against a list with this filter.
    pub(crate) fn of(list: &ListSettings, filter: Option<&Spec>) -> Option<Self> {
        let report = BuildReport::of(&list.filter)?;
        let failure = report.failure_after(filter);
        let has_failed = failure.is_some();
        let text = failure.or_else(|| report.rejects_in(filter?))?;
        let list = list.terms.name.clone();
        Some(Self {
            has_failed,
            text: format!("list {list}: {text}"),
            list,
        })
    }
}

/// Applies the settings that concern all lists.
fn configure(policy: &mut Policy, config: &Config) {
    policy.whitelist_wants_dkim = config.whitelist.require_dkim;
    policy.correspondents_want_dkim = config.whitelist.correspondents_need_dkim();
    policy
        .exempt_recipients
        .clone_from(&config.exempt.recipients);
    policy.mixed_recipients = config.mixed_recipients;
    policy.undecided = Some(match config.on_error {
        OnError::Tempfail => Action::Tempfail,
        OnError::Accept => Action::Log,
    });
}

/// Reads what is good of a configuration. At a start, it may be a pipe; a reload would wait for its data forever.
fn read_config(path: &Path, old: &Config) -> (Config, Option<config::Error>) {
    match access::open_regular(path) {
        Err(source) if source.kind() == ErrorKind::InvalidInput => {
            let path = path.to_owned();
            let fault = config::Error::Unreadable { path, source };
            (old.clone(), Some(fault))
        }
        _ => Config::load_what_is_good(path),
    }
}
