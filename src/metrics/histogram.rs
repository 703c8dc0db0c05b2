//! Durations in buckets.

use std::time::Duration;

use super::Counter;

/// Upper bounds of the buckets, in microseconds. A message takes tens of microseconds; one that
/// waits for a disk, milliseconds; one that waits without success, two seconds.
const BOUNDS_US: [u64; 16] = [
    25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000,
];

/// Counts durations in buckets.
#[derive(Debug, Default)]
pub struct Histogram {
    /// The last counter is for durations above all bounds.
    counts: [Counter; BOUNDS_US.len() + 1],
    sum_ns: Counter,
}

/// The values of a [`Histogram`] at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Buckets {
    /// Upper bounds in seconds, each with the number of durations up to that bound.
    pub at_most: Vec<(f64, u64)>,
    /// Number of durations.
    pub count: u64,
    /// Their sum in seconds.
    pub sum_s: f64,
}

impl Histogram {
    /// Counts a duration.
    pub fn observe(&self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_US.partition_point(|&bound| bound * 1000 < ns);
        if let Some(counter) = self.counts.get(bucket) {
            counter.increment();
        }
        self.sum_ns.add(ns);
    }

    /// Returns the current values. The counts are consistent, because each counter is read once.
    #[allow(clippy::cast_precision_loss, reason = "2^53 ns are 104 days")]
    pub fn buckets(&self) -> Buckets {
        let mut count = 0;
        let mut at_most = Vec::with_capacity(BOUNDS_US.len());
        for (&bound, counter) in BOUNDS_US.iter().zip(&self.counts) {
            count += counter.get();
            at_most.push((bound as f64 / 1e6, count));
        }
        count += self.counts.last().map_or(0, Counter::get);
        Buckets {
            at_most,
            count,
            sum_s: self.sum_ns.get() as f64 / 1e9,
        }
    }
}

impl Buckets {
    /// Returns the bound that a share of all durations does not exceed; `None` without any
    /// duration, infinite if it is above all bounds.
    #[allow(clippy::cast_precision_loss, reason = "far below 2^53")]
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let wanted = self.count as f64 * share;
        let mut buckets = self.at_most.iter();
        let found = buckets.find(|(_, count)| *count as f64 >= wanted);
        (self.count > 0).then(|| found.map_or(f64::INFINITY, |(bound, _)| *bound))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_every_bucket_that_it_fits_in() {
        let histogram = Histogram::default();
        assert_eq!(histogram.buckets().quantile(0.5), None);
        for us in [25, 26, 3_000_000] {
            histogram.observe(Duration::from_micros(us));
        }
        let buckets = histogram.buckets();
        assert_eq!(buckets.at_most[..2], [(25e-6, 1), (50e-6, 2)]);
        assert_eq!(buckets.at_most.last(), Some(&(2.5, 2)));
        assert_eq!(buckets.count, 3);
        assert!((buckets.sum_s - 3.000_051).abs() < 1e-9);
        assert_eq!(buckets.quantile(0.5), Some(50e-6));
        assert_eq!(buckets.quantile(0.99), Some(f64::INFINITY));
    }
}
