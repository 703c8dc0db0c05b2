//! Everything on which a verdict depends, replaced in one step: configuration, filters, whitelist.
//!
//! ```text
//!   files change -> Live::reload -> read and check the new files, while the old ones stay in effect
//!                     all good:  one atomic store; messages in progress keep the old snapshot
//!                     any error: keep the old snapshot, log an error, try again later
//! ```
//!
//! | file | about |
//! |---|---|
//! | `open` | filter files, each opened and read only if it has changed |
//! | `gate` | reasons not to load a valid file in place of the one in effect |
//! | `loss` | what a change removes, and when such a change takes effect |
//! | `copies`, `stand_in`, `fallback` | making copies of the filters in effect; a copy that replaces a bad file; a snapshot with such copies |
//! | `lease` | which message uses which snapshot, and which thread frees it |
//! | `counters` | counters since the start, by list and in total |
//! | `trouble`, `freshness` | current problems; lists that are out of date |
//! | `live`, `differences` | the snapshot in effect, and its replacement; what a reload has changed |
//! | `check`, `status` | the report of `check`, and the status file that the running daemon writes for it |
//!
//! A new filter is also refused if its pages match more than twice as often as declared (a file that matches every key
//! can be well-formed), if it matches an address of `must_miss` or does not list one of `must_hit`, or if it was
//! compiled with other address rules than those of this program.
//!
//! At a *start* there is no old snapshot to keep, and if the daemon does not start, all mail waits or passes
//! unchecked. So it starts with all that is good. The rest is *undecided*, and `on_error` applies: to every sender
//! that a list without a readable filter would check, to every hit while the whitelist cannot be read (it may exempt
//! the sender), and to all mail without a configuration. Instead of a bad filter, the daemon uses its last good copy,
//! if there is one. Each later reload replaces what has become better.

mod check;
mod copies;
mod counters;
mod differences;
mod error;
mod fallback;
mod freshness;
mod gate;
mod lease;
mod live;
mod loss;
mod open;
mod permissions;
mod stand_in;
mod status;
mod trouble;

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

pub use check::{Checked, CheckedList, check};
pub use counters::{Counters, ListCounters, ListCounts, Refusal};
pub use error::Error;
pub use freshness::{Freshness, approximate};
pub use gate::Objection;
pub use lease::Lease;
pub use live::{Live, Reloaded};
use open::{Loaded, Tried};
pub use permissions::writable_by_others;
use stand_in::StandIn;
pub use status::{AskedReload, Running, StatusFile, is_running, monotonic_us};
pub use trouble::{Complaint, Reloads};

use crate::address::{Kind, escaped};
use crate::base::access;
use crate::config::{self, Config, ListSettings, OnError};
use crate::filter::Filter;
use crate::filter::format::MAGIC;
use crate::list::{self, Format, Reader, Row};
use crate::lookup::{Outcome, Reads};
use crate::policy::{Action, Budget, Circumstances, Entries, Policy, Scratch, Seen};
use crate::sender::{Identity, Sender, Strength};

/// How much of a whitelist is read to find out whether it is a text.
const HEAD_BYTES: u64 = 64 << 10;

/// How many rejected whitelist lines an error shows.
const LINES_SHOWN: usize = 5;

/// Everything on which a verdict depends.
#[derive(Debug)]
pub struct Snapshot {
    /// The settings.
    pub config: Config,
    /// The lists and the whitelist.
    pub policy: Policy,
    /// The opened filter of each list, in the order of the policy's.
    loaded: Vec<Option<Loaded>>,
    /// The counters of each list, in the same order.
    pub counts: Vec<ListCounts>,
    /// The errors; what they affect is undecided.
    faults: Vec<Error>,
    /// The lists for which an older copy is in use.
    stand_ins: Vec<StandIn>,
}

impl Snapshot {
    /// Opens all files that a configuration names.
    ///
    /// # Errors
    /// All errors found.
    pub fn build(config: Config) -> Result<Self, Error> {
        Self::assemble(config, None, None, Vec::new()).without_faults()
    }

