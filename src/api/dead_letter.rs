//! The dead letter: list, look at, retry, delete, one or many.

use super::body::Text;
use super::bulk::{self, Bulk};
use super::listing::Listing;
use super::page::{Page, Query};
use super::path::Name;
use super::problem::Problem;
use super::{Api, answer};
use crate::job::{Record, time};
use crate::store::{DeadLetterFilter, Outcome};
use axum::extract::Request;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use std::collections::BTreeMap;

/// `GET /dead-letter`, newest first.
pub(super) async fn list(api: Api, uri: Uri) -> Result<Response, Problem> {
    let query = Query::of(&uri);
    page_of(&api, &query, Page::of(&query)?).await
}

/// `GET /admin/dead-letter`.
pub(super) async fn list_items(api: Api, uri: Uri) -> Result<Response, Problem> {
    let query = Query::of(&uri);
    page_of(&api, &query, Page::of_admin(&query)?).await
}

async fn page_of(api: &Api, query: &Query, page: Page) -> Result<Response, Problem> {
    let filter = DeadLetterFilter {
        queue: query.get("queue").map(str::to_owned),
        kind: query.get("type").map(str::to_owned),
        error_type: query.get("error_type").map(str::to_owned),
        since: query.time("since")?,
        until: query.time("until")?,
    };
    let (records, total) = api.store().dead_letters(&filter, page.offset, page.limit).await?;
    Ok(Listing::of(&answer::jobs(&records), &["jobs"]).paged(page, total))
}

/// `GET /dead-letter/stats`.
pub(super) async fn stats(api: Api) -> Result<Response, Problem> {
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
    let body = serde_json::json!({
        "total": total,
        "by_queue": by_queue,
        "by_error_type": by_error,
        "oldest_at": times().min().map(time::rfc3339),
        "newest_at": times().max().map(time::rfc3339),
        "retention": {"max_age_seconds": settings.dead_letter / 1000, "max_count": most},
    });
    Ok(answer::value(StatusCode::OK, &body))
}

/// `GET /dead-letter/{id}`.
pub(super) async fn show(api: Api, Name(id): Name) -> Result<Response, Problem> {
    let record = api.store().dead_letter(&id).await?.ok_or_else(|| Problem::missing("dead letter", &id))?;
    Ok(answer::job(&record))
}

/// `GET /admin/dead-letter/{id}`.
pub(super) async fn show_to_admin(api: Api, Name(id): Name) -> Result<Response, Problem> {
    let record = api.store().dead_letter(&id).await?.ok_or_else(|| Problem::missing("dead letter", &id))?;
    Ok(answer::job_for_admin(StatusCode::OK, &record, ""))
}

/// `POST /dead-letter/{id}/retry`.
pub(super) async fn retry(api: Api, Name(id): Name, request: Request) -> Result<Response, Problem> {
    let record = revive(&api, &id, request).await?;
    let at = record.enqueued().map(time::rfc3339).unwrap_or_default();
    Ok(answer::job_with(&record, &format!(",\"re_enqueued_at\":\"{at}\"")))
}

/// `POST /admin/dead-letter/{id}/retry`.
pub(super) async fn retry_as_admin(api: Api, Name(id): Name, request: Request) -> Result<Response, Problem> {
    Ok(answer::job(&revive(&api, &id, request).await?))
}

async fn revive(api: &Api, id: &str, request: Request) -> Result<Record, Problem> {
    let body = Text::read(api, request).await?;
    if body.optional_fields()?.get("override").is_some() {
        let message = "`override` is not supported: the job is retried as it is.";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "unsupported", message).with("field", "override"));
    }
    match api.store().retry_dead_letter(id).await? {
        Outcome::Done(record, _) => Ok(*record),
        _ => Err(Problem::missing("dead letter", id)),
    }
}

/// `POST /dead-letter/retry` and `POST /admin/dead-letter/retry`: all that a filter names.
pub(super) async fn retry_many(api: Api, request: Request) -> Result<Response, Problem> {
    let (bulk, ids) = select(&api, request).await?;
    Ok(answer::value(StatusCode::OK, &bulk.run("retry", &api, &ids, retry_one).await))
}

async fn retry_one(api: Api, id: String) -> Result<(), Problem> {
    match api.store().retry_dead_letter(&id).await? {
        Outcome::Done(..) => Ok(()),
        _ => Err(Problem::missing("dead letter", &id)),
    }
}

/// `DELETE /dead-letter` and `DELETE /admin/dead-letter`: all that a filter names.
pub(super) async fn forget_many(api: Api, request: Request) -> Result<Response, Problem> {
    let (bulk, ids) = select(&api, request).await?;
    let mut body = bulk.run("delete", &api, &ids, forget_one).await;
    body["purged_count"] = body["succeeded"].clone();
    Ok(answer::value(StatusCode::OK, &body))
}

async fn forget_one(api: Api, id: String) -> Result<(), Problem> {
    match api.store().delete_dead_letter(&id).await? {
        true => Ok(()),
        false => Err(Problem::missing("dead letter", &id)),
    }
}

/// Dead letters that a request about many means, the oldest first.
async fn select(api: &Api, request: Request) -> Result<(Bulk, Vec<String>), Problem> {
    let body = Text::read(api, request).await?;
    let fields = body.optional_fields()?;
    let bulk = Bulk::read(&fields)?;
    let filter = bulk::filter(&fields)?;
    bulk::only(&filter, &["queue", "type", "error_type", "since", "until", "older_than"])?;
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
pub(super) async fn forget(api: Api, Name(id): Name) -> Result<Response, Problem> {
    if !api.store().delete_dead_letter(&id).await? {
        return Err(Problem::missing("dead letter", &id));
    }
    Ok(answer::value(StatusCode::OK, &serde_json::json!({"deleted": true, "job_id": id})))
}

/// `DELETE /admin/dead-letter/{id}`.
pub(super) async fn forget_silently(api: Api, Name(id): Name) -> Result<Response, Problem> {
    match api.store().delete_dead_letter(&id).await? {
        true => Ok(answer::nothing()),
        false => Err(Problem::missing("dead letter", &id)),
    }
}
