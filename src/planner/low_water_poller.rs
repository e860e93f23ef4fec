//! Main queues that do not tell by themselves that they run low: they are looked at, while jobs are staged for them.

use crate::main_queue::MainQueue;
use crate::store::{Mark, Observation};
use std::time::Duration;

/// What a round runner watches.
pub struct LowWaterPoller {
    main_queue: MainQueue,
    /// Queues, and the depth below which a round is wanted; none before the first round, and when nothing is staged.
    queues: Option<Vec<(String, u64)>>,
}

impl LowWaterPoller {
    /// Nothing is known yet.
    pub fn new(main_queue: MainQueue) -> LowWaterPoller {
        LowWaterPoller { main_queue, queues: None }
    }

    /// Whether a round is wanted because nobody has looked yet.
    pub fn is_blind(&self) -> bool {
        self.queues.is_none() && self.main_queue.poll().is_some()
    }

    /// What a round leaves behind, or that nothing is staged.
    pub fn set(&mut self, marks: Option<&[Mark]>) {
        let wanted = |marks: &[Mark]| {
            let marks = marks.iter().filter(|mark| mark.low > 0);
            marks.map(|mark| (mark.queue.clone(), mark.low)).collect()
        };
        self.queues = marks.filter(|_| self.main_queue.poll().is_some()).map(wanted);
    }

    /// How often to look; none where the main queue tells, or where nothing is staged for it.
    pub fn every(&self) -> Option<Duration> {
        self.queues.as_ref().filter(|queues| !queues.is_empty()).and_then(|_| self.main_queue.poll())
    }

    /// Looks at the main queues; each with its mark. The next round reports what goes wrong here.
    pub async fn look(&self) -> Vec<(Observation, u64)> {
        let Some(watched) = &self.queues else { return Vec::new() };
        let queue = |(name, _): &(String, u64)| Observation { queue: name.clone(), ..Observation::default() };
        let mut queues: Vec<Observation> = watched.iter().map(queue).collect();
        match self.main_queue.observe(&mut queues, 0).await {
            Ok(()) => queues.into_iter().zip(watched).map(|(queue, (_, low))| (queue, *low)).collect(),
            Err(_) => Vec::new(),
        }
    }
}
