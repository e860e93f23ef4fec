//! Jobs in the admin API: find jobs, cancel, retry or delete one or many, purge a queue.

use super::bulk::{self, Bulk};
use crate::api::answers::bulk::BulkAnswer;
use crate::api::answers::lists::Truncated;
use crate::api::answers::types as answers;
use crate::api::body::RequestBody;
use crate::api::error::ApiError;
use crate::api::list_response::ListResponse;
use crate::api::pagination::{Page, Query};
use crate::api::path::PathParam;
use crate::api::{Api, response};
use crate::domain::invalid::Invalid;
use crate::domain::job::State as JobState;
use crate::domain::names;
use crate::store::{Deleted, FoundJob, JobFilter, JobOutcome};
use axum::extract::Request;
use axum::http::{StatusCode, Uri};
use axum::response::Response;

const ENDED: [JobState; 3] = [JobState::Completed, JobState::Cancelled, JobState::Discarded];

/// `GET /admin/jobs`, newest first by default.
pub(crate) async fn list(api: Api, uri: Uri) -> Result<Response, ApiError> {
    list_of(&api, &uri, None).await
}

/// Lists the jobs that match a query, of all tenants or of one.
pub(crate) async fn list_of(api: &Api, uri: &Uri, tenant: Option<String>) -> Result<Response, ApiError> {
    let query = Query::parse(uri);
    let page = Page::from_admin_query(&query)?;
    let filter = JobFilter { tenant, ..filter(&query)? };
    let key: fn(&FoundJob) -> i64 = match query.get("sort").unwrap_or("created_at") {
        "created_at" => |job| job.created,
        "scheduled_at" => |job| job.due.unwrap_or(i64::MAX),
        "priority" => |job| job.priority,
        other => return Err(Invalid::field("sort", "`created_at`, `scheduled_at` or `priority`", other).into()),
    };
    let (mut found, truncated) = api.store().find_jobs(&filter).await?;
    found.sort_by(|left, right| key(left).cmp(&key(right)).then_with(|| left.id.cmp(&right.id)));
    match query.get("order").unwrap_or("desc") {
        "desc" => found.reverse(),
        "asc" => {}
        other => return Err(Invalid::field("order", "`asc` or `desc`", other).into()),
    }
    let ids: Vec<String> = found.iter().skip(page.offset).take(page.limit).map(|job| job.id.clone()).collect();
    let jobs = response::jobs(&api.store().jobs(&ids).await?);
    Ok(ListResponse::new(&jobs, &[]).with(&Truncated { truncated }).paged(page, found.len()))
}

/// Reads the filter of a query.
pub(crate) fn filter(query: &Query) -> Result<JobFilter, ApiError> {
    let states = query.list("state");
    let states =
        states.iter().map(|name| JobState::from_name(name).ok_or_else(|| Invalid::field("state", "a job state", name)));
    Ok(JobFilter {
        queue: query.get("queue").map(str::to_owned),
        tenant: None,
        states: states.collect::<Result<_, _>>()?,
        kind: query.get("type").map(str::to_owned),
        since: query.time("since")?,
        until: query.time("until")?,
    })
}

/// `POST /admin/jobs/{id}/cancel`.
pub(crate) async fn cancel(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    match api.store().cancel(&id).await? {
        JobOutcome::Done(record, _) => {
            api.metrics().jobs.cancelled(&record.queue, &record.kind);
            Ok(response::job(&record))
        }
        JobOutcome::Missing => Err(ApiError::not_found("job", &id)),
        JobOutcome::Conflict { state, .. } => Err(ApiError::conflict(&id, "cancelled", state, "not finished", None)),
    }
}

/// `POST /admin/jobs/{id}/retry`: makes a discarded or cancelled job available again.
pub(crate) async fn retry(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    match api.store().retry_ended(&id).await? {
        JobOutcome::Done(record, _) => Ok(response::job(&record)),
        JobOutcome::Missing => Err(ApiError::not_found("job", &id)),
        JobOutcome::Conflict { state, .. } => {
            Err(ApiError::conflict(&id, "retried", state, "discarded or cancelled", None))
        }
    }
}

/// `POST /admin/jobs/bulk/retry`.
pub(crate) async fn retry_many(api: Api, request: Request) -> Result<Response, ApiError> {
    let (bulk, ids) = select(&api, request, &[JobState::Discarded, JobState::Cancelled], "discarded").await?;
    Ok(response::json(StatusCode::OK, &bulk.run("retry", &api, &ids, retry_one).await))
}

async fn retry_one(api: Api, id: String) -> Result<(), ApiError> {
    match api.store().retry_ended(&id).await? {
        JobOutcome::Done(..) => Ok(()),
        JobOutcome::Missing => Err(ApiError::not_found("job", &id)),
        JobOutcome::Conflict { state, .. } => {
            Err(ApiError::conflict(&id, "retried", state, "discarded or cancelled", None))
        }
    }
}

