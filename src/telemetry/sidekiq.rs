//! Metrics of jobs that are imported from a Sidekiq.

use super::LabelPairs;
use super::metrics::MOST_NAMES;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use std::sync::Arc;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ClassName {
    main_queue: String,
    class: String,
}

/// Metrics of jobs that are imported from a Sidekiq.
#[derive(Clone)]
pub struct SidekiqMetrics {
    classes: Arc<LabelPairs>,
    unplanned: Family<ClassName, Counter>,
}

impl Default for SidekiqMetrics {
    fn default() -> Self {
        SidekiqMetrics { classes: Arc::new(LabelPairs::new(MOST_NAMES)), unplanned: Family::default() }
    }
}

impl SidekiqMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let about = "Jobs from a staging queue that were passed on because no plan rule has their class";
        registry.register("fairgate_sidekiq_unplanned", about, self.unplanned.clone());
    }

    /// Counts a job whose class is not covered by any plan rule.
    pub fn unplanned(&self, main_queue: &str, class: &str) {
        let class = self.classes.of(main_queue, class).to_owned();
        let main_queue = main_queue.to_owned();
        self.unplanned.get_or_create(&ClassName { main_queue, class }).inc();
    }
}
