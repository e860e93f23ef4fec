//! Dispatch statistics: workers and jobs of pools, and dispatches of queues within the last minute.

use super::script::POOL_LIST;
use super::{Error, Store, reply};
use std::collections::BTreeMap;

/// Dispatches are counted per second; statistics cover this many seconds.
const WINDOW_SECONDS: i64 = 60;

/// Numbers of a pool's workers and jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStatus {
    pub active_workers: u64,
    pub active_jobs: u64,
}

/// Dispatches of a queue within the last minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scheduling {
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

impl Store {
    /// Returns statistics of all queues in the scope and of the given pools. `pools` are names in
    /// the store.
    pub async fn scheduling(&self, pools: &[&str]) -> Result<Scheduling, Error> {
        let answer =
            POOL_LIST.call(&self.core.connection, |command, _| _ = self.core.begin(command).arg(pools)).await?;
        let mut parts = reply::array(answer, "pool_list")?.into_iter();
        let mut next = || parts.next().ok_or_else(|| Error::unreadable("pool_list"));
        let now = reply::number(next()?, "pool_list")? / 1000;
        let mut queues: BTreeMap<String, Dispatched> = BTreeMap::new();
        for (queue, active) in reply::pairs(next()?, "pool_list")? {
            queues.insert(
                queue,
                Dispatched {
                    active: reply::parse::<i64>(&active, "pool_list")?.max(0) as u64,
                    ..Dispatched::default()
                },
            );
        }
        for (field, packed) in reply::pairs(next()?, "pool_list")? {
            let Some((queue, second)) = field.rsplit_once(' ') else { continue };
            if second.parse().is_ok_and(|second: i64| second > now - WINDOW_SECONDS) {
                let packed: u64 = reply::parse(&packed, "pool_list")?;
                let queue = queues.entry(queue.to_owned()).or_default();
                queue.jobs += packed >> 40;
                queue.waited_ms += packed & ((1 << 40) - 1);
            }
        }
        let mut statuses = Vec::with_capacity(pools.len());
        for _ in pools {
            let [workers, jobs] = reply::parts(next()?, "pool_list")?;
            let (workers, jobs) = (reply::number(workers, "pool_list")?, reply::number(jobs, "pool_list")?);
            statuses.push(PoolStatus { active_workers: workers as u64, active_jobs: jobs as u64 });
        }
        let own = |(name, queue): (String, Dispatched)| Some((self.scope.unqualified(&name)?.to_owned(), queue));
        Ok(Scheduling { queues: queues.into_iter().filter_map(own).collect(), pools: statuses })
    }
}
