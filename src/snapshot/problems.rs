//! The current problems, for the log, the service manager, `check` and the status pages; and whether lists are out of date
//! (`max_age`, `max_unchanged`).

use std::time::Instant;

use serde::{Deserialize, Serialize};
use tracing::{error, info, warn};

use super::{FileProblem, Snapshot};
use crate::config::age_text;
use crate::endpoint::{Door, DoorState};
use blocklist_filter::base::clock::{minute, now_s};
use blocklist_filter::base::named::named;
use blocklist_filter::base::throttle::Throttle;

named! {
    /// Whether somebody should look, and how soon.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Health {
        /// All is well.
        #[default]
        Ok = "ok",
        /// Mail is checked, but somebody should look.
        Warning = "warning",
        /// Mail is not checked as configured.
        Critical = "critical",
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Problem {
    pub severity: Health,
    /// Its description in one line.
    pub text: String,
}

impl Problem {
    /// A problem with its description, which may have several lines.
    pub fn new(severity: Health, text: &str) -> Self {
        let text = text.replace('\n', "; ");
        Self { severity, text }
    }
}

impl From<&FileProblem> for Problem {
    fn from(FileProblem { error, instead }: &FileProblem) -> Self {
        match instead {
            Some(instead) => Self::new(Health::Warning, &format!("{instead}: {error}")),
            None => Self::new(
                Health::Critical,
                &format!("not serving as configured: {error}"),
            ),
        }
    }
}

/// The reloads since the start, as `/status.json` has them. Times are in seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reloads {
    /// Reloads that put something new into effect.
    pub good: u64,
    /// Reloads that refused a file.
    pub refused: u64,
    /// When the last one put something new into effect.
    pub last_good_s: Option<u64>,
    /// When the last one, or the start, refused a file.
    pub last_refused_s: Option<u64>,
    pub last_refused_reason: Option<String>,
    /// Something older than the files is in effect, because the last reload refused a file.
    pub is_old: bool,
}

/// The problems, and what was already logged of them.
#[derive(Default)]
pub(super) struct Problems {
    /// Those of files, found by the last reload.
    files: Vec<Problem>,
    /// Those of the builds of lists, found by it.
    builds: Vec<String>,
    pub(super) reloads: Reloads,
    /// Why copies cannot be made.
    pub(super) copies: Vec<String>,
    pub(super) doors: Vec<DoorState>,
    /// What is beyond them.
    pub(super) beyond: Vec<String>,
    logged: Vec<Problem>,
    /// All are logged once an hour.
    reminder: Throttle<3600>,
    /// What happens to mail that is not checked, and since when, in seconds since 1970.
    mail: Option<(String, u64)>,
}

impl Problems {
    /// Notes what a reload has found out about the files, and about the builds of lists.
    pub(super) fn note_files(&mut self, faults: &[FileProblem], builds: Vec<String>) {
        self.builds = builds;
        if faults.is_empty() && !self.files.is_empty() {
            info!("every file is in effect as it is: the problem is solved");
        }
        self.files = faults.iter().map(Problem::from).collect();
        self.reloads.is_old = !faults.is_empty();
        if self.reloads.is_old {
            let texts: Vec<_> = self.files.iter().map(|one| one.text.as_str()).collect();
            self.reloads.last_refused_s = Some(now_s());
            self.reloads.last_refused_reason = Some(texts.join("; "));
        }
    }

    /// Notes that a reload has put something new into effect.
    pub(super) fn note_good_reload(&mut self) {
        self.reloads.good += 1;
        self.reloads.last_good_s = Some(now_s());
    }

    /// What is wrong with files, one line each.
    pub(super) fn of_files(&self) -> Vec<String> {
        self.files.iter().map(|one| one.text.clone()).collect()
    }

    /// All current problems, the worst first.
    pub(super) fn all(&self, snapshot: &Snapshot) -> Vec<Problem> {
        let warning = |text: String| Problem::new(Health::Warning, &text);
        let lacking = snapshot.lacking_pages().into_iter().map(|filter| {
            let name = &filter.spec().name;
            format!("not enough memory for the pages of {name}: look-ups read from disk")
        });
        let builds = self.builds.iter().cloned().chain(lacking);
        let others = builds
            .chain(snapshot.stale(now_s()))
            .chain(self.copies.iter().cloned());
        let mut all = self.files.clone();
        all.extend(others.map(warning));
        let closed = self.doors.iter().filter_map(DoorState::problem);
        all.extend(closed.map(|text| Problem::new(Health::Critical, &text)));
        all.sort_by_key(|problem| std::cmp::Reverse(problem.severity));
        all
    }

