//! The round size of rules with `enqueue_jobs = "auto"`.
//!
//! The target depth is half of the jobs that workers took within the last target latency: a job
//! that joins such a queue waits for about half of the target. If workers were idle although jobs
//! were staged, for more than 1 % of the time and up to now, the target is all of those jobs. So
//! the depth never exceeds what workers take within the target latency. It follows that
//!
//! - the queue stays short if workers are busy with long jobs, because they take few, and never
//!   holds more than one job per worker;
//! - workers that take all jobs they find double the depth with each reading, until jobs are left
//!   over.
//!
//! Each thread that reported to be idle gets a job at once.

use std::collections::VecDeque;

#[cfg(test)]
mod simulation;

/// Maximum number of samples, and their minimum distance in milliseconds. A new sample replaces the
/// newest one if that is nearer to its predecessor.
const SAMPLES: usize = 128;
const APART: u64 = 80;
/// The time span of the samples, in milliseconds. It also bounds the age of reports of idle
/// threads: a Sidekiq process writes one every 5 or 10 s.
const MEMORY: u64 = 10_000;
/// The spans over which the rate is measured, in milliseconds. The shorter one shows an increase
/// soon; the longer one keeps the rate of workers that pause.
const RATE_SPANS: [u64; 2] = [500, 2500];
/// Workers may be idle for 1/100 of the time.
const IDLE_PARTS: u64 = 100;

/// The state of a main queue at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueReading {
    /// Time in milliseconds, by a clock that does not step back.
    pub at_ms: u64,
    /// Total number of jobs that workers have taken.
    pub taken: u64,
    pub depth: u64,
    /// The time in milliseconds for which workers have found no job although jobs were staged;
    /// `None` if the main queue does not report it. In that case a queue that was empty in two
    /// readings in a row counts as idle in between.
    pub idle_ms: Option<u64>,
    /// Number of threads that were idle according to their last reports.
    pub spare: u64,
}

/// A latency goal for a main queue.
#[derive(Clone, Copy, Debug)]
pub struct LatencyGoal {
    /// Maximum time that jobs should wait in the main queue, in milliseconds.
    pub latency_ms: u64,
    /// True if the queue is polled; false if it reports at once that it runs low.
    pub is_polled: bool,
}

/// The target depth of a main queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepthTarget {
    /// Number of jobs that should wait in the queue after a round.
    pub depth: u64,
    /// Low-water mark: a depth below this starts a round at once.
    pub low: u64,
}

impl DepthTarget {
    /// Returns the size of a round that finds the queue at `depth`.
    pub fn batch(&self, depth: u64) -> u64 {
        self.depth.saturating_sub(depth)
    }
}

/// The observed rate at which workers take jobs from one main queue.
#[derive(Clone, Debug, Default)]
pub struct DrainRate {
    samples: VecDeque<Sample>,
    /// The last reading found the queue empty.
    is_empty: bool,
    /// The last round left jobs in staging because the target depth was reached.
    is_staged: bool,
    /// Workers were idle before the last reading.
    is_idle: bool,
    spare: u64,
}

/// Totals at one moment; `at` and `idle` are in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: u64,
    taken: u64,
    idle: u64,
}

