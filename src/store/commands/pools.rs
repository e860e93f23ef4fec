//! Dispatch statistics: workers and jobs of pools, and dispatches of queues within the last minute.

use super::script::POOL_LIST;
use super::{Error, Store};
use crate::store::packed;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Numbers of a pool's workers and jobs.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct PoolStatus {
    pub active_workers: u64,
    pub active_jobs: u64,
}

/// Dispatches of a queue within the last minute.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Dispatched {
    pub jobs: u64,
    /// Sum of the times that those jobs were available, in milliseconds.
    pub waited_ms: u64,
    /// Number of jobs that are active now, regardless of their start.
    pub active: u64,
}

impl Dispatched {
    /// Returns the queue's share of `total` dispatches, from 0 to 1 and rounded to four digits; 0
    /// if there were none.
    pub fn ratio(&self, total: u64) -> f64 {
        let share = self.jobs as f64 / total.max(1) as f64;
        (share * 1e4).round() / 1e4
    }

    /// Returns the average time in milliseconds that a job was available before its dispatch.
    pub fn average_wait_ms(&self) -> u64 {
        self.waited_ms.checked_div(self.jobs).unwrap_or(0)
    }
}

/// Dispatch statistics of queues and pools.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct Scheduling {
    #[serde(deserialize_with = "packed::map")]
    pub queues: BTreeMap<String, Dispatched>,
    /// Pools in the order of the request.
    pub pools: Vec<PoolStatus>,
}

impl Scheduling {
    /// Returns the number of dispatches of all queues within the last minute.
    pub fn total(&self) -> u64 {
        self.queues.values().map(|queue| queue.jobs).sum()
    }
}

#[derive(Serialize)]
struct PoolList<'a> {
    pools: &'a [&'a str],
}

impl Store {
    /// Returns statistics of all queues in the scope and of the given pools. `pools` are names in
    /// the store.
    pub async fn scheduling(&self, pools: &[&str]) -> Result<Scheduling, Error> {
        let all: Scheduling = POOL_LIST.call_packed(&self.core, &PoolList { pools }).await?;
        let own = |(name, queue): (String, Dispatched)| Some((self.scope.unqualified(&name)?.to_owned(), queue));
        Ok(Scheduling { queues: all.queues.into_iter().filter_map(own).collect(), pools: all.pools })
    }
}
