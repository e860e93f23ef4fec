//! `waiting_for` of a job: the reason why nobody runs it.

use crate::api::Api;
use crate::api::error::ApiError;
use crate::job::{LimitKey, Record, State, time};
use crate::planner::StagedStatus;
use crate::store::WaitingFor;
use serde_json::{Value, json};

/// The reasons, in the order of the documentation.
pub(crate) const REASONS: [&str; 7] =
    ["staged", "rate_limit", "tenant_limit", "queue_paused", "scheduled", "retry", "activation"];

/// Returns `waiting_for` as a further member of a job; nothing if the job waits only for a worker, or does not wait.
pub(crate) async fn member(api: &Api, record: &Record) -> Result<String, ApiError> {
    let state = State::from_name(&record.state);
    let waits = matches!(state, Some(State::Available | State::Pending | State::Scheduled | State::Retryable));
    let waiting = if waits { api.store().waits_for(&record.id).await? } else { None };
    let shown = match waiting {
        None => return Ok(String::new()),
        Some(WaitingFor::Round { rule, tenant, queue }) => staged(api, &rule, &tenant, &queue).await?,
        Some(other) => describe(other),
    };
    Ok(format!(",\"waiting_for\":{shown}"))
}

async fn staged(api: &Api, rule: &str, tenant: &str, queue: &str) -> Result<Value, ApiError> {
    let own = api.store().scope().unqualified(queue).unwrap_or(queue);
    let mut shown = json!({"reason": "staged", "rule": rule, "tenant": tenant, "queue": own});
    if let Some(status) = StagedStatus::read(api.registry(), rule, queue, tenant).await? {
        shown["gate"] = status.gate();
        shown["tenant_state"] = status.tenant_state().into();
    }
    Ok(shown)
}

fn describe(waiting: WaitingFor) -> Value {
    match waiting {
        WaitingFor::Round { .. } => Value::Null, // shown with what its rule waits for
        WaitingFor::Activation => json!({"reason": "activation"}),
        WaitingFor::Schedule { until } => with_time(json!({"reason": "scheduled"}), "until", until),
        WaitingFor::Retry { until } => with_time(json!({"reason": "retry"}), "until", until),
        WaitingFor::Slot { until, key } => with_time(limited(key.as_ref()), "until", until),
        WaitingFor::Pause { queue, since } => {
            with_time(json!({"reason": "queue_paused", "queue": queue}), "since", since)
        }
        WaitingFor::Limit { key, strategy, since } => {
            let mut shown = limited(key.as_ref());
            shown["strategy"] = strategy.into();
            with_time(shown, "since", since)
        }
        WaitingFor::TenantLimit { tenant, since } => {
            let shown = json!({"reason": "tenant_limit", "tenant": tenant, "limit": "max_concurrency"});
            with_time(shown, "since", since)
        }
    }
}

fn limited(key: Option<&LimitKey>) -> Value {
    let mut shown = json!({"reason": "rate_limit"});
    if let Some(key) = key {
        (shown["key"], shown["scope"]) = (key.to_string().into(), key.scope.name().into());
    }
    shown
}

fn with_time(mut shown: Value, name: &str, at: Option<i64>) -> Value {
    at.into_iter().for_each(|at| shown[name] = time::rfc3339(at).into());
    shown
}
