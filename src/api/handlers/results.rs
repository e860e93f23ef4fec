//! Results of jobs: one, optionally with a wait, or many at once.

use crate::api::body::RequestBody;
use crate::api::context::WaitingTime;
use crate::api::error::ApiError;
use crate::api::pagination::Query;
use crate::api::path::PathParam;
use crate::api::{Api, response};
use crate::backoff::Backoff;
use crate::domain::invalid::Invalid;
use crate::domain::job::Record;
use crate::domain::json;
use axum::extract::Request;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use std::time::{Duration, Instant};

/// The longest wait for a result, in seconds.
pub(crate) const LONGEST_WAIT_S: usize = 60;
/// The default wait for a result, in seconds.
const DEFAULT_WAIT_S: usize = 30;
/// The shortest and the longest pause between two reads of a job whose result is awaited.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// The number of results that one request may read.
pub(crate) const MOST_IDS: usize = 100;

/// `GET /jobs/{id}/result`: 408 if there is no result. `wait=true` waits for one.
pub(crate) async fn show(
    api: Api,
    PathParam(id): PathParam,
    waiting: WaitingTime,
    uri: Uri,
) -> Result<Response, ApiError> {
    let query = Query::parse(&uri);
    let seconds = query.number("timeout", 0, LONGEST_WAIT_S)?.unwrap_or(DEFAULT_WAIT_S);
    let longest_wait = match query.get("wait") {
        None | Some("false") => Duration::ZERO,
        Some("true") => Duration::from_secs(seconds as u64),
        Some(other) => return Err(Invalid::field("wait", "true or false", other).into()),
    };
    waiting.set(longest_wait);
    let (started, mut backoff) = (Instant::now(), Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE));
    loop {
        let record = api.store().job(&id).await?.ok_or_else(|| ApiError::not_found("job", &id))?;
        if record.state.is_final() {
            waiting.set(started.elapsed());
            return Ok(response::raw_json(
                StatusCode::OK,
                format!("{{\"job_id\":{},{}}}", json::quoted(&id), members(&record)),
            ));
        }
        if started.elapsed() >= longest_wait || api.is_draining() {
            let message = format!("Job {id} is {} and has no result yet.", record.state);
            let error = ApiError::new(StatusCode::REQUEST_TIMEOUT, "timeout", message);
            return Err(error.with("job_id", &id).with("current_state", record.state.name()).retry_after(1));
        }
        tokio::time::sleep(backoff.next_delay().min(longest_wait.saturating_sub(started.elapsed()))).await;
    }
}

/// `POST /jobs/results`: the results of the jobs that exist, by job id.
pub(crate) async fn show_many(api: Api, request: Request) -> Result<Response, ApiError> {
    let body = RequestBody::read(&api, request).await?;
    let ids = body.fields()?.texts("ids", MOST_IDS)?.ok_or_else(|| Invalid::missing("ids", "an array of job ids"))?;
    let results: Vec<String> = api
        .store()
        .jobs(&ids)
        .await?
        .iter()
        .map(|record| format!("{}:{{{}}}", json::quoted(&record.id), members(record)))
        .collect();
    Ok(response::raw_json(StatusCode::OK, format!("{{\"results\":{{{}}}}}", results.join(","))))
}

fn members(record: &Record) -> String {
    format!("\"state\":\"{}\",\"result\":{}", record.state, record.result.as_deref().unwrap_or("null"))
}
