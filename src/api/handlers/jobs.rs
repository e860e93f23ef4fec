//! Jobs: enqueue, list, show, cancel, activate.

use super::{admin_jobs, waiting_for};
use crate::api::error::ApiError;
use crate::api::list_response::ListResponse;
use crate::api::pagination::{CursorPage, Query};
use crate::api::path::PathParam;
use crate::api::proxy::{self, EnqueueBody};
use crate::api::{Api, rate_limit_headers, response, tenant_header};
use crate::domain::invalid::Invalid;
use crate::domain::job;
use crate::domain::job::{EnqueueKind, NewJob, Record, State, trace};
use crate::domain::limit::{LimitKey, Overflow, RateLimit};
use crate::domain::tenant::TenantSource;
use crate::store::{Enqueued, JobFilter, JobOutcome};
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use std::time::{Duration, Instant};

/// The interval at which a blocked enqueue tries again.
pub(crate) const BLOCKED_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// `POST /jobs`.
pub(crate) async fn enqueue(api: Api, request: Request) -> Result<Response, ApiError> {
    let (context, headers) = (context(&api, request.headers())?, HeaderOptions::parse(&api, request.headers())?);
    let body = match proxy::read_jobs(&api, request, EnqueueKind::Single).await? {
        EnqueueBody::Local(body) => body,
        EnqueueBody::Forwarded(response) => return Ok(response),
    };
    let job = job::request::parse(body.as_str(), &api.inner.limits, &context)?;
    let own_limit = job.rate_limit.clone();
    let records = store(&api, vec![job], &headers, EnqueueKind::Single).await?;
    // One job in, one record out.
    let record = records.first().ok_or_else(ApiError::internal)?;
    if record.existing {
        return Ok(response::deduplicated(record));
    }
    let mut response = response::created(record);
    if let Some(pressure) = record.pressure {
        response = response::with_queue_pressure(response, pressure);
    }
    match api.enqueue_service().limit_of(own_limit.as_ref(), record) {
        Some(key) => Ok(with_limit_of(&api, response, &key).await),
        None => Ok(response),
    }
}

/// `GET /jobs`: jobs that match the query, in no particular order. Each call reads a bounded number of keys.
pub(crate) async fn list(api: Api, uri: Uri) -> Result<Response, ApiError> {
    let query = Query::parse(&uri);
    let CursorPage { cursor, limit } = CursorPage::from_query(&query)?;
    let filter = JobFilter { tenant: query.tenant()?, ..admin_jobs::filter(&query)? };
    let (ids, next) = api.store().scan_jobs(&filter, cursor, limit).await?;
    let jobs = response::jobs(&api.store().jobs(&ids).await?);
    Ok(ListResponse::new(&jobs, &["jobs"]).with(&CursorPage::describe(limit, next.as_ref())).into_response())
}

/// `POST /jobs/batch`: stores all jobs of a batch, or none.
pub(crate) async fn enqueue_batch(api: Api, request: Request) -> Result<Response, ApiError> {
    let (context, headers) = (context(&api, request.headers())?, HeaderOptions::parse(&api, request.headers())?);
    let body = match proxy::read_jobs(&api, request, EnqueueKind::Batch).await? {
        EnqueueBody::Local(body) => body,
        EnqueueBody::Forwarded(response) => return Ok(response),
    };
    let jobs = job::request::parse_batch(body.as_str(), &api.inner.limits, &context)?;
    let limits: Vec<Option<RateLimit>> = jobs.iter().map(|job| job.rate_limit.clone()).collect();
    let records = store(&api, jobs, &headers, EnqueueKind::Batch).await?;
    let mut body = String::from("{\"jobs\":");
    response::push_jobs(&mut body, &records);
    body.push_str(&format!(",\"count\":{}", records.len()));
    let existing: Vec<usize> =
        records.iter().enumerate().filter_map(|(index, record)| record.existing.then_some(index)).collect();
    if !existing.is_empty() {
        body.push_str(&format!(",\"deduplicated\":{existing:?}"));
    }
    body.push('}');
    let response = response::raw_json(StatusCode::CREATED, body);
    let pressure = records.iter().find_map(|record| record.pressure);
    let response = pressure.into_iter().fold(response, response::with_queue_pressure);
    Ok(match one_limit(&api, &limits, &records) {
        Some(key) => with_limit_of(&api, response, &key).await,
        None => response,
    })
}

/// Returns the limit that the jobs of a batch set, if they all set the same one: the headers can report only one.
fn one_limit(api: &Api, limits: &[Option<RateLimit>], records: &[Record]) -> Option<LimitKey> {
    let limited = limits.iter().zip(records).filter(|(own, _)| own.is_some());
    let mut keys = limited.filter_map(|(own, record)| api.enqueue_service().limit_of(own.as_ref(), record));
    let first = keys.next()?;
    keys.all(|key| key == first).then_some(first)
}

/// Adds the headers of a limit. A failure to read the limit is ignored, because the job is already stored.
async fn with_limit_of(api: &Api, response: Response, key: &LimitKey) -> Response {
    match api.store().limit(key).await {
        Ok(Some(state)) => rate_limit_headers::add_state(response, &state),
        _ => response,
    }
}

