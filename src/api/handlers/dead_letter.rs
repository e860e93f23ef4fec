//! The dead letter: list, show, retry or delete one or many jobs.

use super::bulk::{self, Bulk};
use crate::api::answers::bulk::BulkAnswer;
use crate::api::answers::dead_letter::{DeadLetterStats, Retention};
use crate::api::answers::types::{Deleted, Timestamp};
use crate::api::body::RequestBody;
use crate::api::error::ApiError;
use crate::api::list_response::ListResponse;
use crate::api::pagination::{Page, Query};
use crate::api::path::PathParam;
use crate::api::{Api, response};
use crate::domain::job::Record;
use crate::domain::time;
use crate::store::{DeadLetterFilter, JobOutcome};
use axum::extract::Request;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use std::collections::BTreeMap;

/// `GET /dead-letter`, newest first.
pub(crate) async fn list(api: Api, uri: Uri) -> Result<Response, ApiError> {
    let query = Query::parse(&uri);
    list_page(&api, &query, Page::from_query(&query)?).await
}

/// `GET /admin/dead-letter`.
pub(crate) async fn list_items(api: Api, uri: Uri) -> Result<Response, ApiError> {
    let query = Query::parse(&uri);
    list_page(&api, &query, Page::from_admin_query(&query)?).await
}

async fn list_page(api: &Api, query: &Query, page: Page) -> Result<Response, ApiError> {
    let filter = DeadLetterFilter {
        queue: query.get("queue").map(str::to_owned),
        kind: query.get("type").map(str::to_owned),
        error_type: query.get("error_type").map(str::to_owned),
        since: query.time("since")?,
        until: query.time("until")?,
    };
    let (records, total) = api.store().dead_letters(&filter, page.offset, page.limit).await?;
    Ok(ListResponse::new(&response::jobs(&records), &["jobs"]).paged(page, total))
}

/// `GET /dead-letter/stats`.
pub(crate) async fn stats(api: Api) -> Result<Response, ApiError> {
    let settings = api.store().settings();
    let most = settings.max_dead_letters as usize;
    let (records, total) = api.store().dead_letters(&DeadLetterFilter::default(), 0, most).await?;
    let (mut by_queue, mut by_error) = (BTreeMap::<&str, usize>::new(), BTreeMap::<String, usize>::new());
    for record in &records {
        let queue = api.store().scope().unqualified(&record.queue).unwrap_or(&record.queue);
        *by_queue.entry(queue).or_default() += 1;
        *by_error.entry(record.error_type().unwrap_or_else(|| "unknown".to_owned())).or_default() += 1;
    }
    let times = || records.iter().filter_map(Record::finished);
    let body = DeadLetterStats {
        total,
        by_queue,
        by_error_type: by_error,
        oldest_at: times().min().map(Timestamp),
        newest_at: times().max().map(Timestamp),
        retention: Retention { max_age_seconds: settings.dead_letter / 1000, max_count: most },
    };
    Ok(response::json(StatusCode::OK, &body))
}

/// `GET /dead-letter/{id}`.
pub(crate) async fn show(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    let record = api.store().dead_letter(&id).await?.ok_or_else(|| ApiError::not_found("dead letter", &id))?;
    Ok(response::job(&record))
}

/// `GET /admin/dead-letter/{id}`.
pub(crate) async fn show_to_admin(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    let record = api.store().dead_letter(&id).await?.ok_or_else(|| ApiError::not_found("dead letter", &id))?;
    Ok(response::job_for_admin(StatusCode::OK, &record, ""))
}

/// `POST /dead-letter/{id}/retry`.
pub(crate) async fn retry(api: Api, PathParam(id): PathParam, request: Request) -> Result<Response, ApiError> {
    let record = revive(&api, &id, request).await?;
    let at = record.enqueued().map(time::rfc3339).unwrap_or_default();
    Ok(response::job_with(&record, &format!(",\"re_enqueued_at\":\"{at}\"")))
}

/// `POST /admin/dead-letter/{id}/retry`.
pub(crate) async fn retry_as_admin(api: Api, PathParam(id): PathParam, request: Request) -> Result<Response, ApiError> {
    Ok(response::job(&revive(&api, &id, request).await?))
}

async fn revive(api: &Api, id: &str, request: Request) -> Result<Record, ApiError> {
    let body = RequestBody::read(api, request).await?;
    if body.optional_fields()?.get("override").is_some() {
        let message = "`override` is not supported. Retry the job without it.";
        return Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "unsupported", message).with("field", "override"));
    }
    match api.store().retry_dead_letter(id).await? {
        JobOutcome::Done(record, _) => Ok(*record),
        _ => Err(ApiError::not_found("dead letter", id)),
    }
}

/// `POST /dead-letter/retry` and `POST /admin/dead-letter/retry`: retries the jobs that match a filter.
pub(crate) async fn retry_many(api: Api, request: Request) -> Result<Response, ApiError> {
    let (bulk, ids) = select(&api, request).await?;
    Ok(response::json(StatusCode::OK, &bulk.run("retry", &api, &ids, retry_one).await))
}

async fn retry_one(api: Api, id: String) -> Result<(), ApiError> {
    match api.store().retry_dead_letter(&id).await? {
        JobOutcome::Done(..) => Ok(()),
        _ => Err(ApiError::not_found("dead letter", &id)),
    }
}

/// `DELETE /dead-letter` and `DELETE /admin/dead-letter`: deletes the jobs that match a filter.
pub(crate) async fn delete_many(api: Api, request: Request) -> Result<Response, ApiError> {
    let (bulk, ids) = select(&api, request).await?;
    let done = bulk.run("delete", &api, &ids, delete_one).await;
    let body = BulkAnswer { purged_count: Some(done.succeeded), ..done };
    Ok(response::json(StatusCode::OK, &body))
}

async fn delete_one(api: Api, id: String) -> Result<(), ApiError> {
    match api.store().delete_dead_letter(&id).await? {
        true => Ok(()),
        false => Err(ApiError::not_found("dead letter", &id)),
    }
}

/// Selects the jobs of a bulk request, oldest first.
async fn select(api: &Api, request: Request) -> Result<(Bulk, Vec<String>), ApiError> {
    let body = RequestBody::read(api, request).await?;
    let fields = body.optional_fields()?;
    let bulk = Bulk::read(&fields)?;
    let filter = bulk::filter(&fields)?;
    bulk::reject_unknown(&filter, &["queue", "type", "error_type", "since", "until", "older_than"])?;
    let older_than = bulk::older_than(api, &fields, "older_than")?.or(bulk::older_than(api, &filter, "older_than")?);
    let filter = DeadLetterFilter {
        queue: filter.text("queue")?,
        kind: filter.text("type")?,
        error_type: filter.text("error_type")?,
        since: bulk::time(&filter, "since")?,
        until: bulk::time(&filter, "until")?.or(older_than),
    };
    let mut ids = api.store().dead_letter_ids(&filter).await?;
    ids.reverse();
    Ok((bulk, ids))
}

/// `DELETE /dead-letter/{id}`.
pub(crate) async fn delete(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    if !api.store().delete_dead_letter(&id).await? {
        return Err(ApiError::not_found("dead letter", &id));
    }
    Ok(response::json(StatusCode::OK, &Deleted { deleted: true, job_id: &id }))
}

/// `DELETE /admin/dead-letter/{id}`.
pub(crate) async fn delete_as_admin(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    match api.store().delete_dead_letter(&id).await? {
        true => Ok(response::no_content()),
        false => Err(ApiError::not_found("dead letter", &id)),
    }
}
