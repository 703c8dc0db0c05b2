//! What is staged, sorted and merged: a key and the data about its entry, packed.
//!
//! Keys are distributed to [`STAGES`] stages by their top [`STAGE_BITS`] bits. Inside a stage
//! these bits are the same for all keys, so a packed key need not hold them:
//!
//! ```text
//! Narrow   8 bytes   63          12 11      2 1  0
//!                    | key, low 52 | source  |kind|      dates: those of the whole build
//! Wide    16 bytes   | key, 64 | kind and source, 32 | added, 16 | expires, 16 |
//! ```
//!
//! `Narrow` is enough for every build whose lists have no dates of their own, and halves the data
//! to be moved, sorted and perhaps spilled.

use blocklist_filter::filter::{Class, Dates, Key};

/// Number of top bits of a key that number its stage.
pub(crate) const STAGE_BITS: u32 = 12;
pub(crate) const STAGES: usize = 1 << STAGE_BITS;
pub(crate) const NARROW_SOURCES: u32 = 1 << (STAGE_BITS - KIND_BITS);

const KIND_BITS: u32 = 2;
const KIND_MASK: u32 = (1 << KIND_BITS) - 1;

pub(crate) trait StagedKey: Copy + Default + Send + Sync + 'static {
    const BYTES: usize;
    /// Whether staged keys keep dates of their own.
    const KEEPS_DATES: bool;
    /// Packs a key and its class; the caller must remember the stage of `key`.
    fn new(key: Key, class: Class) -> Self;
    /// Returns the number by which the keys of a stage are sorted. Uniform in its upper bits.
    fn order(self) -> u64;
    /// Returns whether two staged keys of one stage have the same key.
    fn same_key(self, other: Self) -> bool;
    fn key(self, stage: usize) -> Key;
    /// Returns the class. `dates` are used if the staged key keeps none.
    fn class(self, dates: Dates) -> Class;
    /// Returns the bits in which the classes of two staged keys differ.
    fn difference(self, other: Self) -> u64;
    fn merge(self, other: Self) -> Self;
    type Bytes: AsRef<[u8]>;
    fn bytes(self) -> Self::Bytes;
    /// Writes the bytes of `keys` to `bytes`, which has exactly their size.
    fn store(keys: impl Iterator<Item = Self>, bytes: &mut [u8]) {
        for (word, key) in bytes.chunks_exact_mut(Self::BYTES).zip(keys) {
            word.copy_from_slice(key.bytes().as_ref());
        }
    }
    fn load(bytes: &[u8], keys: &mut Vec<Self>);
}

#[allow(clippy::cast_possible_truncation, reason = "the value has 12 bits")]
pub(crate) fn stage_of(key: Key) -> usize {
    (key.0 >> (64 - STAGE_BITS)) as usize
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Narrow(u64);

impl StagedKey for Narrow {
    const BYTES: usize = 8;
    const KEEPS_DATES: bool = false;

    fn new(key: Key, class: Class) -> Self {
        debug_assert!(class.source < NARROW_SOURCES);
        Self(key.0 << STAGE_BITS | u64::from(origin_bits(class)))
    }

    fn order(self) -> u64 {
        self.0
    }

    fn same_key(self, other: Self) -> bool {
        (self.0 ^ other.0) >> STAGE_BITS == 0
    }

    #[inline]
    fn key(self, stage: usize) -> Key {
        Key((stage as u64) << (64 - STAGE_BITS) | self.0 >> STAGE_BITS)
    }

    #[allow(clippy::cast_possible_truncation, reason = "masked to 12 bits")]
    fn class(self, dates: Dates) -> Class {
        class_of((self.0 & (STAGES as u64 - 1)) as u32, dates)
    }

    fn merge(self, other: Self) -> Self {
        self.min(other)
    }

    #[inline]
    fn difference(self, other: Self) -> u64 {
        (self.0 ^ other.0) << (64 - STAGE_BITS)
    }

    type Bytes = [u8; 8];

    #[inline]
    fn bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }

    fn load(bytes: &[u8], keys: &mut Vec<Self>) {
        let words = bytes.as_chunks().0.iter();
        keys.extend(words.map(|word| Self(u64::from_le_bytes(*word))));
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wide(u128);

/// No expiry. The same number as a day would be in 2149, and would also mean "never".
const NEVER: u16 = u16::MAX;

#[allow(
    clippy::cast_possible_truncation,
    reason = "each field is cut out of the packed word"
)]
impl StagedKey for Wide {
    const BYTES: usize = 16;
    const KEEPS_DATES: bool = true;

