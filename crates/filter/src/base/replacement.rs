//! A temporary file that replaces the old one when it is complete: nobody ever sees half of it.
//!
//! Output `spam.blf` is written as `.spam.blf.writing` in the same folder, synced, then renamed
//! over the old file, and the folder is synced. The old file stays until the rename. The temporary
//! file is locked (`flock`), so that two writers of one output exclude each other. Dropping an
//! unfinished replacement removes it. A killed process leaves it behind without a lock, and the
//! next writer removes it.
//!
//! The new file has mode 0640 (a reader who knows the seed can make addresses that collide), or the
//! mode, group and owner of the file it replaces. If root writes the first one, it gets the owner
//! and group of its folder, because the daemon reads it as another user and the service replaces
//! it.

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::path::{beside, folder_of, if_exists};

/// Why a file could not be read or replaced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system reported an error.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was being done, in words that follow "cannot".
        action: &'static str,
        /// The operating system's reason.
        source: io::Error,
    },
    /// Another process writes the same output.
    #[error("{}: another process is writing this file; wait until it has finished", .0.display())]
    Busy(PathBuf),
    /// It is not a regular file.
    #[error("{}: not a regular file", .0.display())]
    NotAFile(PathBuf),
}

impl Error {
    /// Returns a function for `map_err` that adds what was being done, and with which path.
    pub fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            path: path.to_owned(),
            action,
            source,
        }
    }
}

const MODE: u32 = 0o640;
const OWN_MODE: u32 = 0o600;
const TEXT_MODE: u32 = 0o644;
const OTHERS_WRITE: u32 = 0o002;

/// A file that will replace another; see the module.
#[derive(Debug)]
pub struct Replacement {
    file: File,
    written: PathBuf,
    target: PathBuf,
    is_new: bool,
    committed: bool,
}

impl Replacement {
    /// Claims an output. Call it before the work, so that a second compilation of the same output,
    /// a missing folder or a wrong name is noticed at once.
    ///
    /// A symbolic link is followed: the file it points to is the one replaced.
    ///
    /// # Errors
    /// [`Error::Busy`] when another writer has it, [`Error::NotAFile`] for a folder or
    /// a device, [`Error::Io`] when the folder is missing or cannot be written.
    pub fn claim(path: &Path) -> Result<Self, Error> {
        let (replacement, old) = Self::begin(path)?;
        replacement.make_like(old.as_ref())?;
        Ok(replacement)
    }

    /// Does the same for a file that nobody else needs to read: it keeps the mode with which it was
    /// created, at most 0600, and belongs to its writer. Makes no system call about modes and
    /// owners.
    pub fn claim_as_created(path: &Path) -> Result<Self, Error> {
        Ok(Self::begin(path)?.0)
    }

    fn begin(path: &Path) -> Result<(Self, Option<fs::Metadata>), Error> {
        let failed = |action| Error::io(path, action);
        let target = if_exists(fs::canonicalize(path)).map_err(failed("find the output"))?;
        let target = match target {
            Some(target) => target,
            // Replacing the link would leave its target without a filter.
            None if path.is_symlink() => {
                let missing = io::Error::from(Errno::NOENT);
                return Err(failed("follow this symbolic link")(missing));
            }
            None => path.to_owned(),
        };
        // If another error were taken for a missing file, an existing one would lose its mode or its content.
        let old = if_exists(fs::metadata(&target)).map_err(failed("find the output"))?;
        if target.file_name().is_none() || old.as_ref().is_some_and(|old| !old.is_file()) {
            return Err(Error::NotAFile(path.to_owned()));
        }
        let written = beside(&target, ".writing");
        let file = lock(path, &written)?;
        let replacement = Self {
            file,
            written,
            target,
            is_new: old.is_none(),
            committed: false,
        };
        Ok((replacement, old))
    }

    fn make_like(&self, old: Option<&fs::Metadata>) -> Result<(), Error> {
        let failed = |action| Error::io(&self.written, action);
        let own = self.file.metadata().map_err(failed("read its owner"))?;
        let mode = old.map_or(MODE, |old| old.mode() & 0o777);
        let is_root = rustix::process::geteuid().is_root();
        let folder = match old {
            None if is_root => {
                Some(fs::metadata(folder_of(&self.target)).map_err(failed("find its folder"))?)
            }
            None | Some(_) => None,
        };
        // The owner of a folder that all users share, such as /tmp, has nothing to do with the
        // file.
        let folder = folder.filter(|folder| folder.mode() & OTHERS_WRITE == 0);
        if let Some(model) = old.or(folder.as_ref()) {
            if model.gid() != own.gid() {
                fchown(&self.file, None, Some(model.gid())).map_err(failed("set its group"))?;
            }
            if model.uid() != own.uid() && is_root {
                fchown(&self.file, Some(model.uid()), None).map_err(failed("set its owner"))?;
            }
        }
        self.file
            .set_permissions(Permissions::from_mode(mode))
            .map_err(failed("set its mode"))
    }

    /// Takes a complete file of the same folder in place of the one to write to: what a download has collected
    /// over several runs. It gets the lock, the mode and the owner, and loses its name; after an error both files stay.
    pub fn take(&mut self, complete: &Path) -> Result<(), Error> {
        let failed = |action| Error::io(complete, action);
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(LEFTOVER_FLAGS);
        let file = options.open(complete).map_err(failed("open"))?;
        if !is_locked(&file, complete)? {
            return Err(Error::Busy(complete.to_owned()));
        }
        let claimed = self.file.metadata().map_err(failed("read its owner"))?;
        let old = std::mem::replace(&mut self.file, file);
        self.make_like(Some(&claimed))?;
        fs::rename(complete, &self.written).map_err(failed("rename"))?;
        drop(old);
        Ok(())
    }

