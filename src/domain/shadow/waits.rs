//! A histogram of waits with logarithmic buckets and an error of at most two percent.
//!
//! It is sparse, because shadow mode keeps two for each of thousands of tenants, and its old values
//! fade. `hdrhistogram`, which the benchmarks use, takes some 50 KiB for each and keeps them forever.

use std::collections::BTreeMap;

/// Number of buckets per doubling.
const STEPS: u64 = 32;
/// All counts are halved if their sum reaches this, so that old values lose influence.
const MOST: u64 = 10_000;

/// Waits in milliseconds.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    buckets: BTreeMap<u64, u64>,
    weight: u64,
    total: u64,
}

impl Waits {
    /// Counts a wait.
    pub fn record(&mut self, ms: u64) {
        *self.buckets.entry(bucket(ms)).or_default() += 1;
        (self.weight, self.total) = (self.weight + 1, self.total + 1);
        if self.weight >= MOST {
            self.buckets.values_mut().for_each(|count| *count /= 2);
            self.buckets.retain(|_, count| *count > 0);
            self.weight = self.buckets.values().sum();
        }
    }

    /// Returns the number of waits counted since the start.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the wait that a share of all waits do not exceed; `None` without any.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let rank = ((self.weight as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let place = self.buckets.iter().find(|(_, count)| {
            seen += **count;
            seen >= rank
        });
        place.map(|(bucket, _)| middle(*bucket))
    }
}

/// Returns the bucket of a value. Each value below `STEPS` has its own bucket; above, each doubling
/// has `STEPS` buckets.
fn bucket(ms: u64) -> u64 {
    let doubling = u64::from((ms / STEPS).checked_ilog2().map_or(0, |log| log + 1));
    let step = if doubling == 0 { ms } else { (ms >> (doubling - 1)) - STEPS };
    doubling * STEPS + step
}

fn middle(bucket: u64) -> u64 {
    let (doubling, step) = (bucket / STEPS, bucket % STEPS);
    match doubling {
        0 => step,
        _ => ((STEPS + step) << (doubling - 1)) + ((1 << (doubling - 1)) >> 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_known_set() {
        let mut waits = Waits::default();
        assert_eq!(waits.quantile(0.5), None);
        (1..=1000).for_each(|ms| waits.record(ms * 7));
        for (share, expected) in [(0.0, 7.0), (0.5, 3500.0), (0.95, 6650.0), (1.0, 7000.0)] {
            let found = waits.quantile(share).expect("some") as f64;
            assert!((found - expected).abs() <= expected * 0.02, "{share}: {found}");
        }
        assert_eq!(waits.total(), 1000);
    }

    #[test]
    fn what_was_long_ago_counts_less() {
        let mut waits = Waits::default();
        (0..20_000).for_each(|_| waits.record(1000));
        (0..20_000).for_each(|_| waits.record(10));
        assert_eq!((waits.quantile(0.5), waits.total()), (Some(10), 40_000));
        assert!(waits.buckets.len() <= 2);
        for extreme in [0, u64::MAX] {
            waits.record(extreme);
        }
        assert!(middle(bucket(u64::MAX)) > u64::MAX / 2);
    }
}
