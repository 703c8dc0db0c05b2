//! Everything on which a verdict depends, replaced in one step: configuration, filters, whitelist.
//!
//! ```text
//!   files change -> Live::reload -> read and check each new file, while the old ones stay in effect
//!                     good:  it is in the next snapshot
//!                     error: what was in effect before is in it instead; log an error, try again later
//!                   one atomic store; messages in progress keep the old snapshot
//! ```
//!
//! | file | about |
//! |---|---|
//! | `assemble` | from the files to a snapshot: what takes effect, what waits, what stays |
//! | `filters`, `whitelists` | the filter of each list; the entries of each whitelist |
//! | `gate` | reasons not to use a valid filter in place of the one in effect |
//! | `copies`, `last_good` | making copies of what is in effect; using them at a start with a faulty file |
//! | `in_effect` | which message uses which snapshot, and which thread frees it |
//! | `counters` | counters since the start, by list and in total |
//! | `problems` | current problems; lists that are out of date |
//! | `live` | the snapshot in effect, and its replacement |
//!
//! Each file is accepted or refused by itself:
//!
//! | file | if it is faulty | removals |
//! |---|---|---|
//! | a filter | the one in effect stays, for this list alone | at once |
//! | a whitelist | its old entries stay, and the good new ones are added | after ten seconds without a change |
//! | the configuration | the old one stays, and its files are still reloaded | likewise; all lists only on request |
//!
//! A configuration is faulty, too, if it newly names a filter or a whitelist of which there is no good version, or if
//! `must_hit` or `must_miss` contradict the filters in effect.
//!
//! At a *start*, the last good copies of filters and configuration stand for what was in effect. If the daemon does not
//! start, all mail waits or passes unchecked, so it starts with all that is good. The rest is *undecided*, and `on_error`
//! applies: to every sender that a list without a filter would check, to every hit while the whitelist cannot be read
//! (it may exempt the sender), and to all mail without a configuration.

mod assemble;
mod copies;
mod counters;
mod decisions;
mod doors;
mod error;
mod filters;
mod gate;
mod in_effect;
mod last_good;
mod live;
mod problems;
mod whitelists;

use std::path::Path;
use std::sync::Arc;

pub use assemble::Start;
pub(crate) use assemble::{BuildProblem, examine};
pub use counters::Counters;
pub(crate) use counters::ListCounts;
pub(crate) use decisions::{Decision, Who};
pub(crate) use error::{Error, FileProblem};
use filters::{Choice, Loaded};
pub use live::Live;
pub(crate) use live::MAIL_IS_CHECKED;
pub use problems::Health;
pub(crate) use problems::{Freshness, Problem, Reloads};
use whitelists::Whitelist;
pub(crate) use whitelists::cleared_senders;

use crate::config::{Config, OnError};
use crate::policy::{Action, Policy};
use blocklist_filter::base::access::writable_by_others;
use blocklist_filter::filter::Filter;

/// Everything on which a verdict depends.
#[derive(Debug)]
pub struct Snapshot {
    /// The settings.
    pub config: Config,
    /// The lists and the whitelist.
    pub policy: Policy,
    /// The counters of each list, in the order of the policy's.
    pub counts: Vec<ListCounts>,
    /// The filter of each list, in the same order.
    filters: Vec<Choice>,
    whitelists: Vec<Whitelist>,
    is_configured: bool,
}

impl Snapshot {
    /// The opened filters.
    fn files(&self) -> impl Iterator<Item = &Loaded> {
        let choices = self.filters.iter();
        choices.filter_map(|choice| choice.file.as_ref())
    }

    /// Whether it has no good version either of what this error is about. Without a configuration, it has none of
    /// anything.
    fn lacks(&self, error: &Error) -> bool {
        let mut lists = self.config.enabled_lists().zip(&self.filters);
        let lacks_list = |list: &str| {
            lists.any(|(settings, choice)| {
                let is_sound = choice.file.as_ref().is_some_and(Loaded::is_sound);
                settings.terms.name == list && !(choice.is_good && is_sound)
            })
        };
        let mut whitelists = self.whitelists.iter();
        !self.is_configured
            || match error {
                Error::Whitelist { path, .. } => {
                    whitelists.any(|file| file.path == *path && !file.is_whole)
                }
                // What is about no list is about the configuration.
                other => other.list().is_none_or(lacks_list),
            }
    }

