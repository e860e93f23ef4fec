//! The options of a plan rule that matter in a simulation.

use std::time::Duration;

use super::INSTANT;
use crate::config::plan::SHORTEST_INTERVAL;
use crate::config::reader::SettingsReader;
use crate::domain::plan::{Pace, Rule, Weights};

/// Reads `[rule]`. Options that are left out have the defaults of `[[plan]]`.
pub(super) fn read(reader: &mut SettingsReader<'_>) -> Rule {
    let base = Rule::new("simulation", &["*"]);
    let ms = |time: Duration| time.as_millis() as u64;
    let interval: Option<Duration> = reader.find_in("enqueue_interval", SHORTEST_INTERVAL..);
    Rule {
        pace: interval.map_or(base.pace, |interval| Pace::Every(ms(interval))),
        batch: reader.find("enqueue_jobs").unwrap_or(base.batch),
        strict_interval: reader.find("strict_interval").unwrap_or(base.strict_interval),
        latency_threshold: reader.find_in("latency_threshold", INSTANT..).map_or(base.latency_threshold, ms),
        max_depth: reader.find_in("max_depth", 1..).unwrap_or(base.max_depth),
        target_latency: reader.find_in("target_latency", INSTANT..).map_or(base.target_latency, ms),
        weights: reader.section("weights", |reader| Weights {
            fixed: reader.map("static"),
            default_weight: reader.find("default_weight").unwrap_or_default(),
            ..base.weights
        }),
        ..base
    }
}
