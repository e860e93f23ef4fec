//! How large a round is when the rule leaves it to us: `enqueue_jobs = "auto"`.

use std::collections::VecDeque;

/// Samples kept at most.
const SAMPLES: usize = 64;
/// How far apart they are kept, in milliseconds; the newest gives way where they come faster. 62 times this is `LONG`.
const APART: u64 = 41;
/// Over how long a rate is remembered, in milliseconds: a decrease acts after that.
const LONG: u64 = 2500;
/// Over how long a rate is measured at least: one job more or less in a shorter time would look like a change.
const SHORT: u64 = 100;
/// The deepest that dry spells alone make us aim.
const MOST_BOOST: u64 = 1024;

/// What is known of how fast workers take jobs from one main queue.
#[derive(Clone, Debug)]
pub struct Drain {
    samples: VecDeque<Sample>,
    /// The least depth to aim at. Grows while the queue runs dry: then the rate says what we let in, not what the
    /// workers could take.
    boost: u64,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: u64,
    taken: u64,
}

/// How full the main queue should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aim {
    /// Jobs that should wait after a round.
    pub depth: u64,
    /// Fewer than this start a round at once.
    pub low: u64,
}

impl Aim {
    /// The size of a round that finds the queue so deep.
    pub fn batch(&self, depth: u64) -> u64 {
        self.depth.saturating_sub(depth)
    }
}

impl Default for Drain {
    fn default() -> Self {
        Drain { samples: VecDeque::with_capacity(SAMPLES), boost: 1 }
    }
}

impl Drain {
    /// Nothing is known yet.
    pub fn new() -> Drain {
        Drain::default()
    }

    /// The main queue as a round finds it: how many jobs workers took since it exists, and whether it ran dry since
    /// the last observation although jobs were staged.
    pub fn observe(&mut self, now_ms: u64, taken_total: u64, dry: bool) {
        self.boost = if dry { (self.boost * 2).min(MOST_BOOST) } else { (self.boost / 2).max(1) };
        let sample = Sample { at: now_ms, taken: taken_total };
        // A clock that steps back or a count that starts anew makes what was seen before incomparable.
        if self.samples.back().is_some_and(|last| sample.at < last.at || sample.taken < last.taken) {
            self.samples.clear();
        }
        if let [.., before, last] = *self.samples.make_contiguous()
            && last.at - before.at < APART
        {
            self.samples.pop_back();
        }
        self.samples.push_back(sample);
        // One sample from before the window stays: it is where the window starts.
        while self.samples.len() > SAMPLES || self.samples.get(1).is_some_and(|next| next.at + LONG <= now_ms) {
            self.samples.pop_front();
        }
    }

    /// Jobs that workers take in a second: the larger of a long and a short measurement, so that an increase acts at once
    /// and a pause of the workers does not.
    pub fn rate(&self) -> f64 {
        let Some(last) = self.samples.back() else { return 0.0 };
        let since = |first: &Sample| match last.at - first.at {
            0 => 0.0,
            ms => (last.taken - first.taken) as f64 * 1000.0 / ms as f64,
        };
        let short = self.samples.iter().rev().find(|sample| last.at - sample.at >= SHORT);
        let long = self.samples.front();
        short.map_or(0.0, since).max(long.map_or(0.0, since))
    }

