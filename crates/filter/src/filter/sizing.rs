//! From entries and rate to pages and probes; all formulas of the Bloom filter.
//!
//! With m bits, n entries and k probes (bits that an entry sets) in one array, of which X bits are set:
//!
//! | formula | function | source |
//! |---|---|---|
//! | p = (1 - e^(-kn/m))^k | [`rate_of_bits`] | Bloom 1970; Broder and Mitzenmacher 2004 |
//! | m = -n ln p / (ln 2)^2 | [`bits_for_rate`] | the same, at the best k |
//! | k = (m/n) ln 2 | [`probes_for_bits`] | the same |
//! | p = (X/m)^k | [`rate_of_fill`] | exact, for the bits that are set |
//! | n = -(m/k) ln(1 - X/m) | [`entries_of_fill`], [`estimate_deviation`] | Swamidass and Baldi 2007; Whang 1990 |
//! | A or B: the bits of both | [`union`] | equal seed, shape and rules |
//! | A and B: \|A\| + \|B\| - \|A or B\| | [`intersection`] | |
//!
//! A filter is `pages` small Bloom filters of m = 32,768 bits, and a key belongs to one
//! of them. The pages have different loads: these are binomial (for many pages Poisson).
//! A page with more keys than the mean raises the rate more than a page with fewer keys
//! lowers it. The textbook formula ignores this: with its number of bits, the rate would
//! be 8 % above a target of one in a million. So [`rate`] is the mean over the loads, and
//! [`shape`] finds the smallest number of pages whose mean meets the target. Measured by
//! `cargo bench --bench filter_rates`:
//!
//! | target | bits per entry | probes | over the textbook's 1.4427 log2(1/p) |
//! |-------:|--------------:|-------:|-----:|
//! |   1e-2 |          9.60 |      7 | 0.2 % |
//! |   1e-4 |         19.22 |     13 | 0.3 % |
//! |   1e-6 |         28.92 |     20 | 0.6 % |

use std::f64::consts::LN_2;

use super::page::{PAGE_BITS, Page};

/// The layout of a filter: the number of pages, and the number of bits of its page that a key sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Number of pages of 4096 bytes; 1 to [`MAX_PAGES`].
    pub pages: u64,
    /// Number of bits drawn for a key; 1 to [`MAX_PROBES`].
    pub probes: u32,
}

/// Maximum number of pages of a filter: 4 PiB, far larger than any disk, but small enough
/// that no product in the layout overflows.
pub const MAX_PAGES: u64 = 1 << 40;

/// Maximum number of probes; the lowest rate needs about 40.
pub const MAX_PROBES: u32 = 64;

/// The possible rates of a filter. Above one half a filter is useless; below 1e-12,
/// collisions of the 64-bit keys themselves would matter for large lists.
pub const RATES: std::ops::RangeInclusive<f64> = 1e-12..=0.5;

const M: f64 = PAGE_BITS as f64;

/// Returns the smallest filter that holds `entries` at a false-positive rate of at most
/// `fpr`, which is clamped to [`RATES`]; the largest, of [`MAX_PAGES`], if none is large enough.
///
/// Of the shapes with the same number of pages, it has the fewest probes: a small list
/// fits into one page long before its bits are used up.
pub fn shape(entries: u64, fpr: f64) -> Shape {
    let fpr = fpr.clamp(*RATES.start(), *RATES.end());
    let ideal = probes_for_rate(fpr);
    let last = (ideal + 2).min(MAX_PROBES);
    let one_page = (1..=last)
        .map(|probes| Shape { pages: 1, probes })
        .find(|&shape| rate(entries, shape) <= fpr);
    if let Some(shape) = one_page {
        return shape;
    }
    // The uneven loads put the optimum slightly below the textbook's.
    (ideal.saturating_sub(3).max(1)..=last)
        .map(|probes| Shape {
            pages: fewest_pages(entries, fpr, probes),
            probes,
        })
        .min_by_key(|shape| shape.pages)
        .expect("the range of probes holds at least one")
}

