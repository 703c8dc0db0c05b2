//! SHA-256: identifies a filter file, for those who cannot trust the source of their copy.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use sha2::{Digest as _, Sha256};

pub(super) const DIGEST_BYTES: usize = 32;

/// A SHA-256, shown as `sha256sum` shows it; `{:.16}` shows only the first 16 digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; DIGEST_BYTES]);

impl Digest {
    /// Returns the digest of bytes in memory.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Returns the digest of a whole file; `None` if `go_on`, which is called before each
    /// piece of 1 MiB, returns `false`.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn of_file(file: &File, mut go_on: impl FnMut() -> bool) -> io::Result<Option<Self>> {
        let mut sha = Sha256::new();
        let mut buffer = vec![0; 1 << 20];
        let mut at = 0;
        while go_on() {
            let count = match file.read_at(&mut buffer, at) {
                Ok(0) => return Ok(Some(Self(sha.finalize().into()))),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            sha.update(&buffer[..count]);
            at += count as u64;
        }
        Ok(None)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        f.pad(&digits)
    }
}
