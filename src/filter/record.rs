//! The data about a key.

use super::key::Key;

/// A listed key with the data about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Record {
    /// The key of the entry.
    pub key: Key,
    /// Kind of entry, below 8. The filter stores it, but does not use it.
    pub kind: u8,
    /// Number of the source in the filter's list of sources.
    pub source: u32,
    /// The day on which it was added, in days since 1970.
    pub added: u16,
    /// The first day on which it is no longer listed, in days since 1970.
    pub expires: Option<u16>,
}
