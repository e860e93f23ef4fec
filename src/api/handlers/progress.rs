//! Progress of jobs, for people, and checkpoints, for the next attempt.

use crate::api::answers::progress::{self as answers, CheckpointAnswer, JobProgress, StoredCheckpoint};
use crate::api::answers::types::{Deleted, JobState, Json, Ratio, Timestamp};
use crate::api::body::{Fields, RequestBody};
use crate::api::error::ApiError;
use crate::api::path::PathParam;
use crate::api::{Api, response};
use crate::domain::invalid::{Invalid, Kind};
use crate::domain::json;
use crate::store::{self, ProgressOutcome, ProgressReport};
use axum::extract::Request;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;

/// The longest `data` of a report, in bytes.
const MOST_DATA: usize = 4096;
/// The longest `message` of a report, in bytes.
const MOST_MESSAGE: usize = 1024;

/// `PUT /jobs/{id}/progress`: stores the progress of an active job and extends its lease. The progress of a job that is not
/// active does not change.
pub(crate) async fn report(api: Api, PathParam(id): PathParam, request: Request) -> Result<Response, ApiError> {
    let body = RequestBody::read(&api, request).await?;
    report_of(&api, &id, &body.fields()?).await
}

/// `POST /workers/progress`: like [`report`], for the job that the body names.
pub(crate) async fn report_by_body(api: Api, request: Request) -> Result<Response, ApiError> {
    let body = RequestBody::read(&api, request).await?;
    let fields = body.fields()?;
    report_of(&api, &fields.job_id()?, &fields).await
}

/// Reads the progress of a report: `progress` from 0 to 1, or `percentage` from 0 to 100, as public SDKs send it.
fn progress_of(fields: &Fields<'_>) -> Result<Option<f64>, Invalid> {
    let number = |name: &str, expected: &str| match fields.get(name) {
        None => Ok(None),
        Some(value) => json::number(value).map(Some).ok_or_else(|| Invalid::field(name, expected, value)),
    };
    let percentage = number("percentage", "a number from 0 to 100")?;
    Ok(number("progress", "a number from 0 to 1")?.or(percentage.map(|percentage| percentage / 100.0)))
}

async fn report_of(api: &Api, id: &str, fields: &Fields<'_>) -> Result<Response, ApiError> {
    let progress = progress_of(fields)?;
    let (data, message) = (fields.get("data"), fields.text("message")?);
    if progress.is_none() && data.is_none() {
        return Err(Invalid::missing("progress", "a number from 0 to 1, or `data`").into());
    }
    for (name, length, most) in [
        ("data", data.map_or(0, str::len), MOST_DATA),
        ("message", message.as_ref().map_or(0, String::len), MOST_MESSAGE),
    ] {
        if length > most {
            return Err(Invalid::too_large(Kind::EnvelopeTooLarge, name, length, most, "bytes").into());
        }
    }
    if let Some(state) = fields.get("checkpoint") {
        store_checkpoint(api, id, state).await?;
    }
    let report = ProgressReport {
        worker: fields.worker()?,
        progress: progress.map(|progress| progress.clamp(0.0, 1.0)),
        data: data.map(str::to_owned),
        message: message.map(|message| json::quoted(&message)),
    };
    job_progress_response(id, into_result(api.store().progress(id, &report).await?, id)?)
}

/// `GET /jobs/{id}/progress`.
pub(crate) async fn show(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    job_progress_response(&id, into_result(api.store().progress_of(&id).await?, &id)?)
}

fn job_progress_response(id: &str, progress: store::JobProgress) -> Result<Response, ApiError> {
    let body = JobProgress {
        job_id: id,
        state: JobState(progress.state),
        progress: progress.progress.map(Ratio),
        data: Json::parse(progress.data.as_deref()),
        message: Json::parse(progress.message.as_deref()),
        updated_at: progress.updated.map(Timestamp),
    };
    Ok(progress_response(response::in_order(&body), progress.progress))
}

/// A response about work in progress, with the progress repeated in a header.
pub(crate) fn progress_response(body: String, progress: Option<f64>) -> Response {
    let mut response = response::raw_json(StatusCode::OK, body);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Some(Ok(value)) = progress.map(|progress| HeaderValue::try_from(progress.to_string())) {
        response.headers_mut().insert("x-ojs-progress", value);
    }
    response
}

/// `PUT /jobs/{id}/checkpoint` and `POST`: stores a checkpoint in place of the previous one.
pub(crate) async fn put_checkpoint(api: Api, PathParam(id): PathParam, request: Request) -> Result<Response, ApiError> {
    let body = RequestBody::read(&api, request).await?;
    let fields = body.fields()?;
    let state =
        fields.get("state").ok_or_else(|| Invalid::missing("state", "the state to store, any JSON except null"))?;
    let (sequence, created) = store_checkpoint(&api, &id, state).await?;
    let stored = StoredCheckpoint { job_id: &id, sequence, created_at: Timestamp(created) };
    let body = CheckpointAnswer { members: &stored, checkpoint: &stored };
    Ok(response::json_in_order(StatusCode::OK, &body))
}

async fn store_checkpoint(api: &Api, id: &str, state: &str) -> Result<(u64, i64), ApiError> {
    let most = api.inner.limits.max_result;
    if state.len() > most {
        return Err(Invalid::too_large(Kind::EnvelopeTooLarge, "state", state.len(), most, "bytes").into());
    }
    let kept = into_result(api.store().keep_checkpoint(id, state).await?, id)?;
    Ok((kept.sequence, kept.created))
}

/// `GET /jobs/{id}/checkpoint`.
pub(crate) async fn show_checkpoint(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    let record = api.store().job(&id).await?.ok_or_else(|| ApiError::not_found("job", &id))?;
    let checkpoint = record.checkpoint.ok_or_else(|| ApiError::not_found("checkpoint of job", &id))?;
    let created_at = Timestamp(checkpoint.created);
    let stored = StoredCheckpoint { job_id: &id, sequence: checkpoint.sequence, created_at };
    let checkpoint = answers::Checkpoint { stored, state: Json::parse(Some(&checkpoint.state)) };
    let body = CheckpointAnswer { members: &checkpoint, checkpoint: &checkpoint };
    Ok(response::json_in_order(StatusCode::OK, &body))
}

/// `DELETE /jobs/{id}/checkpoint`.
pub(crate) async fn delete_checkpoint(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    if !api.store().drop_checkpoint(&id).await? {
        return Err(ApiError::not_found("job", &id));
    }
    Ok(response::json(StatusCode::OK, &Deleted { deleted: true, job_id: &id }))
}

fn into_result<T>(reply: ProgressOutcome<T>, id: &str) -> Result<T, ApiError> {
    match reply {
        ProgressOutcome::Done(value) => Ok(value),
        ProgressOutcome::Missing => Err(ApiError::not_found("job", id)),
        ProgressOutcome::Conflict { state, holder } => {
            Err(ApiError::conflict(id, "reported on", state, "not finished", holder.as_deref()))
        }
    }
}
