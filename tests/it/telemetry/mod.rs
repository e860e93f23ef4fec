//! Metrics.

mod metrics;
mod rules;
