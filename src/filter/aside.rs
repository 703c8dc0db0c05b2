//! A file written aside: nobody ever sees half of it.
//!
//! Output `spam.blf` is written as `.spam.blf.writing` in the same folder, synced,
//! then renamed over the old file, and the folder is synced. Until the rename the
//! old file stands. The written file is locked (`flock`), so that two writers of
//! one output exclude each other. Dropping it unfinished removes it. A killed
//! process leaves it behind without a lock: the next writer takes it over and empties it.
//!
//! The new file has mode 0640 (who knows the seed can make addresses that collide),
//! or the mode, group and owner of the file it replaces.

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use super::error::Error;

/// Mode of a new file.
const MODE: u32 = 0o640;

/// A file in the making; see the module.
#[derive(Debug)]
pub struct Aside {
    file: File,
    written: PathBuf,
    target: PathBuf,
    committed: bool,
}

impl Aside {
    /// Claims an output. Do it before the work, so that a second compile of the
    /// same output, a missing folder or a wrong name shows at once.
    ///
    /// A symbolic link is followed: the file it points to is the one replaced.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] when another writer has it, [`Error::NotAFile`] for a folder or
    /// a device, [`Error::Io`] when the folder is missing or cannot be written.
    pub fn claim(path: &Path) -> Result<Self, Error> {
        let target = match fs::canonicalize(path) {
            Ok(target) => target,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // To replace the link would leave the place that it names without a filter.
                if path.is_symlink() {
                    return Err(Error::io(path, "follow this symbolic link")(error));
                }
                path.to_owned()
            }
            Err(error) => return Err(Error::io(path, "find the output")(error)),
        };
        let old = fs::metadata(&target).ok();
        let not_a_file = || Error::NotAFile {
            path: path.to_owned(),
        };
        let name = target.file_name().ok_or_else(not_a_file)?;
        if old.as_ref().is_some_and(|old| !old.is_file()) {
            return Err(not_a_file());
        }
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(".writing");
        let written = target.with_file_name(hidden);

        let file = lock(path, &written)?;
        let aside = Self {
            file,
            written,
            target,
            committed: false,
        };
        aside.take_over(old.as_ref())?;
        Ok(aside)
    }

    /// Empties what a killed writer left, and sets mode and owners.
    fn take_over(&self, old: Option<&fs::Metadata>) -> Result<(), Error> {
        let failed = |action| Error::io(&self.written, action);
        self.file
            .set_len(0)
            .map_err(failed("empty the file written aside"))?;
        let own = self.file.metadata().map_err(failed("read its owner"))?;
        let mode = old.map_or(MODE, |old| old.mode() & 0o777);
        if let Some(old) = old {
            if old.gid() != own.gid() {
                fchown(&self.file, None, Some(old.gid()))
                    .map_err(failed("give the new file the group of the old"))?;
            }
            if old.uid() != own.uid() && rustix::process::geteuid().is_root() {
                fchown(&self.file, Some(old.uid()), None)
                    .map_err(failed("give the new file the owner of the old"))?;
            }
        }
        self.file
            .set_permissions(Permissions::from_mode(mode))
            .map_err(failed("set its mode"))
    }

    /// The file to write to, at any position.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Where it is written, until it is renamed.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.written
    }

    /// The file it will become.
    #[must_use]
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Brings what was written to the disk.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the disk fails.
    pub fn sync(&self) -> Result<(), Error> {
        self.file
            .sync_all()
            .map_err(Error::io(&self.written, "bring it to the disk"))
    }

    /// Syncs, replaces the old file, and syncs the folder.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]; unless it is the folder's last sync that failed, the old file
    /// still stands.
    pub fn commit(mut self) -> Result<(), Error> {
        self.sync()?;
        fs::rename(&self.written, &self.target)
            .map_err(Error::io(&self.target, "replace it by the new file"))?;
        self.committed = true;
        let folder = match self.target.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(Error::io(folder, "bring the folder to the disk"))
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        if !self.committed {
            // Nobody is left to tell; the next writer would take it over.
            let _ = fs::remove_file(&self.written);
        }
    }
}

/// Opens and locks the file written aside.
fn lock(path: &Path, written: &Path) -> Result<File, Error> {
    loop {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(MODE)
            .custom_flags(i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0))
            .open(written)
            .map_err(|error| match written.parent() {
                // Nobody knows the hidden file by name.
                Some(folder) if written.symlink_metadata().is_err() => {
                    let folder = Some(folder).filter(|folder| !folder.as_os_str().is_empty());
                    let folder = folder.unwrap_or_else(|| Path::new("."));
                    Error::io(folder, "make a file in this folder")(error)
                }
                _ => Error::io(written, "write")(error),
            })?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Busy {
                    path: path.to_owned(),
                });
            }
            Err(TryLockError::Error(error)) => return Err(Error::io(written, "lock")(error)),
        }
        // Between our open and our lock its writer may have renamed or removed it:
        // then what we hold is the finished file, and not ours to empty.
        let held = file.metadata().map_err(Error::io(written, "read"))?;
        if !held.is_file() {
            return Err(Error::NotAFile {
                path: written.to_owned(),
            });
        }
        match fs::symlink_metadata(written) {
            Ok(named) if (named.dev(), named.ino()) == (held.dev(), held.ino()) => return Ok(file),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io(written, "read")(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_old_file_stands_until_commit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.blf");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o604)).unwrap();
        let aside = Aside::claim(&path).unwrap();
        aside.file().write_all_at(b"new", 0).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        aside.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o604);
        assert_eq!(names(folder.path()), ["a.blf"]);
    }

    #[test]
    fn two_writers_exclude_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.blf");
        let first = Aside::claim(&path).unwrap();
        assert!(matches!(Aside::claim(&path), Err(Error::Busy { .. })));
        assert!(first.path().exists());
        drop(first);
        assert!(names(folder.path()).is_empty());
        Aside::claim(&path).unwrap();
    }

    #[test]
    fn leftovers_are_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.blf");
        fs::write(
            folder.path().join(".a.blf.writing"),
            "from a killed process",
        )
        .unwrap();
        let aside = Aside::claim(&path).unwrap();
        assert_eq!(aside.file().metadata().unwrap().len(), 0);
        aside.commit().unwrap();
        assert_eq!(names(folder.path()), ["a.blf"]);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, MODE);
    }

    #[test]
    fn links_are_followed_and_never_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().join("real.blf");
        let link = folder.path().join("link.blf");
        fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        Aside::claim(&link).unwrap().commit().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&real).unwrap(), b"");

        fs::remove_file(&real).unwrap();
        let nowhere = Aside::claim(&link).unwrap_err().to_string();
        assert!(nowhere.contains("link.blf: cannot follow"), "{nowhere}");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());

        std::os::unix::fs::symlink(&real, folder.path().join(".b.blf.writing")).unwrap();
        assert!(Aside::claim(&folder.path().join("b.blf")).is_err());
    }

    #[test]
    fn folders_and_devices_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path(), Path::new("/dev/null"), Path::new("/")] {
            assert!(
                matches!(Aside::claim(path), Err(Error::NotAFile { .. })),
                "{path:?}"
            );
        }
        let missing = folder.path().join("missing/a.blf");
        assert!(matches!(Aside::claim(&missing), Err(Error::Io { .. })));
    }
}
