//! The spill file: what does not fit into memory, in the folder of the output and without a name.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::compile::Error;

/// A file that is made when the first byte is written.
#[derive(Debug)]
pub(crate) struct Spill {
    path: PathBuf,
    file: Option<File>,
    length_bytes: u64,
}

impl Spill {
    /// The spill file of `/dir/spammers.blf`: `/dir/.spammers.blf.spill` and a random number.
    pub(crate) fn beside(output: &Path) -> Self {
        let mut hidden = OsString::from(".");
        hidden.push(output.file_name().unwrap_or_default());
        hidden.push(".spill");
        Self {
            path: output.with_file_name(hidden),
            file: None,
            length_bytes: 0,
        }
    }

    /// Its length.
    pub(crate) fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    /// Writes `bytes` at the end and empties them.
    ///
    /// # Errors
    /// When the file cannot be made or written.
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

    /// Writes over what is there.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn write_at(&self, bytes: &[u8], offset_bytes: u64) -> Result<(), Error> {
        self.file.iter().try_for_each(|file| {
            file.write_all_at(bytes, offset_bytes)
                .map_err(Error::io(&self.path, "write"))
        })
    }

    /// Fills `bytes` with what is there.
    ///
    /// # Errors
    /// When the file cannot be read, or ends before.
    pub(crate) fn read_at(&self, bytes: &mut [u8], offset_bytes: u64) -> Result<(), Error> {
        self.file.iter().try_for_each(|file| {
            file.read_exact_at(bytes, offset_bytes)
                .map_err(Error::io(&self.path, "read"))
        })
    }
}

/// Creates the file, under a name that nobody can foresee: `create_new` follows no link and
/// opens no file that is there. It loses its name as soon as it is open, so that the system
/// frees it however this process ends. A kill between the two calls leaves an empty file.
fn create(path: &Path) -> Result<File, Error> {
    let failed = Error::io(path, "create");
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    let made = getrandom::u64()
        .map_err(io::Error::other)
        .and_then(|random| {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".{random:016x}"));
            let file = options.open(&name)?;
            fs::remove_file(&name)?;
            Ok(file)
        });
    made.map_err(failed)
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
        symlink(&precious, folder.path().join(".a.blf.spill")).unwrap();
        let mut spill = Spill::beside(&folder.path().join("a.blf"));
        spill.append(&mut b"keys".to_vec()).unwrap();
        assert_eq!(fs::read(&precious).unwrap(), b"content");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
