//! The digest of a text, taken while it is read.
//!
//! It tells whether two parts of a list were made from the same piece, and says nothing to
//! anyone who wants to forge one: it finds mistakes.

use std::io::{self, Read};
use std::sync::{Arc, OnceLock};

use twox_hash::XxHash3_128;
use twox_hash::xxhash3_128::Hasher;

/// The XXH3-128 of a text; there once the text has been read to its end.
pub(crate) type Digest = Arc<OnceLock<u128>>;

/// A text whose digest is taken.
pub(crate) struct Digested<R> {
    text: R,
    hasher: Hasher,
    digest: Digest,
}

impl<R> Digested<R> {
    /// The text, and where its digest will be.
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

/// One digest of several texts in their order; that of a single text is its own.
pub(crate) fn joined(digests: &[u128]) -> u128 {
    if let [digest] = digests {
        return *digest;
    }
    let bytes: Vec<u8> = digests
        .iter()
        .flat_map(|digest| digest.to_le_bytes())
        .collect();
    XxHash3_128::oneshot(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_that_of_the_whole_text() {
        let text = b"spam@bad.example\n".repeat(1000);
        let (mut reader, digest) = Digested::new(text.as_slice());
        assert_eq!(digest.get(), None);
        let mut piece = [0; 77];
        while reader.read(&mut piece).unwrap() > 0 {}
        let whole = XxHash3_128::oneshot(&text);
        assert_eq!(digest.get(), Some(&whole));
        assert_eq!(joined(&[whole]), whole);
        assert_ne!(joined(&[whole, 1]), joined(&[1, whole]));
    }
}