    /// How deep to keep the main queue for jobs to wait in it about half of that latency.
    ///
    /// Half, because a round also lets in what is taken until the next, and because a measured rate may be too high
    /// for a while.
    pub fn target(&self, target_latency_ms: u64) -> Aim {
        let depth = (self.rate() * target_latency_ms as f64 / 1000.0 * 0.5).ceil() as u64;
        let depth = depth.max(self.boost);
        Aim { depth, low: (depth / 2).max(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: u64 = 500;
    /// How long a queue that is too empty takes to start a round, in milliseconds.
    const REACTION: u64 = 2;
    const INTERVAL: u64 = 1000;

    /// Workers that take jobs at a steady rate, and a planner that keeps them busy.
    #[derive(Default)]
    struct Simulation {
        drain: Drain,
        now: u64,
        depth: u64,
        taken: u64,
        /// What the workers could have taken and have not yet, in thousandths of a job.
        appetite: u64,
        dry_since_round: bool,
        dry_ms: u64,
        woken: Option<u64>,
    }

    impl Simulation {
        /// Runs for a while and tells the depth after each scheduled round.
        fn run(&mut self, rate: u64, seconds: u64) -> Vec<u64> {
            let mut depths = Vec::new();
            for _ in 0..seconds * 1000 {
                self.now += 1;
                let scheduled = self.now.is_multiple_of(INTERVAL);
                if scheduled || self.woken.is_some_and(|at| at <= self.now) {
                    self.round();
                }
                if scheduled {
                    depths.push(self.depth);
                }
                self.work(rate);
            }
            depths
        }

        fn work(&mut self, rate: u64) {
            // An idle worker takes the next job at once, but does not make up for lost time.
            self.appetite = (self.appetite + rate).min(1000 + rate);
            while self.appetite >= 1000 && self.depth > 0 {
                (self.appetite, self.depth, self.taken) = (self.appetite - 1000, self.depth - 1, self.taken + 1);
            }
            if self.appetite >= 1000 {
                self.dry_ms += 1;
                self.dry_since_round = true;
            }
            if self.depth < self.drain.target(LATENCY).low && self.woken.is_none() {
                self.woken = Some(self.now + REACTION);
            }
        }

        fn round(&mut self) {
            self.woken = None;
            self.drain.observe(self.now, self.taken, std::mem::take(&mut self.dry_since_round));
            self.depth += self.drain.target(LATENCY).batch(self.depth);
        }
    }

    #[test]
    fn the_depth_follows_the_workers() {
        let mut simulation = Simulation { woken: Some(1), ..Simulation::default() };
        for rate in [50, 500, 50] {
            let depths = simulation.run(rate, 20);
            let most = rate * LATENCY / 1000;
            assert!(depths[2..].iter().all(|depth| *depth <= most), "at {rate}/s: {depths:?}, more than {most}");
        }
        assert!(simulation.dry_ms * 100 <= simulation.now, "dry for {} of {} ms", simulation.dry_ms, simulation.now);
    }

    /// What was promoted for fast workers stays promoted when slow ones follow, but no more joins it.
    #[test]
    fn the_aim_follows_a_change_of_any_size() {
        for (slow, fast) in [(5, 5000), (1, 50), (2, 2000)] {
            let mut simulation = Simulation { woken: Some(1), ..Simulation::default() };
            for rate in [slow, fast, slow] {
                simulation.run(rate, 3);
                let most = (rate * LATENCY / 1000).max(1);
                assert!(simulation.drain.target(LATENCY).depth <= most, "{slow} and {fast}, at {rate}/s");
                simulation.run(rate, 17);
            }
            assert!(simulation.dry_ms * 100 <= simulation.now, "{slow} and {fast}: dry for {} ms", simulation.dry_ms);
        }
    }

    #[test]
    fn dry_spells_raise_the_aim_and_calm_lowers_it() {
        let mut drain = Drain::new();
        assert_eq!(drain.target(LATENCY), Aim { depth: 1, low: 1 });
        (0..20).for_each(|_| drain.observe(0, 0, true));
        assert_eq!(drain.target(LATENCY), Aim { depth: MOST_BOOST, low: MOST_BOOST / 2 });
        (0..20).for_each(|_| drain.observe(0, 0, false));
        assert_eq!(drain.target(LATENCY), Aim { depth: 1, low: 1 });
        assert_eq!((Aim { depth: 10, low: 5 }.batch(4), Aim { depth: 10, low: 5 }.batch(40)), (6, 0));
    }

    #[test]
    fn an_increase_acts_at_once_and_a_decrease_when_the_window_has_passed() {
        let mut drain = Drain::new();
        (0..=40).for_each(|step| drain.observe(step * 100, step, false));
        assert_eq!(drain.rate(), 10.0);
        drain.observe(4100, 90, false);
        assert_eq!(drain.rate(), 500.0);
        drain.observe(4200, 90, false);
        assert!(drain.rate() > 20.0);
        (43..68).for_each(|step| drain.observe(step * 100, 90, false));
        assert_eq!(drain.rate(), 0.0);
    }

    #[test]
    fn neither_a_clock_nor_a_count_that_steps_back_confuses() {
        for (at, taken) in [(500, 1000), (2000, 3), (1000, 100)] {
            let mut drain = Drain::new();
            drain.observe(900, 50, false);
            drain.observe(1000, 100, false);
            drain.observe(at, taken, false);
            drain.observe(at + 1000, taken + 70, false);
            assert!((70.0..=500.0).contains(&drain.rate()), "{at} {taken}: {}", drain.rate());
        }
    }

    #[test]
    fn memory_is_bounded_and_the_window_whole() {
        let mut drain = Drain::new();
        (0..10_000).for_each(|ms| drain.observe(ms, ms, false));
        assert!(drain.samples.len() <= SAMPLES);
        let window = drain.samples.back().unwrap().at - drain.samples.front().unwrap().at;
        assert!((2400..=2600).contains(&window), "{window}");
    }
}