    /// Whether verdicts are the same with both, and their reasons.
    fn is_same(&self, old: &Self) -> bool {
        let lists = |of: &Self| -> Vec<_> {
            let lists = of.policy.lists().iter().zip(&of.filters);
            let facts = lists.map(|(list, choice)| {
                let filter = choice.filter().map(Arc::as_ptr);
                (filter, choice.is_newest, choice.is_good, list.doubt.clone())
            });
            facts.collect()
        };
        self.config == old.config
            && self.is_configured == old.is_configured
            && lists(self) == lists(old)
            && self.policy.whitelist == old.policy.whitelist
            && self.policy.correspondents == old.policy.correspondents
            && self.policy.whitelist_is_incomplete == old.policy.whitelist_is_incomplete
    }

    /// Whether a read of a filter has failed, and nothing was done about it yet.
    fn has_new_damage(&self) -> bool {
        let mut newest = self.filters.iter().filter(|choice| choice.is_newest);
        newest.any(|choice| choice.filter().is_some_and(|filter| filter.is_damaged()))
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

    /// What happens to the mail that cannot be checked as configured; `None`: there is no such mail.
    fn unchecked_mail(&self) -> Option<String> {
        let deed = match self.config.on_error {
            OnError::Tempfail => "is deferred",
            OnError::Accept => "is accepted unchecked",
        };
        if !self.is_configured {
            return Some(format!("all mail {deed}"));
        }
        // A list that only tags or logs neither defers mail nor would it refuse any.
        let lists = self.policy.lists().iter();
        let lists = lists.filter(|list| !list.terms.dry_run && list.terms.action > Action::Tag);
        let names = |answers_some: bool| {
            let lists = lists.clone().filter(move |list| {
                let filter = list.filter();
                let is_lost = filter.is_some_and(|filter| filter.is_lost());
                // Without pages in memory, every look-up may fail.
                let is_blind = filter.is_none_or(|filter| is_lost && !filter.is_in_memory());
                (list.doubt.is_some() || is_lost) && is_blind != answers_some
            });
            let names: Vec<&str> = lists.map(|list| list.name()).collect();
            (!names.is_empty()).then(|| names.join(", "))
        };
        if let Some(names) = names(false) {
            return Some(format!("all mail that is to be checked by {names} {deed}"));
        }
        if self.policy.whitelist_is_incomplete {
            return Some(format!("mail of listed senders {deed}"));
        }
        names(true).map(|names| format!("mail of senders listed by {names} {deed}"))
    }

    /// Warnings for the administrator, also about the permissions of the configuration file.
    pub fn warnings(&self, config_path: Option<&Path>) -> Vec<String> {
        let files = config_path.into_iter().chain(self.config.files());
        let mut warnings = writable_by_others(files);
        for listen in &self.config.listen {
            if !listen.at.is_local() {
                warnings.push(format!(
                    "listen: {listen} can be reached from other machines, and any program that connects is treated as the \
                     mail server; use a unix socket or a loopback address, or protect the port by a firewall (not necessary \
                     if systemd passes the sockets: then listen is not used)"
                ));
            }
            if listen.at.has_any_port() {
                warnings.push(format!(
                    "listen: {listen} means another free port at each start; give the port that the mail server connects to"
                ));
            }
        }
        if self.policy.lists().is_empty() {
            warnings.push("no list is enabled: every message is accepted".to_owned());
        }
        for (list, settings) in self.policy.lists().iter().zip(self.config.enabled_lists()) {
            let (name, action) = (list.name(), list.terms.action);
            if settings.terms.action != action {
                warnings.push(format!(
                    "list {name}: it has reports of users (blocklist-milter junk), so its action is \"{action}\", not \"{}\"; \
                     trust_reports = true allows that, but then one user can block a sender for all",
                    settings.terms.action
                ));
                continue;
            }
            if let Some(spec) = list.filter().map(|filter| filter.spec())
                && !spec.records
            {
                let innocents = spec.fpr * 100_000.0;
                warnings.push(format!(
                    "list {name}: the filter has no records to confirm a match: of 100,000 unlisted senders about {innocents:.1} \
                     are treated as listed (always the same ones); rebuild it without --no-records"
                ));
            }
            if list.terms.reply.is_some() && !action.refuses() {
                warnings.push(format!(
                    "list {name}: action \"{action}\" sends no reply; the setting reply has no effect"
                ));
            }
            let warning = action.warning();
            warnings.extend(warning.map(|text| format!("list {name}: action \"{action}\" {text}")));
        }
        warnings
    }
}