    fn new(key: Key, class: Class) -> Self {
        let Dates { added, expires } = class.dates;
        let dates = u32::from(added) << 16 | u32::from(expires.unwrap_or(NEVER));
        let rest = u64::from(origin_bits(class)) << 32 | u64::from(dates);
        Self(u128::from(key.0) << 64 | u128::from(rest))
    }

    fn order(self) -> u64 {
        ((self.0 >> 64) as u64) << STAGE_BITS
    }

    fn same_key(self, other: Self) -> bool {
        (self.0 ^ other.0) >> 64 == 0
    }

    #[inline]
    fn key(self, _stage: usize) -> Key {
        Key((self.0 >> 64) as u64)
    }

    fn class(self, _dates: Dates) -> Class {
        let expires = self.0 as u16;
        let dates = Dates {
            added: (self.0 >> 16) as u16,
            expires: (expires != NEVER).then_some(expires),
        };
        class_of((self.0 >> 32) as u32, dates)
    }

    fn merge(self, other: Self) -> Self {
        let dates = Dates::default();
        Self::new(self.key(0), self.class(dates).merge(other.class(dates)))
    }

    #[inline]
    fn difference(self, other: Self) -> u64 {
        (self.0 ^ other.0) as u64
    }

    type Bytes = [u8; 16];

    #[inline]
    fn bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    fn load(bytes: &[u8], keys: &mut Vec<Self>) {
        let words = bytes.as_chunks().0.iter();
        keys.extend(words.map(|word| Self(u128::from_le_bytes(*word))));
    }
}

fn origin_bits(class: Class) -> u32 {
    class.source << KIND_BITS | u32::from(class.kind) & KIND_MASK
}

#[allow(clippy::cast_possible_truncation, reason = "masked to 2 bits")]
fn class_of(origin: u32, dates: Dates) -> Class {
    Class {
        kind: (origin & KIND_MASK) as u8,
        source: origin >> KIND_BITS,
        dates,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATES: Dates = Dates {
        added: 20_000,
        expires: Some(20_100),
    };

    fn class(kind: u8, source: u32) -> Class {
        Class {
            kind,
            source,
            dates: DATES,
        }
    }

    fn survives<I: StagedKey>(key: Key, source: u32) {
        let staged = I::new(key, class(2, source));
        let mut bytes = vec![0; I::BYTES];
        I::store([staged].into_iter(), &mut bytes);
        assert_eq!(bytes, staged.bytes().as_ref());
        let mut back = Vec::new();
        I::load(&bytes, &mut back);
        assert_eq!(back[0].key(stage_of(key)), key);
        assert_eq!(back[0].class(DATES), class(2, source));
        let classes = [(1, 7), (3, 7), (1, source), (3, source)];
        for of_other in classes.map(|(kind, source)| class(kind, source)) {
            let other = I::new(key, of_other);
            assert!(other.difference(staged) != 0 && staged.difference(staged) == 0);
            let merged = of_other.merge(class(2, source));
            for both in [staged.merge(other), other.merge(staged)] {
                assert_eq!((both.key(stage_of(key)), both.class(DATES)), (key, merged));
            }
        }
    }

    #[test]
    fn packing_loses_nothing() {
        for key in [0, 1, u64::MAX, 0xFEDC_BA98_7654_3210].map(Key) {
            survives::<Narrow>(key, NARROW_SOURCES - 1);
            survives::<Wide>(key, NARROW_SOURCES + 7);
        }
    }
}