async fn store(
    api: &Api,
    mut jobs: Vec<NewJob>,
    headers: &HeaderOptions,
    kind: EnqueueKind,
) -> Result<Vec<Record>, ApiError> {
    let header = |name: &str| headers.tenants.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    let deadline = Instant::now() + headers.block_timeout;
    loop {
        let again = (!headers.block_timeout.is_zero()).then(|| jobs.clone());
        match (api.enqueue_service().enqueue(jobs, kind, &header).await?, again) {
            (Enqueued::Stored(records), _) => {
                let new = records.iter().filter(|record| !record.existing);
                new.for_each(|record| {
                    api.metrics().jobs.enqueued(&record.queue, &record.kind);
                    api.metrics().store.tenants.enqueued(record.tenant.as_deref(), &record.queue);
                });
                return Ok(records);
            }
            (Enqueued::Bounded { overflow: Overflow::Block, .. }, Some(again)) if Instant::now() < deadline => {
                tokio::time::sleep(BLOCKED_RETRY_INTERVAL).await;
                jobs = again;
            }
            (refused, _) => return Err(refusal(refused, kind)),
        }
    }
}

/// The error for jobs that were not stored.
fn refusal(refused: Enqueued, kind: EnqueueKind) -> ApiError {
    match refused {
        Enqueued::Duplicate { index, id } => ApiError::duplicate_id(&id, kind.index(index)),
        Enqueued::Exists { index, id, state, key } => ApiError::unique_conflict(&id, state, &key, kind.index(index)),
        Enqueued::Full { rule, most, staged } => ApiError::staging_full(&rule, most, staged),
        Enqueued::Bounded { queue, depth, most, overflow } => ApiError::queue_full(&queue, depth, most, overflow),
        Enqueued::Limited(exceeded) => ApiError::tenant_limited(&exceeded, kind),
        Enqueued::Stored(_) | Enqueued::Stale(_) => ApiError::internal(), // retried by the enqueue service
    }
}

/// The options of an enqueue that the request has in headers.
pub(crate) struct HeaderOptions {
    /// Name and value of the headers from which plan rules read the tenant.
    pub(crate) tenants: Vec<(String, String)>,
    /// The time to wait for room in a queue whose overflow policy is `block`.
    pub(crate) block_timeout: Duration,
}

impl HeaderOptions {
    pub(crate) fn parse(api: &Api, headers: &HeaderMap) -> Result<HeaderOptions, ApiError> {
        let value = |name: &str| headers.get(name)?.to_str().ok().map(str::to_owned);
        let mut tenants = Vec::new();
        for name in api.enqueue_service().headers() {
            tenants.extend(tenant_header::single(headers, &name)?.map(|value| (name.clone(), value.to_owned())));
        }
        let block_timeout = match value("ojs-block-timeout") {
            None => Duration::ZERO,
            Some(text) => {
                let seconds = text
                    .parse::<u64>()
                    .map_err(|_| Invalid::field("OJS-Block-Timeout", "a whole number of seconds", &text))?;
                // At most half of the request timeout, so that the client gets the error about the full queue.
                Duration::from_secs(seconds).min(api.inner.request_timeout / 2)
            }
        };
        Ok(HeaderOptions { tenants, block_timeout })
    }
}

/// Reads the trace context and the tenant of a request, which its jobs inherit.
pub(crate) fn context(api: &Api, headers: &HeaderMap) -> Result<job::request::Context, Invalid> {
    let header = |name: &'static str| {
        let value = headers.get(name)?.to_str().ok()?;
        let usable = name != "traceparent" || trace::trace_id(value).is_some();
        (usable && value.len() <= 8192).then(|| (name, value.to_owned()))
    };
    let tenancy = &api.inner.tenancy;
    Ok(job::request::Context {
        meta: trace::HEADERS.into_iter().filter_map(header).collect(),
        test_directives: api.inner.test_directives,
        tenant: if tenancy.has(TenantSource::Header) { tenant_header::named(headers)? } else { None },
        ignores_meta_tenant: !tenancy.has(TenantSource::Meta),
    })
}

/// `GET /jobs/{id}`.
pub(crate) async fn show(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    let record = api.store().job(&id).await?.ok_or_else(|| ApiError::not_found("job", &id))?;
    Ok(response::job_with(&record, &waiting_for::member(&api, &record).await?))
}

/// `GET /admin/jobs/{id}`.
pub(crate) async fn show_to_admin(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    let record = api.store().job(&id).await?.ok_or_else(|| ApiError::not_found("job", &id))?;
    Ok(response::job_for_admin(StatusCode::OK, &record, &waiting_for::member(&api, &record).await?))
}

/// `DELETE /jobs/{id}` and `POST /jobs/{id}/cancel`.
pub(crate) async fn cancel(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    match api.store().cancel(&id).await? {
        JobOutcome::Done(record, previous) => {
            api.metrics().jobs.cancelled(&record.queue, &record.kind);
            Ok(changed_job(&record, previous))
        }
        JobOutcome::Missing => Err(ApiError::not_found("job", &id)),
        JobOutcome::Conflict { state, .. } => Err(ApiError::conflict(&id, "cancelled", state, "not finished", None)),
    }
}

/// `POST /jobs/{id}/activate`.
pub(crate) async fn activate(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    match api.store().activate(&id).await? {
        JobOutcome::Done(record, previous) => Ok(changed_job(&record, previous)),
        JobOutcome::Missing => Err(ApiError::not_found("job", &id)),
        JobOutcome::Conflict { state, .. } => Err(ApiError::conflict(&id, "activated", state, "pending", None)),
    }
}

fn changed_job(record: &Record, previous: Option<State>) -> Response {
    let more = previous.map(|state| format!(",\"previous_state\":\"{state}\"")).unwrap_or_default();
    response::job_with(record, &more)
}
