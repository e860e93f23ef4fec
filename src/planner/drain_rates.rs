//! The rates at which workers empty a rule's main queues, and the target depth for each.

use crate::domain::plan::{DepthTarget, DrainRate, LatencyGoal, QueueReading};
use crate::store::Observation;
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