/// `POST /admin/jobs/bulk/cancel`.
pub(crate) async fn cancel_many(api: Api, request: Request) -> Result<Response, ApiError> {
    let waiting: Vec<JobState> = JobState::ALL.into_iter().filter(|state| !ENDED.contains(state)).collect();
    let (bulk, ids) = select(&api, request, &waiting, "").await?;
    Ok(response::json(StatusCode::OK, &bulk.run("cancel", &api, &ids, cancel_one).await))
}

async fn cancel_one(api: Api, id: String) -> Result<(), ApiError> {
    cancel(api, PathParam(id)).await.map(drop)
}

/// `POST /admin/jobs/bulk/delete`: deletes jobs that have ended.
pub(crate) async fn delete_many(api: Api, request: Request) -> Result<Response, ApiError> {
    let (bulk, ids) = select(&api, request, &ENDED, "").await?;
    Ok(response::json(StatusCode::OK, &bulk.run("delete", &api, &ids, delete_one).await))
}

async fn delete_one(api: Api, id: String) -> Result<(), ApiError> {
    match api.store().delete_ended(&id).await? {
        Deleted::Done => Ok(()),
        Deleted::Missing => Err(ApiError::not_found("job", &id)),
        Deleted::Conflict(state) => Err(ApiError::conflict(&id, "deleted", state, "finished", None)),
    }
}

/// Cancels and deletes a waiting job. A job that a worker has fetched meanwhile is not cancelled; one that has ended
/// meanwhile is deleted.
async fn purge_one(api: Api, id: String) -> Result<(), ApiError> {
    api.store().cancel_waiting(&id).await?;
    delete_one(api, id).await
}

/// Selects the jobs of a bulk request. Their states must be in `allowed`. A request without states means the state `usual`,
/// or all allowed states if `usual` is empty.
async fn select(
    api: &Api,
    request: Request,
    allowed: &[JobState],
    usual: &str,
) -> Result<(Bulk, Vec<String>), ApiError> {
    let body = RequestBody::read(api, request).await?;
    let fields = body.fields()?;
    let bulk = Bulk::read(&fields)?;
    let filter = bulk::filter(&fields)?;
    bulk::reject_unknown(&filter, &["queue", "state", "type", "since", "until"])?;
    let mut states = bulk::states(&filter, "state")?;
    if let Some(state) = states.iter().find(|state| !allowed.contains(state)) {
        let names: Vec<&str> = allowed.iter().map(|state| state.name()).collect();
        return Err(Invalid::field("filter.state", format!("one of {}", names.join(", ")), state.name()).into());
    }
    if states.is_empty() {
        states = JobState::from_name(usual).map_or_else(|| allowed.to_vec(), |usual| vec![usual]);
    }
    let filter = JobFilter {
        queue: filter.text("queue")?,
        tenant: None,
        states,
        kind: filter.text("type")?,
        since: bulk::time(&filter, "since")?,
        until: bulk::time(&filter, "until")?,
    };
    let (mut found, _) = api.store().find_jobs(&filter).await?;
    found.sort_by(|left, right| left.created.cmp(&right.created).then_with(|| left.id.cmp(&right.id)));
    Ok((bulk, found.into_iter().map(|job| job.id).collect()))
}

/// `DELETE /admin/queues/{name}/jobs`: deletes the jobs of the given states. Waiting jobs are cancelled first.
pub(crate) async fn purge(api: Api, PathParam(queue): PathParam, request: Request) -> Result<Response, ApiError> {
    let body = RequestBody::read(&api, request).await?;
    names::check_queue("name", &queue)?;
    let fields = body.optional_fields()?;
    let bulk = Bulk::read(&fields)?;
    let states = bulk::states(&fields, "states")?;
    if states.is_empty() {
        return Err(Invalid::missing("states", "the states of the jobs to purge").into());
    }
    if states.contains(&JobState::Active) {
        return Err(
            Invalid::field("states", "states other than active, because workers run active jobs", "active").into()
        );
    }
    let until = bulk::older_than(&api, &fields, "older_than")?;
    let filter = JobFilter { queue: Some(queue), states: states.clone(), until, ..JobFilter::default() };
    let (found, _) = api.store().find_jobs(&filter).await?;
    let ids: Vec<String> = found.into_iter().map(|job| job.id).collect();
    let done = bulk.run("purge", &api, &ids, purge_one).await;
    let states = states.into_iter().map(answers::JobState).collect();
    let body = BulkAnswer { purged_count: Some(done.succeeded), states: Some(states), ..done };
    Ok(response::json(StatusCode::OK, &body))
}
