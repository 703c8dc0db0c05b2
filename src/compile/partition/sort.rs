//! Sorting one stage and joining its duplicates.
//!
//! Keys are hashes, so the upper bits of a staged key are spread evenly, and a stage is
//! small enough for the second cache. Two counting passes over the upper 18 bits,
//! lowest digit first, leave an array in which hardly any two neighbours are still
//! out of order; one insertion pass repairs these. Neither pass branches on the data
//! but for those few, where a comparison sort mispredicts at every second step.
//!
//! Keys of parts come as a few sorted runs. To merge these (the library's stable sort does), or to count once, in as
//! many places as there are keys, and repair more, took 1.1 to 2 times as long. So they are sorted the same way, and
//! the first pass takes them from where they are.

use super::staged_key::StagedKey;

/// Bits of one counting pass: 512 places to write to, one line each, fill 32 KiB of the first
/// cache. With 11 bits they do not fit; with 8 more is left to insertion.
const DIGIT_BITS: u32 = 9;
const DIGITS: usize = 1 << DIGIT_BITS;
/// Below this many staged keys the counters cost more than they save.
const FEW: usize = 128;
/// Moves a staged key that insertion may take on average. Hashes need far less than one; an
/// address that a list repeats a million times under several sources would need
/// millions, and is left to the library's sort.
const MOVES_PER_KEY: usize = 8;

/// Sorts by [`StagedKey::order`]. `scratch` is memory to use, its content is lost.
pub(crate) fn sort<I: StagedKey>(keys: &mut [I], scratch: &mut Vec<I>) {
    if keys.len() < FEW {
        keys.sort_unstable_by_key(|key| key.order());
        return;
    }
    scratch.clear();
    scratch.resize(keys.len(), I::default());
    let (mut low, mut high) = ([0u32; DIGITS], [0u32; DIGITS]);
    for key in keys.iter() {
        low[low_digit(key.order())] += 1;
        high[high_digit(key.order())] += 1;
    }
    starts(&mut low);
    starts(&mut high);
    for key in keys.iter() {
        place(scratch, &mut low[low_digit(key.order())], *key);
    }
    for key in scratch.iter() {
        place(keys, &mut high[high_digit(key.order())], *key);
    }
    insert(keys);
}

/// Appends the staged keys of several runs to `out`, sorted by [`StagedKey::order`]. The first `alike_bits` of
/// the order are the same for all. `scratch` is memory to use, its content is lost.
pub(crate) fn sort_runs<'a, I: StagedKey>(
    runs: impl Iterator<Item = &'a [I]> + Clone,
    alike_bits: u32,
    out: &mut Vec<I>,
    scratch: &mut Vec<I>,
) {
    let length = runs.clone().map(<[I]>::len).sum();
    let start = out.len();
    if length < FEW {
        runs.for_each(|run| out.extend_from_slice(run));
        return out[start..].sort_unstable_by_key(|key| key.order());
    }
    let order = |key: &I| key.order() << alike_bits;
    let (mut low, mut high) = ([0u32; DIGITS], [0u32; DIGITS]);
    for run in runs.clone() {
        for key in run {
            low[low_digit(order(key))] += 1;
            high[high_digit(order(key))] += 1;
        }
    }
    starts(&mut low);
    starts(&mut high);
    scratch.clear();
    scratch.resize(length, I::default());
    out.resize(start + length, I::default());
    let out = &mut out[start..];
    for run in runs {
        for key in run {
            place(scratch, &mut low[low_digit(order(key))], *key);
        }
    }
    for key in scratch.iter() {
        place(out, &mut high[high_digit(order(key))], *key);
    }
    insert(out);
}

/// Leaves one staged key of each key. The staged keys are sorted.
pub(crate) fn join_doubles<I: StagedKey>(keys: &mut Vec<I>) {
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

/// Counts -> the place where each digit's staged keys start.
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

/// Insertion sort of what is nearly sorted.
fn insert<I: StagedKey>(keys: &mut [I]) {
    let mut moves_left = keys.len().saturating_mul(MOVES_PER_KEY);
    for at in 1..keys.len() {
        let key = keys[at];
        if keys[at - 1].order() <= key.order() {
            continue;
        }
        let mut to = at;
        while to > 0 && keys[to - 1].order() > key.order() {
            keys[to] = keys[to - 1];
            to -= 1;
        }
        keys[to] = key;
        match moves_left.checked_sub(at - to) {
            Some(left) => moves_left = left,
            None => return keys.sort_unstable_by_key(|key| key.order()),
        }
    }
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
        sort(&mut keys, &mut Vec::new());
        assert!(keys.iter().map(|key| key.order()).eq(expected));
        join_doubles(&mut keys);
        assert!(
            keys.windows(2)
                .all(|two| !two[0].same_key(two[1]) && two[0].order() < two[1].order())
        );
    }

    /// The same keys as sorted runs of several lengths, behind keys that are there.
    fn check_runs<I: StagedKey>(keys: &[I]) {
        let mut runs: Vec<Vec<I>> = keys.chunks(700).map(<[I]>::to_vec).collect();
        runs.push(Vec::new());
        for run in &mut runs {
            run.sort_unstable_by_key(|key| key.order());
        }
        let mut expected: Vec<u64> = keys.iter().map(|key| key.order()).collect();
        expected.sort_unstable();
        let first = I::new(Key(7), tag(0));
        let mut sorted = vec![first];
        sort_runs(
            runs.iter().map(Vec::as_slice),
            0,
            &mut sorted,
            &mut Vec::new(),
        );
        assert_eq!(sorted[0].order(), first.order());
        assert!(sorted[1..].iter().map(|key| key.order()).eq(expected));
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
        fn sorts_as_the_library_does(keys in prop::collection::vec(any::<u64>(), 0..5000)) {
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
