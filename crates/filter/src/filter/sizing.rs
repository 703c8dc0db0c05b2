//! From entries and rate to pages and probes; all formulas of the Bloom filter.
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
//!
//! Formulas after Bloom 1970 and Swamidass & Baldi 2007 (entries from the fill).

use super::page::PAGE_BITS;

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
/// `fpr`, which is clamped to [`RATES`].
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
/// entries: the mean over the binomial loads of its pages.
pub fn rate(entries: u64, shape: Shape) -> f64 {
    /// Loads are left out if they are this much rarer than the most frequent one. The
    /// rate of a page is at most 1, so their sum stays far below the lowest rate.
    const RARE: f64 = 1e-18;
    /// With this many draws per bit, no bit stays clear. A header may claim any number of
    /// entries, and the number of loads to sum grows with its square root.
    const FULL: f64 = 64.0;

    let n = entries as f64;
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

/// Returns the exact rate of a page with `set` bits set: (X/m)^k.
pub fn rate_of_fill(set: u32, probes: u32) -> f64 {
    (f64::from(set) / M).powf(f64::from(probes))
}

/// Returns the estimated entries of a page with `set` bits set: -(m/k) ln(1 - X/m).
///
/// Add up the estimates of the pages: because of the uneven loads, an estimate from the total
/// fill would be too low. A full page only says "many"; it counts as if half a bit were clear.
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

/// Returns the textbook's best number of probes for a rate: log2(1/p), rounded.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 1..=64 before the cast"
)]
fn probes_for_rate(fpr: f64) -> u32 {
    (-fpr.log2()).round().clamp(1.0, f64::from(MAX_PROBES)) as u32
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

    #[test]
    fn any_number_of_entries_is_answered_at_once() {
        let (pages, probes) = (2, 20);
        for entries in [1 << 40, 1 << 56, u64::MAX] {
            assert_eq!(rate(entries, Shape { pages, probes }), 1.0);
        }
    }

    #[test]
    fn rates_outside_the_range_are_clamped() {
        assert_eq!(shape(5_000, 0.0), shape(5_000, 1e-12));
        assert_eq!(shape(5_000, 2.0), shape(5_000, 0.5));
    }
}
