//! Figures that the pages of a filter give: fill, entries, rates.

use super::file::PageCounts;
use super::page::{PAGE_BITS, SplitMix};
use super::record::Key;
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
    /// Rate of the actual pages: the mean of (set bits / bits)^probes.
    pub rate_expected: f64,
}

impl Filter {
    /// Reads the pages, if they are not in memory, and computes the figures.
    ///
    /// # Errors
    /// As [`look_up`](Filter::look_up), with [`Load::Disk`](super::Load::Disk) only.
    pub fn stats(&self) -> Result<Stats, Error> {
        let shape = self.shape();
        let mut counts = PageCounts::default();
        match self.memory.get() {
            Some(memory) => {
                let pages = memory.pages.iter();
                pages.for_each(|page| self.reader.count_page(page, &mut counts));
            }
            None => self.reader.each_page(0, shape.pages, |_, page| {
                self.reader.count_page(page, &mut counts);
                Ok(())
            })?,
        }
        let pages = shape.pages as f64;
        Ok(Stats {
            fill: counts.set_bits as f64 / (pages * f64::from(PAGE_BITS)),
            entries_estimated: counts.entries,
            entries_deviation: sizing::estimate_deviation(counts.entries, shape),
            rate_expected: counts.rates / pages,
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
