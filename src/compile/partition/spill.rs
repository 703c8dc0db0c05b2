//! The spill file: what does not fit into memory goes to a file without a name, in the folder of
//! the output.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::base::path::{beside, folder_of};
use crate::compile::error::Error;

/// A file that is created when the first byte is written.
#[derive(Debug)]
pub(crate) struct Spill {
    path: PathBuf,
    file: Option<File>,
    length_bytes: u64,
}

impl Spill {
    /// Returns the spill file of `/dir/spammers.blf`: `/dir/.spammers.blf.spill` with a random
    /// number.
    pub(crate) fn beside(output: &Path) -> Self {
        Self {
            path: beside(output, ".spill"),
            file: None,
            length_bytes: 0,
        }
    }

    /// Returns its length.
    pub(crate) fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    /// Appends `bytes` to the file, and clears them.
    pub(crate) fn append(&mut self, bytes: &mut Vec<u8>) -> Result<(), Error> {
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(create(&self.path)?),
        };
        file.write_all_at(bytes, self.length_bytes)
            .map_err(Error::io(&self.path, "write"))?;
        self.length_bytes += bytes.len() as u64;
        bytes.clear();
        Ok(())
    }

    /// Overwrites a part of the file.
    pub(crate) fn write_at(&self, bytes: &[u8], offset_bytes: u64) -> Result<(), Error> {
        self.file.iter().try_for_each(|file| {
            file.write_all_at(bytes, offset_bytes)
                .map_err(Error::io(&self.path, "write"))
        })
    }

    /// Fills `bytes` from the file.
    pub(crate) fn read_at(&self, bytes: &mut [u8], offset_bytes: u64) -> Result<(), Error> {
        self.file.iter().try_for_each(|file| {
            file.read_exact_at(bytes, offset_bytes)
                .map_err(Error::io(&self.path, "read"))
        })
    }
}

/// Creates the file without a name, so that the system frees it however this process ends.
fn create(path: &Path) -> Result<File, Error> {
    let mut options = options();
    #[allow(clippy::cast_possible_wrap, reason = "low bits")]
    options.custom_flags(OFlags::TMPFILE.bits() as i32);
    // Not every file system supports this; any other error also occurs in the second attempt.
    match options.open(folder_of(path)) {
        Ok(file) => Ok(file),
        Err(_) => create_named(path).map_err(Error::io(path, "create")),
    }
}

/// Creates the file under an unpredictable name: `create_new` follows no link and opens no existing
/// file. The name is removed as soon as the file is open. A kill between the two calls leaves an
/// empty file.
fn create_named(path: &Path) -> io::Result<File> {
    let random = getrandom::u64().map_err(io::Error::other)?;
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{random:016x}"));
    let file = options().create_new(true).open(&name)?;
    fs::remove_file(&name)?;
    Ok(file)
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_spill_file_follows_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let precious = folder.path().join("precious");
        fs::write(&precious, "content").unwrap();
        let path = folder.path().join(".a.blf.spill");
        symlink(&precious, &path).unwrap();
        let mut spill = Spill::beside(&folder.path().join("a.blf"));
        spill.append(&mut b"keys".to_vec()).unwrap();
        create_named(&path)
            .unwrap()
            .write_all_at(b"keys", 0)
            .unwrap();
        assert_eq!(fs::read(&precious).unwrap(), b"content");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    /// Without `TMPFILE`, a kill can leave an empty file, which no later build removes.
    #[test]
    fn the_spill_file_never_has_a_name() {
        use std::os::fd::AsRawFd;

        let folder = tempfile::tempdir().unwrap();
        let mode = rustix::fs::Mode::RUSR;
        if rustix::fs::open(folder.path(), OFlags::TMPFILE | OFlags::RDWR, mode).is_err() {
            println!("left out: this file system gives every file a name");
            return;
        }
        let file = create(&folder.path().join(".a.blf.spill")).unwrap();
        let named = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
        assert!(!named.to_string_lossy().contains("spill"), "{named:?}");
    }
}
