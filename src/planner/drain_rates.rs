//! The rates at which workers empty a rule's main queues, and the target depth for each.

use crate::domain::plan::{AIM_HOLDS_MS, Batch, DepthTarget, DrainRate, LatencyGoal, QueueReading, RoundSize, Rule};
use crate::store::{Mark, Observation, Why};
use std::collections::HashMap;
use std::time::Instant;

/// Maximum number of main queues that are remembered; clients choose their names.
const MOST_QUEUES: usize = 1000;

/// The main queues of a rule, as far as this process has read them.
pub(super) struct DrainRates {
    goal: LatencyGoal,
    started: Instant,
    queues: HashMap<String, DrainRate>,
}

impl DrainRates {
    /// Creates an empty set for main queues with a common goal.
    pub(super) fn new(goal: LatencyGoal) -> DrainRates {
        DrainRates { goal, started: Instant::now(), queues: HashMap::new() }
    }

    /// Adds a reading of a main queue. Returns false if it was added before.
    pub(super) fn observe(&mut self, queue: &Observation) -> bool {
        if self.queues.len() >= MOST_QUEUES && !self.queues.contains_key(&queue.queue) {
            self.queues.clear();
        }
        let at = queue.seen.unwrap_or_else(Instant::now).saturating_duration_since(self.started);
        let Observation { taken, depth, idle_ms, spare, .. } = *queue;
        let look = QueueReading { at_ms: at.as_millis() as u64, taken, depth, idle_ms, spare };
        self.queues.entry(queue.queue.clone()).or_default().observe(look)
    }

    /// Returns the current target depth of a main queue.
    pub(super) fn aim(&self, queue: &str) -> DepthTarget {
        self.queues.get(queue).map_or_else(|| DrainRate::default().aim(self.goal), |drain| drain.aim(self.goal))
    }

    /// Adds a reading of a main queue. Returns the number of jobs to promote into it, and its
    /// low-water mark. `left` is its share of a batch of fixed size.
    pub(super) fn size(&mut self, rule: &Rule, queue: &Observation, left: u64, why: Why) -> (u64, Mark) {
        self.observe(queue);
        let RoundSize { want, low, aim } = rule.round_size(left, self.aim(&queue.queue), queue.depth);
        let least = u64::from(why == Why::Run && rule.batch == Batch::Auto);
        (want.max(least), Mark { queue: queue.queue.clone(), low, aim, holds_ms: AIM_HOLDS_MS })
    }

    /// Records whether a round left jobs in staging because the target depth was reached.
    pub(super) fn end_round(&mut self, queue: &str, is_staged: bool) {
        if let Some(drain) = self.queues.get_mut(queue) {
            drain.end_round(is_staged);
        }
    }

    /// Returns the number of jobs per second that workers take from the given queues together.
    pub(super) fn rate<'a>(&self, queues: impl Iterator<Item = &'a str>) -> f64 {
        queues.filter_map(|queue| self.queues.get(queue)).map(DrainRate::rate).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates() -> DrainRates {
        DrainRates::new(LatencyGoal { latency_ms: 1000, is_polled: false })
    }

    fn queue(name: &str, depth: u64) -> Observation {
        Observation { queue: name.to_owned(), depth, ..Observation::default() }
    }

    fn rule(batch: Batch, strict_interval: bool) -> Rule {
        Rule { batch, strict_interval, ..Rule::new("r", &["*"]) }
    }

    #[test]
    fn a_fixed_batch_is_what_is_left_of_it() {
        for (strict, low) in [(false, 1), (true, 0)] {
            let (want, mark) = rates().size(&rule(Batch::Jobs(50), strict), &queue("q", 0), 7, Why::Wake);
            assert_eq!((want, mark.low, mark.aim), (7, low, 0));
        }
    }

    #[test]
    fn an_automatic_batch_fills_the_queue_up_to_its_aim() {
        let (mut rates, rule) = (rates(), rule(Batch::Auto, false));
        let (want, mark) = rates.size(&rule, &queue("q", 0), u64::MAX, Why::Wake);
        assert_eq!((want, mark.aim > 0), (mark.aim, true));
        let full = queue("q", mark.aim + 100);
        assert_eq!(rates.size(&rule, &full, u64::MAX, Why::Wake).0, 0);
        assert_eq!(rates.size(&rule, &full, u64::MAX, Why::Run).0, 1, "somebody asked for the round");
    }

    #[test]
    fn no_more_queues_are_remembered_than_the_bound() {
        let mut rates = rates();
        (0..=MOST_QUEUES).for_each(|number| _ = rates.observe(&queue(&number.to_string(), 0)));
        assert_eq!(rates.queues.len(), 1);
        assert_eq!(rates.rate(["0", "unknown"].into_iter()), 0.0);
    }
}