/// Returns the smallest number of pages that hold `entries` at `fpr` with `probes`, by
/// bisection: more pages lower the rate. Starts at the number for evenly loaded pages.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive, and a float beyond u64 becomes its end, which is clamped"
)]
fn fewest_pages(entries: u64, fpr: f64, probes: u32) -> u64 {
    let enough = |pages| rate(entries, Shape { pages, probes }) <= fpr;
    let k = f64::from(probes);
    let clear = (-(fpr.ln() / k).exp()).ln_1p();
    let even = (entries as f64 * k / (-clear * M)) as u64;
    let mut low = (even - even / 64).min(MAX_PAGES);
    let mut step = (even / 64).max(1);
    while low > 0 && enough(low) {
        low = low.saturating_sub(step);
    }
    let mut high = low + 1;
    while high < MAX_PAGES && !enough(high) {
        low = high;
        high += step;
        step *= 2;
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if enough(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high.min(MAX_PAGES)
}

/// Returns the expected false-positive rate of a filter of this shape with this many
/// entries: the mean over the binomial loads of its pages. Without pages or probes it is 1: nothing says "no".
pub fn rate(entries: u64, shape: Shape) -> f64 {
    /// Loads are left out if they are this much rarer than the most frequent one. The
    /// rate of a page is at most 1, so their sum stays far below the lowest rate.
    const RARE: f64 = 1e-18;
    /// With this many draws per bit, no bit stays clear. A header may claim any number of
    /// entries, and the number of loads to sum grows with its square root.
    const FULL: f64 = 64.0;

    let n = entries as f64;
    if shape.pages == 0 || shape.probes == 0 {
        return 1.0;
    }
    if shape.pages == 1 {
        return page_rate(n, shape.probes);
    }
    if n / shape.pages as f64 * f64::from(shape.probes) > FULL * M {
        return 1.0;
    }
    let odds = 1.0 / (shape.pages as f64 - 1.0);
    let mode = ((n + 1.0) / shape.pages as f64).floor();
    let (mut weights, mut sum) = (0.0, 0.0);
    let mut add = |weight: f64, load: f64| {
        weights += weight;
        sum += weight * page_rate(load, shape.probes);
    };
    let (mut load, mut weight) = (mode, 1.0);
    while weight > RARE {
        add(weight, load);
        weight *= (n - load) / (load + 1.0) * odds;
        load += 1.0;
    }
    let (mut load, mut weight) = (mode, 1.0);
    while load > 0.0 && weight > RARE {
        weight *= load / ((n - load + 1.0) * odds);
        load -= 1.0;
        add(weight, load);
    }
    sum / weights
}

/// Returns the expected rate of one page with `load` entries: E[(X/m)^k] for X bits set, to the
/// second order around the mean fill. (The first order alone is 0.2 % too low at k = 20.)
fn page_rate(load: f64, probes: u32) -> f64 {
    let k = f64::from(probes);
    let draws = load * k;
    let clear = (draws * (-1.0 / M).ln_1p()).exp();
    let both_clear = (draws * (-2.0 / M).ln_1p()).exp();
    let fill = 1.0 - clear;
    if fill <= 0.0 {
        return 0.0;
    }
    let variance = (clear / M + (1.0 - 1.0 / M) * both_clear - clear * clear).max(0.0);
    let power = (k * fill.ln()).exp();
    (power * (1.0 + k * (k - 1.0) / 2.0 * variance / (fill * fill))).min(1.0)
}

/// Returns the false-positive rate of the textbook, p = (1 - e^(-kn/m))^k, of one array with
/// `bits_per_entry` (m/n, above 0) and k = `probes`.
///
/// It takes the fill for its mean and the draws for independent, so it is too low for small arrays (0.2 % at one
/// page and k = 20) and for uneven ones (8 % for pages at one in a million): [`rate`] is that of a filter.
pub fn rate_of_bits(bits_per_entry: f64, probes: u32) -> f64 {
    let k = f64::from(probes);
    (-(-k / bits_per_entry).exp_m1()).powf(k)
}

/// Returns the fewest bits an entry for a rate, m/n = -ln p / (ln 2)^2, at the best number of probes; `fpr` is above 0
/// and at most 1.
///
/// That number need not be whole, and pages are uneven: [`shape`] gives 0.2 to 0.6 % more.
pub fn bits_for_rate(fpr: f64) -> f64 {
    -fpr.ln() / (LN_2 * LN_2)
}

/// Returns the number of probes with the lowest [`rate_of_bits`], k = (m/n) ln 2, before it is rounded. Half of the bits
/// are then set.
pub fn probes_for_bits(bits_per_entry: f64) -> f64 {
    bits_per_entry * LN_2
}

/// Returns the exact rate of a page with `set` bits set, at most 32,768: (X/m)^k.
pub fn rate_of_fill(set: u32, probes: u32) -> f64 {
    (f64::from(set) / M).powf(f64::from(probes))
}

/// Returns the estimated entries of a page with `set` bits set: -(m/k) ln(1 - X/m).
///
/// Add up the estimates of the pages: because of the uneven loads, an estimate from the total
/// fill would be too low. A full page only says "many"; it counts as if half a bit were clear, so `set` may be any number.
pub fn entries_of_fill(set: u32, probes: u32) -> f64 {
    let clear = (M - f64::from(set)).max(0.5);
    -(M / f64::from(probes)) * (clear / M).ln()
}

/// Returns the standard deviation of an estimate by [`entries_of_fill`] over all pages of
/// a filter with about this many entries: sqrt(P m (e^t - t - 1)) / k, t = kn/(Pm)
/// (linear counting, Whang 1990).
pub fn estimate_deviation(entries: f64, shape: Shape) -> f64 {
    let bits = shape.pages as f64 * M;
    let k = f64::from(shape.probes);
    let t = k * entries / bits;
    (bits * (t.exp() - t - 1.0)).max(0.0).sqrt() / k
}

/// Makes of `page` the union of two pages of 4096 bytes, which holds the entries of both: the bits of either.
///
/// Exact if both have the same number in filters of one seed, one shape and one set of address rules; else it holds
/// nothing in particular. It is fuller than a page that is sized for its entries, so its rate is higher:
/// see [`rate_of_fill`].
pub fn union(page: &mut Page, other: &Page) {
    for (byte, other) in page.iter_mut().zip(other) {
        *byte |= other;
    }
}

/// Returns how many entries two sets share: |A and B| = |A| + |B| - |A or B|, not below 0.
///
/// Of estimates, the errors add up ([`estimate_deviation`], squared), so a small share of two large sets is not seen. The AND of two pages
/// is no intersection: it has bits that different entries have set.
pub fn intersection(a: f64, b: f64, union: f64) -> f64 {
    (a + b - union).max(0.0)
}

/// Returns the textbook's best number of probes for a rate, log2(1/p), rounded.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 1..=64 before the cast"
)]
fn probes_for_rate(fpr: f64) -> u32 {
    let probes = probes_for_bits(bits_for_rate(fpr));
    probes.round().clamp(1.0, f64::from(MAX_PROBES)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_at_most_the_target() {
        for entries in [0, 1, 2, 10, 500, 1_000, 1_300, 2_500, 20_000] {
            for fpr in [0.5, 1e-2, 1e-6, 1e-12] {
                assert!(rate(entries, shape(entries, fpr)) <= fpr, "{entries} {fpr}");
            }
        }
    }

    /// The known points of the textbook: bits an entry, probes, rate.
    #[test]
    fn the_formulas_give_the_known_rates() {
        for (bits, probes, known) in [
            (8.0, 6, 0.0216),
            (10.0, 7, 0.008_19),
            (20.0, 10, 8.89e-5),
            (20.0, 14, 6.71e-5),
            (32.0, 22, 2.10e-7),
        ] {
            let p = rate_of_bits(bits, probes);
            assert!((p / known - 1.0).abs() < 0.003, "{bits} {probes}: {p}");
            // All other numbers of probes match more, and the best one, which need not be whole, a bit less.
            let best = probes_for_bits(bits);
            assert!(bits_for_rate(p) <= bits, "{bits} {probes}");
            if (best - f64::from(probes)).abs() < 0.5 {
                assert!((bits_for_rate(p) / bits - 1.0).abs() < 0.002);
                let others = (1..=MAX_PROBES).filter(|other| *other != probes);
                assert!({ others }.all(|other| rate_of_bits(bits, other) > p));
            }
        }
        assert!((bits_for_rate(1e-6) - 28.755).abs() < 0.001);
        assert!((probes_for_bits(28.755) - 19.93).abs() < 0.01);
        assert_eq!(rate_of_bits(0.0, 7), 1.0);
    }

    /// What a page of uneven loads adds to the textbook, as the head of this file has it.
    #[test]
    fn a_filter_matches_a_little_more_than_the_textbook() {
        let textbook = Shape {
            pages: 8_776,
            probes: 20,
        };
        let entries = 10_000_000;
        let bits = textbook.pages as f64 * M / entries as f64;
        let more = rate(entries, textbook) / rate_of_bits(bits, 20);
        assert!((1.07..1.09).contains(&more), "{more}");
    }

    #[test]
    fn entries_are_found_in_the_fill() {
        // X = m (1 - e^(-kn/m)), rounded.
        for (entries, probes, set) in [
            (10.0, 14, 140),
            (1_000.0, 20, 14_970),
            (1_700.0, 13, 16_075),
        ] {
            let found = entries_of_fill(set, probes);
            assert!((found - entries).abs() < 0.1, "{entries}: {found}");
        }
        let full = [32_767, 32_768, u32::MAX].map(|set| entries_of_fill(set, 20));
        assert!(full.is_sorted() && full[2].is_finite());
    }

    #[test]
    fn the_intersection_is_what_the_union_lacks() {
        assert_eq!(intersection(2_000.0, 2_000.0, 3_000.0), 1_000.0);
        assert_eq!(intersection(5.0, 5.0, 10.5), 0.0);
    }

    #[test]
    fn any_number_of_entries_is_answered_at_once() {
        let (pages, probes) = (2, 20);
        for entries in [1 << 40, 1 << 56, u64::MAX] {
            assert_eq!(rate(entries, Shape { pages, probes }), 1.0);
        }
        for (pages, probes) in [
            (0, 1),
            (1, 0),
            (2, 0),
            (2, u32::MAX),
            (u64::MAX, 1),
            (u64::MAX, 64),
        ] {
            for entries in [0, 1, 1 << 40, u64::MAX] {
                assert!((0.0..=1.0).contains(&rate(entries, Shape { pages, probes })));
            }
        }
        for fpr in [f64::NAN, f64::INFINITY, -1.0, 1e-12] {
            assert!(shape(u64::MAX, fpr).pages <= MAX_PAGES);
        }
    }

    #[test]
    fn rates_outside_the_range_are_clamped() {
        assert_eq!(shape(5_000, 0.0), shape(5_000, 1e-12));
        assert_eq!(shape(5_000, 2.0), shape(5_000, 0.5));
    }
}
