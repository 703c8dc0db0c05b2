//! The key of an entry, the data about it, and the class that records have in common: the entry's
//! kind, its source and its dates. A page stores each distinct class once.
//!
//! ```text
//!   u8 kind   u8 has expires   u32 source   u16 added   u16 expires
//! ```

use std::ops::Range;

use twox_hash::XxHash3_64;

pub(super) const CLASS_BYTES: usize = 10;

/// 64 uniformly distributed bits, by which an entry is stored and looked up: two entries share them with a chance of 2^-64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Key(pub u64);

impl Key {
    /// Returns the key of an entry: XXH3-64 of its canonical text ([`Entry::as_bytes`](crate::address::Entry::as_bytes)) with
    /// the seed of the filter ([`Spec::seed`](super::Spec::seed)).
    #[inline]
    pub fn of(entry: &[u8], seed: u64) -> Self {
        Self(XxHash3_64::oneshot_with_seed(seed, entry))
    }
}

/// A listed key with the data about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Record {
    /// The key of the entry.
    pub key: Key,
    /// Number of the [`Kind`](crate::address::Kind) of entry, below 8. The filter stores it, but does not use it.
    pub kind: u8,
    /// Number of the source in the filter's list of sources.
    pub source: u32,
    /// The day on which it was added, in days since 1970.
    pub added: u16,
    /// The first day on which it is no longer listed, in days since 1970.
    pub expires: Option<u16>,
}

impl Record {
    pub(crate) fn has_expired(&self, today: u16) -> bool {
        self.expires.is_some_and(|day| day <= today)
    }
}

/// The data that records have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class {
    /// The code of the kind of entry, which its user gives.
    pub kind: u8,
    /// The place of its list in the table of sources.
    pub source: u32,
    /// When it was added, and when it ends.
    pub dates: Dates,
}

/// Days since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dates {
    /// The day on which it was first listed.
    pub added: u16,
    /// The first day on which it is no longer listed.
    pub expires: Option<u16>,
}

impl Dates {
    /// Returns whether it is no longer listed on a day.
    pub fn have_expired(self, today: u16) -> bool {
        self.expires.is_some_and(|day| day <= today)
    }
}

impl Class {
    #[inline]
    pub(super) fn record(self, key: Key) -> Record {
        Record {
            key,
            kind: self.kind,
            source: self.source,
            added: self.dates.added,
            expires: self.dates.expires,
        }
    }

    /// Merges the data of two records of one key, by rules that do not depend on their order, so that
    /// the same lists give the same bytes in any order: the lowest source, the earliest day added,
    /// the latest expiry. No expiry counts as the latest of all.
    pub fn merge(self, other: Self) -> Self {
        let origin = |class: Self| (class.source, class.kind);
        let (source, kind) = origin(self).min(origin(other));
        let (a, b) = (self.dates, other.dates);
        Self {
            kind,
            source,
            dates: Dates {
                added: a.added.min(b.added),
                expires: a.expires.zip(b.expires).map(|(a, b)| a.max(b)),
            },
        }
    }

    /// Checks that the kind is declared (`kinds` has one bit per kind), and that the source is below
    /// `sources`.
    pub fn check(self, kinds: u8, sources: usize) -> Result<(), &'static str> {
        let declared = u32::from(kinds).checked_shr(self.kind.into()).unwrap_or(0);
        if declared & 1 == 0 {
            return Err("a kind of entry that the header does not declare");
        }
        match (self.source as usize) < sources {
            true => Ok(()),
            false => Err("a source that is not there"),
        }
    }

    /// Distributes classes over a table of 2^`bits` slots; a weak hash is enough. The
    /// high bits of the product depend on all bits of the factor.
    pub(super) fn hash(self, bits: u32) -> usize {
        let Dates { added, expires } = self.dates;
        let dates = u64::from(added) << 16 | u64::from(expires.unwrap_or(0));
        let word = dates << 32 ^ u64::from(self.source) ^ u64::from(self.kind) << 24;
        usize::try_from(word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)).unwrap_or(0)
    }

    pub(super) fn encode(self) -> [u8; CLASS_BYTES] {
        let Dates { added, expires } = self.dates;
        let mut bytes = [0; CLASS_BYTES];
        bytes[0] = self.kind;
        bytes[1] = u8::from(expires.is_some());
        bytes[2..6].copy_from_slice(&self.source.to_le_bytes());
        bytes[6..8].copy_from_slice(&added.to_le_bytes());
        bytes[8..10].copy_from_slice(&expires.unwrap_or(0).to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; CLASS_BYTES]) -> Result<Self, &'static str> {
        let [kind, has_expires, s0, s1, s2, s3, a0, a1, e0, e1] = *bytes;
        let expires = u16::from_le_bytes([e0, e1]);
        Ok(Self {
            kind,
            source: u32::from_le_bytes([s0, s1, s2, s3]),
            dates: Dates {
                added: u16::from_le_bytes([a0, a1]),
                expires: match (has_expires, expires) {
                    (0, 0) => None,
                    (1, day) => Some(day),
                    _ => return Err("a class is malformed"),
                },
            },
        })
    }
}

