//! What a restart does not lose: the history and the last decisions, in a file of the state folder.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use serde::{Deserialize, Serialize};

use super::history::History;
use super::source::Status;
use crate::base::clock::now_s;
use crate::base::replacement::Replacement;
use crate::base::whole_file;
use crate::snapshot::Decision;

const NAME: &str = "status.json";
/// Most bytes of the file: a larger one is not ours.
const MAX_BYTES: u64 = 16 << 20;
/// Seconds of history that a crash loses at most.
const PAUSE_S: u64 = 300;

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Kept {
    history: History,
    decisions: Vec<Arc<Decision>>,
}

impl Status {
    fn kept_file(&self) -> PathBuf {
        self.live.snapshot().config.state.join(NAME)
    }

    /// Continues what an earlier run has saved. Mail does not depend on it, so nothing is an error.
    pub fn restore(&self) {
        self.saved_s.store(now_s(), Relaxed);
        let file = self.kept_file();
        let kept = match whole_file::read(&file, MAX_BYTES, "the history of the status") {
            Ok(None) => return,
            Ok(Some(kept)) => serde_json::from_slice(&kept).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match kept {
            Ok(Kept { history, decisions }) => {
                *self.sample() = history;
                self.live.counters.decisions.restore(decisions);
                self.forget();
            }
            Err(error) => {
                tracing::warn!(file = %file.display(), %error, "the history of the status begins anew");
            }
        }
    }

    /// Saves it every few minutes. Call it often.
    pub fn upkeep(&self) {
        let saved_s = self.saved_s.load(Relaxed);
        if now_s().abs_diff(saved_s) >= PAUSE_S {
            self.save();
        }
    }

    /// Saves it now.
    pub fn save(&self) {
        self.saved_s.store(now_s(), Relaxed);
        let kept = Kept {
            history: self.sample().clone(),
            decisions: self.live.counters.decisions.select(|_| true),
        };
        let file = self.kept_file();
        if let Err(error) = write(&file, &kept) {
            tracing::debug!(file = %file.display(), %error, "cannot keep the history of the status");
        }
    }
}

/// Replaces the file. Only the daemon's user may read it: it has addresses.
fn write(file: &Path, kept: &Kept) -> io::Result<()> {
    let replacement = Replacement::claim_as_created(file).map_err(io::Error::other)?;
    let mut out = replacement.file();
    out.write_all(&serde_json::to_vec(kept)?)?;
    replacement.commit().map_err(io::Error::other)
}