impl DrainRate {
    /// Adds a reading. Returns false if it equals the last one.
    pub fn observe(&mut self, look: QueueReading) -> bool {
        if self.samples.back().is_some_and(|last| (look.at_ms, look.taken) == (last.at, last.taken)) {
            return false;
        }
        // After the counter restarts, earlier samples cannot be compared with new ones.
        if self.samples.back().is_some_and(|last| look.at_ms < last.at || look.taken < last.taken) {
            self.samples.clear();
        }
        let was_empty = std::mem::replace(&mut self.is_empty, look.depth == 0);
        let idle = self.samples.back().map_or(0, |last| {
            let since = look.at_ms - last.at;
            let unknown = if was_empty && self.is_empty && self.is_staged { since } else { 0 };
            last.idle + look.idle_ms.unwrap_or(unknown).min(since)
        });
        self.is_idle = self.samples.back().is_some_and(|last| last.idle < idle);
        self.spare = look.spare;
        if let [.., before, last] = *self.samples.make_contiguous()
            && last.at - before.at < APART
        {
            self.samples.pop_back();
        }
        self.samples.push_back(Sample { at: look.at_ms, taken: look.taken, idle });
        // Keep one sample that is older than `MEMORY`: it marks the start of the span.
        while self.samples.len() > SAMPLES || self.samples.get(1).is_some_and(|next| next.at + MEMORY <= look.at_ms) {
            self.samples.pop_front();
        }
        true
    }

    /// Records whether a round left jobs in staging because the target depth was reached. If it did
    /// not, idle workers lack jobs, not depth.
    pub fn end_round(&mut self, is_staged: bool) {
        self.is_staged = is_staged;
    }

    /// Returns the number of jobs that workers take per second.
    pub fn rate(&self) -> f64 {
        RATE_SPANS.map(|span| self.per_ms(span) * 1000.0).into_iter().fold(0.0, f64::max)
    }

    /// Returns the current target depth of the main queue.
    pub fn aim(&self, goal: LatencyGoal) -> DepthTarget {
        let latency = goal.latency_ms.max(2);
        let taken = self.per_ms(latency.min(MEMORY)) * latency as f64;
        let needed = if self.is_idle && self.was_idle() { taken } else { taken / 2.0 };
        let needed = (needed.round() as u64).max(1);
        let depth = needed.max(if self.is_empty { self.spare.saturating_sub(self.taken_in(MEMORY)) } else { 0 });
        let low = if goal.is_polled { depth } else { (depth / 2).max(1) };
        DepthTarget { depth, low }
    }

    /// Returns the jobs taken per millisecond, measured over at least `span` milliseconds: a rate
    /// from two readings in quick succession is meaningless.
    fn per_ms(&self, span: u64) -> f64 {
        let Some((first, last)) = self.window(span) else { return 0.0 };
        (last.taken - first.taken) as f64 / (last.at - first.at).max(span).max(1) as f64
    }

    fn taken_in(&self, span: u64) -> u64 {
        self.window(span).map_or(0, |(first, last)| last.taken - first.taken)
    }

    fn was_idle(&self) -> bool {
        self.window(MEMORY).is_some_and(|(first, last)| (last.idle - first.idle) * IDLE_PARTS > MEMORY)
    }

