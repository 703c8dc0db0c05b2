//! Sorts one stage, and joins its duplicates.
//!
//! Keys are hashes, so the upper bits of a staged key are uniform, and a stage is small enough for
//! the second-level cache. Two counting passes over the upper 18 bits, lowest digit first, leave an
//! array in which hardly any neighbours are out of order; one insertion pass repairs these. Except
//! for those few, no pass branches on the data; a comparison sort mispredicts every second branch.
//!
//! For as many keys as the first-level cache holds, one pass over the upper 12 bits is enough, and
//! takes three quarters of the time.
//!
//! Keys of parts come in a few sorted runs. Merging them, in pairs or as the stable sort of the
//! standard library does, took 1.1 to 2 times as long. So they are sorted in the same way, and the
//! first pass reads them where they are.

use super::staged_key::StagedKey;

/// Bits of each of two counting passes: 512 places to write to, one line each, fill 32 KiB of the
/// first-level cache. With 11 bits they do not fit; with 8 bits, more is left to insertion.
const DIGIT_BITS: u32 = 9;
const DIGITS: usize = 1 << DIGIT_BITS;
/// Bits of a single counting pass.
const WIDE_DIGIT_BITS: u32 = 12;
const WIDE_DIGITS: usize = 1 << WIDE_DIGIT_BITS;
/// Maximum number of staged keys that are sorted in one pass. With twice as many, more would be
/// left to insertion.
pub(crate) const KEYS_OF_ONE_PASS: usize = WIDE_DIGITS;
/// Below this number of staged keys, the counters cost more than they save.
const FEW: usize = 128;
/// Maximum average number of moves per staged key during insertion. Hashes need far less than one.
/// An address that a list repeats a million times under several sources would need millions; then
/// the standard library sorts the keys.
const MOVES_PER_KEY: usize = 8;

/// Sorts by [`StagedKey::order`], and keeps one staged key for each key. `scratch` is working
/// memory; its content is lost.
pub(crate) fn sort_and_join<I: StagedKey>(keys: &mut Vec<I>, scratch: &mut Vec<I>) {
    if sort(keys, scratch) {
        join_duplicates(keys);
    }
}

/// Sorts; returns whether there may be duplicates.
fn sort<I: StagedKey>(keys: &mut Vec<I>, scratch: &mut Vec<I>) -> bool {
    if keys.len() < FEW {
        keys.sort_unstable_by_key(|key| key.order());
        return true;
    }
    // Every element is overwritten, so the old ones need not be cleared.
    scratch.resize(keys.len(), I::default());
    let run = std::iter::once(keys.as_slice());
    if keys.len() <= KEYS_OF_ONE_PASS {
        let has_duplicates = sort_in_one_pass(run, 0, scratch);
        std::mem::swap(keys, scratch);
        return has_duplicates;
    }
    let (low, mut high) = counted(run.clone(), 0);
    place_all(run, low, |key| low_digit(key.order()), scratch);
    for key in scratch.iter() {
        place(keys, &mut high[high_digit(key.order())], *key);
    }
    insert(keys)
}

/// Replaces `out` by the staged keys of several runs, sorted by [`StagedKey::order`], one for each
/// key. The first `alike_bits` of the order are equal for all. `scratch` is working memory; its
/// content is lost.
pub(crate) fn sort_and_join_runs<'a, I: StagedKey>(
    runs: impl Iterator<Item = &'a [I]> + Clone,
    alike_bits: u32,
    out: &mut Vec<I>,
    scratch: &mut Vec<I>,
) {
    if sort_runs(runs, alike_bits, out, scratch) {
        join_duplicates(out);
    }
}

/// Sorts runs; returns whether there may be duplicates.
fn sort_runs<'a, I: StagedKey>(
    runs: impl Iterator<Item = &'a [I]> + Clone,
    alike_bits: u32,
    out: &mut Vec<I>,
    scratch: &mut Vec<I>,
) -> bool {
    let length = runs.clone().map(<[I]>::len).sum();
    if length < FEW {
        out.clear();
        runs.for_each(|run| out.extend_from_slice(run));
        out.sort_unstable_by_key(|key| key.order());
        return true;
    }
    // Every element is overwritten, so the old ones need not be cleared.
    out.resize(length, I::default());
    if length <= KEYS_OF_ONE_PASS {
        return sort_in_one_pass(runs, alike_bits, out);
    }
    scratch.resize(length, I::default());
    let (low, mut high) = counted(runs.clone(), alike_bits);
    let order = |key: &I| key.order() << alike_bits;
    place_all(runs, low, |key| low_digit(order(key)), scratch);
    for key in scratch.iter() {
        place(out, &mut high[high_digit(order(key))], *key);
    }
    insert(out)
}

/// Returns where the keys with each digit start, for the lower and for the upper digit.
fn counted<'a, I: StagedKey>(
    runs: impl Iterator<Item = &'a [I]>,
    alike_bits: u32,
) -> ([u32; DIGITS], [u32; DIGITS]) {
    let (mut low, mut high) = ([0; DIGITS], [0; DIGITS]);
    for run in runs {
        for key in run {
            let order = key.order() << alike_bits;
            low[low_digit(order)] += 1;
            high[high_digit(order)] += 1;
        }
    }
    starts(&mut low);
    starts(&mut high);
    (low, high)
}

/// Puts each key at the next place for its digit.
fn place_all<'a, I: StagedKey>(
    runs: impl Iterator<Item = &'a [I]>,
    mut starts: [u32; DIGITS],
    digit: impl Fn(&I) -> usize,
    out: &mut [I],
) {
    for run in runs {
        for key in run {
            place(out, &mut starts[digit(key)], *key);
        }
    }
}

