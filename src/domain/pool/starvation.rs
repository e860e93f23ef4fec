//! Starvation prevention: bounds that keep a queue from waiting forever behind preferred queues.

use crate::domain::duration;
use serde_json::{Value, json};

/// Bounds on how much one queue may be preferred to others. Times are in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Starvation {
    pub enabled: bool,
    /// A queue from which no job was taken for this long is served next.
    pub rotation_interval: u64,
    /// Minimum share of dispatches of each queue with jobs, 0 to 1: ⌊ratio·n⌋ of any n in a row.
    pub min_dispatch_ratio: f64,
    /// Maximum number of jobs in a row from one queue; 0 for no bound.
    pub max_consecutive: u32,
    pub priority_aging: Aging,
}

/// Increase of the priority of waiting jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aging {
    /// Interval between increases, in milliseconds.
    pub every: u64,
    /// Amount of each increase; 0 disables aging.
    pub step: u32,
    /// Maximum total increase.
    pub max: u32,
}

/// The ratio is never NaN: the configuration checks it.
impl Eq for Starvation {}

impl Default for Starvation {
    fn default() -> Self {
        Starvation {
            enabled: false,
            rotation_interval: 30_000,
            min_dispatch_ratio: 0.05,
            max_consecutive: 0,
            priority_aging: Aging { every: 60_000, step: 0, max: 50 },
        }
    }
}

impl Starvation {
    /// Resolution of ratios: one part in this many.
    const PARTS: f64 = 1e6;

    /// Rounds a ratio down to the resolution, so that it survives serialization unchanged. Rounding
    /// up would make six sixths exceed 1.
    pub fn round(ratio: f64) -> f64 {
        // A number with six digits is a whole number of parts, apart from the rounding error of the
        // multiplication.
        (ratio * Self::PARTS + 1e-3).floor() / Self::PARTS
    }

    /// Returns true if this many queues can each have the minimum share.
    pub fn fits(&self, queues: usize) -> bool {
        !self.enabled || (self.min_dispatch_ratio * Self::PARTS).round() * queues as f64 <= Self::PARTS
    }

    /// Returns the largest ratio that this many queues can each have, rounded down to 1/10,000.
    pub fn largest_ratio(queues: usize) -> f64 {
        (10_000.0 / queues.max(1) as f64).floor() / 10_000.0
    }

    /// Returns the settings with the names of the configuration.
    pub fn to_json(&self) -> Value {
        let Aging { every, step, max } = self.priority_aging;
        json!({
            "enabled": self.enabled,
            "rotation_interval": duration::to_iso(self.rotation_interval),
            "min_dispatch_ratio": self.min_dispatch_ratio,
            "max_consecutive": self.max_consecutive,
            "priority_aging": {"every": duration::to_iso(every), "step": step, "max": max},
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_must_not_make_more_than_the_whole() {
        let with = |ratio| Starvation { enabled: true, min_dispatch_ratio: ratio, ..Starvation::default() };
        for (ratio, queues, fits) in [
            (0.05, 20, true),
            (0.05, 21, false),
            (0.1, 10, true),
            (1.0 / 3.0, 3, true),
            (Starvation::round(1.0 / 6.0), 6, true),
            (0.166_667, 6, false),
            (0.334, 3, false),
            (0.0, 256, true),
        ] {
            assert_eq!(with(ratio).fits(queues), fits, "{ratio} of {queues}");
            assert!(with(Starvation::largest_ratio(queues)).fits(queues));
        }
        for digits in 0..=1_000_000 {
            let ratio = f64::from(digits) / 1e6;
            assert_eq!(Starvation::round(ratio), ratio, "numbers with six digits are unchanged");
        }
        assert!(Starvation { enabled: false, ..with(0.9) }.fits(100));
        assert_eq!(Starvation::largest_ratio(3), 0.3333);
    }

    #[test]
    fn is_shown_under_the_names_of_the_configuration() {
        let expected = json!({"enabled": false, "rotation_interval": "PT30S", "min_dispatch_ratio": 0.05,
            "max_consecutive": 0, "priority_aging": {"every": "PT1M", "step": 0, "max": 50}});
        assert_eq!(Starvation::default().to_json(), expected);
    }
}
