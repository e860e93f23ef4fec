//! How far a job has got: progress for people, checkpoints for its next attempt.

use super::body::{Fields, Text};
use super::path::Name;
use super::problem::Problem;
use super::{Api, answer};
use crate::job::invalid::{Invalid, Kind};
use crate::job::json;
use crate::job::record::push_time;
use crate::store::{Progress, ProgressOutcome, ProgressReport};
use axum::extract::Request;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;

/// The longest `data` and `message` of a report.
const MOST_DATA: usize = 4096;
const MOST_MESSAGE: usize = 1024;

/// `PUT /jobs/{id}/progress`: counts as a sign of life. A job that nobody runs stays as it is.
pub(super) async fn report(api: Api, Name(id): Name, request: Request) -> Result<Response, Problem> {
    let body = Text::read(&api, request).await?;
    report_of(&api, &id, &body.fields()?).await
}

/// `POST /workers/progress`: the same for the job that the body names.
pub(super) async fn report_by_body(api: Api, request: Request) -> Result<Response, Problem> {
    let body = Text::read(&api, request).await?;
    let fields = body.fields()?;
    report_of(&api, &fields.job_id()?, &fields).await
}

/// How far a report says that a job is: `progress` from 0 to 1, or `percentage` from 0 to 100, as public SDKs send it.
fn reached(fields: &Fields<'_>) -> Result<Option<f64>, Invalid> {
    let number = |name: &str, expected: &str| match fields.get(name) {
        None => Ok(None),
        Some(value) => json::number(value).map(Some).ok_or_else(|| Invalid::field(name, expected, value)),
    };
    let percentage = number("percentage", "a number from 0 to 100")?;
    Ok(number("progress", "a number from 0 to 1")?.or(percentage.map(|percentage| percentage / 100.0)))
}

async fn report_of(api: &Api, id: &str, fields: &Fields<'_>) -> Result<Response, Problem> {
    let progress = reached(fields)?;
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
        keep_state(api, id, state).await?;
    }
    let report = ProgressReport {
        worker: fields.worker()?,
        progress: progress.map(|progress| progress.clamp(0.0, 1.0)),
        data: data.map(str::to_owned),
        message: message.map(|message| json::quoted(&message)),
    };
    shown(id, told(api.store().progress(id, &report).await?, id)?)
}

/// `GET /jobs/{id}/progress`.
pub(super) async fn show(api: Api, Name(id): Name) -> Result<Response, Problem> {
    shown(&id, told(api.store().progress_of(&id).await?, &id)?)
}

fn shown(id: &str, progress: Progress) -> Result<Response, Problem> {
    let reached = progress.progress.map_or_else(|| "null".to_owned(), |progress| format!("{progress:?}"));
    let mut body = format!(
        "{{\"job_id\":{},\"state\":\"{}\",\"progress\":{reached},\"data\":{},\"message\":{}",
        json::quoted(id),
        progress.state,
        progress.data.as_deref().unwrap_or("null"),
        progress.message.as_deref().unwrap_or("null"),
    );
    push_time(&mut body, "updated_at", progress.updated);
    body.push('}');
    Ok(answer(body, progress.progress))
}

/// An answer about something that goes on, with how far it has got as a header.
pub(super) fn answer(body: String, progress: Option<f64>) -> Response {
    let mut response = answer::json(StatusCode::OK, body);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Some(Ok(value)) = progress.map(|progress| HeaderValue::try_from(progress.to_string())) {
        response.headers_mut().insert("x-ojs-progress", value);
    }
    response
}

/// `PUT /jobs/{id}/checkpoint` and `POST`: replaces what was kept.
pub(super) async fn keep(api: Api, Name(id): Name, request: Request) -> Result<Response, Problem> {
    let body = Text::read(&api, request).await?;
    let fields = body.fields()?;
    let state =
        fields.get("state").ok_or_else(|| Invalid::missing("state", "what is to be kept, any JSON but null"))?;
    let (sequence, created) = keep_state(&api, &id, state).await?;
    Ok(kept(&id, sequence, created, ""))
}

async fn keep_state(api: &Api, id: &str, state: &str) -> Result<(u64, i64), Problem> {
    let most = api.inner.limits.max_result;
    if state.len() > most {
        return Err(Invalid::too_large(Kind::EnvelopeTooLarge, "state", state.len(), most, "bytes").into());
    }
    let kept = told(api.store().keep_checkpoint(id, state).await?, id)?;
    Ok((kept.sequence, kept.created))
}

/// `GET /jobs/{id}/checkpoint`.
pub(super) async fn checkpoint(api: Api, Name(id): Name) -> Result<Response, Problem> {
    let record = api.store().job(&id).await?.ok_or_else(|| Problem::missing("job", &id))?;
    let kept_state = record.checkpoint.ok_or_else(|| Problem::missing("checkpoint of job", &id))?;
    let more = format!(",\"state\":{}", kept_state.state);
    Ok(kept(&id, kept_state.sequence, kept_state.created, &more))
}

/// `DELETE /jobs/{id}/checkpoint`.
pub(super) async fn drop_checkpoint(api: Api, Name(id): Name) -> Result<Response, Problem> {
    if !api.store().drop_checkpoint(&id).await? {
        return Err(Problem::missing("job", &id));
    }
    Ok(answer::value(StatusCode::OK, &serde_json::json!({"deleted": true, "job_id": id})))
}

/// A checkpoint flat and wrapped, as the two texts want it.
fn kept(id: &str, sequence: u64, created: i64, state: &str) -> Response {
    let mut inner = format!("\"job_id\":{},\"sequence\":{sequence}", json::quoted(id));
    push_time(&mut inner, "created_at", Some(created));
    inner.push_str(state);
    answer::json(StatusCode::OK, format!("{{{inner},\"checkpoint\":{{{inner}}}}}"))
}

fn told<T>(told: ProgressOutcome<T>, id: &str) -> Result<T, Problem> {
    match told {
        ProgressOutcome::Done(value) => Ok(value),
        ProgressOutcome::Missing => Err(Problem::missing("job", id)),
        ProgressOutcome::Conflict { state, holder } => {
            Err(Problem::conflict(id, "told of", &state, "not finished", holder.as_deref()))
        }
    }
}
