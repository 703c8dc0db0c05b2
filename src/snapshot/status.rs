//! What the running daemon writes down of itself for `--check`, which runs in another process.
//!
//! ```text
//!   1234                                    its process
//!   serving 2 lists, ...                    how it is, in a line
//!   reload refused, keeping ...             what is wrong, a line each
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::Live;

/// The file, written where something has changed.
#[derive(Debug, Default)]
pub struct StatusFile {
    written: Option<(PathBuf, String)>,
}

impl StatusFile {
    /// Writes how it is, if that has changed. Mail does not depend on it, so that a folder which
    /// is missing or read-only is no error.
    pub fn update(&mut self, live: &Live) {
        let path = live.snapshot().config.status_file.clone();
        let mut text = format!("{}\n{}\n", std::process::id(), live.status());
        for complaint in live.complaints() {
            text.push_str(&complaint.text);
            text.push('\n');
        }
        let now = (path, text);
        if self.written.as_ref() != Some(&now) {
            if let Err(error) = replace(&now.0, &now.1) {
                tracing::debug!(file = %now.0.display(), %error, "cannot write the status");
            }
            self.written = Some(now);
        }
    }
}

fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    fs::write(&beside, text)?;
    fs::rename(&beside, path)
}

/// The process of the daemon that runs, and what it complains of; `None`: none is known to run.
pub(super) fn of_running_daemon(path: &Path) -> Option<(i32, Vec<String>)> {
    let text = fs::read_to_string(path).ok()?;
    let mut lines = text.lines();
    let process: i32 = lines.next()?.parse().ok()?;
    let pid = Pid::from_raw(process)?;
    let runs = matches!(test_kill_process(pid), Ok(()) | Err(Errno::PERM));
    runs.then(|| (process, lines.skip(1).map(str::to_owned).collect()))
}
