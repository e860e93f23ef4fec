//! What keeps a queue from waiting forever behind queues that a strategy prefers.

use crate::job::duration;
use serde_json::{Value, json};

/// Bounds on how much one queue may be preferred to others. Times are in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Starvation {
    pub enabled: bool,
    /// A queue that nothing was taken from for so long is served next.
    pub rotation_interval: u64,
    /// The share of dispatches that each queue with jobs gets at least, 0 to 1: ⌊ratio·n⌋ of any n in a row.
    pub min_dispatch_ratio: f64,
    /// After so many jobs in a row of one queue another one is served; 0 for no bound.
    pub max_consecutive: u32,
    pub priority_aging: Aging,
}

/// How the priority of a waiting job rises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aging {
    /// How often it rises.
    pub every: u64,
    /// By how much; 0 for never.
    pub step: u32,
    /// By how much in all.
    pub max: u32,
}

/// The ratio is a number: it has been checked.
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
    /// Ratios are told apart to this part of the whole.
    const PARTS: f64 = 1e6;

    /// A ratio in whole parts, so that it is the same after it was written and read. Rounded down: six sixths must fit into 1.
    pub fn round(ratio: f64) -> f64 {
        // A number with six digits is a whole number of parts but for the error of its multiplication.
        (ratio * Self::PARTS + 1e-3).floor() / Self::PARTS
    }

    /// Whether so many queues can each have their share.
    pub fn fits(&self, queues: usize) -> bool {
        !self.enabled || (self.min_dispatch_ratio * Self::PARTS).round() * queues as f64 <= Self::PARTS
    }

    /// The largest ratio that so many queues can each have, in ten thousandths.
    pub fn largest_ratio(queues: usize) -> f64 {
        (10_000.0 / queues.max(1) as f64).floor() / 10_000.0
    }

    /// Under the names of the configuration.
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
            assert_eq!(Starvation::round(ratio), ratio, "six digits stay as they are");
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
