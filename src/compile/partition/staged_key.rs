//! What is staged, sorted and joined: a key and the data about its entry, packed.
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
//!
//! Duplicates are joined by rules that do not depend on their order, so the same lists give the
//! same bytes in any order: the lowest source, the earliest day added, the latest expiry. No
//! expiry counts as the latest of all.

use crate::filter::{Key, Record};

/// Number of top bits of a key that number its stage.
pub(crate) const STAGE_BITS: u32 = 12;
/// Number of stages of a build.
pub(crate) const STAGES: usize = 1 << STAGE_BITS;
/// Number of sources that fit into a [`Narrow`] key.
pub(crate) const NARROW_SOURCES: u32 = 1 << (STAGE_BITS - KIND_BITS);

const KIND_BITS: u32 = 2;
const KIND_MASK: u32 = (1 << KIND_BITS) - 1;

/// The data about an entry, in addition to its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tag {
    /// `Kind` as a number, 0 to 3.
    pub(crate) kind: u8,
    /// Number of the list that it came from.
    pub(crate) source: u32,
    /// The dates; a [`Narrow`] key does not keep them.
    pub(crate) dates: Dates,
}

/// Days since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dates {
    /// The day on which it was first listed.
    pub(crate) added: u16,
    /// The first day on which it is no longer listed.
    pub(crate) expires: Option<u16>,
}

/// A packed key with its tag.
pub(crate) trait StagedKey: Copy + Default + Send + Sync + 'static {
    /// Size in memory and in a spill file, in bytes.
    const BYTES: usize;
    /// Whether staged keys keep dates of their own.
    const KEEPS_DATES: bool;
    /// Packs a key and its tag; the caller must remember the stage of `key`.
    fn new(key: Key, tag: Tag) -> Self;
    /// Returns the number by which the keys of a stage are sorted. Uniform in its upper bits.
    fn order(self) -> u64;
    /// Returns whether two staged keys of one stage have the same key.
    fn same_key(self, other: Self) -> bool;
    /// Joins two staged keys with the same key, regardless of their order.
    fn join(self, other: Self) -> Self;
    /// Returns the kind and the source.
    fn origin(self) -> (u8, u32);
    /// Returns the key itself.
    fn key(self, stage: usize) -> Key;
    /// Returns the bits in which the tags of two staged keys differ; 0 if they differ only in
    /// their keys.
    fn tag_difference(self, other: Self) -> u64;
    /// Unpacks. `dates` are used if the staged key keeps none.
    fn record(self, stage: usize, dates: Dates) -> Record;
    /// The type of its bytes.
    type Bytes: AsRef<[u8]>;
    /// Returns its bytes.
    fn bytes(self) -> Self::Bytes;
    /// Writes the bytes of `keys` to `bytes`, which has exactly their size.
    fn store(keys: impl Iterator<Item = Self>, bytes: &mut [u8]);
    /// Appends the staged keys in `bytes`.
    fn load(bytes: &[u8], keys: &mut Vec<Self>);
}

/// Returns whether staged keys differ only in their keys. Reads all of them, without a branch for
/// each.
pub(crate) fn are_alike<I: StagedKey>(keys: &[I]) -> bool {
    keys.first().is_none_or(|first| {
        let difference = |all, key: &I| all | key.tag_difference(*first);
        keys.iter().fold(0, difference) == 0
    })
}

/// Returns the stage of a key.
#[allow(clippy::cast_possible_truncation, reason = "the value has 12 bits")]
pub(crate) fn stage_of(key: Key) -> usize {
    (key.0 >> (64 - STAGE_BITS)) as usize
}

/// Eight bytes; see the top of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Narrow(u64);

impl StagedKey for Narrow {
    const BYTES: usize = 8;
    const KEEPS_DATES: bool = false;

    fn new(key: Key, tag: Tag) -> Self {
        debug_assert!(tag.source < NARROW_SOURCES);
        Self(key.0 << STAGE_BITS | u64::from(origin_bits(tag)))
    }

    fn order(self) -> u64 {
        self.0
    }

    fn same_key(self, other: Self) -> bool {
        (self.0 ^ other.0) >> STAGE_BITS == 0
    }

    fn join(self, other: Self) -> Self {
        self.min(other)
    }

    #[allow(clippy::cast_possible_truncation, reason = "masked to 12 bits")]
    fn origin(self) -> (u8, u32) {
        origin_of((self.0 & (STAGES as u64 - 1)) as u32)
    }

    #[inline]
    fn key(self, stage: usize) -> Key {
        Key((stage as u64) << (64 - STAGE_BITS) | self.0 >> STAGE_BITS)
    }

    #[inline]
    fn tag_difference(self, other: Self) -> u64 {
        (self.0 ^ other.0) << (64 - STAGE_BITS)
    }

    fn record(self, stage: usize, dates: Dates) -> Record {
        let (kind, source) = self.origin();
        Record {
            key: self.key(stage),
            kind,
            source,
            added: dates.added,
            expires: dates.expires,
        }
    }

    type Bytes = [u8; 8];

    #[inline]
    fn bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }

    fn store(keys: impl Iterator<Item = Self>, bytes: &mut [u8]) {
        for (word, key) in bytes.as_chunks_mut().0.iter_mut().zip(keys) {
            *word = key.bytes();
        }
    }

    fn load(bytes: &[u8], keys: &mut Vec<Self>) {
        keys.extend(
            bytes
                .as_chunks()
                .0
                .iter()
                .map(|word| Self(u64::from_le_bytes(*word))),
        );
    }
}

