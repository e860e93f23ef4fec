//! The sources of one Sidekiq from which this process imports jobs.

use super::importer::Importer;
use super::releaser::{ReleaseError, Releaser};
use crate::main_queue::Sidekiq;
use crate::rules::Rulebook;
use crate::store::Store;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Imports from all sources of a Sidekiq.
pub struct ImportSources {
    pub store: Store,
    pub rules: Rulebook,
    pub sidekiq: Arc<Sidekiq>,
    pub importers: Vec<Importer>,
    /// Maximum time to hand staged jobs back after the stop; `None` to leave them staged.
    pub release_within: Option<Duration>,
}

impl ImportSources {
    /// Imports until `stop`. If configured, then waits for `planned`, which is cancelled once this
    /// process promotes no more jobs, and hands staged jobs back.
    pub async fn run(self, stop: CancellationToken, planned: CancellationToken) {
        let mut running = JoinSet::new();
        for importer in self.importers {
            running.spawn(importer.run(stop.clone()));
        }
        stop.cancelled().await;
        let stopped = Instant::now();
        let mut importers = Vec::new();
        while let Some(ended) = running.join_next().await {
            importers.extend(ended.inspect_err(|error| tracing::error!(%error, "importer task failed")).ok());
        }
        let Some(grace) = self.release_within else {
            for importer in &mut importers {
                importer.hand_back().await;
            }
            return;
        };
        planned.cancelled().await;
        let releaser = Releaser::new(self.store, self.rules, self.sidekiq.clone(), importers);
        release(releaser, self.sidekiq.name(), stopped + grace).await;
    }
}

/// Hands staged jobs back until `deadline` and logs the outcome.
async fn release(mut releaser: Releaser, main_queue: &str, deadline: Instant) {
    let outcome = releaser.release(Some(deadline), &|_, _| {}).await;
    let stocks = releaser.stocks();
    for stock in stocks.iter().filter(|stock| stock.released > 0) {
        let to = stock.home.as_ref().map(ToString::to_string).unwrap_or_default();
        tracing::info!(main_queue, rule = stock.rule, to, jobs = stock.released, "staged jobs handed back");
    }
    let left: u64 = stocks.iter().filter(|stock| stock.home.is_some()).map(|stock| stock.left).sum();
    match outcome {
        Err(ReleaseError::Drained { process, .. }) => {
            tracing::info!(main_queue, process, "staged jobs stay; another process plans them");
        }
        Err(ReleaseError::Taken(_)) => tracing::info!(main_queue, "another process hands staged jobs back"),
        Err(error) => tracing::warn!(main_queue, left, %error, "cannot hand all staged jobs back"),
        Ok(()) if left > 0 => {
            tracing::warn!(main_queue, left, "shutdown grace is over; the remaining jobs stay staged")
        }
        Ok(()) => {}
    }
    releaser.free_locks().await;
}
