//! Random numbers that are the same on every machine.
//!
//! Logarithms and cosines come from `libm`, because those of the system differ in the last bit
//! between platforms.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

/// The use of a stream of random numbers. Each tenant has one stream for each use, so that a change
/// in one use or tenant leaves the others as they are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Use {
    Arrivals,
    RunTimes,
    Failures,
}

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(super) struct Random(Pcg64);

impl Random {
    /// Creates the stream of a tenant for one use.
    pub(super) fn new(seed: u64, tenant: u32, purpose: Use) -> Random {
        let mut state = seed;
        let base = mix(&mut state);
        let mut own = base ^ (u64::from(tenant) << 2 | purpose as u64);
        let mut word = || u128::from(mix(&mut own)) << 64 | u128::from(mix(&mut own));
        Random(Pcg64::new(word(), word()))
    }

    /// Returns a number above 0 and at most 1.
    pub(super) fn unit(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number with an exponential distribution of mean 1.
    pub(super) fn exponential(&mut self) -> f64 {
        -libm::log(self.unit())
    }

    /// Returns a number with the standard normal distribution, by the method of Box and Muller.
    pub(super) fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(2.0 * self.exponential());
        radius * libm::cos(std::f64::consts::TAU * self.unit())
    }
}

/// Returns the next number of SplitMix64, which turns similar seeds into different states.
fn mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 100_000;

    fn moments(mut draw: impl FnMut() -> f64) -> (f64, f64) {
        let drawn: Vec<f64> = (0..DRAWS).map(|_| draw()).collect();
        let mean = drawn.iter().sum::<f64>() / DRAWS as f64;
        (mean, drawn.iter().map(|one| (one - mean) * (one - mean)).sum::<f64>() / DRAWS as f64)
    }

    #[test]
    fn each_distribution_has_its_mean_and_variance() {
        let mut random = Random::new(1, 0, Use::Arrivals);
        for ((mean, variance), (expected, spread)) in [
            (moments(|| random.unit()), (0.5, 1.0 / 12.0)),
            (moments(|| random.exponential()), (1.0, 1.0)),
            (moments(|| random.normal()), (0.0, 1.0)),
        ] {
            assert!((mean - expected).abs() < 0.02 && (variance - spread).abs() < 0.03, "{mean} {variance}");
        }
    }

    #[test]
    fn streams_of_tenants_uses_and_seeds_differ() {
        let mut first: Vec<f64> = [(1, 0), (1, 1), (2, 0), (1, 1 << 30)]
            .into_iter()
            .flat_map(|(seed, tenant)| {
                [Use::Arrivals, Use::RunTimes, Use::Failures].map(|purpose| (seed, tenant, purpose))
            })
            .map(|(seed, tenant, purpose)| Random::new(seed, tenant, purpose).unit())
            .collect();
        first.sort_by(f64::total_cmp);
        first.dedup();
        assert_eq!(first.len(), 12);
    }

    /// If this fails, results of earlier versions can no longer be reproduced.
    #[test]
    fn the_first_numbers_of_a_seed_never_change() {
        let mut random = Random::new(7, 3, Use::RunTimes);
        let drawn = [random.unit(), random.exponential(), random.normal()];
        assert_eq!(drawn.map(f64::to_bits), PINNED);
    }

    const PINNED: [u64; 3] = [4_600_020_147_787_121_940, 4_609_408_602_192_071_007, 13_830_673_277_205_823_178];
}
