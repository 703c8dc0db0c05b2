//! How the keys are divided among the workers, and how much memory each worker needs.
//!
//! ```text
//!   all keys   | batch 0                       | batch 1                       | ...
//!              | range 0 | range 1 | ...       | range n | ...
//! ```
//!
//! A **range** has as many keys as can be sorted quickly. A **batch** is what a
//! worker reads from all parts at once: many ranges, so that it opens each part less often. The numbers of ranges and
//! batches are powers of two, and a range is a stage or a fraction of one (see `staged_key`).

use crate::compile::Plan;
use crate::compile::partition::{KEYS_OF_ONE_PASS, STAGE_BITS, StagedKey};
use crate::filter::Key;

/// Maximum average number of keys in a range: twice as many are sorted in one pass.
const RANGE_KEYS: u64 = KEYS_OF_ONE_PASS as u64 / 2;
/// Minimum number of keys in a range from each part: finding where they start costs little compared with decoding
/// so many.
const KEYS_OF_PART: u64 = 64;
/// Keys of a range when each part has so few of them that all keys are distributed to the ranges one by one. Each range
/// is then written to a memory page of its own, and the TLB has room for so many.
const DEALT_KEYS: u64 = 8 << 10;
/// Limits the number of ranges in a batch whose keys are distributed: it is stored in 16 bits.
const MAX_DEALT_BITS: u32 = 15;
/// Bytes of a batch from each part: opening the part costs far less than decoding so many.
const BYTES_OF_PART: u64 = 64 << 10;
/// The minimum if memory is scarce; before it gets less, fewer threads are used.
const MIN_BYTES_OF_PART: u64 = 16 << 10;
/// Minimum bytes of a batch, for any number of parts.
const BATCH_BYTES: u64 = 1 << 20;
const MIN_BATCH_BYTES: u64 = 128 << 10;
/// A worker needs the memory of five batches: as read, distributed, sorted, as pages, and for other data.
const BATCHES_OF_WORKER: u64 = 5;
/// Limits the number of ranges: each needs 16 bytes of memory.
const MAX_RANGE_BITS: u32 = 32;

/// The division of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ranges {
    range_bits: u32,
    batch_bits: u32,
    /// Approximate number of keys in a batch.
    pub(super) batch_keys: u64,
    /// Whether each range has so few keys of each part that the keys are distributed to the ranges one by one.
    pub(super) deals: bool,
    /// Number of workers for which there is memory.
    pub(super) workers: usize,
    /// Memory for sorted keys, in addition to that of the workers.
    pub(super) kept_bytes: usize,
}

impl Ranges {
    /// The division for `entries` keys in `parts` parts, with `room_bytes` of memory and staged keys of type `I`.
    pub(super) fn of<I: StagedKey>(plan: &Plan, entries: u64, parts: u64, room_bytes: u64) -> Self {
        let workers = plan.workers() as u64;
        let range_keys = parts.saturating_mul(KEYS_OF_PART);
        let deals = range_keys > DEALT_KEYS;
        let keeps_all = entries.saturating_mul(I::BYTES as u64) <= room_bytes / 2;
        // If not all keys can be kept, it saves more to open many parts less often.
        let for_batches = match deals && !keeps_all {
            true => room_bytes / 8 * 7,
            false => room_bytes / 2,
        };
        let share = for_batches / BATCHES_OF_WORKER;
        let wanted = parts.saturating_mul(BYTES_OF_PART).max(BATCH_BYTES);
        let least = parts
            .saturating_mul(MIN_BYTES_OF_PART)
            .clamp(MIN_BATCH_BYTES, share.max(MIN_BATCH_BYTES));
        let workers = workers.min(share / least).max(1);
        let batch_bytes = wanted.min(share / workers).max(MIN_BATCH_BYTES);
        let batch_keys = batch_bytes / I::BYTES as u64;
        let bits = |keys: u64| entries.div_ceil(keys).next_power_of_two().ilog2();
        let (range_keys, most_bits) = match deals {
            true => (DEALT_KEYS, bits(batch_keys) + MAX_DEALT_BITS),
            false => (range_keys.max(RANGE_KEYS), MAX_RANGE_BITS),
        };
        let range_bits = bits(range_keys)
            .min(most_bits)
            .clamp(STAGE_BITS, MAX_RANGE_BITS);
        let working = workers * BATCHES_OF_WORKER * batch_bytes;
        Self {
            range_bits,
            batch_bits: bits(batch_keys).min(range_bits),
            batch_keys,
            deals,
            workers: usize::try_from(workers).unwrap_or(1),
            kept_bytes: usize::try_from(room_bytes.saturating_sub(working)).unwrap_or(usize::MAX),
        }
    }

