//! Telemetry.

mod metrics;