    /// Logs new problems, and once an hour all of them. Notes what happens to mail.
    pub(super) fn look(&mut self, snapshot: &Snapshot, now: Instant) {
        let doors: Vec<Door> = self.doors.iter().map(DoorState::door).collect();
        let before = std::mem::replace(&mut self.beyond, snapshot.beyond(&doors));
        for what in self.beyond.iter().filter(|what| !before.contains(what)) {
            info!("{what}");
        }
        let closed = self.doors.iter().find(|door| door.closed.is_some());
        let at_door = |door: &DoorState| format!("mail is not checked at {}", door.name);
        let mail = snapshot.unchecked_mail().or_else(|| closed.map(at_door));
        if self.mail.as_ref().map(|(mail, _)| mail) != mail.as_ref() {
            self.mail = mail.map(|mail| (mail, now_s()));
        }
        let all = self.all(snapshot);
        let is_due = self.reminder.is_due(now);
        for problem in &all {
            if is_due || !self.logged.contains(problem) {
                match problem.severity == Health::Critical || self.files.contains(problem) {
                    true => error!("{}", problem.text),
                    false => warn!("{}", problem.text),
                }
            }
        }
        self.logged = all;
    }

    /// What happens to mail that is not checked as configured; `None`: there is no such mail.
    pub(super) fn mail(&self) -> Option<String> {
        let (mail, since_s) = self.mail.as_ref()?;
        let since = minute(*since_s);
        let (day, time) = since.split_once(' ')?;
        let is_today = minute(now_s()).starts_with(day);
        let since = if is_today { time } else { &since };
        Some(format!("{mail} since {since}"))
    }
}

/// How recent a list is; its age is in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Freshness {
    /// Since the filter was built.
    pub age_s: u64,
    /// Since it was first built with its current entries, as far as this process knows.
    pub unchanged_s: u64,
    /// Whether its age is more than `max_age`.
    pub too_old: bool,
    /// Whether its entries have been the same for longer than `max_unchanged`.
    pub unchanged_too_long: bool,
    /// The limit of that.
    #[serde(skip)]
    max_unchanged_s: Option<u64>,
    /// Whether it is older than the file, because that is damaged, missing or refused.
    pub last_good_copy: bool,
}

impl Snapshot {
    /// The age of each list, in the order of the policy's lists; `None` without a filter.
    pub fn freshness(&self, now_s: u64) -> impl Iterator<Item = Option<Freshness>> + '_ {
        let lists = self.config.enabled_lists().zip(&self.filters);
        lists.map(move |(settings, choice)| {
            let file = choice.file.as_ref()?;
            let age_s = now_s.saturating_sub(file.filter.spec().built);
            let unchanged_s = now_s.saturating_sub(file.unchanged_since_s);
            let limit_s = settings.max_unchanged.limit_s(file.is_feed);
            Some(Freshness {
                age_s,
                unchanged_s,
                too_old: settings.max_age_s.is_some_and(|max| age_s > max),
                unchanged_too_long: limit_s.is_some_and(|max| unchanged_s > max),
                max_unchanged_s: limit_s,
                last_good_copy: choice.is_good && !choice.is_newest,
            })
        })
    }

    /// The lists that are out of date, one line each.
    pub(super) fn stale(&self, now_s: u64) -> impl Iterator<Item = String> + '_ {
        let lists = self.config.enabled_lists().zip(self.freshness(now_s));
        lists.filter_map(move |(settings, freshness)| {
            let name = &settings.terms.name;
            let fresh = freshness?;
            let limit = |max: Option<u64>| max.map_or(String::new(), age_text);
            // The text does not change with the time, so that it is logged once.
            if fresh.too_old {
                Some(format!(
                    "list {name}: too old: built {}, max_age is {}; is it still downloaded and compiled? (systemctl list-timers 'blocklist-*')",
                    minute(now_s.saturating_sub(fresh.age_s)),
                    limit(settings.max_age_s)
                ))
            } else if fresh.unchanged_too_long {
                Some(format!(
                    "list {name}: the same entries since {}, max_unchanged is {}; is its feed still updated?",
                    minute(now_s.saturating_sub(fresh.unchanged_s)),
                    limit(fresh.max_unchanged_s)
                ))
            } else {
                None
            }
        })
    }
}
