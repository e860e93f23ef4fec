//! Waits of jobs in a histogram.

use super::report::{WaitQuantiles, ms};
use hdrhistogram::Histogram;

/// Digits of waits that histograms keep exactly.
const DIGITS: u8 = 2;

/// The waits of a group's tenants.
pub(super) struct GroupWaits {
    pub dispatches: u64,
    waits: Histogram<u64>,
    longest_us: u64,
}

impl GroupWaits {
    pub(super) fn new() -> GroupWaits {
        let waits = Histogram::new(DIGITS).expect("the number of digits is valid");
        GroupWaits { dispatches: 0, waits, longest_us: 0 }
    }

    /// Counts a wait.
    pub(super) fn record(&mut self, wait_us: u64) {
        self.dispatches += 1;
        // A wait of 0 counts as 1 µs. Fails only for values beyond the range, which a histogram that
        // resizes itself does not have.
        _ = self.waits.record(wait_us.max(1));
        self.longest_us = self.longest_us.max(wait_us);
    }

    /// Adds the waits of another group.
    pub(super) fn merge(&mut self, other: &GroupWaits) {
        self.dispatches += other.dispatches;
        // See `record`.
        _ = self.waits.add(&other.waits);
        self.longest_us = self.longest_us.max(other.longest_us);
    }

    pub(super) fn quantiles(&self) -> WaitQuantiles {
        let at = |quantile: f64| match self.waits.value_at_quantile(quantile).min(self.longest_us) {
            us if us > 1 => ms(us),
            _ => 0.0,
        };
        WaitQuantiles { p50_ms: at(0.5), p95_ms: at(0.95), p99_ms: at(0.99), max_ms: ms(self.longest_us) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_exact_to_one_percent_and_the_maximum_to_a_microsecond() {
        let mut waits = GroupWaits::new();
        assert_eq!(waits.quantiles(), WaitQuantiles::default());
        (1..=1000).for_each(|ms| waits.record(ms * 1000));
        waits.record(2_345_678);
        let mut all = GroupWaits::new();
        all.merge(&waits);
        assert_eq!((all.quantiles(), all.dispatches), (waits.quantiles(), 1001));
        let WaitQuantiles { p50_ms, p95_ms, p99_ms, max_ms } = all.quantiles();
        for (actual, expected) in [(p50_ms, 501.0), (p95_ms, 951.0), (p99_ms, 991.0)] {
            assert!((actual / expected - 1.0).abs() <= 0.01, "{actual} {expected}");
        }
        assert_eq!(max_ms, 2345.678);
    }
}
