//! The reason why a waiting job is not handed to a worker.

use super::script::WAITING_FOR;
use super::{Error, Store};
use crate::domain::escape::unescape;
use crate::domain::limit::{LimitKey, LimitStrategy};
use serde::{Deserialize, Serialize};

/// The reason why a job waits. Times are milliseconds since the epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitingFor {
    /// The job is staged and waits for a round of its rule.
    Round { rule: String, tenant: String, queue: String },
    /// The job is pending and waits for its activation.
    Activation,
    /// The job waits for its scheduled time.
    Schedule { until: Option<i64> },
    /// The job waits for its next retry.
    Retry { until: Option<i64> },
    /// A limit has put the job off to a later start. The key is present if the caller may see it.
    Slot { until: Option<i64>, key: Option<LimitKey> },
    /// The job's queue is paused.
    Pause { queue: String, since: Option<i64> },
    /// A limit has no room. The key is present if the caller may see it.
    Limit { key: Option<LimitKey>, strategy: LimitStrategy, since: Option<i64> },
    /// The tenant has reached its limit of active jobs.
    TenantLimit { tenant: String, since: Option<i64> },
}

#[derive(Serialize)]
struct WaitingForArgs<'a> {
    id: &'a str,
    tenant: &'a str,
}

/// The reason in the terms of the store.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reason {
    Staged {
        rule: String,
        tenant: String,
        queue: String,
    },
    Activation,
    Scheduled {
        #[serde(default)]
        at: Option<i64>,
    },
    Retry {
        #[serde(default)]
        at: Option<i64>,
    },
    PutOff {
        #[serde(default)]
        at: Option<i64>,
        #[serde(default)]
        key: Option<String>,
    },
    Paused {
        queue: String,
        since: i64,
    },
    Limit {
        key: String,
        strategy: LimitStrategy,
        since: Option<i64>,
    },
}

impl Store {
    /// Returns the reason why a job waits; `None` if it only waits for a worker, or does not wait.
    pub async fn waits_for(&self, id: &str) -> Result<Option<WaitingFor>, Error> {
        let args = WaitingForArgs { id, tenant: &self.scope.word() };
        let reason: Option<Reason> = WAITING_FOR.call_packed(&self.core, &args).await?;
        Ok(reason.map(|reason| match reason {
            Reason::Staged { rule, tenant, queue } => WaitingFor::Round { rule, tenant: unescape(&tenant), queue },
            Reason::Activation => WaitingFor::Activation,
            Reason::Scheduled { at } => WaitingFor::Schedule { until: at },
            Reason::Retry { at } => WaitingFor::Retry { until: at },
            Reason::PutOff { at, key } => {
                WaitingFor::Slot { until: at, key: key.and_then(|key| self.known_limit(&key)) }
            }
            Reason::Paused { queue, since } => {
                let queue = self.scope.unqualified(&queue).unwrap_or(&queue).to_owned();
                WaitingFor::Pause { queue, since: Some(since) }
            }
            Reason::Limit { key, strategy, since } => match key.strip_prefix('!') {
                Some(tenant) => WaitingFor::TenantLimit { tenant: unescape(tenant), since },
                None => WaitingFor::Limit { key: self.known_limit(&key), strategy, since },
            },
        }))
    }

    /// Returns a stored key in the caller's form, if the key belongs to the caller.
    fn known_limit(&self, stored: &str) -> Option<LimitKey> {
        self.scope.own_rate_key(&LimitKey::from_stored(stored))
    }
}