/// Records in the order of their keys: the keys side by side, and the class of each run of them, since
/// most have the class of the one before. Reusable: it keeps its memory.
#[derive(Debug, Default)]
pub struct Batch {
    pub(super) keys: Vec<Key>,
    /// The class of the keys of each run, and where the run ends. Neighbours differ.
    runs: Vec<(Class, usize)>,
}

impl Batch {
    /// Removes all records.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.runs.clear();
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the key of a record.
    pub fn key(&self, place: usize) -> Option<Key> {
        self.keys.get(place).copied()
    }

    /// Returns each record.
    pub fn records(&self) -> impl Iterator<Item = Record> {
        self.runs()
            .flat_map(|(class, keys)| keys.iter().map(move |key| class.record(*key)))
    }

    /// Appends a record.
    #[inline]
    pub fn push(&mut self, key: Key, class: Class) {
        self.keys.push(key);
        self.end_run(class, self.keys.len());
    }

    /// Appends keys of one class.
    pub fn extend(&mut self, class: Class, keys: impl Iterator<Item = Key>) {
        let before = self.keys.len();
        self.keys.extend(keys);
        if self.keys.len() > before {
            self.end_run(class, self.keys.len());
        }
    }

    /// Gives this class to the keys before `end` that have none yet.
    #[inline]
    pub(super) fn end_run(&mut self, class: Class, end: usize) {
        match self.runs.last_mut() {
            Some((last, of_run)) if *last == class => *of_run = end,
            _ => self.runs.push((class, end)),
        }
    }

    /// Returns the place of the first record that is not before `end`, from this place on; without
    /// `end`, the end of all.
    pub fn place(&self, from: usize, end: Option<Key>) -> usize {
        let left = &self.keys[from..];
        from + end.map_or(left.len(), |end| left.partition_point(|key| *key < end))
    }

    /// Returns the class of the record at a place. `run` is the number of the run of an earlier one.
    pub fn class(&self, place: usize, run: &mut usize) -> Class {
        while self.runs[*run].1 <= place {
            *run += 1;
        }
        self.runs[*run].0
    }

    /// Returns runs of records that differ only in their keys.
    pub fn runs(&self) -> impl Iterator<Item = (Class, &[Key])> {
        self.runs_in(0..self.len())
    }

    /// Does the same for the records at some places.
    pub(crate) fn runs_in(&self, places: Range<usize>) -> impl Iterator<Item = (Class, &[Key])> {
        let Range { mut start, end } = places;
        let first = self.runs.partition_point(|(_, end)| *end <= start);
        self.runs[first..]
            .iter()
            .map_while(move |&(class, of_run)| {
                let run = start..of_run.min(end);
                start = run.end;
                (!run.is_empty()).then(|| (class, &self.keys[run]))
            })
    }
}

impl<'a> FromIterator<&'a Record> for Batch {
    fn from_iter<I: IntoIterator<Item = &'a Record>>(records: I) -> Self {
        let mut batch = Self::default();
        for record in records {
            let dates = Dates {
                added: record.added,
                expires: record.expires,
            };
            let class = Class {
                kind: record.kind,
                source: record.source,
                dates,
            };
            batch.push(record.key, class);
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A batch is what a list of records is, however it was filled.
        #[test]
        fn a_batch_is_its_records(
            steps in prop::collection::vec((0_u32..3, 0_usize..4), 0..9),
            cuts in [0_usize..24, 0..24],
        ) {
            let (mut batch, mut plain) = (Batch::default(), Vec::new());
            for (source, keys) in steps {
                let class = Class { source, ..Class::default() };
                let first = plain.len() as u64;
                let keys = (first..).map(|key| Key(2 * key)).take(keys);
                plain.extend(keys.clone().map(|key| class.record(key)));
                match source {
                    0 => keys.for_each(|key| batch.push(key, class)),
                    _ => batch.extend(class, keys),
                }
            }
            prop_assert_eq!(batch.records().collect::<Vec<_>>(), plain.clone());
            let mut run = 0;
            for (at, record) in plain.iter().enumerate() {
                prop_assert_eq!(batch.key(at), Some(record.key));
                prop_assert_eq!(batch.class(at, &mut run).record(record.key), *record);
            }
            let [mut from, mut to] = cuts.map(|cut| cut.min(plain.len()));
            (from, to) = (from.min(to), from.max(to));
            let runs: Vec<_> = batch.runs_in(from..to).collect();
            prop_assert!(runs.is_sorted_by(|a, b| a.0 != b.0));
            let found = runs.iter().flat_map(|(class, keys)| keys.iter().map(|key| class.record(*key)));
            prop_assert_eq!(found.collect::<Vec<_>>(), plain[from..to].to_vec());
            let end = Key(2 * to as u64);
            prop_assert_eq!(batch.place(from, Some(end)), to);
            prop_assert_eq!(batch.place(from, None), plain.len());
        }
    }

    #[test]
    fn classes_merge_alike_in_both_orders() {
        let class = |source, added, expires| Class {
            kind: 0,
            source,
            dates: Dates { added, expires },
        };
        let (early, late) = (class(7, 10, Some(50)), class(3, 20, None));
        assert_eq!(early.merge(late), class(3, 10, None));
        assert_eq!(late.merge(early), class(3, 10, None));
        assert_eq!(early.merge(class(9, 30, Some(60))), class(7, 10, Some(60)));
    }
}
