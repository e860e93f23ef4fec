//! Jobs: enqueue, look up, cancel, activate.

use super::body::Text;
use super::path::Name;
use super::problem::Problem;
use super::rate_limits::with_headers;
use super::{Api, answer, tenant};
use crate::fair::TenantSource;
use crate::job::invalid::Invalid;
use crate::job::{self, NewJob, Record, trace};
use crate::store::{Enqueued, Outcome};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;

/// `POST /jobs`.
pub(super) async fn enqueue(State(api): State<Api>, request: Request) -> Result<Response, Problem> {
    let (context, headers) = (context(&api, request.headers())?, tenant_headers(&api, request.headers()));
    let body = Text::read(&api, request).await?;
    let job = job::request::parse(body.as_str(), &api.inner.limits, &context)?;
    let own_limit = job.rate_limit.clone();
    let records = store(&api, vec![job], &headers, false).await?;
    // One job in, one record out.
    let record = records.first().ok_or_else(Problem::bug)?;
    let response = answer::created(record);
    let Some(key) = api.inner.intake.limit_of(own_limit.as_ref(), &record.queue, &record.kind) else {
        return Ok(response);
    };
    // The job is stored: whether its limit can be looked at changes nothing about that.
    match api.store().limit(&key).await {
        Ok(Some(state)) => Ok(with_headers(response, &state)),
        _ => Ok(response),
    }
}

/// `POST /jobs/batch`: all of them or none.
pub(super) async fn enqueue_batch(State(api): State<Api>, request: Request) -> Result<Response, Problem> {
    let (context, headers) = (context(&api, request.headers())?, tenant_headers(&api, request.headers()));
    let body = Text::read(&api, request).await?;
    let jobs = job::request::parse_batch(body.as_str(), &api.inner.limits, &context)?;
    let records = store(&api, jobs, &headers, true).await?;
    let mut body = String::from("{\"jobs\":");
    answer::push_jobs(&mut body, &records);
    body.push_str(&format!(",\"count\":{}}}", records.len()));
    Ok(answer::json(StatusCode::CREATED, body))
}

async fn store(
    api: &Api,
    jobs: Vec<NewJob>,
    headers: &[(String, String)],
    is_batch: bool,
) -> Result<Vec<Record>, Problem> {
    let header = |name: &str| headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    match api.inner.intake.enqueue(jobs, is_batch, &header).await? {
        Enqueued::Stored(records) => {
            for record in &records {
                api.metrics().jobs.enqueued(&record.queue, &record.kind);
                api.metrics().store.tenants.enqueued(record.tenant.as_deref(), &record.queue);
            }
            Ok(records)
        }
        Enqueued::Duplicate { index, id } => Err(Problem::duplicate(&id, is_batch.then_some(index))),
        Enqueued::Full { rule, most, staged } => Err(Problem::staging_full(&rule, most, staged)),
        Enqueued::Limited(exceeded) => Err(Problem::tenant_limited(&exceeded, is_batch)),
        Enqueued::Stale(_) => Err(Problem::bug()), // the intake tries again by itself
    }
}

/// The headers in which plan rules look for a tenant.
fn tenant_headers(api: &Api, headers: &HeaderMap) -> Vec<(String, String)> {
    let value = |name: &str| headers.get(name)?.to_str().ok().map(str::to_owned);
    api.inner.intake.headers().into_iter().filter_map(|name| value(&name).map(|value| (name, value))).collect()
}

/// The request's trace context and tenant, which its jobs inherit.
fn context(api: &Api, headers: &HeaderMap) -> Result<job::request::Context, Invalid> {
    let header = |name: &'static str| {
        let value = headers.get(name)?.to_str().ok()?;
        let usable = name != "traceparent" || trace::trace_id(value).is_some();
        (usable && value.len() <= 8192).then(|| (name, value.to_owned()))
    };
    let tenancy = &api.inner.tenancy;
    Ok(job::request::Context {
        trace: trace::HEADERS.into_iter().filter_map(header).collect(),
        test_directives: api.inner.test_directives,
        tenant: if tenancy.has(TenantSource::Header) { tenant::named(headers)? } else { None },
        ignores_meta_tenant: !tenancy.has(TenantSource::Meta),
    })
}

/// `GET /jobs/{id}`.
pub(super) async fn show(State(api): State<Api>, Name(id): Name, headers: HeaderMap) -> Result<Response, Problem> {
    let record = api.store().job(&id).await?.ok_or_else(|| Problem::missing("job", &id))?;
    tenant::check_owner(&headers, &record)?;
    Ok(answer::job(StatusCode::OK, &record))
}

/// `GET /admin/jobs/{id}`.
pub(super) async fn show_to_admin(State(api): State<Api>, Name(id): Name) -> Result<Response, Problem> {
    let record = api.store().job(&id).await?.ok_or_else(|| Problem::missing("job", &id))?;
    Ok(answer::job_for_admin(StatusCode::OK, &record))
}

/// `DELETE /jobs/{id}` and `POST /jobs/{id}/cancel`.
pub(super) async fn cancel(State(api): State<Api>, Name(id): Name, headers: HeaderMap) -> Result<Response, Problem> {
    if tenant::wanted(&headers)?.is_some() {
        // Whose a job is never changes.
        let record = api.store().job(&id).await?.ok_or_else(|| Problem::missing("job", &id))?;
        tenant::check_owner(&headers, &record)?;
    }
    match api.store().cancel(&id).await? {
        Outcome::Done(record, previous) => {
            api.metrics().jobs.cancelled(&record.queue, &record.kind);
            Ok(changed(&record, previous))
        }
        Outcome::Missing => Err(Problem::missing("job", &id)),
        Outcome::Conflict { state, .. } => Err(Problem::conflict(&id, "cancelled", &state, "not finished", None)),
    }
}

/// `POST /jobs/{id}/activate`.
pub(super) async fn activate(State(api): State<Api>, Name(id): Name) -> Result<Response, Problem> {
    match api.store().activate(&id).await? {
        Outcome::Done(record, previous) => Ok(changed(&record, previous)),
        Outcome::Missing => Err(Problem::missing("job", &id)),
        Outcome::Conflict { state, .. } => Err(Problem::conflict(&id, "activated", &state, "pending", None)),
    }
}

fn changed(record: &Record, previous: Option<String>) -> Response {
    let more = previous.map(|state| format!(",\"previous_state\":\"{state}\"")).unwrap_or_default();
    answer::job_with(StatusCode::OK, record, &more)
}
