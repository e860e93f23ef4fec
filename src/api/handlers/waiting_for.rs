//! `waiting_for` of a job: the reason why no worker runs it.

use crate::api::Api;
use crate::api::error::ApiError;
use crate::domain::job::{Record, State};
use crate::domain::limit::LimitKey;
use crate::domain::time;
use crate::planner::StagedStatus;
use crate::store::WaitingFor;
use serde_json::{Value, json};

/// All reasons, in the order of the documentation.
pub(crate) const REASONS: [&str; 7] =
    ["staged", "rate_limit", "tenant_limit", "queue_paused", "scheduled", "retry", "activation"];

/// Returns `waiting_for` as a further member of a job; empty if the job waits only for a worker, or does not wait.
pub(crate) async fn member(api: &Api, record: &Record) -> Result<String, ApiError> {
    let waits = matches!(record.state, State::Available | State::Pending | State::Scheduled | State::Retryable);
    let waiting = if waits { api.store().waits_for(&record.id).await? } else { None };
    let object = match waiting {
        None => return Ok(String::new()),
        Some(WaitingFor::Round { rule, tenant, queue }) => staged(api, &rule, &tenant, &queue).await?,
        Some(other) => describe(other),
    };
    Ok(format!(",\"waiting_for\":{object}"))
}

async fn staged(api: &Api, rule: &str, tenant: &str, queue: &str) -> Result<Value, ApiError> {
    let own = api.store().scope().unqualified(queue).unwrap_or(queue);
    let mut object = json!({"reason": "staged", "rule": rule, "tenant": tenant, "queue": own});
    if let Some(status) = StagedStatus::read(api.registry(), rule, queue, tenant).await? {
        object["gate"] = status.gate();
        object["tenant_state"] = status.tenant_state().into();
    }
    Ok(object)
}

fn describe(waiting: WaitingFor) -> Value {
    match waiting {
        WaitingFor::Round { .. } => Value::Null, // handled by `staged`
        WaitingFor::Activation => json!({"reason": "activation"}),
        WaitingFor::Schedule { until } => with_time(json!({"reason": "scheduled"}), "until", until),
        WaitingFor::Retry { until } => with_time(json!({"reason": "retry"}), "until", until),
        WaitingFor::Slot { until, key } => with_time(limited(key.as_ref()), "until", until),
        WaitingFor::Pause { queue, since } => {
            with_time(json!({"reason": "queue_paused", "queue": queue}), "since", since)
        }
        WaitingFor::Limit { key, strategy, since } => {
            let mut object = limited(key.as_ref());
            object["strategy"] = strategy.name().into();
            with_time(object, "since", since)
        }
        WaitingFor::TenantLimit { tenant, since } => {
            let object = json!({"reason": "tenant_limit", "tenant": tenant, "limit": "max_concurrency"});
            with_time(object, "since", since)
        }
    }
}

fn limited(key: Option<&LimitKey>) -> Value {
    let mut object = json!({"reason": "rate_limit"});
    if let Some(key) = key {
        (object["key"], object["scope"]) = (key.to_string().into(), key.scope.name().into());
    }
    object
}

fn with_time(mut object: Value, name: &str, at: Option<i64>) -> Value {
    at.into_iter().for_each(|at| object[name] = time::rfc3339(at).into());
    object
}
