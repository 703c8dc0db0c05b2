//! The status file that the running daemon writes for `check` and `reload`, which run in another process: JSON.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::endpoint::DoorState;
use crate::snapshot::Live;

/// A reload that was asked for by SIGHUP. Every reload that began after the request answers it, even if other processes
/// send requests at the same time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AskedReload {
    /// When it began, by [`monotonic_us`].
    pub began_us: u64,
    /// Which files are not in effect as they are, and why, in one line.
    pub refused: Option<String>,
}

/// The system's monotonic clock, which is the same for all processes, in microseconds.
pub(crate) fn monotonic_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    seconds * 1_000_000 + u64::try_from(now.tv_nsec).unwrap_or_default() / 1000
}

/// The file, written when something has changed.
#[derive(Debug, Default)]
pub(crate) struct StatusFile {
    /// The result of the last requested reload.
    pub reload: Option<AskedReload>,
    written: Option<(PathBuf, Running)>,
}

impl StatusFile {
    /// Writes the state, if it has changed or the file is missing. Mail does not depend on this file, so a missing or
    /// read-only folder is not an error.
    pub(crate) fn update(&mut self, live: &Live) {
        let path = live.snapshot().config.status_file.clone();
        let running = Running {
            process: std::process::id().cast_signed(),
            reload: self.reload.clone(),
            status: live.status(),
            problems: live.problems().into_iter().map(|one| one.text).collect(),
            doors: live.doors(),
        };
        let now = (path, running);
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

fn replace(path: &Path, running: &Running) -> io::Result<()> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".new");
    fs::write(&aside, serde_json::to_string(running)?)?;
    fs::rename(&aside, path)
}

/// The content of a running daemon's status file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Running {
    pub process: i32,
    pub reload: Option<AskedReload>,
    /// The state in one line.
    pub status: String,
    /// What is wrong, one line each.
    pub problems: Vec<String>,
    /// The sockets for mail servers; none if it is of an older version.
    #[serde(default)]
    pub doors: Vec<DoorState>,
}

/// Whether this process exists. It does not use `/proc`, where the units hide the process even from its own user.
pub(crate) fn is_running(process: i32) -> bool {
    let found = Pid::from_raw(process).map(test_kill_process);
    matches!(found, Some(Ok(()) | Err(Errno::PERM)))
}

impl Running {
    /// Reads the daemon's status file; `None`: no daemon is known to run.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        let found: Self = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        is_running(found.process).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn what_could_not_be_written_or_is_gone_is_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/status");
        let text = "status_file = 'run/status'\n";
        let config = Config::parse(text, &folder.path().join("c.toml")).unwrap();
        let live = Live::new(config, None).unwrap();
        let mut file = StatusFile::default();
        file.update(&live);
        assert!(!path.exists());
        fs::create_dir(folder.path().join("run")).unwrap();
        for _ in 0..2 {
            file.update(&live);
            let written = file.written.as_ref().map(|now| &now.1);
            assert_eq!(Running::read(&path).as_ref(), written);
            fs::remove_file(&path).unwrap();
        }
        fs::write(&path, "half").unwrap();
        assert_eq!(Running::read(&path), None);
    }
}
