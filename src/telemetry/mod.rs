//! Logs and metrics of the process.

mod autoscale;
mod dispatch;
mod exposition;
mod labels;
mod logs;
mod metrics;
mod noise;
mod planner;
mod repeats;
mod shadow;
mod sidekiq;
mod tenants;
mod waiting;
mod weights;

pub use autoscale::{ScalingLevel, ScalingMetrics};
pub use dispatch::{DispatchLevels, DispatchMetrics, LimitLevel, MOST_KEYS, PoolLevel};
pub use exposition::Format;
pub use labels::{LabelPairs, Labels};
pub use logs::{announce, start as start_logs};
pub use metrics::{HttpMetrics, JobMetrics, Metrics, StoreMetrics};
pub use noise::NoiseMetrics;
pub use planner::{PlannerMetrics, RuleLevels};
pub use repeats::Repeats;
pub use shadow::{ShadowLevels, ShadowMetrics, TenantWaits};
pub use sidekiq::SidekiqMetrics;
pub use tenants::{MOST_TENANTS, TenantLevel, TenantMetrics};
pub use waiting::{Waiting, WaitingOne};
pub use weights::WeightsMetrics;
