//! What a change of the configuration or a whitelist takes away.
//!
//! Who writes such a file in place (`generator > whitelist.txt`, a full disk) leaves it empty or incomplete for
//! a while, and an incomplete file is as valid as a whole one. So what takes something away is taken once the
//! files have rested, and what takes everything away only when somebody asks for a reload.
//!
//! | change | in effect |
//! |---|---|
//! | something is added or altered | at once |
//! | a list, entries of the whitelist, correspondents or exempt recipients are gone | after [`REST`] without a change |
//! | all lists, or the whole whitelist | by `blocklist-milter reload` or SIGHUP alone |

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::Snapshot;
use crate::file_state::FileState;
use crate::numbers::counted;

/// So long no file may change, before what takes something away is put into effect.
pub(super) const REST: Duration = Duration::from_secs(10);

/// What a new snapshot lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Loss {
    /// What there was.
    text: String,
    /// Whether nothing of it is left.
    pub(super) is_total: bool,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Loss {
    /// The worst that `new` lacks of `old`; a list that is there and disabled is not lacking.
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
        // The command that writes them drops old ones, and replaces the file as a whole.
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

/// The text files of a configuration as they were when they were first found like this.
#[derive(Debug)]
pub(super) struct Rest {
    files: Vec<Option<FileState>>,
    since: Instant,
}

impl Rest {
    /// As they are now.
    pub(super) fn begin(paths: &[PathBuf], now: Instant) -> Self {
        Self {
            files: states(paths),
            since: now,
        }
    }

    /// Whether they have rested.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= REST
    }

    /// Whether they are as they were.
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
