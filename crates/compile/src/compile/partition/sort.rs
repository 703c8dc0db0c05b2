//! Sorts one stage, and merges its duplicates.
//!
//! Keys are hashes, so the upper bits of a staged key are uniform, and a stage is small enough for
//! the second-level cache. Two counting passes over the upper 18 bits, lowest digit first, leave an
//! array in which hardly any neighbours are out of order; one insertion pass repairs these. Except
//! for those few, no pass branches on the data; a comparison sort mispredicts every second branch.
//!
//! For as many keys as the first-level cache holds, one pass is enough, over as many bits as give
//! each key a place or two of its own.
//!
//! Keys of parts come in a few sorted runs. Merging them, in pairs or as the stable sort of the
//! standard library does, took 1.1 to 2 times as long as sorting them like any others.

use super::staged_key::StagedKey;

/// Bits of each of two counting passes: 512 places to write to, one line each, fill 32 KiB of the
/// first-level cache. With 11 bits they do not fit; with 8 bits, more is left to insertion.
const DIGIT_BITS: u32 = 9;
const DIGITS: usize = 1 << DIGIT_BITS;
/// Maximum number of staged keys sorted in one pass. With more, too much is left to insertion.
const KEYS_OF_ONE_PASS: usize = 4096;
/// Below this number of staged keys, the counters cost more than they save.
const FEW: usize = 128;
/// Maximum average number of moves per staged key during insertion; hashes need less than one. After
/// more (an address repeated a million times under several sources), the standard library sorts.
const MOVES_PER_KEY: usize = 8;

/// Sorts by [`StagedKey::order`], and keeps one staged key for each key. `scratch` is working memory.
pub(crate) fn sort_and_merge<I: StagedKey>(keys: &mut Vec<I>, scratch: &mut Vec<I>) {
    if sort(keys, scratch) {
        merge_duplicates(keys);
    }
}

fn sort<I: StagedKey>(keys: &mut Vec<I>, scratch: &mut Vec<I>) -> bool {
    if keys.len() < FEW {
        keys.sort_unstable_by_key(|key| key.order());
        return true;
    }
    // Every element is overwritten, so the old ones need not be cleared.
    scratch.resize(keys.len(), I::default());
    let one_pass = match keys.len() {
        ..=256 => sort_in_one_pass::<I, 256>,
        257..=512 => sort_in_one_pass::<I, 512>,
        513..=1024 => sort_in_one_pass::<I, 1024>,
        1025..=2048 => sort_in_one_pass::<I, 2048>,
        2049..=KEYS_OF_ONE_PASS => sort_in_one_pass::<I, KEYS_OF_ONE_PASS>,
        _ => return sort_in_two_passes(keys, scratch),
    };
    one_pass(keys, scratch);
    std::mem::swap(keys, scratch);
    insert(keys)
}

/// Sorts nearly, by the two upper digits; returns whether there may be duplicates.
fn sort_in_two_passes<I: StagedKey>(keys: &mut [I], scratch: &mut [I]) -> bool {
    let (mut low, mut high) = ([0_u32; DIGITS], [0_u32; DIGITS]);
    for key in &*keys {
        low[low_digit(key.order())] += 1;
        high[high_digit(key.order())] += 1;
    }
    starts(&mut low);
    starts(&mut high);
    for key in &*keys {
        place(scratch, &mut low[low_digit(key.order())], *key);
    }
    for key in &*scratch {
        place(keys, &mut high[high_digit(key.order())], *key);
    }
    insert(keys)
}

/// Puts staged keys, at most [`KEYS_OF_ONE_PASS`], into `out` in the order of their upper bits, which
/// number `PLACES`, a power of two.
fn sort_in_one_pass<I: StagedKey, const PLACES: usize>(keys: &[I], out: &mut [I]) {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the value has 8 to 12 bits"
    )]
    let digit = |key: &I| (key.order() >> (64 - PLACES.ilog2())) as usize;
    let mut next = [0_u32; PLACES];
    for key in keys {
        next[digit(key)] += 1;
    }
    starts(&mut next);
    for key in keys {
        place(out, &mut next[digit(key)], *key);
    }
}

