//! The times at which a tenant enqueues jobs.

use super::random::Random;

/// The jobs that a tenant enqueues: at random times, at fixed times, in bursts, or a mix of these.
/// Times are in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Arrivals {
    /// Number of jobs per second on average, at random times (a Poisson process).
    pub rate: Option<f64>,
    /// Time from job to job.
    pub every_us: Option<u64>,
    pub burst: Option<Burst>,
    /// Active and inactive phases, which `rate` and `every_us` follow.
    pub phases: Option<Phases>,
    /// Time before which nothing is enqueued, except a burst.
    pub start_us: u64,
}

/// Jobs that are enqueued at the same moment, in one request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burst {
    pub jobs: u64,
    pub at_us: u64,
    /// Time until the next burst; `None` if there is only one.
    pub every_us: Option<u64>,
}

/// Alternating phases, beginning with an active one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phases {
    pub on_us: u64,
    pub off_us: u64,
}

impl Arrivals {
    /// Returns the expected number of jobs of one tenant until a time.
    pub fn expected(&self, until_us: u64) -> f64 {
        let active = self.active_us(until_us) as f64;
        let steady = self.rate.unwrap_or(0.0) * active / 1e6;
        let regular = self.every_us.map_or(0.0, |every| (active / every.max(1) as f64).ceil());
        let bursts = self.burst.filter(|burst| burst.at_us < until_us).map_or(0.0, |burst| {
            let more = burst.every_us.map_or(0, |every| (until_us - 1 - burst.at_us) / every.max(1));
            burst.jobs as f64 * (1 + more) as f64
        });
        steady + regular + bursts
    }

    /// Returns the active time until a moment.
    fn active_us(&self, until_us: u64) -> u64 {
        let since = until_us.saturating_sub(self.start_us);
        match self.phases {
            None => since,
            Some(Phases { on_us, off_us }) => {
                let cycle = on_us.saturating_add(off_us).max(1);
                since / cycle * on_us + (since % cycle).min(on_us)
            }
        }
    }

    /// Returns the moment at which a tenant has been active for some time.
    fn moment_us(&self, active_us: u64) -> u64 {
        let inactive = match self.phases {
            None => 0,
            Some(Phases { on_us, off_us }) => (active_us / on_us.max(1)).saturating_mul(off_us),
        };
        self.start_us.saturating_add(active_us).saturating_add(inactive)
    }
}

/// A request to enqueue jobs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Arrival {
    pub at_us: u64,
    pub jobs: u64,
}

/// The arrivals of one tenant in the order of time.
#[derive(Clone, Debug)]
pub(super) struct ArrivalSource {
    arrivals: Arrivals,
    random: Random,
    /// Active time of the next random job. A float, so that gaps below a microsecond add up.
    steady: Option<f64>,
    /// Active time of the next regular job.
    regular: Option<u64>,
    burst_at: Option<u64>,
}

impl ArrivalSource {
    /// Creates the source of a tenant. Regular jobs of several tenants that are alike are spread
    /// evenly: `place` is the tenant's place among `of`.
    pub(super) fn new(arrivals: Arrivals, random: Random, place: u32, of: u32) -> ArrivalSource {
        let offset = |every: u64| (u128::from(every) * u128::from(place) / u128::from(of.max(1))) as u64;
        let mut source = ArrivalSource {
            arrivals,
            random,
            steady: arrivals.rate.filter(|rate| *rate > 0.0).map(|_| 0.0),
            regular: arrivals.every_us.map(offset),
            burst_at: arrivals.burst.map(|burst| burst.at_us),
        };
        source.step_steady();
        source
    }

    /// Returns the next arrival.
    pub(super) fn next(&mut self) -> Option<Arrival> {
        let steady = self.steady.map(|active| self.arrivals.moment_us(active as u64));
        let regular = self.regular.map(|active| self.arrivals.moment_us(active));
        let at_us = [steady, regular, self.burst_at].into_iter().flatten().min()?;
        if self.burst_at == Some(at_us) {
            let burst = self.arrivals.burst?;
            self.burst_at = burst.every_us.map(|every| at_us.saturating_add(every.max(1)));
            return Some(Arrival { at_us, jobs: burst.jobs });
        }
        if regular == Some(at_us) {
            self.regular = self.regular.zip(self.arrivals.every_us).map(|(at, every)| at.saturating_add(every.max(1)));
        } else {
            self.step_steady();
        }
        Some(Arrival { at_us, jobs: 1 })
    }

