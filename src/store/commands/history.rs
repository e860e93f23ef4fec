//! History: a sample of rules, queues and tenants for each interval of the last day.

use super::statistics::TenantActivity;
use super::{Error, Store, reply};
use crate::domain::escape::unescape;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// Length of an interval in milliseconds.
pub const INTERVAL_MS: i64 = 300_000;
/// Number of intervals that are kept: those of 24 hours.
pub const INTERVALS_KEPT: i64 = 288;
/// TTL of a sample: one interval longer than it is shown, because it is written after its end.
const TTL_MS: i64 = INTERVAL_MS * (INTERVALS_KEPT + 2);
const MS_A_MINUTE: i64 = 60_000;
/// The name under which buckets keep the activity of all tenants.
const ALL: &str = "*";

/// Activity within an interval, and the state at its end.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct HistorySample {
    /// Start of the interval in milliseconds.
    pub at: i64,
    pub rules: BTreeMap<String, RuleSample>,
    pub queues: BTreeMap<String, QueueSample>,
    /// The busiest tenants.
    pub tenants: Vec<TenantSample>,
    /// Activity of all tenants together; `None` if activity is not recorded.
    pub all: Option<TenantSample>,
}

/// A rule at the end of an interval.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct RuleSample {
    pub staged: u64,
    pub depth: u64,
    pub latency_ms: u64,
    pub gate_open: bool,
    /// Number of jobs promoted since the rule exists.
    pub promoted_total: u64,
}

/// A queue at the end of an interval, and the jobs that ended within the interval.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct QueueSample {
    pub available: u64,
    pub active: u64,
    /// Age of the oldest job that may run.
    pub latency_ms: u64,
    pub completed: u64,
    pub discarded: u64,
}

/// Activity of a tenant within an interval.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct TenantSample {
    pub tenant_id: String,
    pub enqueued: u64,
    pub completed: u64,
    pub failed: u64,
    pub worker_ms: u64,
}

impl TenantSample {
    fn of(name: &str, did: &TenantActivity) -> TenantSample {
        let TenantActivity { enqueued, completed, failed, worker_ms, .. } = *did;
        TenantSample { tenant_id: unescape(name), enqueued, completed, failed, worker_ms }
    }
}

impl Store {
    /// Returns true if there is a sample of the interval that starts at `at`.
    pub async fn has_history_sample(&self, at: i64) -> Result<bool, Error> {
        let mut command = redis::cmd("EXISTS");
        command.arg(self.core.keys.history(at / INTERVAL_MS));
        Ok(reply::number(self.core.command("history", command).await?, "history")? == 1)
    }

    /// Stores a sample, unless another process has stored one of the same interval.
    pub async fn add_history_sample(&self, sample: &HistorySample) -> Result<(), Error> {
        let document = serde_json::to_string(sample).map_err(|error| Error::Backend(error.to_string()))?;
        let mut command = redis::cmd("SET");
        command.arg(self.core.keys.history(sample.at / INTERVAL_MS)).arg(document).arg("NX").arg("PX").arg(TTL_MS);
        self.core.command("history", command).await.map(drop)
    }

    /// Returns the samples of the `most` intervals that ended last, oldest first. Intervals in which
    /// no server ran have none.
    pub async fn history(&self, most: i64) -> Result<Vec<HistorySample>, Error> {
        let present = self.core.clock.now_ms().div_euclid(INTERVAL_MS);
        let mut command = redis::cmd("MGET");
        (present - most..present).for_each(|number| _ = command.arg(self.core.keys.history(number)));
        let texts = reply::texts(self.core.command("history", command).await?, "history")?;
        Ok(texts.iter().filter_map(|text| serde_json::from_str(text).ok()).collect())
    }

    /// Returns the activity of the busiest tenants within an interval, busiest first, and that of
    /// all tenants; `None` if activity is not recorded.
    pub async fn busiest_tenants(
        &self,
        at: i64,
        most: usize,
    ) -> Result<Option<(TenantSample, Vec<TenantSample>)>, Error> {
        if !self.sum_activity().await? {
            return Ok(None);
        }
        let mut sums: HashMap<String, TenantActivity> = HashMap::new();
        for minute in minutes_of(at) {
            let mut command = redis::cmd("ZREVRANGE");
            command.arg(self.core.keys.busy_tenants(minute)).arg(0).arg(most.saturating_sub(1));
            let mut names = reply::texts(self.core.command("history", command).await?, "history")?;
            names.push(ALL.to_owned());
            let names: Vec<&String> = names.iter().collect();
            let key = self.core.keys.activity('m', minute);
            for (name, did) in names.iter().zip(self.activity_of(key, &names).await?) {
                sums.entry((*name).clone()).or_default().add(&did);
            }
        }
        let all = sums.remove(ALL).unwrap_or_default();
        let mut tenants: Vec<(String, TenantActivity)> = sums.into_iter().collect();
        tenants.sort_by(|(name, did), (other, other_did)| {
            other_did.busyness().cmp(&did.busyness()).then_with(|| name.cmp(other))
        });
        tenants.truncate(most);
        let tenants = tenants.iter().map(|(name, did)| TenantSample::of(name, did)).collect();
        Ok(Some((TenantSample::of(ALL, &all), tenants)))
    }

    /// Returns the numbers of jobs of these queues that ended within an interval, completed and
    /// discarded; zeros if activity is not recorded.
    pub async fn ended_in_interval(&self, at: i64, queues: &[&str]) -> Result<Vec<super::EndedJobs>, Error> {
        let names: Vec<_> = queues.iter().map(|queue| self.scope.qualified(queue)).collect();
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        let mut sums = vec![super::EndedJobs::default(); names.len()];
        self.sum_activity().await?;
        for minute in minutes_of(at) {
            for (sum, activity) in sums.iter_mut().zip(self.queue_activity_in(minute, &names).await?) {
                sum.completed += activity.ended.completed;
                sum.discarded += activity.ended.discarded;
            }
        }
        Ok(sums)
    }
}

/// Returns the numbers of the minutes of the interval that starts at `at`.
fn minutes_of(at: i64) -> std::ops::Range<i64> {
    at / MS_A_MINUTE..(at + INTERVAL_MS) / MS_A_MINUTE
}
