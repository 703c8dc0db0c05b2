//! Detects what a change of the configuration or a whitelist removes.
//!
//! A file that is written in place (`generator > whitelist.txt`), or on a full disk, is empty or incomplete for a
//! while, and an incomplete file can be valid. So a change that removes something takes effect only after the files
//! have not changed for some time, and a change that removes everything only when an administrator asks for a reload.
//!
//! | change | takes effect |
//! |---|---|
//! | something is added or changed | at once |
//! | a list, whitelist entries, correspondents or exempt recipients are removed | after [`REST`] without a change |
//! | all lists, or the whole whitelist, are removed | only by `blocklist-milter reload` or SIGHUP |

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::Snapshot;
use crate::base::file_state::FileState;
use crate::base::numbers::counted;

/// How long the files must not change before a removal takes effect.
pub(super) const REST: Duration = Duration::from_secs(10);

/// What is missing in a new snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Loss {
    /// A description, for messages.
    text: String,
    /// Whether nothing is left.
    pub(super) is_total: bool,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Loss {
    /// The worst loss from `old` to `new`. A list that is disabled, but still configured, is not a loss.
    pub(super) fn of(new: &Snapshot, old: &Snapshot) -> Option<Self> {
        let names = |of: &Snapshot| -> Vec<String> {
            let lists = of.config.lists.iter();
            lists.map(|list| list.terms.name.clone()).collect()
        };
        let (now, before) = (names(new), names(old));
        let gone: Vec<_> = (before.iter().filter(|name| !now.contains(name)))
            .map(|name| format!("{name:?}"))
            .collect();
        let lists = (!gone.is_empty()).then(|| Self {
            text: format!("no longer names the list {}", gone.join(", ")),
            is_total: now.is_empty(),
        });
        let count = |now: usize, before: usize, one: &str, many: &str| {
            (now < before).then(|| Self {
                text: format!(
                    "leaves {now} of {}",
                    counted(u64::try_from(before).unwrap_or(u64::MAX), one, many)
                ),
                is_total: now == 0,
            })
        };
        let whitelist = count(
            new.policy.whitelist.len(),
            old.policy.whitelist.len(),
            "whitelist entry",
            "whitelist entries",
        );
        // Never total: the command that writes this file drops old addresses, and replaces the file by rename.
        let correspondents = count(
            new.policy.correspondents.len(),
            old.policy.correspondents.len(),
            "correspondent",
            "correspondents",
        );
        let recipients = count(
            new.policy.exempt_recipients.len(),
            old.policy.exempt_recipients.len(),
            "exempt recipient",
            "exempt recipients",
        );
        let partial = [correspondents, recipients]
            .into_iter()
            .flatten()
            .map(|loss| Self {
                is_total: false,
                ..loss
            });
        let mut losses: Vec<_> = [lists, whitelist]
            .into_iter()
            .flatten()
            .chain(partial)
            .collect();
        losses.sort_by_key(|loss| !loss.is_total);
        losses.into_iter().next()
    }
}

/// The state of a configuration's text files, and since when they are in this state.
#[derive(Debug)]
pub(super) struct Rest {
    files: Vec<Option<FileState>>,
    since: Instant,
}

impl Rest {
    /// Records their present state.
    pub(super) fn begin(paths: &[PathBuf], now: Instant) -> Self {
        Self {
            files: states(paths),
            since: now,
        }
    }

    /// Whether they have been in this state for [`REST`].
    pub(super) fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= REST
    }

    /// Whether they are still in this state.
    pub(super) fn is_of(&self, paths: &[PathBuf]) -> bool {
        self.files == states(paths)
    }
}

fn states(paths: &[PathBuf]) -> Vec<Option<FileState>> {
    paths.iter().map(|path| FileState::of(path).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A generator that writes on now and then: each write starts the rest again.
    #[test]
    fn a_file_that_changed_has_not_rested() {
        let folder = tempfile::tempdir().expect("a folder");
        let paths = [folder.path().join("white.txt"), folder.path().join("none")];
        std::fs::write(&paths[0], "a@ok.example\n").expect("our own folder");
        let now = Instant::now();
        let rest = Rest::begin(&paths, now);
        assert!(rest.is_of(&paths));
        assert!(!rest.is_over(now + REST - Duration::from_millis(1)));
        assert!(rest.is_over(now + REST));
        std::fs::write(&paths[0], "a@ok.example\nb@ok.example\n").expect("our own folder");
        assert!(!rest.is_of(&paths));
    }
}
