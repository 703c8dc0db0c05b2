//! The last good copies, which `copies` makes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::config::Config;
use blocklist_filter::base::last_good::copy_of;

/// How long a copy may be used after its original was last seen in effect.
const KEPT: Duration = Duration::from_secs(7 * 86_400);

/// The copy of the file at this path, if it may be used.
pub(super) fn usable_copy(config: &Config, original: &Path, ending: &str) -> Option<PathBuf> {
    let copy = copy_of(&config.state, original, ending);
    let modified = fs::metadata(&copy).and_then(|meta| meta.modified()).ok()?;
    // A time in the future counts as now: a clock was wrong.
    let age = SystemTime::now().duration_since(modified);
    (age.unwrap_or_default() <= KEPT).then_some(copy)
}
