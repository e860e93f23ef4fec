//! Results of jobs: one, perhaps as soon as it is there, or many at once.

use crate::api::body::RequestBody;
use crate::api::context::WaitingTime;
use crate::api::error::ApiError;
use crate::api::pagination::Query;
use crate::api::path::PathParam;
use crate::api::{Api, response};
use crate::job::invalid::Invalid;
use crate::job::{Record, State as JobState, json};
use axum::extract::Request;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use std::time::{Duration, Instant};

/// The longest wait for a result, and the one where nothing is said.
pub(crate) const LONGEST_S: usize = 60;
const USUAL_S: usize = 30;
/// From one look at a job whose result is waited for to the next: longer each time.
const SHORTEST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(1);
/// Jobs whose results one request reads.
pub(crate) const MOST_IDS: usize = 100;

/// `GET /jobs/{id}/result`: 408 while there is none. `wait=true` waits for it.
pub(crate) async fn show(
    api: Api,
    PathParam(id): PathParam,
    waiting: WaitingTime,
    uri: Uri,
) -> Result<Response, ApiError> {
    let query = Query::parse(&uri);
    let seconds = query.number("timeout", 0, LONGEST_S)?.unwrap_or(USUAL_S);
    let patience = match query.get("wait") {
        None | Some("false") => Duration::ZERO,
        Some("true") => Duration::from_secs(seconds as u64),
        Some(other) => return Err(Invalid::field("wait", "true or false", other).into()),
    };
    waiting.set(patience);
    let (started, mut pause) = (Instant::now(), SHORTEST);
    loop {
        let record = api.store().job(&id).await?.ok_or_else(|| ApiError::not_found("job", &id))?;
        if has_ended(&record) {
            waiting.set(started.elapsed());
            return Ok(response::raw_json(
                StatusCode::OK,
                format!("{{\"job_id\":{},{}}}", json::quoted(&id), members(&record)),
            ));
        }
        if started.elapsed() >= patience || api.is_draining() {
            let message = format!("Job {id} is {} and has no result yet.", record.state);
            let problem = ApiError::new(StatusCode::REQUEST_TIMEOUT, "timeout", message);
            return Err(problem.with("job_id", &id).with("current_state", &record.state).retry_after(1));
        }
        tokio::time::sleep(pause.min(patience.saturating_sub(started.elapsed()))).await;
        pause = (pause * 2).min(LONGEST);
    }
}

/// `POST /jobs/results`: those that exist, by id.
pub(crate) async fn read(api: Api, request: Request) -> Result<Response, ApiError> {
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

fn has_ended(record: &Record) -> bool {
    let ends = [JobState::Completed, JobState::Discarded, JobState::Cancelled];
    ends.iter().any(|state| state.name() == record.state)
}

fn members(record: &Record) -> String {
    format!("\"state\":\"{}\",\"result\":{}", record.state, record.result.as_deref().unwrap_or("null"))
}
