//! Noisy neighbours: tenants whose load harms others. Pure, like the rest of `domain`.
//! [`Snapshot::detect`] turns figures into detections, [`decide`] turns detections into throttles.

mod detector;
mod snapshot;
mod throttle;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod scenarios;

pub use detector::{Detection, Evidence, HarmedTenant, NoiseSignal};
pub use snapshot::{Figures, Snapshot, TenantFigures};
pub use throttle::{NoisyState, ReleaseReason, Throttle, ThrottleStep, decide};

/// The action taken against a noisy tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Reports the tenant, and nothing else.
    #[default]
    None,
    /// Reduces its weight in plan rules and in shared queues.
    WeightReduced,
    /// Reduces its concurrency limit.
    ConcurrencyReduced,
}

/// Thresholds of noisy neighbours and the action taken against them. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct NoisyNeighbors {
    pub enabled: bool,
    pub action: Action,
    /// Counts the activity of tenants even if no action is configured.
    pub statistics: bool,
    /// The window of the figures, in whole minutes.
    pub window: u64,
    /// A tenant counts as noisy once it has exceeded a threshold for this long.
    pub sustain: u64,
    /// Threshold of its waiting jobs, relative to the median of the others.
    pub queue_depth_ratio: f64,
    /// Threshold of its enqueues, relative to the average of the others.
    pub enqueue_rate_ratio: f64,
    /// Threshold of its part of all active jobs.
    pub active_ratio: f64,
    /// Threshold of its error rate, relative to that of the others.
    pub error_rate_ratio: f64,
    /// Threshold of its part of the workers' time.
    pub worker_time_ratio: f64,
    /// Minimum number of waiting or enqueued jobs for the queue depth and enqueue rate signals.
    pub min_jobs: u64,
    /// The factor of its weight under a throttle, above 0 and at most 1.
    pub weight_factor: f64,
    /// The factor of its concurrency under a throttle, above 0 and at most 1; at least one job
    /// remains.
    pub concurrency_factor: f64,
    /// Maximum duration of a throttle.
    pub duration: u64,
    /// A throttle ends earlier if every figure is below this part of its threshold for
    /// `release_after`.
    pub release_ratio: f64,
    pub release_after: u64,
    /// Maximum number of tenants throttled at the same time.
    pub max_throttled: usize,
}

/// The ratios are never NaN: the configuration checks them.
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
    /// Returns true if the activity of tenants has to be counted.
    pub fn needs_counts(&self) -> bool {
        self.statistics || self.enabled && self.action != Action::None
    }
}
