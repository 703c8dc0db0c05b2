//! The key of an entry: all that a filter stores of its text.

use twox_hash::XxHash3_64;

/// 64 uniformly distributed bits, by which an entry is stored and looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Key(pub u64);

impl Key {
    /// Returns the key of an entry: XXH3-64 of its canonical text with the seed of the filter.
    #[inline]
    pub fn of(entry: &[u8], seed: u64) -> Self {
        Self(XxHash3_64::oneshot_with_seed(seed, entry))
    }
}
