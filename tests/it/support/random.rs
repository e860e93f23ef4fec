//! Random numbers that are the same in each run.

use fairgate::domain::tenant::Weight;

/// A generator with this seed. Its numbers need not be good random numbers, only different ones.
pub struct Random(pub u64);

impl Random {
    /// A number from 0 to `limit - 1`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % limit as u64) as usize
    }

    /// A weight, distributed evenly over the orders of magnitude from 0.05 to 1,000.
    pub fn weight(&mut self) -> Weight {
        Weight::of(10f64.powf(-1.3 + 4.3 * self.below(10_000) as f64 / 10_000.0)).expect("a valid weight")
    }
}