fn merge_duplicates<I: StagedKey>(keys: &mut Vec<I>) {
    keys.dedup_by(|next, kept| {
        let same = next.same_key(*kept);
        if same {
            *kept = kept.merge(*next);
        }
        same
    });
}

#[allow(clippy::cast_possible_truncation, reason = "masked to 9 bits")]
fn low_digit(order: u64) -> usize {
    (order >> (64 - 2 * DIGIT_BITS)) as usize & (DIGITS - 1)
}

#[allow(clippy::cast_possible_truncation, reason = "the value has 9 bits")]
fn high_digit(order: u64) -> usize {
    (order >> (64 - DIGIT_BITS)) as usize
}

fn starts(counts: &mut [u32]) {
    let mut sum = 0;
    for count in counts {
        sum += std::mem::replace(count, sum);
    }
}

fn place<I: StagedKey>(keys: &mut [I], next: &mut u32, key: I) {
    if let Some(slot) = keys.get_mut(*next as usize) {
        *slot = key;
    }
    *next += 1;
}

/// Sorts an array that is nearly sorted, by insertion. Returns whether there may be duplicates, which
/// are seen here anyway.
fn insert<I: StagedKey>(keys: &mut [I]) -> bool {
    let mut moves_left = keys.len().saturating_mul(MOVES_PER_KEY);
    let mut has_duplicates = false;
    let Some(mut before) = keys.first().copied() else {
        return false;
    };
    for at in 1..keys.len() {
        let key = keys[at];
        if before.order() <= key.order() {
            has_duplicates |= before.same_key(key);
            before = key;
            continue;
        }
        // The one before moves up to here, and is still the greatest.
        let mut to = at;
        while to > 0 && keys[to - 1].order() > key.order() {
            keys[to] = keys[to - 1];
            to -= 1;
        }
        keys[to] = key;
        has_duplicates |= key.same_key(keys[to + 1]) || to > 0 && key.same_key(keys[to - 1]);
        match moves_left.checked_sub(at - to) {
            Some(left) => moves_left = left,
            None => {
                keys.sort_unstable_by_key(|key| key.order());
                return true;
            }
        }
    }
    has_duplicates
}

#[cfg(test)]
mod tests {
    use super::super::staged_key::{Narrow, Wide};
    use super::*;
    use blocklist_filter::filter::{Class, Key};
    use proptest::prelude::{ProptestConfig, any, prop, proptest};

    fn class(source: u32) -> Class {
        Class {
            source,
            ..Class::default()
        }
    }

    fn check<I: StagedKey>(mut keys: Vec<I>) {
        let mut expected: Vec<u64> = keys.iter().map(|key| key.order()).collect();
        expected.sort_unstable();
        let has_duplicates = sort(&mut keys, &mut Vec::new());
        assert!(keys.iter().map(|key| key.order()).eq(expected));
        assert!(has_duplicates || keys.windows(2).all(|two| !two[0].same_key(two[1])));
        merge_duplicates(&mut keys);
        let mut pairs = keys.windows(2);
        assert!(pairs.all(|two| !two[0].same_key(two[1]) && two[0].order() < two[1].order()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn sorts_as_the_library_does(keys in prop::collection::vec(any::<u64>(), 0..9000)) {
            check(keys.iter().map(|key| Narrow::new(Key(*key), class(0))).collect());
            check(keys.iter().map(|key| Wide::new(Key(*key), class(0))).collect());
        }
    }

    #[test]
    fn one_address_a_hundred_thousand_times() {
        let mixed = |n: u32| n.wrapping_mul(2_654_435_761) % 1000;
        let numbers = 0..100_000;
        let one = |n| Narrow::new(Key(42), class(mixed(n)));
        check(numbers.clone().map(one).collect());
        let several = |n| Narrow::new(Key(u64::from(mixed(n))), class(mixed(n + 1)));
        check(numbers.map(several).collect());
    }
}
