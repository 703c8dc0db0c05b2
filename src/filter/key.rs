//! The key of an entry: all that a filter knows of its text.

use twox_hash::XxHash3_64;

/// 64 bits, evenly spread, in which an entry is filed and looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Key(pub u64);

impl Key {
    /// The key of an entry: XXH3-64 of its canonical text under the seed of the filter.
    #[must_use]
    #[inline]
    pub fn of(entry: &[u8], seed: u64) -> Self {
        Self(XxHash3_64::oneshot_with_seed(seed, entry))
    }
}
