//! Noisy neighbours: tenants that take so much that others go short. Pure, like all of `fair`: from figures to verdicts
//! ([`Snapshot::detect`]), and from verdicts to what is done about them ([`decide`]).

mod detector;
mod snapshot;
mod throttle;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod scenarios;

pub use detector::{Detection, Evidence, HarmedTenant, Signal};
pub use snapshot::{Figures, Snapshot, TenantFigures};
pub use throttle::{NoisyState, ReleaseReason, Throttle, ThrottleStep, decide};

/// What is done about a noisy tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It is told, and nothing else.
    #[default]
    None,
    /// It weighs less in plan rules and where tenants share queues.
    WeightReduced,
    /// It may have fewer jobs active.
    ConcurrencyReduced,
}

/// When a tenant is a noisy neighbour, and what is done about it. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct NoisyNeighbors {
    pub enabled: bool,
    pub action: Action,
    /// Whether what tenants do is counted even where nothing is done about noisy ones.
    pub statistics: bool,
    /// Over which the past counts, in whole minutes.
    pub window: u64,
    /// A tenant is noisy once it has been so for this long.
    pub sustain: u64,
    /// Its jobs that wait, against those of the tenant in the middle.
    pub queue_depth_ratio: f64,
    /// Its enqueues, against the average of the others.
    pub enqueue_rate_ratio: f64,
    /// Its part of all active jobs.
    pub active_ratio: f64,
    /// The part of its attempts that fail, against that of the others.
    pub error_rate_ratio: f64,
    /// Its part of the time that workers spent.
    pub worker_time_ratio: f64,
    /// With fewer jobs than this nobody is noisy by how much it enqueues or has waiting.
    pub min_jobs: u64,
    /// What is left of its weight, above 0 and at most 1.
    pub weight_factor: f64,
    /// What is left of its concurrency, above 0 and at most 1; one job always is.
    pub concurrency_factor: f64,
    /// A throttle ends after this long, whatever the tenant does.
    pub duration: u64,
    /// It ends earlier once every figure has been below this part of its threshold for `release_after`.
    pub release_ratio: f64,
    pub release_after: u64,
    /// Tenants throttled at once.
    pub max_throttled: usize,
}

/// The ratios are numbers: they have been checked.
impl Eq for NoisyNeighbors {}

impl Default for NoisyNeighbors {
    fn default() -> Self {
        NoisyNeighbors {
            enabled: true,
            action: Action::None,
            statistics: true,
            window: 300_000,
            sustain: 15_000,
            queue_depth_ratio: 10.0,
            enqueue_rate_ratio: 5.0,
            active_ratio: 0.5,
            error_rate_ratio: 3.0,
            worker_time_ratio: 0.5,
            min_jobs: 50,
            weight_factor: 0.2,
            concurrency_factor: 0.5,
            duration: 300_000,
            release_ratio: 0.7,
            release_after: 60_000,
            max_throttled: 10,
        }
    }
}

impl NoisyNeighbors {
    /// Whether what tenants do has to be counted for this.
    pub fn needs_counts(&self) -> bool {
        self.statistics || self.enabled && self.action != Action::None
    }
}
