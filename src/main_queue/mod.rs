//! Main queues: how they are doing, and how staged jobs get there. The planner knows no more of them than this.
//!
//! Where source and target are one Redis, a promotion is one script. Where they are not, it is two steps that survive a crash
//! between them: the script that takes jobs out of staging puts them into an outbox, under a sequence; they are delivered in
//! that order, and the target refuses a sequence that it has seen. An OJS server refuses ids that it has seen.

mod contact;
mod ojs;
mod pace;
mod returns;
mod sidekiq;
mod source;

pub use ojs::Ojs;
pub use returns::GEM_LOCK_LIFE;
pub use sidekiq::{Place, Sidekiq};
pub use source::Source;

use crate::config::{KnownMainQueue, System};
use crate::fairness::BUILTIN;
use crate::store::{Error, Observation, Promoted, Store};
use std::sync::Arc;
use std::time::Duration;

/// Where the jobs of a plan rule go when they are promoted; clones share it.
#[derive(Clone)]
pub enum MainQueue {
    /// fairgate's own queues. They lie in the store, so that what a round reads there is all there is to know.
    Builtin(Store),
    Sidekiq(Arc<Sidekiq>),
    Ojs(Arc<Ojs>),
}

impl MainQueue {
    /// What kind it is, as the configuration and answers name it.
    pub fn kind(&self) -> &'static str {
        match self {
            MainQueue::Builtin(_) => BUILTIN,
            MainQueue::Sidekiq(_) => "sidekiq",
            MainQueue::Ojs(_) => "ojs",
        }
    }

    /// What system it is; none where it is fairgate's own.
    pub fn system(&self) -> Option<System> {
        match self {
            MainQueue::Builtin(_) => None,
            MainQueue::Sidekiq(_) => Some(System::Sidekiq),
            MainQueue::Ojs(_) => Some(System::Ojs),
        }
    }

    /// How often it is looked at while jobs are staged for it, at most; none if it reports that it runs low.
    pub fn poll(&self) -> Option<Duration> {
        match self {
            MainQueue::Builtin(_) => None,
            MainQueue::Sidekiq(_) => Some(sidekiq::POLL),
            MainQueue::Ojs(_) => Some(ojs::POLL_EMPTY),
        }
    }

    /// The shortest latency that `auto` can aim at, in milliseconds: it must last from one look to the next.
    pub fn least_latency(&self) -> u64 {
        match self {
            MainQueue::Builtin(_) => 0,
            MainQueue::Sidekiq(_) => sidekiq::LEAST_LATENCY_MS,
            MainQueue::Ojs(_) => ojs::LEAST_LATENCY_MS,
        }
    }

    /// Completes what the store knows about a rule's queues by what only the main queue knows. `now` is the store's time.
    pub async fn observe(&self, queues: &mut [Observation], now: i64) -> Result<(), Error> {
        match self {
            MainQueue::Builtin(_) => Ok(()),
            MainQueue::Sidekiq(sidekiq) => sidekiq.observe(queues).await,
            MainQueue::Ojs(ojs) => ojs.observe(queues, now).await,
        }
    }

    /// Promotes up to `jobs` staged jobs, in the order that is fair now. Each arrives once, whoever dies when.
    pub async fn promote(&self, rule: &str, token: &str, queue: &str, jobs: u64) -> Result<Promoted, Error> {
        match self {
            MainQueue::Builtin(store) => store.promote(rule, token, queue, jobs).await,
            MainQueue::Sidekiq(sidekiq) => sidekiq.promote(rule, token, queue, jobs).await,
            MainQueue::Ojs(ojs) => ojs.promote(rule, token, queue, jobs).await,
        }
    }

    /// Delivers what was promoted and has not arrived, as after a crash.
    pub async fn settle(&self, rule: &str) -> Result<(), Error> {
        match self {
            MainQueue::Builtin(_) => Ok(()),
            MainQueue::Sidekiq(sidekiq) => sidekiq.settle(rule).await,
            MainQueue::Ojs(ojs) => ojs.settle(rule).await,
        }
    }

    /// Versions of what works there, as far as they are told.
    pub async fn versions(&self) -> Vec<String> {
        match self {
            MainQueue::Builtin(_) | MainQueue::Ojs(_) => Vec::new(),
            MainQueue::Sidekiq(sidekiq) => sidekiq.versions().await,
        }
    }

    /// Jobs that were promoted and have not arrived, as far as they are looked at: none unless something is wrong.
    pub async fn undelivered(&self, rule: &str) -> Result<u64, Error> {
        match self {
            MainQueue::Builtin(_) => Ok(0),
            MainQueue::Sidekiq(sidekiq) => sidekiq.undelivered(rule).await,
            MainQueue::Ojs(ojs) => ojs.undelivered(rule).await,
        }
    }

    /// How it is doing, where that is remembered.
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
    /// fairgate's own queues and those that are not.
    pub fn new(store: Store, others: Vec<(String, MainQueue)>) -> MainQueues {
        MainQueues { store, others: Arc::new(others) }
    }

    /// fairgate's own queues alone.
    pub fn builtin(store: Store) -> MainQueues {
        MainQueues::new(store, Vec::new())
    }

    /// Those that are not fairgate's own.
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

    /// The one of that name.
    pub fn get(&self, name: &str) -> Option<MainQueue> {
        let other = || self.others.iter().find(|(other, _)| other == name).map(|(_, queue)| queue.clone());
        if name == BUILTIN { Some(MainQueue::Builtin(self.store.clone())) } else { other() }
    }
}