    /// Opens all files that a configuration names, and starts without the faulty ones. For a list with a faulty
    /// filter, the last good copy is used; without a copy, its look-ups are undecided, and `on_error` applies.
    pub fn start(config: Config) -> Self {
        Self::assemble(config, None, None, Vec::new()).or_copies()
    }

    /// The snapshot without a valid configuration: every sender is undecided.
    pub fn without_config(mut config: Config, fault: config::Error) -> Self {
        let reason: Arc<str> = "the configuration is faulty".into();
        config.lists = vec![ListSettings::unknown("configuration")];
        let mut policy = Policy::new();
        for settings in &config.lists {
            // It fails only if there are too many lists, and this is the only one.
            let _ = policy.add_unavailable(settings.terms.clone(), Arc::clone(&reason));
        }
        configure(&mut policy, &config);
        Self {
            loaded: vec![None; config.lists.len()],
            config,
            policy,
            counts: Vec::new(),
            faults: vec![fault.into()],
            stand_ins: Vec::new(),
        }
    }

    /// The snapshot that replaces `old`. An error if something that works in `old` would no longer work.
    fn rebuild(config: Config, old: &Self, tried: &mut Tried) -> Result<Self, Error> {
        let new = Self::assemble(config, Some(old), Some(tried), Vec::new());
        let no_worse = new.faults.iter().all(|fault| old.has_like(fault));
        if no_worse {
            Ok(new)
        } else {
            new.without_faults()
        }
    }

    /// With `tried` (a reload), new filters are read completely, and their pages stay on disk for now. Without it (a
    /// start), mail waits, so some checks are done later. `stand_ins` are used instead of the files of their lists.
    fn assemble(
        config: Config,
        old: Option<&Self>,
        mut tried: Option<&mut Tried>,
        mut stand_ins: Vec<StandIn>,
    ) -> Self {
        let mut policy = Policy::new();
        let mut loaded: Vec<Option<Loaded>> = Vec::new();
        let mut faults = Vec::new();
        let copies: &[StandIn] = old.map_or(&[], |old| &old.stand_ins);
        let old: Vec<Loaded> = old.map_or_else(Vec::new, |old| old.files().cloned().collect());
        for settings in config.enabled_lists() {
            let new: Vec<Loaded> = loaded.iter().flatten().cloned().collect();
            let terms = &settings.terms;
            let list_error = |source| Error::List {
                list: terms.name.clone(),
                source,
            };
            let tried = tried.as_deref_mut();
            let given = stand_ins.iter().find(|one| one.list == terms.name);
            let opened = if let Some(given) = given {
                Ok(given.file().clone())
            } else {
                let opened = open::open(settings, &config.safety, (&old, &new), tried);
                opened.or_else(|fault| {
                    let known = copies.iter().find_map(|one| one.again(settings, &fault));
                    let known = known.ok_or(fault)?;
                    let file = known.file().clone();
                    stand_ins.push(known);
                    Ok(file)
                })
            };
            let added = opened.and_then(|file| {
                let filter = Arc::clone(&file.filter);
                open::check_must_hit(settings, &filter)?;
                let added = policy.add_list(Arc::clone(terms), filter);
                added.map(|()| file).map_err(list_error)
            });
            match added {
                Ok(file) => loaded.push(Some(file)),
                Err(fault) => {
                    let reason = fault.to_string().into();
                    // It fails only if there are too many lists, which the configuration does not allow.
                    let _ = policy.add_unavailable(Arc::clone(terms), reason);
                    loaded.push(None);
                    faults.push(fault);
                }
            }
        }
        let before = faults.len();
        (policy.whitelist, policy.correspondents) = whitelist(&config, &mut faults);
        policy.whitelist_is_incomplete = faults.len() > before;
        configure(&mut policy, &config);
        let mut snapshot = Self {
            config,
            policy,
            loaded,
            counts: Vec::new(),
            faults,
            stand_ins,
        };
        snapshot.check_must_miss();
        snapshot
    }

