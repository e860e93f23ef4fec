//! A histogram of fixed size. Buckets grow with the value, so that each represents its values within two percent.

use std::time::Duration;

/// Buckets per power of two.
const STEPS: u64 = 64;
/// Buckets for 0 to 2^32 µs, which is over an hour; the last bucket takes everything slower.
const DOUBLINGS: u64 = 27;

/// Counts of durations.
pub struct Histogram {
    buckets: Vec<u64>,
}

impl Histogram {
    pub fn new() -> Self {
        Histogram { buckets: vec![0; (STEPS * DOUBLINGS) as usize] }
    }

    /// Counts one duration.
    pub fn record(&mut self, took: Duration) {
        self.buckets[bucket(took.as_micros() as u64)] += 1;
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(ours, theirs)| *ours += theirs);
    }

    /// The value, in ms, below which `share` of all values lie; 0 for an empty histogram.
    pub fn percentile_ms(&self, share: f64) -> f64 {
        let rank = (self.buckets.iter().sum::<u64>() as f64 * share).ceil() as u64;
        let mut seen = 0;
        let place = self.buckets.iter().position(|count| {
            seen += count;
            seen >= rank && seen > 0
        });
        place.map_or(0.0, |place| middle(place as u64) / 1e3)
    }
}

/// The bucket of a value. Values below `STEPS` have one each; above, each power of two has `STEPS`.
fn bucket(micros: u64) -> usize {
    let doubling = u64::from((micros / STEPS).checked_ilog2().map_or(0, |log| log + 1));
    let step = if doubling == 0 { micros } else { (micros >> (doubling - 1)) - STEPS };
    ((doubling * STEPS + step) as usize).min((STEPS * DOUBLINGS) as usize - 1)
}

/// The value in the middle of a bucket, in µs.
fn middle(bucket: u64) -> f64 {
    let (doubling, step) = (bucket / STEPS, bucket % STEPS);
    if doubling == 0 {
        return step as f64;
    }
    let width = (1_u64 << (doubling - 1)) as f64;
    ((STEPS + step) as f64 + 0.5) * width - 0.5
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_stay_close_to_their_values() {
        let mut last = 0;
        for micros in (0..200_000).chain([1 << 31, (1 << 32) - 1]) {
            let place = bucket(micros);
            assert!(place >= last, "{micros}");
            last = place;
            assert!((middle(place as u64) - micros as f64).abs() <= micros as f64 * 0.02, "{micros}");
        }
        assert_eq!(bucket(u64::MAX), (STEPS * DOUBLINGS) as usize - 1);
    }

    #[test]
    fn percentiles_of_a_known_set() {
        let mut histogram = Histogram::new();
        assert_eq!(histogram.percentile_ms(0.5), 0.0);
        (1..=1000).for_each(|ms| histogram.record(Duration::from_millis(ms)));
        let mut both = Histogram::new();
        both.merge(&histogram);
        for (share, expected) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            assert!((both.percentile_ms(share) - expected).abs() < expected * 0.02, "{share}");
        }
    }
}