    /// Returns the newest sample that is at least `span` older than the last one (or else the
    /// oldest sample), and the last one.
    fn window(&self, span: u64) -> Option<(Sample, Sample)> {
        let last = *self.samples.back()?;
        let first = self.samples.iter().rev().find(|sample| last.at - sample.at >= span).or(self.samples.front())?;
        Some((*first, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOAL: LatencyGoal = LatencyGoal { latency_ms: 500, is_polled: false };

    fn look(at_ms: u64, taken: u64, depth: u64) -> QueueReading {
        QueueReading { at_ms, taken, depth, ..QueueReading::default() }
    }

    #[test]
    fn the_depth_is_half_of_what_was_taken_within_the_target_latency() {
        let mut drain = DrainRate::default();
        assert_eq!(drain.aim(GOAL), DepthTarget { depth: 1, low: 1 });
        (0..=20).for_each(|step| _ = drain.observe(look(step * 50, step * 5, 9)));
        assert_eq!(drain.aim(GOAL), DepthTarget { depth: 25, low: 12 });
        assert_eq!(drain.aim(LatencyGoal { is_polled: true, ..GOAL }).low, 25);
        assert_eq!((DepthTarget { depth: 10, low: 5 }.batch(4), DepthTarget { depth: 10, low: 5 }.batch(40)), (6, 0));
    }

    #[test]
    fn two_looks_in_quick_succession_are_no_measurement() {
        let mut drain = DrainRate::default();
        drain.observe(look(0, 0, 0));
        drain.observe(look(5, 1, 0));
        assert!(drain.rate() <= 2.0, "{}", drain.rate());
        assert_eq!(drain.aim(GOAL).depth, 1);
    }

    #[test]
    fn the_depth_is_all_of_that_while_workers_are_idle() {
        for (idle_ms, depth) in [(Some(3), 25), (Some(7), 50), (None, 50)] {
            let mut drain = DrainRate::default();
            drain.end_round(true);
            (0..=20).for_each(|step| _ = drain.observe(QueueReading { idle_ms, ..look(step * 50, step * 5, 0) }));
            assert_eq!(drain.aim(GOAL).depth, depth, "{idle_ms:?}");
        }
        // Without staged jobs, idle workers do not raise the target.
        let mut drain = DrainRate::default();
        (0..=20).for_each(|step| _ = drain.observe(look(step * 50, step * 5, 0)));
        assert_eq!(drain.aim(GOAL).depth, 25);
        // One empty reading does not show that the queue was empty for long.
        let mut drain = DrainRate::default();
        drain.end_round(true);
        (0..=20).for_each(|step| _ = drain.observe(look(step * 50, step * 5, step % 2)));
        assert_eq!(drain.aim(GOAL).depth, 25);
    }

    #[test]
    fn idle_threads_get_a_job_each_until_their_next_report() {
        let mut drain = DrainRate::default();
        let report = |at_ms, taken, depth| QueueReading { spare: 8, ..look(at_ms, taken, depth) };
        drain.observe(report(0, 0, 0));
        assert_eq!(drain.aim(GOAL).depth, 8);
        drain.observe(report(300, 5, 0));
        assert_eq!(drain.aim(GOAL).depth, 3, "five of them are busy now");
        drain.observe(report(3000, 5, 1));
        assert_eq!(drain.aim(GOAL).depth, 1, "no thread is idle while a job waits");
        drain.observe(report(4000, 6, 0));
        assert_eq!(drain.aim(GOAL).depth, 2);
        drain.observe(report(20_000, 6, 0));
        assert_eq!(drain.aim(GOAL).depth, 8, "the threads that took a job have reported since");
    }

    #[test]
    fn an_increase_shows_soon_and_a_decrease_when_the_longer_span_has_passed() {
        let mut drain = DrainRate::default();
        (0..=40).for_each(|step| _ = drain.observe(look(step * 100, step, 1)));
        assert_eq!(drain.rate(), 10.0);
        drain.observe(look(4100, 90, 1));
        assert!(drain.rate() > 100.0);
        drain.observe(look(4700, 90, 1));
        assert!(drain.rate() > 20.0);
        (48..70).for_each(|step| _ = drain.observe(look(step * 100, 90, 1)));
        assert_eq!(drain.rate(), 0.0);
    }

    #[test]
    fn neither_a_clock_nor_a_count_that_steps_back_confuses() {
        for (at, taken) in [(500, 1000), (2000, 3), (1000, 100)] {
            let mut drain = DrainRate::default();
            drain.observe(look(900, 50, 1));
            drain.observe(look(1000, 100, 1));
            drain.observe(look(at, taken, 1));
            drain.observe(look(at + 1000, taken + 70, 1));
            assert!((70.0..=500.0).contains(&drain.rate()), "{at} {taken}: {}", drain.rate());
        }
    }

    #[test]
    fn memory_is_bounded_and_whole() {
        let mut drain = DrainRate::default();
        (0..30_000).for_each(|ms| _ = drain.observe(look(ms, ms, 1)));
        assert!(drain.samples.len() <= SAMPLES);
        let window = drain.samples.back().unwrap().at - drain.samples.front().unwrap().at;
        assert!((MEMORY..=MEMORY + 2 * APART).contains(&window), "{window}");
    }
}
