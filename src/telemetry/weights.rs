//! Metrics of requests to weights webhooks, by rule.

use super::Labels;
use super::metrics::{Histograms, LATENCIES, MOST_NAMES};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RuleName {
    rule: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Question {
    rule: String,
    outcome: &'static str,
}

/// Metrics of requests to weights webhooks.
#[derive(Clone)]
pub struct WeightsMetrics {
    labels: Arc<Labels>,
    requests: Family<Question, Counter>,
    seconds: Histograms<RuleName>,
    invalid: Family<RuleName, Counter>,
}

impl Default for WeightsMetrics {
    fn default() -> Self {
        WeightsMetrics {
            labels: Arc::new(Labels::new(MOST_NAMES)),
            requests: Family::default(),
            seconds: Histograms::new_with_constructor(|| Histogram::new(LATENCIES)),
            invalid: Family::default(),
        }
    }
}

impl WeightsMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("fairgate_weights_requests", "Requests to weights webhooks", self.requests.clone());
        registry.register(
            "fairgate_weights_seconds",
            "Duration of a request to a weights webhook",
            self.seconds.clone(),
        );
        registry.register(
            "fairgate_weights_invalid",
            "Invalid weights in the answers of webhooks",
            self.invalid.clone(),
        );
    }

    fn name(&self, rule: &str) -> RuleName {
        RuleName { rule: self.labels.of(rule).to_owned() }
    }

    /// Records a request, with the number of invalid weights in its answer.
    pub fn observe(&self, rule: &str, outcome: &'static str, took: Duration, invalid: u64) {
        self.skipped(rule, outcome);
        self.seconds.get_or_create(&self.name(rule)).observe(took.as_secs_f64());
        if invalid > 0 {
            self.invalid.get_or_create(&self.name(rule)).inc_by(invalid);
        }
    }

    /// Counts a request that was not sent.
    pub fn skipped(&self, rule: &str, outcome: &'static str) {
        self.requests.get_or_create(&Question { rule: self.name(rule).rule, outcome }).inc();
    }
}
