//! The identity and state of the file at a path: a file that is replaced or written to has another
//! state.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Device, inode, size and change time (ctime) of the file at a path. The modification time is not
/// used, since a copy can take it over from the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileState {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl FileState {
    /// Returns the current state.
    ///
    /// # Errors
    /// When there is no file, or its metadata cannot be read.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let file = std::fs::metadata(path)?;
        Ok(Self {
            device: file.dev(),
            inode: file.ino(),
            size: file.size(),
            changed: (file.ctime(), file.ctime_nsec()),
        })
    }
}

/// Whether two paths lead to one file, also through links. A path that leads nowhere has no other.
pub(crate) fn is_same_file(one: &Path, other: &Path) -> bool {
    let id = |path: &Path| std::fs::metadata(path).map(|file| (file.dev(), file.ino()));
    matches!((id(one), id(other)), (Ok(one), Ok(other)) if one == other)
}
