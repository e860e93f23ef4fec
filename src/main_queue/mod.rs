//! Main queues: how they are doing, and how staged jobs get there. The planner knows no more of them than this.

use crate::store::{Error, Observation, Promoted, Store};

/// The name of fairgate's own queues.
pub const BUILTIN: &str = "builtin";

/// Where the jobs of a plan rule go when they are promoted; clones share it.
#[derive(Clone)]
pub enum MainQueue {
    /// fairgate's own queues. They lie in the store, so that what a round reads there is all there is to know.
    Builtin(Store),
}

impl MainQueue {
    /// Completes what the store knows about a rule's queues by what only the main queue knows.
    pub async fn observe(&self, _queues: &mut [Observation]) -> Result<(), Error> {
        match self {
            MainQueue::Builtin(_) => Ok(()),
        }
    }

    /// Promotes up to `jobs` staged jobs, in the order that is fair now. Each arrives once, whoever dies when.
    pub async fn promote(&self, rule: &str, token: &str, queue: &str, jobs: u64) -> Result<Promoted, Error> {
        match self {
            MainQueue::Builtin(store) => store.promote(rule, token, queue, jobs).await,
        }
    }
}

/// The main queues that plan rules can name; clones share them.
#[derive(Clone)]
pub struct MainQueues {
    store: Store,
}

impl MainQueues {
    /// Those of a configuration without `[[main_queue]]`.
    pub fn builtin(store: Store) -> MainQueues {
        MainQueues { store }
    }

    /// The one of that name.
    pub fn get(&self, name: &str) -> Option<MainQueue> {
        (name == BUILTIN).then(|| MainQueue::Builtin(self.store.clone()))
    }
}
