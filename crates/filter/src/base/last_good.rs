//! Where the daemon keeps the copy of a file that is in effect.

use std::path::{Path, PathBuf};

use twox_hash::XxHash3_64;

/// In the names of copies. Unfinished copies begin with a dot.
pub const MARK: &str = ".last-good.";

/// The path of the copy of a file.
pub fn copy_of(state: &Path, original: &Path, ending: &str) -> PathBuf {
    /// The stem is only for human readers; the number distinguishes the paths.
    const STEM_MAX: usize = 64;
    let stem = original.file_stem().unwrap_or_default().to_string_lossy();
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let stem: String = stem.chars().filter(is_plain).take(STEM_MAX).collect();
    let absolute = std::path::absolute(original).unwrap_or_else(|_| original.to_owned());
    let number = XxHash3_64::oneshot(absolute.as_os_str().as_encoded_bytes());
    state.join(format!("{stem}-{number:016x}{MARK}{ending}"))
}
