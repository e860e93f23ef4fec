//! The tick: due schedules and retries, expiries, lapsed leases, dead workers, retention.
//!
//! Several processes may tick at once: each call takes what is due atomically. FETCH does the same
//! lazily, so a missed tick delays what GET shows, but never what a worker gets.

use crate::store::{Error, Store};
use std::time::Duration;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

const TICK: Duration = Duration::from_millis(100);
/// Number of ticks between two runs of retention.
const RETENTION_EVERY: u32 = 10;

/// Calls the tick at intervals.
pub struct Ticker {
    store: Store,
}

impl Ticker {
    /// Creates a ticker for a store.
    pub fn new(store: Store) -> Self {
        Ticker { store }
    }

    /// Ticks until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        let mut interval = tokio::time::interval(TICK);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut ticks: u32 = 0;
        let mut failing = false;
        loop {
            let in_turn = tokio::select! {
                () = stop.cancelled() => return,
                _ = interval.tick() => true,
                () = self.store.due() => false,
            };
            ticks = ticks.wrapping_add(u32::from(in_turn));
            let outcome = match in_turn && ticks.is_multiple_of(RETENTION_EVERY) {
                true => self.tick_and_retain(&stop).await,
                false => self.tick(&stop).await,
            };
            // Log once when it starts to fail and once when it works again, not ten times a second.
            match (&outcome, failing) {
                (Err(error), false) => {
                    tracing::warn!(%error, "tick failed; nothing comes due until Redis is back")
                }
                (Ok(()), true) => tracing::info!("tick recovered"),
                _ => {}
            }
            failing = outcome.is_err();
        }
    }

    async fn tick(&self, stop: &CancellationToken) -> Result<(), Error> {
        while self.store.tick().await? && !stop.is_cancelled() {
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn tick_and_retain(&self, stop: &CancellationToken) -> Result<(), Error> {
        while self.store.tick_and_signal().await? && !stop.is_cancelled() {
            tokio::task::yield_now().await;
        }
        while self.store.retain().await? && !stop.is_cancelled() {
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}