    /// Returns the file to write to, at any position.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the path of the temporary file, which exists until it is renamed.
    pub fn path(&self) -> &Path {
        &self.written
    }

    /// Returns the path of the file that will be replaced.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Returns whether there was no file when it was claimed.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Syncs the written data to disk.
    pub fn sync(&self) -> Result<(), Error> {
        self.file
            .sync_all()
            .map_err(Error::io(&self.written, "sync it to disk"))
    }

    /// Writes the whole new file, and replaces the old one.
    pub fn commit_with(self, content: &[u8]) -> Result<(), Error> {
        let written = (&self.file).write_all(content);
        written.map_err(Error::io(&self.target, "write"))?;
        self.commit()
    }

    /// Syncs the file, replaces the old file, and syncs the folder.
    ///
    /// # Errors
    /// [`Error::Io`]; the old file then stays, unless only the last sync of the folder has failed.
    pub fn commit(mut self) -> Result<(), Error> {
        self.sync()?;
        fs::rename(&self.written, &self.target)
            .map_err(Error::io(&self.target, "replace it with the new file"))?;
        self.committed = true;
        let folder = folder_of(&self.target);
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(Error::io(folder, "sync the folder to disk"))
    }

    /// Writes a text and puts it in place. If it is new, all users may read it: unlike a filter it
    /// contains no seed, and the service reads it as another user than the one who writes it.
    pub fn commit_text(self, text: &[u8]) -> Result<(), Error> {
        if self.is_new {
            let mode = Permissions::from_mode(TEXT_MODE);
            let set = self.file.set_permissions(mode);
            set.map_err(Error::io(&self.target, "set its mode"))?;
        }
        self.commit_with(text)
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.committed {
            // This error cannot be reported; the next writer removes the file.
            let _ = fs::remove_file(&self.written);
        }
    }
}

/// Creates and locks the temporary file. It is always a new file: what exists under its name may be
/// a link, or a file that others have open or may read. A regular file without a lock was left by a
/// killed writer, and is removed.
fn lock(path: &Path, written: &Path) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create_new(true)
        .mode(OWN_MODE);
    loop {
        match options.open(written) {
            // For a moment the file has no lock, and another writer may take it for a leftover.
            Ok(file) => {
                let is_locked = is_locked(&file, written);
                return match is_locked.and_then(|is| Ok(is && is_named(&file, written)?)) {
                    Ok(true) => Ok(file),
                    Ok(false) => Err(Error::Busy(path.to_owned())),
                    Err(error) => {
                        // The file is ours: where locks fail, nobody takes it over.
                        let _ = fs::remove_file(written);
                        Err(error)
                    }
                };
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            // The user does not know the name of the temporary file.
            Err(error) => {
                return Err(Error::io(
                    folder_of(written),
                    "create a file in this folder",
                )(error));
            }
        }
        let leftover = OpenOptions::new()
            .read(true)
            .custom_flags(LEFTOVER_FLAGS)
            .open(written);
        let Some(leftover) = if_exists(leftover).map_err(Error::io(written, "write"))? else {
            continue;
        };
        let is_file = leftover.metadata().map(|meta| meta.is_file());
        if !is_file.map_err(Error::io(written, "read"))? {
            return Err(Error::NotAFile(written.to_owned()));
        }
        if !is_locked(&leftover, written)? {
            return Err(Error::Busy(path.to_owned()));
        }
        // Between our open and our lock, its writer may have renamed or removed it.
        if is_named(&leftover, written)? {
            fs::remove_file(written).map_err(Error::io(written, "remove"))?;
        }
    }
}

fn is_locked(file: &File, path: &Path) -> Result<bool, Error> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(Error::io(path, "lock")(error)),
    }
}

/// Follows no link, and does not wait for the writer of a FIFO.
const LEFTOVER_FLAGS: i32 = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits() as i32;

fn is_named(file: &File, name: &Path) -> Result<bool, Error> {
    let held = file.metadata().map_err(Error::io(name, "read"))?;
    let named = if_exists(fs::symlink_metadata(name)).map_err(Error::io(name, "read"))?;
    Ok(named.is_some_and(|named| (named.dev(), named.ino()) == (held.dev(), held.ino())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_root_writes_first_belongs_to_the_owner_of_the_folder() {
        if !rustix::process::geteuid().is_root() {
            println!("left out: only root gives files away");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let owners = |path: &Path| {
            fs::metadata(path)
                .map(|meta| (meta.uid(), meta.gid()))
                .unwrap()
        };
        let write = |name| {
            let path = folder.path().join(name);
            Replacement::claim(&path).unwrap().commit().unwrap();
            owners(&path)
        };
        std::os::unix::fs::chown(folder.path(), Some(54_321), Some(54_322)).unwrap();
        assert_eq!(write("a.blf"), (54_321, 54_322));
        fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
        assert_eq!(write("b.blf"), (0, rustix::process::getegid().as_raw()));
        // An existing file keeps its owner.
        assert_eq!(write("a.blf"), (54_321, 54_322));
    }

    #[test]
    fn what_has_the_name_of_the_temporary_file_is_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let [path, leftover, other_name] =
            ["a.blf", ".a.blf.writing", "precious"].map(|name| folder.path().join(name));
        fs::write(&leftover, "from a killed process").unwrap();
        fs::hard_link(&leftover, &other_name).unwrap();
        Replacement::claim(&path).unwrap().commit().unwrap();
        assert_eq!(fs::read(&other_name).unwrap(), b"from a killed process");
        assert_eq!(fs::read(&path).unwrap(), b"");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, MODE);
    }
}
