//! How much of the promotions a tenant gets, compared with others.

use std::fmt;

/// A weight in thousandths, so that sums are exact; 0 holds the tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u32);

impl Weight {
    /// The smallest weight that is served at all.
    pub const LEAST: Weight = Weight(50);
    /// The largest weight.
    pub const MOST: Weight = Weight(1_000_000);
    /// Weight 1.
    pub const ONE: Weight = Weight(1000);
    /// Held: its jobs wait until the weight changes.
    pub const HELD: Weight = Weight(0);

    /// The weight nearest to a number: 0 holds, anything else is clamped to 0.05 … 1,000. `None` for what is no weight.
    pub fn of(number: f64) -> Option<Weight> {
        if !number.is_finite() || number < 0.0 {
            return None;
        }
        if number == 0.0 {
            return Some(Weight::HELD);
        }
        let thousandths = (number * 1000.0).round().clamp(f64::from(Weight::LEAST.0), f64::from(Weight::MOST.0));
        Some(Weight(thousandths as u32))
    }

    /// A weight as scripts keep it.
    pub fn from_thousandths(thousandths: u32) -> Weight {
        match thousandths {
            0 => Weight::HELD,
            some => Weight(some.clamp(Weight::LEAST.0, Weight::MOST.0)),
        }
    }

    /// As scripts take it.
    pub fn thousandths(self) -> u32 {
        self.0
    }

    /// As people write it.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / 1000.0
    }

    /// As answers show it: 5, not 5.0.
    pub fn to_json(self) -> serde_json::Value {
        if self.0.is_multiple_of(1000) { (self.0 / 1000).into() } else { self.as_f64().into() }
    }

    /// Whether the tenant is held.
    pub fn is_held(self) -> bool {
        self.0 == 0
    }

    /// The class in which a tenant of this weight waits: four to each doubling.
    pub fn class(self) -> u32 {
        (4.0 * f64::from(self.0.max(1)).log2()).floor() as u32
    }
}

impl Default for Weight {
    fn default() -> Self {
        Weight::ONE
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_f64().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_count_and_extremes_are_clamped() {
        for (number, thousandths) in
            [(1.0, 1000), (0.5, 500), (0.05, 50), (0.001, 50), (3.0, 3000), (1e9, 1_000_000), (0.0, 0), (-0.0, 0)]
        {
            assert_eq!(Weight::of(number).map(Weight::thousandths), Some(thousandths), "{number}");
        }
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, -0.001] {
            assert_eq!(Weight::of(number), None, "{number}");
        }
        assert_eq!(Weight::of(0.5).unwrap().to_string(), "0.5");
    }

    #[test]
    fn there_are_58_classes() {
        assert_eq!((Weight::LEAST.class(), Weight::MOST.class()), (22, 79));
    }
}
