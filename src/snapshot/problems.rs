//! The current problems, for the log, the service manager, `check` and the status pages.

use std::time::Instant;

use serde::{Deserialize, Serialize};
use tracing::{error, info, warn};

use super::{FileProblem, Snapshot};
use crate::base::clock::{minute, now_s};
use crate::base::named::named;
use crate::base::throttle::Throttle;

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

/// Something wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Its severity.
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

/// The last reloads and their times, in seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloads {
    /// The last that put something new into effect.
    pub good_s: Option<u64>,
    /// The last that refused a file, and why.
    pub refused: Option<(u64, String)>,
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
            self.reloads.refused = Some((now_s(), texts.join("; ")));
        }
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
        let copies = self.copies.iter().cloned();
        let builds = self.builds.iter().cloned();
        let others = builds
            .chain(lacking)
            .chain(snapshot.stale(now_s()))
            .chain(copies);
        let mut all: Vec<_> = self
            .files
            .iter()
            .cloned()
            .chain(others.map(warning))
            .collect();
        all.sort_by_key(|problem| std::cmp::Reverse(problem.severity));
        all
    }

    /// Logs new problems, and once an hour all of them. Notes what happens to mail.
    pub(super) fn look(&mut self, snapshot: &Snapshot, now: Instant) {
        let mail = snapshot.unchecked_mail();
        if self.mail.as_ref().map(|(mail, _)| mail) != mail.as_ref() {
            self.mail = mail.map(|mail| (mail, now_s()));
        }
        let all = self.all(snapshot);
        let is_due = self.reminder.is_due(now);
        for problem in &all {
            if is_due || !self.logged.contains(problem) {
                match self.files.contains(problem) {
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
        Some(format!(
            "{mail} since {}",
            if is_today { time } else { &since }
        ))
    }
}
