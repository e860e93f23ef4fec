//! Main queues: their state, and the delivery of staged jobs to them. The planner accesses main
//! queues only through this module.
//!
//! If source and target are in the same Redis, a promotion is one script. Otherwise it takes two
//! steps that survive a crash between them: a script takes jobs out of staging and puts them into
//! an outbox, under a sequence number; then they are delivered in that order. The target refuses a
//! sequence number that it has seen. An OJS server refuses ids that it has seen.

mod ojs;
mod pace;
mod request_guard;
mod returns;
mod sidekiq;
mod source;

pub use ojs::Ojs;
pub use returns::GEM_LOCK_LIFE;
pub use sidekiq::{RedisLocation, Sidekiq};
pub use source::ImportSource;

use crate::config::{KnownMainQueue, System};
use crate::domain::plan::BUILTIN;
use crate::store::{Error, Observation, Promoted, Store};
use std::sync::Arc;
use std::time::Duration;

/// The destination of a plan rule's promoted jobs; clones share the state.
#[derive(Clone)]
pub enum MainQueue {
    /// fairgate's own queues. They are in the store, so a round reads their state there.
    Builtin(Store),
    Sidekiq(Arc<Sidekiq>),
    Ojs(Arc<Ojs>),
}

impl MainQueue {
    /// Returns the kind as the configuration and API answers name it.
    pub fn kind(&self) -> &'static str {
        match self {
            MainQueue::Builtin(_) => BUILTIN,
            MainQueue::Sidekiq(_) => "sidekiq",
            MainQueue::Ojs(_) => "ojs",
        }
    }

    /// Returns the system; `None` for fairgate's own queues.
    pub fn system(&self) -> Option<System> {
        match self {
            MainQueue::Builtin(_) => None,
            MainQueue::Sidekiq(_) => Some(System::Sidekiq),
            MainQueue::Ojs(_) => Some(System::Ojs),
        }
    }

    /// Returns the polling interval while jobs are staged; `None` if the main queue reports by
    /// itself that it runs low.
    pub fn poll(&self) -> Option<Duration> {
        match self {
            MainQueue::Builtin(_) => None,
            MainQueue::Sidekiq(_) => Some(sidekiq::POLL),
            MainQueue::Ojs(_) => Some(ojs::POLL_EMPTY),
        }
    }

    /// Returns the shortest target latency of `auto`, in milliseconds: the queue must last from one
    /// reading to the next.
    pub fn least_latency(&self) -> u64 {
        match self {
            MainQueue::Builtin(_) => 0,
            MainQueue::Sidekiq(_) => sidekiq::LEAST_LATENCY_MS,
            MainQueue::Ojs(_) => ojs::LEAST_LATENCY_MS,
        }
    }

    /// Adds to the store's data about queues what only the main queue knows. `now` is the store's
    /// time.
    pub async fn observe(&self, queues: &mut [Observation], now: i64) -> Result<(), Error> {
        match self {
            MainQueue::Builtin(_) => Ok(()),
            MainQueue::Sidekiq(sidekiq) => sidekiq.observe(queues).await,
            MainQueue::Ojs(ojs) => ojs.observe(queues, now).await,
        }
    }

    /// Promotes up to `jobs` staged jobs in fair order. Each job arrives exactly once, even after a
    /// crash.
    pub async fn promote(&self, rule: &str, token: &str, queue: &str, jobs: u64) -> Result<Promoted, Error> {
        match self {
            MainQueue::Builtin(store) => store.promote(rule, token, queue, jobs).await,
            MainQueue::Sidekiq(sidekiq) => sidekiq.promote(rule, token, queue, jobs).await,
            MainQueue::Ojs(ojs) => ojs.promote(rule, token, queue, jobs).await,
        }
    }

    /// Delivers jobs that were promoted and have not arrived, for example after a crash.
    pub async fn settle(&self, rule: &str) -> Result<(), Error> {
        match self {
            MainQueue::Builtin(_) => Ok(()),
            MainQueue::Sidekiq(sidekiq) => sidekiq.settle(rule).await,
            MainQueue::Ojs(ojs) => ojs.settle(rule).await,
        }
    }

    /// Returns the versions of the main queue's workers, as far as they report them.
    pub async fn versions(&self) -> Vec<String> {
        match self {
            MainQueue::Builtin(_) | MainQueue::Ojs(_) => Vec::new(),
            MainQueue::Sidekiq(sidekiq) => sidekiq.versions().await,
        }
    }

    /// Returns the number of jobs that were promoted and have not arrived, among the first entries
    /// of the outbox. It is 0 unless something is wrong.
    pub async fn undelivered(&self, rule: &str) -> Result<u64, Error> {
        match self {
            MainQueue::Builtin(_) => Ok(0),
            MainQueue::Sidekiq(sidekiq) => sidekiq.undelivered(rule).await,
            MainQueue::Ojs(ojs) => ojs.undelivered(rule).await,
        }
    }

    /// Returns the health, if it is tracked.
    pub fn health(&self) -> Option<serde_json::Value> {
        match self {
            MainQueue::Builtin(_) | MainQueue::Sidekiq(_) => None,
            MainQueue::Ojs(ojs) => Some(ojs.health()),
        }
    }
}

/// The main queues that plan rules can name; clones share them.
#[derive(Clone)]
pub struct MainQueues {
    store: Store,
    others: Arc<Vec<(String, MainQueue)>>,
}

impl MainQueues {
    /// Creates the list of fairgate's own queues and others.
    pub fn new(store: Store, others: Vec<(String, MainQueue)>) -> MainQueues {
        MainQueues { store, others: Arc::new(others) }
    }

    /// Creates a list with only fairgate's own queues.
    pub fn builtin(store: Store) -> MainQueues {
        MainQueues::new(store, Vec::new())
    }

    /// Returns the main queues that are not fairgate's own.
    pub fn known(&self) -> Vec<KnownMainQueue> {
        let known = |(name, queue): &(String, MainQueue)| {
            let staging_queue = match queue {
                MainQueue::Sidekiq(sidekiq) => sidekiq.staging_queue().map(str::to_owned),
                MainQueue::Builtin(_) | MainQueue::Ojs(_) => None,
            };
            KnownMainQueue { name: name.clone(), system: queue.system(), staging_queue }
        };
        self.others.iter().map(known).collect()
    }

    /// Returns the main queue of that name.
    pub fn get(&self, name: &str) -> Option<MainQueue> {
        let other = || self.others.iter().find(|(other, _)| other == name).map(|(_, queue)| queue.clone());
        if name == BUILTIN { Some(MainQueue::Builtin(self.store.clone())) } else { other() }
    }
}
