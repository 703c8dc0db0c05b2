//! Sorting one stage and joining its doubles.
//!
//! Keys are hashes, so the upper bits of an item are spread evenly, and a stage is
//! small enough for the second cache. Two counting passes over the upper 18 bits,
//! lowest digit first, leave an array in which hardly any two neighbours are still
//! out of order; one insertion pass mends these. Neither pass branches on the data
//! but for those few, where a comparison sort mispredicts at every second step.

use super::item::Item;

/// Bits of one counting pass: 512 places to write to, one line each, fill 32 KiB of the first
/// cache. With 11 bits they do not fit; with 8 more is left to insertion.
const DIGIT_BITS: u32 = 9;
const DIGITS: usize = 1 << DIGIT_BITS;
/// Below this many items the counters cost more than they save.
const FEW: usize = 128;
/// Moves an item that insertion may take on average. Hashes need far less than one; an
/// address that a list repeats a million times under several sources would need
/// millions, and is left to the library's sort.
const MOVES_PER_ITEM: usize = 8;

/// Sorts by [`Item::order`]. `scratch` is memory to use, its content is lost.
pub(crate) fn sort<I: Item>(items: &mut [I], scratch: &mut Vec<I>) {
    if items.len() < FEW {
        items.sort_unstable_by_key(|item| item.order());
        return;
    }
    scratch.clear();
    scratch.resize(items.len(), I::default());
    let (mut low, mut high) = ([0u32; DIGITS], [0u32; DIGITS]);
    for item in items.iter() {
        low[low_digit(item.order())] += 1;
        high[high_digit(item.order())] += 1;
    }
    starts(&mut low);
    starts(&mut high);
    for item in items.iter() {
        place(scratch, &mut low[low_digit(item.order())], *item);
    }
    for item in scratch.iter() {
        place(items, &mut high[high_digit(item.order())], *item);
    }
    insert(items);
}

/// Leaves one item of each key. The items are sorted.
pub(crate) fn join_doubles<I: Item>(items: &mut Vec<I>) {
    items.dedup_by(|next, kept| {
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

/// Counts -> the place where each digit's items start.
fn starts(counts: &mut [u32; DIGITS]) {
    let mut sum = 0;
    for count in counts {
        sum += std::mem::replace(count, sum);
    }
}

fn place<I: Item>(items: &mut [I], next: &mut u32, item: I) {
    if let Some(slot) = items.get_mut(*next as usize) {
        *slot = item;
    }
    *next += 1;
}

/// Insertion sort of what is nearly sorted.
fn insert<I: Item>(items: &mut [I]) {
    let mut moves_left = items.len().saturating_mul(MOVES_PER_ITEM);
    for at in 1..items.len() {
        let item = items[at];
        if items[at - 1].order() <= item.order() {
            continue;
        }
        let mut to = at;
        while to > 0 && items[to - 1].order() > item.order() {
            items[to] = items[to - 1];
            to -= 1;
        }
        items[to] = item;
        match moves_left.checked_sub(at - to) {
            Some(left) => moves_left = left,
            None => return items.sort_unstable_by_key(|item| item.order()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::item::{Dates, Narrow, Tag, Wide};
    use super::*;
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

    fn check<I: Item>(mut items: Vec<I>) {
        let mut expected: Vec<u64> = items.iter().map(|item| item.order()).collect();
        expected.sort_unstable();
        sort(&mut items, &mut Vec::new());
        assert!(items.iter().map(|item| item.order()).eq(expected));
        join_doubles(&mut items);
        assert!(
            items
                .windows(2)
                .all(|two| !two[0].same_key(two[1]) && two[0].order() < two[1].order())
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn sorts_as_the_library_does(keys in prop::collection::vec(any::<u64>(), 0..5000)) {
            check(keys.iter().map(|key| Narrow::new(*key, tag(0))).collect());
            check(keys.iter().map(|key| Wide::new(*key, tag(0))).collect());
        }
    }

    #[test]
    fn one_address_a_hundred_thousand_times() {
        let mixed = |n: u32| n.wrapping_mul(2_654_435_761) % 1000;
        check(
            (0..100_000)
                .map(|n| Narrow::new(42, tag(mixed(n))))
                .collect(),
        );
        check(
            (0..100_000)
                .map(|n| Narrow::new(u64::from(mixed(n)), tag(mixed(n + 1))))
                .collect(),
        );
    }
}