    fn without_faults(mut self) -> Result<Self, Error> {
        match self.faults.pop() {
            None => Ok(self),
            Some(fault) if self.faults.is_empty() => Err(fault),
            Some(fault) => {
                let mut errors = self.faults;
                errors.push(fault);
                Err(Error::Several { errors })
            }
        }
    }

    /// The errors; what they affect is undecided.
    pub fn faults(&self) -> &[Error] {
        &self.faults
    }

    /// Whether the configuration is faulty.
    fn is_without_config(&self) -> bool {
        let mut faults = self.faults.iter();
        faults.any(|fault| matches!(fault, Error::Config(_)))
    }

    /// Whether the same list, or the whitelist, has an error here, too. Without a configuration, everything has.
    fn has_like(&self, fault: &Error) -> bool {
        let is_like = |own: &Error| {
            own.list().is_some() && own.list() == fault.list()
                || own.is_of_whitelist() && fault.is_of_whitelist()
        };
        self.is_without_config() || self.faults.iter().any(is_like)
    }

    /// The opened filters.
    fn files(&self) -> impl Iterator<Item = &Loaded> {
        self.loaded.iter().flatten()
    }

    /// The filters whose pages should be in memory, but are not; each once.
    fn lacking_pages(&self) -> Vec<Arc<Filter>> {
        let mut lacking: Vec<Arc<Filter>> = Vec::new();
        for file in self.files().filter(|file| file.lacks_pages()) {
            if !lacking.iter().any(|known| Arc::ptr_eq(known, &file.filter)) {
                lacking.push(Arc::clone(&file.filter));
            }
        }
        lacking
    }

    /// A list that matches an address of `must_miss` cannot be trusted: its hits are undecided.
    fn check_must_miss(&mut self) {
        let mut scratch = Scratch::default();
        let mut found: BTreeMap<usize, &str> = BTreeMap::new();
        let mut budget = Budget::UNLIMITED;
        for address in &self.config.safety.must_miss {
            for identity in Identity::ALL {
                let sender = Sender {
                    identity,
                    address: address.as_bytes(),
                    strength: Strength::Strong,
                };
                let mut now = Circumstances {
                    reads: Reads::Now,
                    budget: &mut budget,
                    today: 0,
                    aligned: &|_| false,
                };
                // It cannot fail: the budget is unlimited.
                let _ =
                    self.policy
                        .examine(&sender, &mut now, &mut scratch, &mut Vec::new(), |seen| {
                            if let Seen::Entry {
                                list,
                                outcome: Outcome::Listed(_) | Outcome::Unproved,
                                ..
                            } = seen
                            {
                                found.entry(list).or_insert(address);
                            }
                        });
            }
        }
        let found = found.into_iter().filter_map(|(index, address)| {
            let fault = Error::MustMiss {
                list: self.policy.lists().get(index)?.name().to_owned(),
                path: self.loaded.get(index)?.as_ref()?.path.clone(),
                address: address.to_owned(),
            };
            Some((index, fault))
        });
        let found: Vec<_> = found.collect();
        for (index, fault) in found {
            self.policy.doubt(index, fault.to_string().into());
            self.faults.push(fault);
        }
    }

    /// Warnings for the administrator, also about the permissions of the configuration file.
    pub fn warnings(&self, config_path: Option<&Path>) -> Vec<String> {
        let files = config_path.into_iter().chain(self.config.files());
        let mut warnings = permissions::writable_by_others(files);
        for endpoint in &self.config.listen {
            if !endpoint.is_local() {
                warnings.push(format!(
                    "listen: {endpoint} can be reached from other machines, and any program that connects is treated as the \
                     mail server; use a unix socket or a loopback address, or protect the port by a firewall (not necessary \
                     if systemd passes the sockets: then listen is not used)"
                ));
            }
            if endpoint.has_any_port() {
                warnings.push(format!(
                    "listen: {endpoint} means another free port at each start; give the port that the mail server connects to"
                ));
            }
        }
        if self.policy.lists().is_empty() {
            warnings.push("no list is enabled: every message is accepted".to_owned());
        }
        for list in self.policy.lists() {
            if let Some(filter) = list.filter()
                && !filter.spec().records
            {
                let spec = filter.spec();
                let innocents = spec.fpr * 100_000.0;
                warnings.push(format!(
                    "list {}: the filter has no records to confirm a match: of 100,000 unlisted senders about {innocents:.1} \
                     are treated as listed (always the same ones); rebuild it without --no-records",
                    list.name()
                ));
            }
            if list.terms.reply.is_some() && !list.terms.action.refuses() {
                warnings.push(format!(
                    "list {}: action \"{}\" sends no reply; the setting reply has no effect",
                    list.name(),
                    list.terms.action
                ));
            }
            if let Some(warning) = list.terms.action.warning() {
                warnings.push(format!(
                    "list {}: action \"{}\" {warning}",
                    list.name(),
                    list.terms.action
                ));
            }
        }
        warnings
    }
}

