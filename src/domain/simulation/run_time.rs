//! The distribution of the times for which jobs run.

use super::random::Random;

/// Longest run, in microseconds: 30 days. A heavy tail has no end of its own.
const LONGEST_US: f64 = 30.0 * 86_400e6;

/// The 99th percentile of the standard normal distribution.
const NORMAL_P99: f64 = 2.326_347_874_040_841;

/// A distribution of run times, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RunTime {
    Fixed {
        us: u64,
    },
    Uniform {
        from_us: u64,
        to_us: u64,
    },
    Exponential {
        mean_us: u64,
    },
    /// A distribution with a long tail: most jobs are short, few take very long.
    Lognormal {
        median_us: u64,
        p99_us: u64,
    },
}

impl RunTime {
    /// Draws a run time of at least one microsecond.
    pub(super) fn draw(self, random: &mut Random) -> u64 {
        let us = match self {
            RunTime::Fixed { us } => return us.max(1),
            RunTime::Uniform { from_us, to_us } => {
                from_us as f64 + (to_us.saturating_sub(from_us)) as f64 * random.unit()
            }
            RunTime::Exponential { mean_us } => mean_us as f64 * random.exponential(),
            RunTime::Lognormal { median_us, .. } => median_us as f64 * libm::exp(self.sigma() * random.normal()),
        };
        us.round().clamp(1.0, LONGEST_US) as u64
    }

    /// Returns the mean, in microseconds.
    pub fn mean_us(self) -> f64 {
        match self {
            RunTime::Fixed { us } => us as f64,
            RunTime::Uniform { from_us, to_us } => (from_us as f64 + to_us as f64) / 2.0,
            RunTime::Exponential { mean_us } => mean_us as f64,
            RunTime::Lognormal { median_us, .. } => {
                let sigma = self.sigma();
                median_us as f64 * libm::exp(sigma * sigma / 2.0)
            }
        }
    }

    /// Returns the standard deviation of the logarithm.
    fn sigma(self) -> f64 {
        match self {
            RunTime::Lognormal { median_us, p99_us } => {
                libm::log(p99_us.max(1) as f64 / median_us.max(1) as f64).max(0.0) / NORMAL_P99
            }
            RunTime::Fixed { .. } | RunTime::Uniform { .. } | RunTime::Exponential { .. } => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Use;
    use super::*;

    const DRAWS: usize = 100_000;

    fn drawn(run_time: RunTime) -> Vec<u64> {
        let mut random = Random::new(5, 0, Use::RunTimes);
        let mut drawn: Vec<u64> = (0..DRAWS).map(|_| run_time.draw(&mut random)).collect();
        drawn.sort_unstable();
        drawn
    }

    #[test]
    fn each_distribution_has_its_mean() {
        for run_time in [
            RunTime::Fixed { us: 70_000 },
            RunTime::Uniform { from_us: 10_000, to_us: 90_000 },
            RunTime::Exponential { mean_us: 50_000 },
            RunTime::Lognormal { median_us: 50_000, p99_us: 500_000 },
        ] {
            let mean = drawn(run_time).iter().sum::<u64>() as f64 / DRAWS as f64;
            assert!((mean / run_time.mean_us() - 1.0).abs() < 0.02, "{run_time:?}: {mean}");
        }
    }

    #[test]
    fn a_lognormal_has_its_median_and_99th_percentile() {
        let drawn = drawn(RunTime::Lognormal { median_us: 80_000, p99_us: 5_000_000 });
        let (median, p99) = (drawn[DRAWS / 2] as f64, drawn[DRAWS / 100 * 99] as f64);
        assert!((median / 80_000.0 - 1.0).abs() < 0.03 && (p99 / 5_000_000.0 - 1.0).abs() < 0.06, "{median} {p99}");
    }

    #[test]
    fn no_run_is_empty_or_endless() {
        assert_eq!(drawn(RunTime::Fixed { us: 0 })[0], 1);
        let uniform = drawn(RunTime::Uniform { from_us: 5, to_us: 9 });
        assert!(uniform[0] >= 5 && uniform[DRAWS - 1] == 9, "{} {}", uniform[0], uniform[DRAWS - 1]);
        let endless = drawn(RunTime::Lognormal { median_us: 1, p99_us: u64::MAX });
        assert!(endless[0] == 1 && endless[DRAWS - 1] as f64 <= LONGEST_US);
    }
}
