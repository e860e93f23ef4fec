//! The weight of a tenant relative to the others.

use std::fmt;

/// A weight in thousandths, so that sums are exact; 0 holds the tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u32);

impl Weight {
    /// The smallest weight above 0.
    pub const LEAST: Weight = Weight(50);
    /// The largest weight.
    pub const MOST: Weight = Weight(1_000_000);
    /// Weight 1.
    pub const ONE: Weight = Weight(1000);
    /// Weight 0: the tenant's jobs wait until the weight changes.
    pub const HELD: Weight = Weight(0);

    /// Returns the nearest weight: 0 holds, and other numbers are clamped to 0.05 … 1,000. `None`
    /// for negative and non-finite numbers.
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

    /// Creates a weight from the number that scripts store.
    pub fn from_thousandths(thousandths: u32) -> Weight {
        match thousandths {
            0 => Weight::HELD,
            some => Weight(some.clamp(Weight::LEAST.0, Weight::MOST.0)),
        }
    }

    /// Returns the weight in thousandths, as scripts store it.
    pub fn thousandths(self) -> u32 {
        self.0
    }

    /// Returns the weight as a number.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / 1000.0
    }

    /// Returns the weight as JSON; whole numbers have no fraction (5, not 5.0).
    pub fn to_json(self) -> serde_json::Value {
        if self.0.is_multiple_of(1000) { (self.0 / 1000).into() } else { self.as_f64().into() }
    }

    /// Returns true if the tenant is held.
    pub fn is_held(self) -> bool {
        self.0 == 0
    }

    /// Returns the class in which a tenant of this weight waits. There are four classes per
    /// doubling.
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
