//! Which file is under a path, and in which state: one that is replaced or written to has another.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Device, inode, size and time of change of the file that a path leads to. Not the time of its content, which a
/// copy can take over from the file it was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileState {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl FileState {
    /// As it is now.
    ///
    /// # Errors
    /// There is no file, or it cannot be looked at.
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
