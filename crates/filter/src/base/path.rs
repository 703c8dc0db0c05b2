//! What is at a path: a file, another one, or none.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Returns the folder of a file.
pub fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Returns the path of a hidden file beside a file: `.NAME` and an ending.
pub fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(file.file_name().unwrap_or_default());
    name.push(ending);
    file.with_file_name(name)
}

/// Returns `None` if a file is missing. Any other error must not be taken for that.
pub fn if_exists<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// Returns whether there is certainly no file at this path, or none at the target of its link.
/// [`Path::exists`] would also return false if the disk cannot be read.
pub fn is_missing(path: &Path) -> bool {
    matches!(if_exists(fs::metadata(path)), Ok(None))
}

/// Whether two paths lead to one file, also through links. A path that leads nowhere has no other.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    let id = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino()));
    matches!((id(one), id(other)), (Ok(one), Ok(other)) if one == other)
}
