//! A histogram of durations, in microseconds.

use std::time::Duration;

/// Over an hour; slower durations count as this.
const LONGEST_US: u64 = 1 << 32;
/// Significant digits: values are kept within one percent.
const DIGITS: u8 = 2;

/// Counts of durations, in memory of a fixed size.
pub struct Histogram(hdrhistogram::Histogram<u64>);

impl Histogram {
    pub fn new() -> Self {
        Histogram(hdrhistogram::Histogram::new_with_max(LONGEST_US, DIGITS).expect("the bounds are valid"))
    }

    /// Counts one duration.
    pub fn record(&mut self, took: Duration) {
        self.0.saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        self.0.add(&other.0).expect("histograms have the same bounds");
    }

    /// The value, in ms, that `share` of all values do not exceed; 0 for an empty histogram.
    pub fn percentile_ms(&self, share: f64) -> f64 {
        self.0.value_at_quantile(share) as f64 / 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_known_set() {
        let mut histogram = Histogram::new();
        assert_eq!(histogram.percentile_ms(0.5), 0.0);
        (1..=1000).for_each(|ms| histogram.record(Duration::from_millis(ms)));
        let mut both = Histogram::new();
        both.merge(&histogram);
        for (share, expected) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            assert!((both.percentile_ms(share) - expected).abs() < expected * 0.01, "{share}");
        }
    }

    #[test]
    fn extreme_durations_are_counted() {
        let mut histogram = Histogram::new();
        histogram.record(Duration::ZERO);
        histogram.record(Duration::MAX);
        assert_eq!(histogram.percentile_ms(0.5), 0.0);
        assert!(histogram.percentile_ms(1.0) > 3_600_000.0);
    }
}
