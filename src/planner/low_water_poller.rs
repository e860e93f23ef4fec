//! Polling of main queues that do not report by themselves that they run low, while jobs are staged
//! for them.

use crate::main_queue::MainQueue;
use crate::store::{Mark, Observation};
use std::time::Duration;

/// The queues of one rule to poll.
pub struct LowWaterPoller {
    main_queue: MainQueue,
    /// Queues, with the depth below which a round starts; `None` before the first round and if
    /// nothing is staged.
    queues: Option<Vec<(String, u64)>>,
}

impl LowWaterPoller {
    /// Creates a poller that knows no queues.
    pub fn new(main_queue: MainQueue) -> LowWaterPoller {
        LowWaterPoller { main_queue, queues: None }
    }

    /// Returns true if a round is needed to find out which queues to poll.
    pub fn is_blind(&self) -> bool {
        self.queues.is_none() && self.main_queue.poll().is_some()
    }

    /// Sets the queues to those that a round reported; `None` if nothing is staged.
    pub fn set(&mut self, marks: Option<&[Mark]>) {
        let wanted = |marks: &[Mark]| {
            let marks = marks.iter().filter(|mark| mark.low > 0);
            marks.map(|mark| (mark.queue.clone(), mark.low)).collect()
        };
        self.queues = marks.filter(|_| self.main_queue.poll().is_some()).map(wanted);
    }

    /// Returns the polling interval. Returns `None` if the main queue reports that it runs low, or
    /// has no staged jobs.
    pub fn every(&self) -> Option<Duration> {
        self.queues.as_ref().filter(|queues| !queues.is_empty()).and_then(|_| self.main_queue.poll())
    }

    /// Reads the main queues and returns each with its low-water mark. Errors are left to the next
    /// round to report.
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
