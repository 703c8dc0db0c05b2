//! The status file that the running daemon writes for `check` and `reload`, which run in another process.
//!
//! ```text
//!   1234                                    process ID
//!   81023556 refused: c.toml:3:1: ...       when the last reload by SIGHUP began, and its result
//!   serving 2 lists, ...                    the state in one line
//!   reload refused, keeping ...             current problems, one line each
//! ```
//!
//! The time is in microseconds of the system's monotonic clock. Every reload that began after the request answers it,
//! even if other processes send requests at the same time. Before the first reload the line is `-`.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use rustix::time::{ClockId, clock_gettime};

use super::Live;

const NONE_YET: &str = "-";
const DONE: &str = "done";
const REFUSED: &str = "refused: ";

/// A reload that was asked for by SIGHUP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedReload {
    /// When it began, by [`monotonic_us`].
    pub began_us: u64,
    /// Why the reload was refused, in one line, if it was.
    pub refused: Option<String>,
}

/// The system's monotonic clock, which is the same for all processes, in microseconds.
pub fn monotonic_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    seconds * 1_000_000 + u64::try_from(now.tv_nsec).unwrap_or_default() / 1000
}

/// The file, written when something has changed.
#[derive(Debug, Default)]
pub struct StatusFile {
    reload: Option<AskedReload>,
    written: Option<(PathBuf, String)>,
}

impl StatusFile {
    /// Stores the result of a requested reload.
    pub fn note(&mut self, reload: AskedReload) {
        self.reload = Some(reload);
    }

    /// Writes the state, if it has changed or the file is missing. Mail does not depend on this file, so a missing or
    /// read-only folder is not an error.
    pub fn update(&mut self, live: &Live) {
        let path = live.snapshot().config.status_file.clone();
        let reload = match &self.reload {
            None => NONE_YET.to_owned(),
            Some(AskedReload { began_us, refused }) => match refused {
                None => format!("{began_us} {DONE}"),
                Some(reason) => format!("{began_us} {REFUSED}{}", reason.replace('\n', "; ")),
            },
        };
        let mut text = format!("{}\n{reload}\n{}\n", std::process::id(), live.status());
        for problem in live.problems() {
            text.push_str(&problem.text);
            text.push('\n');
        }
        let now = (path, text);
        // Somebody may have removed it.
        if self.written.as_ref() == Some(&now) && now.0.exists() {
            return;
        }
        self.written = match replace(&now.0, &now.1) {
            Ok(()) => Some(now),
            Err(error) => {
                tracing::debug!(file = %now.0.display(), %error, "cannot write the status");
                None
            }
        };
    }
}

fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".new");
    fs::write(&aside, text)?;
    fs::rename(&aside, path)
}

/// The content of a running daemon's status file.
#[derive(Debug, PartialEq, Eq)]
pub struct Running {
    /// Its process.
    pub process: i32,
    /// The last reload by SIGHUP.
    pub reload: Option<AskedReload>,
    /// How it is.
    pub status: String,
    /// What is wrong.
    pub problems: Vec<String>,
}

/// Whether this process exists. It does not use `/proc`, where the units hide the process even from its own user.
pub fn is_running(process: i32) -> bool {
    let found = Pid::from_raw(process).map(test_kill_process);
    matches!(found, Some(Ok(()) | Err(Errno::PERM)))
}

impl Running {
    /// Reads the daemon's status file; `None`: no daemon is known to run.
    pub fn read(path: &Path) -> Option<Self> {
        let found = Self::parse(&fs::read_to_string(path).ok()?)?;
        is_running(found.process).then_some(found)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines().peekable();
        let process = lines.next()?.parse().ok()?;
        let reload = lines.peek()?.split_once(' ').and_then(|(time, outcome)| {
            Some(AskedReload {
                began_us: time.parse().ok()?,
                refused: outcome.strip_prefix(REFUSED).map(str::to_owned),
            })
        });
        // A daemon of an older version, which runs until it is restarted, writes no such line.
        lines.next_if(|line| reload.is_some() || *line == NONE_YET);
        Some(Self {
            process,
            reload,
            status: lines.next().unwrap_or_default().to_owned(),
            problems: lines.map(str::to_owned).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::snapshot::Snapshot;

    #[test]
    fn what_could_not_be_written_or_is_gone_is_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/status");
        let text = "status_file = 'run/status'\n";
        let config = Config::parse(text, &folder.path().join("c.toml")).unwrap();
        let live = Live::new(Snapshot::build(config).unwrap(), None);
        let mut file = StatusFile::default();
        file.update(&live);
        assert!(!path.exists());
        fs::create_dir(folder.path().join("run")).unwrap();
        for _ in 0..2 {
            file.update(&live);
            assert!(Running::read(&path).is_some());
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let running = |text: &str| Running::parse(text).unwrap();
        let fresh = running("7\n-\nserving\n");
        assert_eq!((fresh.process, fresh.reload), (7, None));
        assert_eq!(fresh.status, "serving");
        let refused = running("7\n42 refused: a: b\nreload refused\nreload refused\nold\n");
        assert_eq!(refused.problems, ["reload refused", "old"]);
        let reload = refused.reload.unwrap();
        assert_eq!(
            (reload.began_us, reload.refused.as_deref()),
            (42, Some("a: b"))
        );
        // Of a version without the line about reloads.
        let older = running("7\nserving 1 list, 2 entries, 0 on the whitelist\nold\n");
        assert_eq!((older.reload, older.problems.len()), (None, 1));
        assert!(older.status.starts_with("serving 1 list"));
        assert_eq!(running("7\n42 done\n").reload.unwrap().refused, None);
        for wrong in ["", "x", "7"] {
            assert_eq!(Running::parse(wrong), None, "{wrong}");
        }
    }
}
