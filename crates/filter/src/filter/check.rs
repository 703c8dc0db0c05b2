//! Checking all pages and records of a filter, and the figures that its pages give: fill, entries,
//! rates.

use super::Filter;
use super::error::{Error, Problem};
use super::file::{FilterFile, room};
use super::page::{self, PAGE_BITS, Page, SplitMix};
use super::record::{Batch, Key};
use super::sizing::{self, Shape};
use crate::base::parallel::on_threads;

#[derive(Clone, Copy, Debug, Default)]
struct PageCounts {
    set_bits: u64,
    records: u64,
    rates: f64,
    entries: f64,
}

impl PageCounts {
    fn add(&mut self, page: &Page, probes: u32) {
        let set = page::count_set(page);
        self.set_bits += u64::from(set);
        self.rates += sizing::rate_of_fill(set, probes);
        self.entries += sizing::entries_of_fill(set, probes);
    }
}

impl FilterFile {
    pub(super) fn load(&self) -> Result<Vec<Page>, Error> {
        let Shape { pages, probes } = self.header.shape;
        let mut all: Vec<Page> = room(&self.path, pages, self.header.page_bytes())?;
        let mut counts = PageCounts::default();
        self.each_page(0, pages, |_, page| {
            counts.add(page, probes);
            all.push(*page);
            Ok(())
        })?;
        self.check_fill(&counts)?;
        Ok(all)
    }

    /// Checks that the filter has as many bits set as its header says, and as many as its entries
    /// would set, and that its false-positive rate is as low as declared.
    fn check_fill(&self, counts: &PageCounts) -> Result<(), Error> {
        let declared = self.header.set_bits;
        let set = counts.set_bits;
        if set != declared {
            let what = format!("{set} bits are set, but the header says {declared}");
            return Err(self.invalid(Problem::damaged(what)));
        }
        let pages = self.header.shape.pages as f64;
        let fpr = self.header.spec.fpr;
        let rate = counts.rates / pages;
        // Twice the target. The mean of a few unevenly loaded pages deviates more: at a target of
        // 1e-12, one in a million filters of two pages reaches 15 times the target.
        if rate > 2.0 * fpr * (1.0 + 32.0 / pages) {
            return Err(self.invalid(Problem::unfit(format!(
                "the pages match {rate:.2e} of unlisted senders, but the header declares {fpr:.2e}: \
                 build the filter again"
            ))));
        }
        let entries = self.header.entries as f64;
        // Eight standard deviations, and the error of the estimate if the deviation is small: its
        // bias, far below a thousandth, and a few entries whose bits coincide.
        let deviation = sizing::estimate_deviation(entries, self.header.shape);
        if (counts.entries - entries).abs() > 8.0 * deviation + entries / 1000.0 + 3.0 {
            return Err(self.invalid(Problem::unfit(format!(
                "the pages hold about {:.0} entries, but the header says {}: build the filter again",
                counts.entries, self.header.entries
            ))));
        }
        Ok(())
    }

    /// Reads everything, on up to `threads` threads. With `deep`, decodes every record and looks it
    /// up in its page.
    pub(super) fn check(&self, deep: bool, threads: usize) -> Result<(), Error> {
        const PAGES_A_THREAD: u64 = 256;
        let pages = self.header.shape.pages;
        let threads = (threads.max(1) as u64).min(pages.div_ceil(PAGES_A_THREAD));
        let part = pages.div_ceil(threads);
        let parts = (0..threads).map(|i| (i * part, ((i + 1) * part).min(pages)));
        let parts = on_threads(parts, |(first, end)| self.check_part(first, end, deep));
        let mut sum = PageCounts::default();
        for counts in parts {
            let counts = counts?;
            sum.set_bits += counts.set_bits;
            sum.records += counts.records;
            sum.rates += counts.rates;
            sum.entries += counts.entries;
        }
        self.check_fill(&sum)?;
        match self.header.spec.records {
            true => self.check_count(sum.records),
            false => Ok(()),
        }
    }

    fn check_part(&self, first: u64, end: u64, deep: bool) -> Result<PageCounts, Error> {
        let mut counts = PageCounts::default();
        let (mut block, mut records) = (Vec::new(), Batch::default());
        self.each_page(first, end, |number, page| {
            counts.add(page, self.header.shape.probes);
            if self.header.spec.records {
                if deep {
                    self.decode(number, &mut block, &mut records)?;
                    counts.records += records.len() as u64;
                    self.check_bits(number, page, &records.keys)?;
                } else {
                    self.read_block(number, &mut block)?;
                    counts.records += self.parse(number, &block)?.count() as u64;
                }
            }
            Ok(())
        })?;
        Ok(counts)
    }

    fn check_bits(&self, number: u64, page: &Page, keys: &[Key]) -> Result<(), Error> {
        let probes = self.header.shape.probes;
        let lost = keys.iter().find(|key| !page::contains(page, **key, probes));
        lost.map_or(Ok(()), |&key| {
            Err(self.invalid(Problem::damaged(format!(
                "the record {:016x} is not in page {number}, and a listed sender would be missed",
                key.0
            ))))
        })
    }

    pub(super) fn check_records(&self) -> Result<(), Error> {
        let mut counted = 0;
        self.each_run(0..self.header.shape.pages, |_, keys| {
            counted += keys.len() as u64;
            Ok::<_, Error>(())
        })?;
        self.check_count(counted)
    }

    fn check_count(&self, counted: u64) -> Result<(), Error> {
        let declared = self.header.entries;
        match counted == declared {
            true => Ok(()),
            false => Err(self.invalid(Problem::count(declared, counted))),
        }
    }
}

/// Figures of an open filter, computed from all its pages; [`sizing`] has the formulas.
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    /// Fraction of all bits that are set, 0 to 1.
    pub fill: f64,
    /// Number of entries, estimated from the fill of each page ([`sizing::entries_of_fill`]).
    pub entries_estimated: f64,
    /// Standard deviation of that estimate ([`sizing::estimate_deviation`]).
    pub entries_deviation: f64,
    /// False-positive rate of the actual pages: the mean of (set bits / bits)^probes ([`sizing::rate_of_fill`]).
    pub rate_expected: f64,
}

impl Filter {
    /// Reads all pages from the file, and computes the figures.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a page is damaged, [`Error::File`] when it cannot be read.
    pub fn stats(&self) -> Result<Stats, Error> {
        let shape = self.shape();
        let mut counts = PageCounts::default();
        self.file.each_page(0, shape.pages, |_, page| {
            counts.add(page, shape.probes);
            Ok(())
        })?;
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
    /// As [`may_hold`](Self::may_hold).
    pub fn measured_rate(&self, probes: u64) -> Result<f64, Error> {
        let mut random = SplitMix(!self.spec().seed);
        let mut hits = 0_u64;
        for _ in 0..probes {
            hits += u64::from(self.may_hold(Key(random.next_word()))?);
        }
        Ok(hits as f64 / probes.max(1) as f64)
    }
}
