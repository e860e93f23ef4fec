//! The pace at which workers empty a rule's main queues, and the depth that `auto` aims at for each.

use crate::fairness::{DepthTarget, DrainRate, LatencyGoal, QueueReading};
use crate::store::Observation;
use std::collections::HashMap;
use std::time::Instant;

/// Main queues that are remembered; clients choose their names.
const MOST_QUEUES: usize = 1000;

/// A rule's main queues, as far as this process has looked at them.
pub(super) struct DrainRates {
    goal: LatencyGoal,
    started: Instant,
    queues: HashMap<String, DrainRate>,
}

impl DrainRates {
    /// Main queues with a common goal; nothing is known of them yet.
    pub(super) fn new(goal: LatencyGoal) -> DrainRates {
        DrainRates { goal, started: Instant::now(), queues: HashMap::new() }
    }

    /// Adds a look at a main queue; false if it was added before.
    pub(super) fn observe(&mut self, queue: &Observation) -> bool {
        if self.queues.len() >= MOST_QUEUES && !self.queues.contains_key(&queue.queue) {
            self.queues.clear();
        }
        let at = queue.seen.unwrap_or_else(Instant::now).saturating_duration_since(self.started);
        let Observation { taken, depth, idle_ms, spare, .. } = *queue;
        let look = QueueReading { at_ms: at.as_millis() as u64, taken, depth, idle_ms, spare };
        self.queues.entry(queue.queue.clone()).or_default().observe(look)
    }

    /// How deep a main queue should be now.
    pub(super) fn aim(&self, queue: &str) -> DepthTarget {
        self.queues.get(queue).map_or_else(|| DrainRate::default().aim(self.goal), |drain| drain.aim(self.goal))
    }

    /// Notes whether a round left jobs in staging because the aim was reached.
    pub(super) fn end_round(&mut self, queue: &str, is_staged: bool) {
        if let Some(drain) = self.queues.get_mut(queue) {
            drain.end_round(is_staged);
        }
    }

    /// Jobs that workers take in a second from some of the queues.
    pub(super) fn rate<'a>(&self, queues: impl Iterator<Item = &'a str>) -> f64 {
        queues.filter_map(|queue| self.queues.get(queue)).map(DrainRate::rate).sum()
    }
}
