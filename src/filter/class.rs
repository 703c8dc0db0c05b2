//! The data that records have in common: the entry's kind, its source and its dates. A
//! page stores each distinct class once.
//!
//! ```text
//!   u8 kind   u8 has expires   u32 source   u16 added   u16 expires
//! ```

use super::key::Key;
use super::record::Record;

/// Size of a class in a block.
pub(super) const CLASS_BYTES: usize = 10;

/// Checks that a record's kind is declared (`kinds` has one bit per kind), and that its
/// source is below `sources`.
pub(super) fn check_class(
    kind: u8,
    source: u32,
    kinds: u8,
    sources: usize,
) -> Result<(), &'static str> {
    let declared = u32::from(kinds).checked_shr(kind.into()).unwrap_or(0);
    if declared & 1 == 0 {
        return Err("a kind of entry that the header does not declare");
    }
    match (source as usize) < sources {
        true => Ok(()),
        false => Err("a source that is not there"),
    }
}

/// The data that records have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Class {
    pub(crate) kind: u8,
    pub(crate) source: u32,
    pub(crate) added: u16,
    pub(crate) expires: Option<u16>,
}

impl Class {
    pub(crate) fn of(record: &Record) -> Self {
        Self {
            kind: record.kind,
            source: record.source,
            added: record.added,
            expires: record.expires,
        }
    }

    pub(crate) fn record(self, key: Key) -> Record {
        Record {
            key,
            kind: self.kind,
            source: self.source,
            added: self.added,
            expires: self.expires,
        }
    }

    /// Distributes classes over a table of 2^`bits` slots; a weak hash is enough. The
    /// high bits of the product depend on all bits of the factor.
    pub(super) fn hash(self, bits: u32) -> usize {
        let dates = u64::from(self.added) << 16 | u64::from(self.expires.unwrap_or(0));
        let word = dates << 32 ^ u64::from(self.source) ^ u64::from(self.kind) << 24;
        usize::try_from(word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)).unwrap_or(0)
    }

    pub(super) fn encode(self) -> [u8; CLASS_BYTES] {
        let mut bytes = [0; CLASS_BYTES];
        bytes[0] = self.kind;
        bytes[1] = u8::from(self.expires.is_some());
        bytes[2..6].copy_from_slice(&self.source.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.added.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.expires.unwrap_or(0).to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; CLASS_BYTES]) -> Result<Self, &'static str> {
        let [kind, has_expires, s0, s1, s2, s3, a0, a1, e0, e1] = *bytes;
        let expires = u16::from_le_bytes([e0, e1]);
        Ok(Self {
            kind,
            source: u32::from_le_bytes([s0, s1, s2, s3]),
            added: u16::from_le_bytes([a0, a1]),
            expires: match (has_expires, expires) {
                (0, 0) => None,
                (1, day) => Some(day),
                _ => return Err("a class is malformed"),
            },
        })
    }
}

/// Returns the number of bits that distinguish this many classes.
pub(super) fn class_bits(classes: usize) -> u8 {
    let bits = usize::BITS - classes.saturating_sub(1).leading_zeros();
    u8::try_from(bits).unwrap_or(32)
}
