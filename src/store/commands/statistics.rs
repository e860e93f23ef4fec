//! Statistics of tenants' activity, from buckets that expire.

use super::script::{ACTIVITY_RECENT, TENANT_STATISTICS};
use super::{Error, Store};
use crate::domain::escape::escape;
use serde::{Deserialize, Serialize};

/// Number of minutes over which throughput is averaged.
const WINDOW: u64 = 5;

/// A tenant's activity within a period.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct TenantActivity {
    pub enqueued: u64,
    /// Number of requests that enqueued those jobs.
    pub pushes: u64,
    /// Attempts that succeeded.
    pub completed: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Time that workers spent on its jobs, in milliseconds.
    pub worker_ms: u64,
}

impl TenantActivity {
    pub(super) fn read(text: &str) -> TenantActivity {
        let mut words = text.split(' ').map(|word| word.parse().unwrap_or(0));
        let mut next = || words.next().unwrap_or(0);
        TenantActivity { enqueued: next(), pushes: next(), completed: next(), failed: next(), worker_ms: next() }
    }

    pub(super) fn text(&self) -> String {
        let TenantActivity { enqueued, pushes, completed, failed, worker_ms } = self;
        format!("{enqueued} {pushes} {completed} {failed} {worker_ms}")
    }

    pub(super) fn add(&mut self, other: &TenantActivity) {
        self.enqueued += other.enqueued;
        self.pushes += other.pushes;
        self.completed += other.completed;
        self.failed += other.failed;
        self.worker_ms += other.worker_ms;
    }

    /// Returns the score by which tenants are ranked: one for each job and for each second of
    /// worker time.
    pub(super) fn busyness(&self) -> u64 {
        self.enqueued + self.completed + self.failed + self.worker_ms / 1000
    }
}

/// Attempts of a tenant's jobs that ended within the last minute.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct RecentAttempts {
    /// Number of attempts that succeeded or failed.
    pub ended: u64,
    /// Average run time of an attempt in milliseconds, if there was one.
    pub runtime_ms: Option<u64>,
}

/// A tenant's activity within the last 24 hours and the last minutes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TenantStatistics {
    /// True if activity is recorded; otherwise all figures are zero.
    pub counted: bool,
    /// Activity of the last 24 hours, from hourly buckets. The part of the first hour that lies
    /// within them is estimated.
    pub day: TenantActivity,
    pub processed_per_minute: f64,
    pub enqueued_per_minute: f64,
    /// The tenant's share of all worker time within the last minutes, from 0 to 1.
    pub worker_share: f64,
}

#[derive(Serialize)]
struct ActivityRecent {
    tenants: Vec<String>,
}

#[derive(Serialize)]
struct TenantStatisticsArgs<'a> {
    tenant: &'a str,
    minutes: u64,
}

#[derive(Deserialize)]
struct TenantWindow {
    counted: bool,
    /// Time since the window began, in milliseconds.
    span: f64,
    day: TenantActivity,
    /// The tenant's activity within the window.
    window: TenantActivity,
    /// The activity of all tenants within the window.
    all: TenantActivity,
}

impl Store {
    /// Returns the attempts of tenants' jobs within the last minute; `None` if activity is not
    /// recorded.
    pub async fn recent_attempts(&self, ids: &[&str]) -> Result<Option<Vec<RecentAttempts>>, Error> {
        self.sum_activity().await?;
        let tenants = ids.iter().map(|id| escape(id)).collect();
        ACTIVITY_RECENT.call_packed(&self.core, &ActivityRecent { tenants }).await
    }

    /// Returns a tenant's activity; all zero for a tenant without any within a day.
    pub async fn tenant_statistics(&self, id: &str) -> Result<TenantStatistics, Error> {
        if !self.scope.admits(Some(id)) {
            return Ok(TenantStatistics::default());
        }
        self.sum_activity().await?;
        let args = TenantStatisticsArgs { tenant: &escape(id), minutes: WINDOW };
        let TenantWindow { counted, span, day, window, all } = TENANT_STATISTICS.call_packed(&self.core, &args).await?;
        let minutes = span.max(1.0) / 60_000.0;
        Ok(TenantStatistics {
            counted,
            day,
            processed_per_minute: (window.completed + window.failed) as f64 / minutes,
            enqueued_per_minute: window.enqueued as f64 / minutes,
            worker_share: if all.worker_ms == 0 { 0.0 } else { window.worker_ms as f64 / all.worker_ms as f64 },
        })
    }
}