/// Applies the settings that concern all lists.
fn configure(policy: &mut Policy, config: &Config) {
    policy.whitelist_wants_dkim = config.whitelist.require_dkim;
    policy.correspondents_want_dkim = config.whitelist.correspondents_require_dkim;
    policy
        .exempt_recipients
        .clone_from(&config.exempt.recipients.entries);
    policy.mixed_recipients = config.mixed_recipients;
    policy.undecided = Some(match config.on_error {
        OnError::Tempfail => Action::Tempfail,
        OnError::Accept => Action::Log,
    });
}

/// The whitelist and the correspondents of a configuration.
///
/// # Errors
/// One of their files cannot be read, or has an invalid line.
pub fn cleared_senders(config: &Config) -> Result<(Entries, Entries), Error> {
    let mut errors = Vec::new();
    let cleared = whitelist(config, &mut errors);
    match errors.is_empty() {
        true => Ok(cleared),
        false => Err(Error::Several { errors }),
    }
}

/// Refuses a file that is no text, such as a filter: each of its lines would be an error.
fn only_text(mut input: Box<dyn Read + Send>) -> io::Result<impl Read> {
    let mut head = Vec::new();
    input.by_ref().take(HEAD_BYTES).read_to_end(&mut head)?;
    if head.starts_with(&MAGIC) {
        return Err(io::Error::other("it is a filter file; name a text file"));
    }
    list::check_text(&head)?;
    Ok(io::Cursor::new(head).chain(input))
}

/// The whitelist and the correspondents; errors are appended to `errors`.
fn whitelist(config: &Config, errors: &mut Vec<Error>) -> (Entries, Entries) {
    let mut whitelist = config.whitelist.entries.entries.clone();
    let mut correspondents = Entries::default();
    let mut rejected = Vec::new();
    let files = config.whitelist.files.iter().map(|path| (path, false));
    let of_people = config
        .whitelist
        .correspondents
        .iter()
        .map(|path| (path, true));
    for (path, is_of_people) in files.chain(of_people) {
        let entries = match is_of_people {
            true => &mut correspondents,
            false => &mut whitelist,
        };
        let mut refuse = |line: u64, why: &dyn std::fmt::Display, text: &[u8]| {
            rejected.push(format!(
                "{}:{line}: {why}: {}",
                path.display(),
                escaped(text)
            ));
        };
        let mut sink = |line: u64, row: Row<'_>| match row {
            Row::Entry(raw) => match entries.add_until(raw.text, raw.expires.map(|day| day.0)) {
                Ok(Kind::Mailbox) => {}
                Ok(_) if is_of_people => refuse(line, &"not an address", raw.text),
                Ok(_) => {}
                Err(error) => refuse(line, &error, raw.text),
            },
            Row::Rejected { reason, text } => refuse(line, &reason, text),
            Row::Skipped { .. } | Row::Mended { .. } => {}
        };
        let read = access::open_regular(path)
            .and_then(list::unpack)
            .and_then(only_text)
            .and_then(|text| Reader::new(Format::Whitelist).read_all(text, &mut sink));
        if let Err(source) = read {
            let source = access::explained(path, source);
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
    (whitelist, correspondents)
}
