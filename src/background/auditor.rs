//! The slow comparison of every count with the leases, and the metric that says how far they are apart: 0.

use crate::store::{Audit, Store};
use crate::telemetry::DispatchMetrics;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Time between two comparisons, and between two portions of one.
const EVERY: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);
/// Jobs counted in one call: a busy server must not wait for it.
const MOST_AT_ONCE: usize = 1000;

/// The component that compares.
pub struct Auditor {
    store: Store,
    metrics: DispatchMetrics,
}

impl Auditor {
    /// An auditor of a store.
    pub fn new(store: Store, metrics: DispatchMetrics) -> Self {
        Auditor { store, metrics }
    }

    /// Compares from time to time, until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        let mut interval = tokio::time::interval(EVERY);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = interval.tick() => {}
            }
            tokio::select! {
                () = stop.cancelled() => return,
                audit = self.store.audit(false, MOST_AT_ONCE, async || tokio::time::sleep(PAUSE).await) => match audit {
                    Ok(audit) => self.tell(&audit),
                    Err(error) => tracing::debug!(%error, "cannot compare counts with leases"),
                },
            }
        }
    }

    fn tell(&self, audit: &Audit) {
        self.metrics.drift(audit.differences.len() as u64);
        if let Some(first) = audit.differences.first() {
            tracing::error!(
                differences = audit.differences.len(),
                ?first,
                "counts differ from the leases: `fairgate doctor --repair` mends them"
            );
        }
    }
}