    fn step_steady(&mut self) {
        if let (Some(active), Some(rate)) = (&mut self.steady, self.arrivals.rate) {
            *active += self.random.exponential() * 1e6 / rate;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Use;
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn until(arrivals: Arrivals, until_us: u64) -> Vec<Arrival> {
        let mut source = ArrivalSource::new(arrivals, Random::new(3, 0, Use::Arrivals), 0, 1);
        std::iter::from_fn(|| source.next()).take_while(|arrival| arrival.at_us < until_us).collect()
    }

    fn jobs(arrivals: &[Arrival]) -> u64 {
        arrivals.iter().map(|arrival| arrival.jobs).sum()
    }

    #[test]
    fn random_jobs_have_their_rate_and_independent_gaps() {
        let arrived = until(Arrivals { rate: Some(50.0), ..Arrivals::default() }, 2000 * SECOND);
        assert!((99_000..101_000).contains(&arrived.len()), "{}", arrived.len());
        let gaps: Vec<f64> = arrived.windows(2).map(|two| (two[1].at_us - two[0].at_us) as f64 / 20_000.0).collect();
        let spread = gaps.iter().map(|gap| (gap - 1.0) * (gap - 1.0)).sum::<f64>() / gaps.len() as f64;
        assert!((0.95..1.05).contains(&spread), "the variance of an exponential gap is its squared mean: {spread}");
    }

    #[test]
    fn regular_jobs_come_at_their_times_and_those_of_alike_tenants_in_between() {
        let arrivals = Arrivals { every_us: Some(400), start_us: 1000, ..Arrivals::default() };
        let times: Vec<u64> = until(arrivals, 2000).iter().map(|arrival| arrival.at_us).collect();
        assert_eq!(times, [1000, 1400, 1800]);
        let mut third = ArrivalSource::new(arrivals, Random::new(3, 0, Use::Arrivals), 2, 4);
        assert_eq!(third.next(), Some(Arrival { at_us: 1200, jobs: 1 }));
    }

    #[test]
    fn bursts_come_once_or_again_and_before_other_jobs_of_their_moment() {
        let once = Burst { jobs: 10, at_us: 5, every_us: None };
        assert_eq!(
            until(Arrivals { burst: Some(once), ..Arrivals::default() }, u64::MAX),
            [Arrival { at_us: 5, jobs: 10 }]
        );
        let again = Burst { every_us: Some(100), ..once };
        let arrivals = Arrivals { burst: Some(again), every_us: Some(105), ..Arrivals::default() };
        let arrived: Vec<(u64, u64)> = until(arrivals, 206).iter().map(|one| (one.at_us, one.jobs)).collect();
        assert_eq!(arrived, [(0, 1), (5, 10), (105, 10), (105, 1), (205, 10)]);
    }

    #[test]
    fn phases_stop_random_and_regular_jobs() {
        let phases = Some(Phases { on_us: 10 * SECOND, off_us: 50 * SECOND });
        let arrivals = Arrivals { rate: Some(100.0), phases, start_us: 5 * SECOND, ..Arrivals::default() };
        let arrived = until(arrivals, 605 * SECOND);
        assert!(arrived.iter().all(|one| (one.at_us - 5 * SECOND) % (60 * SECOND) < 10 * SECOND));
        assert!((9_500..10_500).contains(&arrived.len()), "{}", arrived.len());
        let arrivals = Arrivals { every_us: Some(4 * SECOND), phases, ..Arrivals::default() };
        let times: Vec<u64> = until(arrivals, 130 * SECOND).iter().map(|one| one.at_us / SECOND).collect();
        assert_eq!(times, [0, 4, 8, 62, 66, 120, 124, 128]);
    }

    #[test]
    fn the_expected_number_is_that_of_the_jobs() {
        let burst = Some(Burst { jobs: 500, at_us: SECOND, every_us: Some(30 * SECOND) });
        let phases = Some(Phases { on_us: 7 * SECOND, off_us: 3 * SECOND });
        for arrivals in [
            Arrivals { rate: Some(20.0), ..Arrivals::default() },
            Arrivals { every_us: Some(SECOND / 30), start_us: 17 * SECOND, ..Arrivals::default() },
            Arrivals { burst, ..Arrivals::default() },
            Arrivals { rate: Some(40.0), every_us: Some(SECOND), burst, phases, start_us: 3 * SECOND },
        ] {
            let (expected, actual) = (arrivals.expected(600 * SECOND), jobs(&until(arrivals, 600 * SECOND)) as f64);
            assert!((actual / expected - 1.0).abs() < 0.03, "{arrivals:?}: {actual}, expected {expected}");
        }
    }
}
