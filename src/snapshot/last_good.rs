//! The last good copies, which `copies` makes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use twox_hash::XxHash3_64;

use crate::config::Config;

/// How long a copy may be used after its original was last seen in effect.
const KEPT: Duration = Duration::from_secs(7 * 86_400);
/// In the names of copies. Unfinished copies begin with a dot.
pub(super) const MARK: &str = ".last-good.";

/// The copy of the file at this path, if it may be used.
pub(super) fn usable_copy(config: &Config, original: &Path, ending: &str) -> Option<PathBuf> {
    let copy = copy_of(&config.state, original, ending);
    let modified = fs::metadata(&copy).and_then(|meta| meta.modified()).ok()?;
    // A time in the future counts as now: a clock was wrong.
    let age = SystemTime::now().duration_since(modified);
    (age.unwrap_or_default() <= KEPT).then_some(copy)
}

/// The path of the copy of a file.
pub(super) fn copy_of(state: &Path, original: &Path, ending: &str) -> PathBuf {
    /// The stem is only for human readers; the number distinguishes the paths.
    const STEM_MAX: usize = 64;
    let stem = original.file_stem().unwrap_or_default().to_string_lossy();
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let stem: String = stem.chars().filter(is_plain).take(STEM_MAX).collect();
    let absolute = std::path::absolute(original).unwrap_or_else(|_| original.to_owned());
    let number = XxHash3_64::oneshot(absolute.as_os_str().as_encoded_bytes());
    state.join(format!("{stem}-{number:016x}{MARK}{ending}"))
}
