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

mod error;
mod live;

use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use error::Error;
pub use live::{Counters, Live, Reloaded};

use crate::address::escaped;
use crate::config::{Config, ListSettings, OnError};
use crate::daemon::group_number;
use crate::filter::{Filter, Load};
use crate::list::{Format, Reader, Row};
use crate::policy::{Action, Circumstances, Desk, Entries, Outcome, Policy, Seen};
use crate::sender::{Identity, Sender};

/// Random keys that a new filter is asked. At 1e-6 and twice the rate 2 hits are expected of a
/// million; what is looked for is a file that says yes to a visible part of all mail.
const PROBES_MEMORY: u64 = 1_000_000;
/// The same for a filter on disk, where each may be a read.
const PROBES_DISK: u64 = 2_000;
/// Rejected whitelist lines that an error shows.
const LINES_SHOWN: usize = 5;

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
            let old = old.map_or(&[][..], |old| &old.loaded);
            let added = open(settings, old, &loaded).and_then(|file| {
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
        policy.whitelist = whitelist(&config, &mut errors);
        policy.whitelist_wants_dkim = config.whitelist.require_dkim;
        for recipient in &config.exempt.recipients {
            // Checked when the configuration was read.
            let _ = policy.exempt_recipients.add(recipient.as_bytes());
        }
        policy.mixed_recipients = config.mixed_recipients;
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
    let group = &snapshot.config.socket_group;
    if !group.is_empty()
        && let Err(missing) = group_number(group)
    {
        let _ = writeln!(report, "warning: socket_group: {missing}");
    }
    for warning in snapshot.warnings() {
        let _ = writeln!(report, "warning: {warning}");
    }
    Ok(report)
}

/// The filter of one list, shared with the old snapshot, or with another list of this one, if its
/// file is the same.
fn open(settings: &ListSettings, old: &[Loaded], new: &[Loaded]) -> Result<Loaded, Error> {
    let path = &settings.filter;
    let list = || settings.terms.name.clone();
    // Taken before opening: if the file is replaced in between, the next look sees a change.
    let mark = Mark::of(path).ok();
    let same = new.iter().chain(old).find(|known| {
        known.path == *path && known.load == settings.load && known.mark == mark && mark.is_some()
    });
    if let Some(same) = same {
        return Ok(Loaded {
            path: path.clone(),
            load: same.load,
            mark,
            filter: same.filter.clone(),
        });
    }
    let filter = Filter::open(path, settings.load).map_err(|source| Error::Filter {
        list: list(),
        source,
    })?;
    if let Some(before) = old.iter().find(|known| known.path == *path) {
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

/// The whitelist; what is wrong with it goes to `errors`.
fn whitelist(config: &Config, errors: &mut Vec<Error>) -> Entries {
    let mut entries = Entries::default();
    for entry in &config.whitelist.entries {
        // Checked when the configuration was read.
        let _ = entries.add(entry.as_bytes());
    }
    let mut rejected = Vec::new();
    for path in &config.whitelist.files {
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
            Row::Skipped { .. } | Row::Mended { .. } => {}
        };
        let read =
            File::open(path).and_then(|file| Reader::new(Format::Plain).read_all(file, &mut sink));
        if let Err(source) = read {
            let path = path.clone();
            errors.push(Error::Unreadable { path, source });
        }
    }
    let more = rejected.len().saturating_sub(LINES_SHOWN);
    rejected.truncate(LINES_SHOWN);
    if more > 0 {
        rejected.push(format!("and {more} more lines of whitelists"));
    }
    if !rejected.is_empty() {
        errors.push(Error::Whitelist { lines: rejected });
    }
    entries
}
