//! The facts about a job, as the store reads them in one step. Times are in milliseconds since the
//! epoch.

use crate::domain::job::State;
use crate::domain::limit::LimitStrategy;
use serde::Deserialize;

/// The facts about a job.
#[derive(Clone, Debug, Deserialize)]
pub struct JobFacts {
    pub now: i64,
    pub state: State,
    pub queue: String,
    pub tenant: String,
    /// The plan rule of the job.
    pub rule: Option<String>,
    /// True if the job waits in staging.
    pub is_staged: bool,
    /// True if the job goes to a main queue in another system.
    pub leaves: bool,
    /// True if the job was promoted to that main queue, which alone knows its further state.
    pub has_left: bool,
    pub created: i64,
    /// Time at which it last became available.
    pub enqueued: Option<i64>,
    /// Time for which it is scheduled, or of its next attempt.
    pub due: Option<i64>,
    pub postponed: Option<Postponed>,
    pub throttle: Option<TenantThrottle>,
    /// Its place in staging.
    pub staged: Option<StagedPlace>,
    /// The state of its queue, unless the job does not wait or leaves for another system.
    pub dispatch: Option<DispatchFacts>,
}

/// The limit that postponed a job.
#[derive(Clone, Debug, Deserialize)]
pub struct Postponed {
    pub strategy: LimitStrategy,
    pub since: i64,
    /// The key of the limit, if the caller may see it.
    pub key: Option<String>,
}

/// The throttle of a noisy tenant.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct TenantThrottle {
    /// The remaining part of its weight in thousandths, if that is reduced.
    pub part: Option<u32>,
    pub until: i64,
    /// Its limit on active jobs, if that is reduced.
    pub concurrency: Option<u64>,
}

/// The place of a staged job.
#[derive(Clone, Debug, Deserialize)]
pub struct StagedPlace {
    /// Number of jobs of its tenant before it.
    pub of_tenant: u64,
    /// Number of staged jobs of higher priorities.
    pub before: u64,
    /// Number of jobs left in the batch of the interval.
    pub room: u64,
    pub turn: Turn,
}

/// The turn of a tenant in a fair queue. Weights are in thousandths.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Turn {
    pub clock: f64,
    /// Sum of the weights of all waiting tenants.
    pub total: u64,
    /// Number of waiting tenants.
    pub waiting: u64,
    /// `w` if the tenant takes turns, `h` if it is held, `u` if its weight is unknown, `b` if too
    /// many of its jobs are blocked.
    pub state: Option<char>,
    pub weight: Option<u32>,
    /// The weight without the throttle, if the tenant is throttled.
    pub full: Option<u32>,
    pub start: Option<f64>,
    /// The other tenants whose turn comes next.
    pub rivals: Vec<TurnRival>,
}

/// A tenant that competes for turns.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct TurnRival {
    pub start: f64,
    pub weight: u32,
    pub jobs: u64,
}

/// The facts that decide if a fetch hands a job out.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct DispatchFacts {
    pub paused_since: Option<i64>,
    /// Number of runnable jobs of the queue.
    pub depth: u64,
    /// Number of active jobs of the queue.
    pub active: u64,
    /// Time since which the oldest runnable job waits.
    pub oldest: Option<i64>,
    /// Time since which the queue has something ready; `None` if it has nothing.
    pub live_since: Option<i64>,
    /// Number of workers of all queues with a recent sign of life.
    pub workers: u64,
    /// True if only workers of its pools may serve the queue.
    pub has_pools: bool,
    pub limits: Vec<LimitFacts>,
    pub pools: Vec<PoolFacts>,
    pub dispatched: Dispatched,
    /// Its place, if the job is available.
    pub place: Option<QueuePlace>,
}

/// The state of a limit of a job.
#[derive(Clone, Debug, Deserialize)]
pub struct LimitFacts {
    /// The key as it is stored.
    pub key: String,
    /// The key as clients know it, if the caller may see it.
    pub label: Option<String>,
    pub is_blocking: bool,
    pub strategy: LimitStrategy,
    /// Time since which it has blocked without a break, if known.
    pub since: Option<i64>,
    /// Number of jobs that may start now; `None` if nothing limits it.
    pub room: Option<f64>,
    pub running: u64,
    pub concurrency: Option<u64>,
    pub rate: Option<RateWindow>,
    pub throttle: Option<ThrottleWindow>,
    pub hold_until: Option<i64>,
    /// Some of the jobs that hold its slots, if it blocks by concurrency.
    pub holders: Vec<Holder>,
}

impl LimitFacts {
    /// Returns true for the limit on the active jobs of a tenant.
    pub fn is_of_tenant(&self) -> bool {
        self.key.starts_with('!')
    }

    /// Returns true for the limit of a queue.
    pub fn is_of_queue(&self) -> bool {
        self.key.starts_with('#')
    }
}

/// The window of a rate limit.
#[derive(Clone, Debug, Deserialize)]
pub struct RateWindow {
    pub limit: u64,
    pub period: i64,
    /// The starts in the window, the oldest first.
    pub starts: Vec<Starts>,
}

/// Starts of jobs that leave a window at the same time.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Starts {
    pub at: i64,
    pub jobs: u64,
}

/// A throttle: `limit` starts in a period, evenly spaced.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct ThrottleWindow {
    pub limit: u64,
    pub period: i64,
    /// Time of the next start.
    pub next: i64,
}

/// An active job that holds a slot.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Holder {
    pub id: String,
    pub queue: String,
}

/// A pool that serves the queue of a job.
#[derive(Clone, Debug, Deserialize)]
pub struct PoolFacts {
    pub name: String,
    pub concurrency: Option<u64>,
    pub running: u64,
    /// Number of its workers with a recent sign of life.
    pub workers: u64,
    /// Some of the jobs that hold its slots, if it is full.
    pub holders: Vec<Holder>,
}

impl PoolFacts {
    /// Returns true if all slots of the pool are taken.
    pub fn is_full(&self) -> bool {
        self.concurrency.is_some_and(|most| self.running >= most)
    }
}

/// The dispatches of a queue within the last minute.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Dispatched {
    pub jobs: u64,
    /// The first and the last second with a dispatch, in seconds since the epoch.
    pub first: Option<i64>,
    pub last: Option<i64>,
}

/// The place of an available job in its queue.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct QueuePlace {
    /// Number of jobs before it in its lane.
    pub in_lane: u64,
    /// Number of ready jobs before it in other lanes, without those of tenants that take turns at
    /// its priority.
    pub ahead: u64,
    /// False if there are more lanes than are counted.
    pub is_counted: bool,
    /// The turn of its tenant, if tenants take turns.
    pub turn: Option<TenantTurn>,
    /// Number of jobs before it in other lanes that wait for the same limit.
    pub waiting: Option<u64>,
}

/// The turn of a tenant, and the number of its jobs before the job.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct TenantTurn {
    pub of_tenant: u64,
    pub turn: Turn,
}
