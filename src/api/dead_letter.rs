//! The dead letter: list, look at, retry, delete.

use super::body::Text;
use super::page::{Page, Query};
use super::path::Name;
use super::problem::Problem;
use super::{Api, answer};
use crate::job::time;
use crate::store::{DeadLetterFilter, Outcome};
use axum::extract::Request;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use std::collections::BTreeMap;

/// `GET /dead-letter`, newest first.
pub(super) async fn list(api: Api, uri: Uri) -> Result<Response, Problem> {
    let query = Query::of(&uri);
    let page = Page::of(&query)?;
    let filter = DeadLetterFilter {
        queue: query.get("queue").map(str::to_owned),
        kind: query.get("type").map(str::to_owned),
        error_type: query.get("error_type").map(str::to_owned),
        since: query.time("since")?,
        until: query.time("until")?,
    };
    let (records, total) = api.store().dead_letters(&filter, page.offset, page.limit).await?;
    let mut body = String::from("{\"jobs\":");
    answer::push_jobs(&mut body, &records);
    body.push_str(&format!(",\"pagination\":{}}}", page.describe(total)));
    Ok(answer::json(StatusCode::OK, body))
}

/// `GET /dead-letter/stats`.
pub(super) async fn stats(api: Api) -> Result<Response, Problem> {
    let settings = api.store().settings();
    let most = settings.max_dead_letters as usize;
    let (records, total) = api.store().dead_letters(&DeadLetterFilter::default(), 0, most).await?;
    let (mut by_queue, mut by_error) = (BTreeMap::<&str, usize>::new(), BTreeMap::<String, usize>::new());
    for record in &records {
        *by_queue.entry(&record.queue).or_default() += 1;
        *by_error.entry(record.error_type().unwrap_or_else(|| "unknown".to_owned())).or_default() += 1;
    }
    let times = || records.iter().filter_map(crate::job::Record::finished);
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
    Ok(answer::job(StatusCode::OK, &record))
}

/// `POST /dead-letter/{id}/retry`.
pub(super) async fn retry(api: Api, Name(id): Name, request: Request) -> Result<Response, Problem> {
    let body = Text::read(&api, request).await?;
    if body.optional_fields()?.get("override").is_some() {
        let message = "`override` is not supported: the job is retried as it is.";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "unsupported", message).with("field", "override"));
    }
    match api.store().revive(&id).await? {
        Outcome::Done(record, _) => {
            let at = record.enqueued().map(time::rfc3339).unwrap_or_default();
            Ok(answer::job_with(StatusCode::OK, &record, &format!(",\"re_enqueued_at\":\"{at}\"")))
        }
        _ => Err(Problem::missing("dead letter", &id)),
    }
}

/// `DELETE /dead-letter/{id}`.
pub(super) async fn forget(api: Api, Name(id): Name) -> Result<Response, Problem> {
    if !api.store().forget(&id).await? {
        return Err(Problem::missing("dead letter", &id));
    }
    Ok(answer::value(StatusCode::OK, &serde_json::json!({"deleted": true, "job_id": id})))
}
