//! The cron runner: fires crons that are due.
//!
//! Every process with this role checks for due crons. A firing is one script, which succeeds for
//! the first process only. If a process dies between checking and firing, another one fires, or the
//! one that starts next. Of several missed times, only one is fired late.

use crate::domain::cron::{CronJob, CronSkip};
use crate::domain::job::RequestLimits;
use crate::enqueue::EnqueueService;
use crate::store::{Error, FireCronOutcome, Firing, MOST_CRONS, PreparedCronJob, RetimedCron, Store, StoredCron};
use futures_util::future::join_all;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Maximum time between checks: other processes may register crons, and the store's clock decides.
const LONGEST: Duration = Duration::from_secs(1);
/// Maximum number of crons fired at once.
const PORTION: usize = 64;

/// Fires crons; clones share the state.
#[derive(Clone)]
pub struct CronRunner {
    store: Store,
    enqueue_service: EnqueueService,
    limits: RequestLimits,
}

impl CronRunner {
    /// Creates a runner whose jobs go through the enqueue service.
    pub fn new(store: Store, enqueue_service: EnqueueService, limits: RequestLimits) -> Self {
        CronRunner { store, enqueue_service, limits }
    }

    /// Fires crons until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        let (mut failing, mut wait) = (false, Duration::ZERO);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
            let outcome = self.fire_due().await;
            match (&outcome, failing) {
                (Err(error), false) => tracing::warn!(%error, "cannot read crons; none fires until Redis is back"),
                (Ok(_), true) => tracing::info!("crons are firing again"),
                _ => {}
            }
            failing = outcome.is_err();
            wait = outcome.unwrap_or(LONGEST);
        }
    }

    /// Fires the crons that are due. Returns the time until the next check.
    async fn fire_due(&self) -> Result<Duration, Error> {
        loop {
            let due = self.store.due_crons(PORTION).await?;
            if let Some(outdated) = &due.outdated {
                self.retime(outdated).await?;
                continue;
            }
            if due.crons.is_empty() {
                let wait = due.first.map(|at| Duration::from_millis((at - due.now).max(1) as u64));
                return Ok(wait.map_or(LONGEST, |wait| wait.min(LONGEST)));
            }
            let fired = join_all(due.crons.iter().map(|cron| self.fire(cron, due.now))).await;
            fired.into_iter().collect::<Result<Vec<()>, Error>>()?;
        }
    }

    /// Recomputes the next times of all crons, because the clock was set back. Otherwise each cron
    /// would wait until the clock reaches its previous next time again.
    async fn retime(&self, outdated: &str) -> Result<(), Error> {
        let table = self.store.crons(0, MOST_CRONS, Some(true)).await?;
        let earlier = |stored: &StoredCron| {
            let (before, cron) = (stored.next?, CronJob::stored(&stored.document).ok()?);
            let after = cron.timing.next_wake(table.now, table.now)?;
            (after < before).then(|| RetimedCron { name: stored.name.clone(), before, after })
        };
        let crons: Vec<_> = table.crons.iter().filter_map(earlier).collect();
        self.store.retime_crons(&crons, outdated).await?;
        tracing::info!(crons = crons.len(), "clock was set back; recomputed the next times of crons");
        Ok(())
    }

    async fn fire(&self, stored: &StoredCron, now: i64) -> Result<(), Error> {
        let Some(at) = stored.next else { return Ok(()) };
        let cron = match CronJob::stored(&stored.document) {
            Ok(cron) => cron,
            Err(problem) => {
                // If it stayed scheduled, it would be due forever and delay the others.
                tracing::error!(cron = stored.name, %problem, "cannot parse a stored cron; disabled until it is registered again");
                return self.store.disable_cron(&stored.name).await;
            }
        };
        // After a skipped time, continue from it, because a later time may be due already.
        let is_left_out = cron.timing.is_left_out(at);
        let next = cron.timing.next_wake(if is_left_out { at } else { now.max(at) }, at);
        let firing = Firing { name: &stored.name, cron: &cron, version: &stored.version, at: Some(at), next };
        let fired = match is_left_out {
            true => self.store.fire_cron(&firing, PreparedCronJob::Skip(CronSkip::DstSkip)).await?,
            false => self.enqueue_service.fire(&firing, cron.job(at, &self.limits)).await?,
        };
        match fired {
            FireCronOutcome::Skipped { reason, .. } => {
                tracing::debug!(cron = cron.name, reason = reason.name(), "cron skipped");
            }
            FireCronOutcome::Stored(_) | FireCronOutcome::Gone | FireCronOutcome::Stale => {}
        }
        Ok(())
    }

    /// Fires a cron on request; its schedule stays the same.
    pub async fn run_now(&self, stored: &StoredCron, now: i64) -> Result<FireCronOutcome, Error> {
        let Ok(cron) = CronJob::stored(&stored.document) else { return Ok(FireCronOutcome::Gone) };
        let firing = Firing { name: &stored.name, cron: &cron, version: &stored.version, at: None, next: None };
        self.enqueue_service.fire(&firing, cron.job(now, &self.limits)).await
    }
}