/// Sorts the staged keys of several runs into `out`, which has as many places, at most
/// [`KEYS_OF_ONE_PASS`]. Returns whether there may be duplicates.
fn sort_in_one_pass<'a, I: StagedKey>(
    runs: impl Iterator<Item = &'a [I]> + Clone,
    alike_bits: u32,
    out: &mut [I],
) -> bool {
    let digit = |key: &I| wide_digit(key.order() << alike_bits);
    let mut counts = [0_u16; WIDE_DIGITS];
    for run in runs.clone() {
        for key in run {
            counts[digit(key)] += 1;
        }
    }
    let mut start = 0;
    for count in &mut counts {
        start += std::mem::replace(count, start);
    }
    for run in runs {
        for key in run {
            let next = &mut counts[digit(key)];
            if let Some(slot) = out.get_mut(usize::from(*next)) {
                *slot = *key;
            }
            *next += 1;
        }
    }
    insert(out)
}

/// Keeps one staged key for each key. The staged keys are sorted.
pub(crate) fn join_duplicates<I: StagedKey>(keys: &mut Vec<I>) {
    keys.dedup_by(|next, kept| {
        let same = next.same_key(*kept);
        if same {
            *kept = kept.join(*next);
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

#[allow(clippy::cast_possible_truncation, reason = "the value has 12 bits")]
fn wide_digit(order: u64) -> usize {
    (order >> (64 - WIDE_DIGIT_BITS)) as usize
}

/// Turns counts into the places where each digit's staged keys start.
fn starts(counts: &mut [u32; DIGITS]) {
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

/// Sorts an array that is nearly sorted, by insertion. Returns whether there may be duplicates: the
/// neighbours of each staged key are compared here anyway, and without duplicates the caller need
/// not look for them.
fn insert<I: StagedKey>(keys: &mut [I]) -> bool {
    let mut moves_left = keys.len().saturating_mul(MOVES_PER_KEY);
    let mut has_duplicates = false;
    for at in 1..keys.len() {
        let (before, key) = (keys[at - 1], keys[at]);
        if before.order() <= key.order() {
            has_duplicates |= before.same_key(key);
            continue;
        }
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
    use super::super::staged_key::{Dates, Narrow, Tag, Wide};
    use super::*;
    use crate::filter::Key;
    use proptest::prelude::{ProptestConfig, any, prop, proptest};

    fn tag(source: u32) -> Tag {
        Tag {
            kind: 0,
            source,
            dates: Dates {
                added: 1,
                expires: None,
            },
        }
    }

    fn check<I: StagedKey>(mut keys: Vec<I>) {
        check_runs(&keys);
        let mut expected: Vec<u64> = keys.iter().map(|key| key.order()).collect();
        expected.sort_unstable();
        let has_duplicates = sort(&mut keys, &mut Vec::new());
        assert!(keys.iter().map(|key| key.order()).eq(expected));
        assert!(has_duplicates || keys.windows(2).all(|two| !two[0].same_key(two[1])));
        join_duplicates(&mut keys);
        assert!(
            keys.windows(2)
                .all(|two| !two[0].same_key(two[1]) && two[0].order() < two[1].order())
        );
    }

    /// Checks the same keys as sorted runs of several lengths.
    fn check_runs<I: StagedKey>(keys: &[I]) {
        let mut runs: Vec<Vec<I>> = keys.chunks(700).map(<[I]>::to_vec).collect();
        runs.push(Vec::new());
        for run in &mut runs {
            run.sort_unstable_by_key(|key| key.order());
        }
        let mut expected: Vec<u64> = keys.iter().map(|key| key.order()).collect();
        expected.sort_unstable();
        let mut sorted = vec![I::new(Key(7), tag(0)); 300];
        sort_runs(
            runs.iter().map(Vec::as_slice),
            0,
            &mut sorted,
            &mut Vec::new(),
        );
        assert!(sorted.iter().map(|key| key.order()).eq(expected));
    }

    #[test]
    fn keys_of_a_narrow_range_are_sorted_by_what_differs() {
        let keys = |run: u64| (0..2000_u64).map(move |n| Key(n * 7 + run));
        let runs: Vec<Vec<Narrow>> = (0..5)
            .map(|run| keys(run).map(|key| Narrow::new(key, tag(0))).collect())
            .collect();
        let alike_bits = 64 - 14 - 12;
        for alike_bits in [0, alike_bits] {
            let mut sorted = Vec::new();
            let runs = runs.iter().map(Vec::as_slice);
            sort_runs(runs, alike_bits, &mut sorted, &mut Vec::new());
            assert!(sorted.is_sorted() && sorted.len() == 10_000);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn sorts_as_the_library_does(keys in prop::collection::vec(any::<u64>(), 0..9000)) {
            check(keys.iter().map(|key| Narrow::new(Key(*key), tag(0))).collect());
            check(keys.iter().map(|key| Wide::new(Key(*key), tag(0))).collect());
        }
    }

    #[test]
    fn one_address_a_hundred_thousand_times() {
        let mixed = |n: u32| n.wrapping_mul(2_654_435_761) % 1000;
        check(
            (0..100_000)
                .map(|n| Narrow::new(Key(42), tag(mixed(n))))
                .collect(),
        );
        check(
            (0..100_000)
                .map(|n| Narrow::new(Key(u64::from(mixed(n))), tag(mixed(n + 1))))
                .collect(),
        );
    }
}