/// Sixteen bytes; see the top of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wide {
    key: Key,
    /// The source in the upper bits, the kind in the two lowest.
    origin: u32,
    added: u16,
    /// [`NEVER`] for no expiry, so that the latest is the greatest.
    expires: u16,
}

/// No expiry. The same number as a day would be in 2149, and would also mean "never".
const NEVER: u16 = u16::MAX;

impl StagedKey for Wide {
    const BYTES: usize = 16;
    const KEEPS_DATES: bool = true;

    fn new(key: Key, tag: Tag) -> Self {
        let Dates { added, expires } = tag.dates;
        Self {
            key,
            origin: origin_bits(tag),
            added,
            expires: expires.unwrap_or(NEVER),
        }
    }

    fn order(self) -> u64 {
        self.key.0 << STAGE_BITS
    }

    fn same_key(self, other: Self) -> bool {
        self.key == other.key
    }

    fn join(self, other: Self) -> Self {
        Self {
            key: self.key,
            origin: self.origin.min(other.origin),
            added: self.added.min(other.added),
            expires: self.expires.max(other.expires),
        }
    }

    fn origin(self) -> (u8, u32) {
        origin_of(self.origin)
    }

    #[inline]
    fn key(self, _stage: usize) -> Key {
        self.key
    }

    #[inline]
    fn tag_difference(self, other: Self) -> u64 {
        let dates = (self.added ^ other.added) | (self.expires ^ other.expires);
        u64::from(self.origin ^ other.origin) | u64::from(dates)
    }

    fn record(self, _stage: usize, _dates: Dates) -> Record {
        let (kind, source) = self.origin();
        let expires = (self.expires != NEVER).then_some(self.expires);
        Record {
            key: self.key,
            kind,
            source,
            added: self.added,
            expires,
        }
    }

    type Bytes = [u8; 16];

    #[inline]
    fn bytes(self) -> [u8; 16] {
        let rest =
            u64::from(self.origin) << 32 | u64::from(self.added) << 16 | u64::from(self.expires);
        (u128::from(self.key.0) << 64 | u128::from(rest)).to_le_bytes()
    }

    fn store(keys: impl Iterator<Item = Self>, bytes: &mut [u8]) {
        for (word, key) in bytes.as_chunks_mut().0.iter_mut().zip(keys) {
            *word = key.bytes();
        }
    }

    #[allow(
        clippy::cast_possible_truncation,
        reason = "each field is cut out of the packed word"
    )]
    fn load(bytes: &[u8], keys: &mut Vec<Self>) {
        keys.extend(bytes.as_chunks().0.iter().map(|word| {
            let word = u128::from_le_bytes(*word);
            let rest = word as u64;
            Self {
                key: Key((word >> 64) as u64),
                origin: (rest >> 32) as u32,
                added: (rest >> 16) as u16,
                expires: rest as u16,
            }
        }));
    }
}

fn origin_bits(tag: Tag) -> u32 {
    tag.source << KIND_BITS | u32::from(tag.kind) & KIND_MASK
}

#[allow(clippy::cast_possible_truncation, reason = "masked to 2 bits")]
fn origin_of(bits: u32) -> (u8, u32) {
    ((bits & KIND_MASK) as u8, bits >> KIND_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATES: Dates = Dates {
        added: 20_000,
        expires: Some(20_100),
    };

    fn tag(kind: u8, source: u32) -> Tag {
        Tag {
            kind,
            source,
            dates: DATES,
        }
    }

    fn survives<I: StagedKey>(key: Key, source: u32) {
        let staged = I::new(key, tag(2, source));
        let mut bytes = vec![0; I::BYTES];
        I::store([staged].into_iter(), &mut bytes);
        assert_eq!(bytes, staged.bytes().as_ref());
        let mut back = Vec::new();
        I::load(&bytes, &mut back);
        let record = back[0].record(stage_of(key), DATES);
        let expected = Record {
            key,
            kind: 2,
            source,
            added: DATES.added,
            expires: DATES.expires,
        };
        assert_eq!(format!("{record:?}"), format!("{expected:?}"));
    }

    #[test]
    fn packing_loses_nothing() {
        for key in [0, 1, u64::MAX, 0xFEDC_BA98_7654_3210].map(Key) {
            survives::<Narrow>(key, NARROW_SOURCES - 1);
            survives::<Wide>(key, NARROW_SOURCES + 7);
        }
    }

    #[test]
    fn duplicates_join_alike_in_both_orders() {
        let key = Key(0x1234_5678_9ABC_DEF0);
        let early = Wide::new(
            key,
            Tag {
                kind: 0,
                source: 7,
                dates: Dates {
                    added: 10,
                    expires: Some(50),
                },
            },
        );
        let late = Wide::new(
            key,
            Tag {
                kind: 0,
                source: 3,
                dates: Dates {
                    added: 20,
                    expires: None,
                },
            },
        );
        assert_eq!(early.join(late), late.join(early));
        let record = early.join(late).record(0, DATES);
        assert_eq!((record.source, record.added, record.expires), (3, 10, None));
        let (a, b) = (Narrow::new(key, tag(1, 5)), Narrow::new(key, tag(1, 4)));
        assert!(a.same_key(b));
        assert_eq!(a.join(b).origin(), (1, 4));
        assert_eq!(b.join(a).origin(), (1, 4));
    }
}
