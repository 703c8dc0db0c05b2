//! Figures that the pages of a filter give: fill, entries, rates, loads.

use super::key::Key;
use super::page::{self, PAGE_BITS, SplitMix};
use super::sizing;
use super::{Error, Filter};

/// Figures of an open filter, computed from all its pages.
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    /// Fraction of all bits that are set, 0 to 1.
    pub fill: f64,
    /// Number of entries, estimated from the fill of each page.
    pub entries_estimated: f64,
    /// Standard deviation of that estimate.
    pub entries_deviation: f64,
    /// Designed rate: that of the header's shape and entries.
    pub rate_designed: f64,
    /// Rate of the actual pages: the mean of (set bits / bits)^probes.
    pub rate_expected: f64,
    /// Bits of the pages per entry; infinite for an empty list.
    pub bits_per_entry: f64,
    /// Number of pages by their load: the lower bound of each of up to 16 equal ranges of
    /// estimated entries, and the number of pages in it. Few pages have few ranges.
    pub loads: Vec<(f64, u64)>,
}

/// Maximum number of ranges of page loads.
const LOADS: u32 = 16;

impl Filter {
    /// Reads the pages, if they are not in memory, and computes the figures.
    ///
    /// # Errors
    /// As [`look_up`](Filter::look_up), with [`Load::Disk`](super::Load::Disk) only.
    pub fn stats(&self) -> Result<Stats, Error> {
        let shape = self.shape();
        let mut pages_by_set = vec![0_u64; PAGE_BITS as usize + 1];
        let mut count = |set: u32| pages_by_set[set as usize] += 1;
        match self.memory.get() {
            Some(memory) => memory
                .pages
                .iter()
                .for_each(|page| count(page::count_set(page))),
            None => self.reader.each_page(0, shape.pages, |_, page| {
                count(page::count_set(page));
                Ok(())
            })?,
        }
        let (mut set_bits, mut rate, mut entries) = (0.0, 0.0, 0.0);
        let mut by_load = Vec::new();
        for (set, &pages) in (0_u32..).zip(&pages_by_set) {
            if pages > 0 {
                let load = sizing::entries_of_fill(set, shape.probes);
                let weight = pages as f64;
                set_bits += f64::from(set) * weight;
                rate += sizing::rate_of_fill(set, shape.probes) * weight;
                entries += load * weight;
                by_load.push((load, pages));
            }
        }
        let pages = shape.pages as f64;
        let bits = pages * f64::from(PAGE_BITS);
        Ok(Stats {
            fill: set_bits / bits,
            entries_estimated: entries,
            entries_deviation: sizing::estimate_deviation(entries, shape),
            rate_designed: sizing::rate(self.entries(), shape),
            rate_expected: rate / pages,
            bits_per_entry: bits / self.entries() as f64,
            loads: histogram(&by_load),
        })
    }

    /// Measures by random keys what [`Stats::rate_expected`] computes: returns the
    /// fraction of `probes` keys that the pages match. Uses the same keys each time.
    ///
    /// # Errors
    /// As [`look_up`](Filter::look_up), with [`Load::Disk`](super::Load::Disk) only.
    pub fn measured_rate(&self, probes: u64) -> Result<f64, Error> {
        let mut random = SplitMix(!self.spec().seed);
        let mut hits = 0_u64;
        for _ in 0..probes {
            hits += u64::from(self.may_hold(Key(random.next_word()))?);
        }
        Ok(hits as f64 / probes.max(1) as f64)
    }
}

/// Counts pages by ranges of their loads, which must be in rising order.
fn histogram(by_load: &[(f64, u64)]) -> Vec<(f64, u64)> {
    let (Some(&(lowest, _)), Some(&(highest, _))) = (by_load.first(), by_load.last()) else {
        return Vec::new();
    };
    // One more range for each doubling of the pages (Sturges), so that a few pages do not
    // leave most ranges empty.
    let pages: u64 = by_load.iter().map(|&(_, pages)| pages).sum();
    let count = (1 + pages.ilog2()).min(LOADS);
    let width = (highest - lowest) / f64::from(count);
    if width <= 0.0 {
        return by_load.to_vec();
    }
    let lower = |i| lowest + f64::from(i) * width;
    let mut ranges: Vec<(f64, u64)> = (0..count).map(|i| (lower(i), 0)).collect();
    for &(load, pages) in by_load {
        let at = ranges
            .iter()
            .rposition(|&(lower, _)| lower <= load)
            .unwrap_or(0);
        ranges[at].1 += pages;
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::histogram;

    #[test]
    fn few_pages_have_few_ranges() {
        assert_eq!(histogram(&[]), []);
        assert_eq!(histogram(&[(7.0, 1)]), [(7.0, 1)]);
        assert_eq!(histogram(&[(10.0, 1), (20.0, 1)]), [(10.0, 1), (15.0, 1)]);
        let many: Vec<_> = (0..100).map(|load| (f64::from(load), 1000)).collect();
        let ranges = histogram(&many);
        assert_eq!(ranges.len(), 16);
        assert_eq!(ranges.iter().map(|(_, pages)| pages).sum::<u64>(), 100_000);
    }
}
