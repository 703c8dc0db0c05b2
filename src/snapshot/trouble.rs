//! The current problems, for the log, the service manager, `check` and the status pages.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{error, warn};

use super::Snapshot;
use crate::base::clock::{minute, now_s};
use crate::filter::Filter;

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// `true`: mail is not checked as configured. `false`: it is, but an administrator should act.
    pub is_critical: bool,
    /// The problem in one line.
    pub text: String,
}

/// The last reloads and their times, in seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloads {
    /// The last that put something new into effect.
    pub good_s: Option<u64>,
    /// The last that was refused, and why.
    pub refused: Option<(u64, String)>,
    /// The snapshot in effect is older than the files, because the last reload was refused.
    pub is_old: bool,
}

/// The problems other than the errors of the snapshot.
#[derive(Default)]
pub(super) struct Trouble {
    /// Since when reloads are refused, in seconds since 1970, and the reason of the last one.
    refused: Option<(u64, String)>,
    /// The last reloads of either kind.
    pub(super) reloads: Reloads,
    /// Errors in filters that a start has loaded without reading their records.
    damaged: Vec<(Arc<Filter>, String)>,
    /// Whether these filters have been read since.
    pub(super) start_is_checked: bool,
    /// Lists that are known to be out of date.
    stale: Vec<String>,
    /// Why copies of filters cannot be made.
    pub(super) copies: Vec<String>,
    /// When the complaints were last repeated.
    reminded: Option<Instant>,
}

impl Trouble {
    /// Records a refused reload, and logs it once for each reason.
    pub(super) fn refuse(&mut self, doubt: &str) {
        let now = now_s();
        self.reloads.refused = Some((now, doubt.to_owned()));
        self.reloads.is_old = true;
        let since = self.refused.as_ref().map_or(now, |(since, _)| *since);
        if self
            .refused
            .as_ref()
            .is_none_or(|(_, known)| known != doubt)
        {
            error!(
                reason = doubt.replace('\n', "; ").as_str(),
                "reload refused, keeping the previous configuration and filters"
            );
            self.reminded = Some(Instant::now());
        }
        self.refused = Some((since, doubt.to_owned()));
    }

    /// Records a reload that was not refused. Returns whether the previous one was refused.
    pub(super) fn accept(&mut self) -> bool {
        self.reloads.is_old = false;
        self.refused.take().is_some()
    }

    /// Whether this filter is known to be damaged.
    pub(super) fn is_damaged(&self, filter: &Arc<Filter>) -> bool {
        self.damaged
            .iter()
            .any(|(known, _)| Arc::ptr_eq(known, filter))
    }

    /// Records that a filter in effect is damaged.
    pub(super) fn damage(&mut self, filter: &Arc<Filter>, fault: String) {
        self.damaged.push((Arc::clone(filter), fault));
    }

    /// Logs new problems of this snapshot, and once an hour all problems.
    pub(super) fn look(&mut self, snapshot: &Snapshot, now: Instant) {
        self.damaged.retain(|(filter, _)| {
            snapshot
                .files()
                .any(|file| Arc::ptr_eq(&file.filter, filter))
        });
        let stale: Vec<String> = snapshot.stale(now_s()).collect();
        // Compared without the age, which changes.
        let of_list = |text: &str| text.split(": ").next().unwrap_or_default().to_owned();
        for text in &stale {
            if !self.stale.contains(&of_list(text)) {
                warn!("{text}");
            }
        }
        self.stale = stale.iter().map(|text| of_list(text)).collect();
        if is_due(&mut self.reminded, now) {
            for complaint in self.faults(snapshot) {
                error!("{}", complaint.text);
            }
            for text in snapshot.stand_ins().chain(stale).chain(self.copies.clone()) {
                warn!("{text}");
            }
        }
    }

    /// Records why copies of filters cannot be made, and logs new reasons.
    pub(super) fn note_copies(&mut self, problems: &[String]) {
        for text in problems {
            if !self.copies.contains(text) {
                warn!("{text}");
            }
        }
        self.copies = problems.to_vec();
    }

    /// The current problems, the worst first.
    pub(super) fn complaints(&self, snapshot: &Snapshot) -> Vec<Complaint> {
        let stale = snapshot.stale(now_s());
        let others = snapshot.stand_ins().chain(stale).chain(self.copies.clone());
        let others = others.map(|text| Complaint {
            is_critical: false,
            text,
        });
        let mut complaints: Vec<_> = self.faults(snapshot).chain(others).collect();
        complaints.sort_by_key(|complaint| !complaint.is_critical);
        complaints
    }

    /// The same without lists that are out of date and copies.
    fn faults<'a>(&'a self, snapshot: &'a Snapshot) -> impl Iterator<Item = Complaint> + 'a {
        let complaint = |is_critical, text: String| Complaint {
            is_critical,
            text: text.replace('\n', "; "),
        };
        let faults = snapshot.faults().iter();
        let faults =
            faults.map(move |fault| complaint(true, format!("not serving as configured: {fault}")));
        let damaged = self.damaged.iter().map(move |(_, fault)| {
            complaint(true, format!("a filter in effect is damaged: {fault}"))
        });
        let refused = self.refused.iter().map(move |(since, doubt)| {
            let text = format!(
                "OLD configuration and filters since {}: reload refused: {doubt}",
                minute(*since)
            );
            complaint(false, text)
        });
        let lacking = snapshot.lacking_pages().into_iter().map(move |filter| {
            let text = format!(
                "not enough memory for the pages of {}: look-ups read from disk",
                filter.spec().name
            );
            complaint(false, text)
        });
        faults.chain(damaged).chain(refused).chain(lacking)
    }
}

/// Whether an hour has passed since the last time, or since the first call.
fn is_due(last: &mut Option<Instant>, now: Instant) -> bool {
    const PERIOD: Duration = Duration::from_secs(3600);
    let last = last.get_or_insert(now);
    let due = now.saturating_duration_since(*last) >= PERIOD;
    if due {
        *last = now;
    }
    due
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_repeated_every_hour() {
        let now = Instant::now();
        let minutes = |n: u64| now + Duration::from_secs(60 * n);
        let mut last = None;
        let due = [0, 1, 59, 60, 61, 119, 120, 300, 301].map(|n| is_due(&mut last, minutes(n)));
        let expected = [false, false, false, true, false, false, true, true, false];
        assert_eq!(due, expected);
    }
}
