//! What is known of a key.

use super::key::Key;

/// A listed key with what is known of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Record {
    /// The key of the entry.
    pub key: Key,
    /// Kind of entry; below 8. The filter keeps it and gives it no meaning.
    pub kind: u8,
    /// Number of the source in the filter's list of sources.
    pub source: u32,
    /// Day it was added, in days since 1970.
    pub added: u16,
    /// First day it is no longer listed, in days since 1970.
    pub expires: Option<u16>,
}