    #[cfg(test)]
    pub(super) fn exactly(
        range_bits: u32,
        batch_bits: u32,
        workers: usize,
        kept_bytes: usize,
    ) -> Self {
        Self {
            range_bits,
            batch_bits,
            batch_keys: 1000,
            deals: false,
            workers,
            kept_bytes,
        }
    }

    #[cfg(test)]
    pub(super) fn dealing(self, deals: bool) -> Self {
        Self { deals, ..self }
    }

    pub(super) fn batches(self) -> u64 {
        1 << self.batch_bits
    }

    /// The first and the last range of the keys from `from` to before `stop` (`None`: to the last).
    pub(super) fn between(self, from: Key, stop: Option<Key>) -> (u64, u64) {
        (self.range_of(from), self.range_of(last_before(stop)))
    }

    /// Maximum number of records that are read at once. Keys are hashes, so a batch normally has hardly more than
    /// its share.
    pub(super) fn most_records(self) -> usize {
        let most = self.batch_keys.saturating_add(self.batch_keys / 4);
        usize::try_from(most).unwrap_or(usize::MAX)
    }

    /// The last possible key of a batch minus the first.
    pub(super) fn batch_width(self) -> u64 {
        u64::MAX >> self.batch_bits
    }

    /// The end of the interval from `from` to the key `width` above it, but not beyond `end`.
    pub(super) fn stop(self, from: Key, width: u64, end: Option<Key>) -> Option<Key> {
        let stop = from
            .0
            .checked_add(width)
            .and_then(|last| last.checked_add(1));
        match stop.map(Key) {
            Some(stop) if end.is_none_or(|end| stop < end) => Some(stop),
            _ => end,
        }
    }

    /// How many bits of a key, after those of its stage, are the same for all keys of a range.
    pub(super) fn alike_bits(self) -> u32 {
        self.range_bits - STAGE_BITS
    }

    pub(super) fn stage_of(self, range: u64) -> usize {
        usize::try_from(range >> self.alike_bits()).unwrap_or(0)
    }

    pub(super) fn range_of(self, key: Key) -> u64 {
        key.0 >> (64 - self.range_bits)
    }

    pub(super) fn batch_of(self, range: u64) -> u64 {
        range >> (self.range_bits - self.batch_bits)
    }

    /// The first range of a batch, or the one after the last range.
    pub(super) fn first_range(self, batch: u64) -> u64 {
        batch << (self.range_bits - self.batch_bits)
    }

    /// The first key of a range; `None` after the last range.
    pub(super) fn first_key(self, range: u64) -> Option<Key> {
        (range < 1 << self.range_bits).then(|| Key(range << (64 - self.range_bits)))
    }
}

/// The last key before `stop` (`None`: the last of all).
pub(super) fn last_before(stop: Option<Key>) -> Key {
    Key(stop.map_or(u64::MAX, |Key(stop)| stop.saturating_sub(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::partition::{Narrow, Wide};

    fn of<I: StagedKey>(threads: usize, entries: u64, parts: u64, room_mib: u64) -> Ranges {
        let mut plan = Plan::new("x.blf", Vec::new());
        (plan.threads, plan.memory_bytes) = (threads, 64 << 30);
        Ranges::of::<I>(&plan, entries, parts, room_mib << 20)
    }

    #[test]
    fn memory_suffices_for_all_that_is_held() {
        for threads in [1, 2, 64] {
            for entries in [0, 1, 4096, 32_000_000, 100_000_000_000, u64::MAX] {
                for parts in [1, 8, 1000, 100_000] {
                    for room_mib in [8, 100, 4096, 1 << 20] {
                        let ranges = of::<Narrow>(threads, entries, parts, room_mib);
                        let batch_bytes = ranges.batch_keys * 8;
                        let working = ranges.workers as u64 * 5 * batch_bytes;
                        let held = working + ranges.kept_bytes as u64;
                        assert!(held <= room_mib << 20, "{ranges:?}");
                        assert!(ranges.workers <= threads && ranges.workers > 0);
                    }
                }
            }
        }
    }

    #[test]
    fn ranges_lie_in_one_stage_and_in_one_batch() {
        for entries in [1, 32_000_000, 100_000_000_000] {
            let ranges = of::<Wide>(2, entries, 8, 100);
            assert_eq!(ranges.first_range(ranges.batches()), 1 << ranges.range_bits);
            assert_eq!(ranges.first_key(1 << ranges.range_bits), None);
            for key in [0, 1, u64::MAX / 3, u64::MAX].map(Key) {
                let range = ranges.range_of(key);
                assert!(ranges.first_key(range).unwrap() <= key);
                assert!(ranges.first_key(range + 1).is_none_or(|end| key < end));
                assert_eq!(ranges.stage_of(range) as u64, key.0 >> (64 - STAGE_BITS));
                let batch = ranges.batch_of(range);
                assert!(ranges.first_range(batch) <= range);
                assert!(range < ranges.first_range(batch + 1));
            }
        }
    }
}
