//! The audit: a slow comparison of all job counts with the leases. A metric reports the number of
//! differences, which should be 0.

use crate::store::{Audit, AuditMode, Store};
use crate::telemetry::DispatchMetrics;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Time between two audits; `PAUSE` is the time between two portions of one.
const EVERY: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);
/// Maximum number of jobs counted in one call, so that a busy Redis is not blocked.
const MOST_AT_ONCE: usize = 1000;

/// Audits a store at intervals.
pub struct Auditor {
    store: Store,
    metrics: DispatchMetrics,
}

impl Auditor {
    /// Creates an auditor of a store.
    pub fn new(store: Store, metrics: DispatchMetrics) -> Self {
        Auditor { store, metrics }
    }

    /// Audits at intervals until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        let mut interval = tokio::time::interval(EVERY);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = interval.tick() => {}
            }
            tokio::select! {
                () = stop.cancelled() => return,
                audit = self.store.audit(AuditMode::Report, MOST_AT_ONCE, async || tokio::time::sleep(PAUSE).await) => match audit {
                    Ok(audit) => self.tell(&audit),
                    Err(error) => tracing::debug!(%error, "cannot audit job counts"),
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
                "job counts disagree with leases; run `fairgate doctor --repair`"
            );
        }
    }
}
