//! The digest of a text, computed while the text is read.
//!
//! It tells whether two parts of a list were made from the same piece. It finds mistakes,
//! but does not protect against forgery.

use std::io::{self, Read};
use std::sync::{Arc, OnceLock};

use twox_hash::XxHash3_128;
use twox_hash::xxhash3_128::Hasher;

/// The XXH3-128 of a text; set once the text was read to its end.
pub(crate) type Digest = Arc<OnceLock<u128>>;

/// A text whose digest is computed while it is read.
pub(crate) struct Digested<R> {
    text: R,
    hasher: Hasher,
    digest: Digest,
}

impl<R> Digested<R> {
    /// Returns the text, and the place where its digest will be.
    pub(crate) fn new(text: R) -> (Self, Digest) {
        let digest = Digest::default();
        let text = Self {
            text,
            hasher: Hasher::new(),
            digest: Arc::clone(&digest),
        };
        (text, digest)
    }
}

impl<R: Read> Read for Digested<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.text.read(buffer)?;
        if count == 0 && !buffer.is_empty() {
            self.digest.get_or_init(|| self.hasher.finish_128());
        } else {
            self.hasher.write(buffer.get(..count).unwrap_or_default());
        }
        Ok(count)
    }
}

/// Returns one digest of several texts in order; for a single text, the digest of that text.
pub(crate) fn digest_of_all(digests: &[u128]) -> u128 {
    if let [digest] = digests {
        return *digest;
    }
    let bytes: Vec<u8> = digests
        .iter()
        .flat_map(|digest| digest.to_le_bytes())
        .collect();
    XxHash3_128::oneshot(&bytes)
}
