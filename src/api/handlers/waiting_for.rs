//! `waiting_for` of a job: the reason why no worker runs it.

use crate::api::answers::types::Timestamp;
use crate::api::answers::waiting_for::{self as answers, StagedGate};
use crate::api::error::ApiError;
use crate::api::{Api, response};
use crate::domain::job::{Record, State};
use crate::domain::limit::LimitKey;
use crate::domain::plan::Closed;
use crate::planner::StagedStatus;
use crate::store::WaitingFor;

/// Returns `waiting_for` as a further member of a job; empty if the job waits only for a worker, or does not wait.
pub(crate) async fn member(api: &Api, record: &Record) -> Result<String, ApiError> {
    let waits = matches!(record.state, State::Available | State::Pending | State::Scheduled | State::Retryable);
    let waiting = if waits { api.store().waits_for(&record.id).await? } else { None };
    let object = match waiting {
        None => return Ok(String::new()),
        Some(WaitingFor::Round { rule, tenant, queue }) => staged(api, &rule, &tenant, &queue).await?,
        Some(other) => describe(other),
    };
    Ok(format!(",\"waiting_for\":{}", response::to_value(&object)))
}

async fn staged(api: &Api, rule: &str, tenant: &str, queue: &str) -> Result<answers::WaitingFor, ApiError> {
    let own = api.store().scope().unqualified(queue).unwrap_or(queue);
    let status = StagedStatus::read(api.registry(), rule, queue, tenant).await?;
    let gate = |status: &StagedStatus| {
        let closed = status.closed();
        StagedGate { open: closed.is_none(), reason: closed.map(Closed::name) }
    };
    Ok(answers::WaitingFor {
        rule: Some(rule.to_owned()),
        tenant: Some(tenant.to_owned()),
        queue: Some(own.to_owned()),
        gate: status.as_ref().map(gate),
        tenant_state: status.as_ref().map(StagedStatus::tenant_state),
        ..because("staged")
    })
}

fn describe(waiting: WaitingFor) -> answers::WaitingFor {
    let time = |at: Option<i64>| at.map(Timestamp);
    match waiting {
        WaitingFor::Round { .. } => because("staged"), // handled by `staged`
        WaitingFor::Activation => because("activation"),
        WaitingFor::Schedule { until } => answers::WaitingFor { until: time(until), ..because("scheduled") },
        WaitingFor::Retry { until } => answers::WaitingFor { until: time(until), ..because("retry") },
        WaitingFor::Slot { until, key } => answers::WaitingFor { until: time(until), ..limited(key.as_ref()) },
        WaitingFor::Pause { queue, since } => {
            answers::WaitingFor { queue: Some(queue), since: time(since), ..because("queue_paused") }
        }
        WaitingFor::Limit { key, strategy, since } => {
            answers::WaitingFor { strategy: Some(strategy.name()), since: time(since), ..limited(key.as_ref()) }
        }
        WaitingFor::TenantLimit { tenant, since } => answers::WaitingFor {
            tenant: Some(tenant),
            limit: Some("max_concurrency"),
            since: time(since),
            ..because("tenant_limit")
        },
    }
}

fn limited(key: Option<&LimitKey>) -> answers::WaitingFor {
    answers::WaitingFor {
        key: key.map(LimitKey::to_string),
        scope: key.map(|key| key.scope.name()),
        ..because("rate_limit")
    }
}

fn because(reason: &'static str) -> answers::WaitingFor {
    answers::WaitingFor { reason, ..answers::WaitingFor::default() }
}
