//! Periodic work in every process with the role `dispatch`: due jobs, crons, webhook deliveries,
//! noisy neighbours, audits, history.

mod auditor;
mod cron_runner;
mod history_recorder;
mod noisy_neighbors;
mod ticker;
mod webhook_delivery;

pub use auditor::Auditor;
pub use cron_runner::CronRunner;
pub use history_recorder::HistoryRecorder;
pub use noisy_neighbors::{NoiseReport, NoisyNeighborWatcher};
pub use ticker::Ticker;
pub use webhook_delivery::WebhookDelivery;
