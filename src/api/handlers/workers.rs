//! Workers: ack, nack, heartbeat, register, deregister.

use super::fetch;
use crate::api::answers::types::Timestamp;
use crate::api::answers::workers::{self as answers, WorkerDeregistered, WorkerRegistered};
use crate::api::body::{Fields, RequestBody};
use crate::api::context::RequestId;
use crate::api::error::ApiError;
use crate::api::path::PathParam;
use crate::api::{Api, response};
use crate::domain::invalid::{Invalid, Kind};
use crate::domain::job::{Failure, Record, State, push_time};
use crate::domain::pool::{Pool, WorkerState};
use crate::domain::{json, names, portable};
use crate::store::{Ack, Heartbeat, JobOutcome, Nack, Preference, QueueChoice};
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use futures_util::TryFutureExt;
use futures_util::future::join_all;

/// The number of jobs, queues or labels that a heartbeat may name.
pub(crate) const MOST_NAMES: usize = 1000;

/// `POST /workers/ack`: one job, or several as `acks`, each with its own result.
pub(crate) async fn ack(api: Api, request_id: RequestId, request: Request) -> Result<Response, ApiError> {
    let key = idempotency_key(request.headers())?;
    let body = RequestBody::read_any(&api, request).await?;
    let fields = body.fields()?;
    let Some(list) = fields.get("acks") else {
        portable::check(body.as_str())?;
        let id = fields.job_id()?;
        return ack_one(&api, id, &fields, key).await.map(|body| response::raw_json(StatusCode::OK, body));
    };
    let most = api.inner.limits.max_batch;
    let expected = || format!("an array of 1 to {most} objects");
    let elements = json::elements(list).filter(|elements| (1..=most).contains(&elements.len()));
    let elements = elements.ok_or_else(|| Invalid::field("acks", expected(), list))?;
    let acks = elements.into_iter().enumerate().map(|(index, element)| {
        let (api, key) = (&api, key.clone());
        async move {
            let object = json::Object::parse(element).map_err(|_| Invalid::field("", "an object", element))?;
            portable::check(element)?;
            let fields = Fields::of(object);
            ack_one(api, fields.job_id()?, &fields, key).await
        }
        .map_err(move |error: ApiError| error.within(&format!("acks[{index}]")))
    });
    // The acks run concurrently, so that group commit sends them as one script call. Each has its own result.
    let results: Vec<String> = join_all(acks)
        .await
        .into_iter()
        .map(|result| result.unwrap_or_else(|error| error.body(request_id.as_str())))
        .collect();
    Ok(response::raw_json(StatusCode::OK, format!("{{\"results\":[{}]}}", results.join(","))))
}

/// `POST /jobs/{id}/ack`.
pub(crate) async fn ack_by_path(api: Api, PathParam(id): PathParam, request: Request) -> Result<Response, ApiError> {
    let key = idempotency_key(request.headers())?;
    let body = RequestBody::read(&api, request).await?;
    let fields = body.optional_fields()?;
    ack_one(&api, id, &fields, key).await.map(|body| response::raw_json(StatusCode::OK, body))
}

async fn ack_one(api: &Api, id: String, fields: &Fields<'_>, key: Option<String>) -> Result<String, ApiError> {
    let result = fields.get("result").map(str::to_owned);
    let most = api.inner.limits.max_result;
    if let Some(length) = result.as_ref().map(String::len).filter(|length| *length > most) {
        return Err(Invalid::too_large(Kind::ResultTooLarge, "result", length, most, "bytes").into());
    }
    let ack = Ack { job_id: id.clone(), worker: fields.worker()?, result, idempotency_key: key };
    let record = done(api.store().ack(ack).await?, &id, "acknowledged")?;
    let ran = record.finished().unwrap_or(0) - record.started().unwrap_or(0);
    api.metrics().jobs.completed(&record.queue, &record.kind, ran);
    api.metrics().store.tenants.processed(record.tenant.as_deref(), &record.queue);
    let mut body =
        format!("{{\"acknowledged\":true,\"id\":\"{0}\",\"job_id\":\"{0}\",\"state\":\"{1}\"", record.id, record.state);
    push_time(&mut body, "completed_at", record.finished());
    Ok(with_job(body, &record))
}

/// `POST /workers/nack`.
pub(crate) async fn nack(api: Api, request: Request) -> Result<Response, ApiError> {
    let key = idempotency_key(request.headers())?;
    let body = RequestBody::read(&api, request).await?;
    let fields = body.fields()?;
    let id = fields.job_id()?;
    nack_one(&api, id, &fields, key).await
}

/// `POST /jobs/{id}/nack`.
pub(crate) async fn nack_by_path(api: Api, PathParam(id): PathParam, request: Request) -> Result<Response, ApiError> {
    let key = idempotency_key(request.headers())?;
    let body = RequestBody::read(&api, request).await?;
    let fields = body.optional_fields()?;
    nack_one(&api, id, &fields, key).await
}

async fn nack_one(api: &Api, id: String, fields: &Fields<'_>, key: Option<String>) -> Result<Response, ApiError> {
    let nack = Nack {
        job_id: id.clone(),
        worker: fields.worker()?,
        failure: Failure::parse("error", fields.get("error"))?,
        requeue: fields.boolean("requeue")?.unwrap_or(false),
        idempotency_key: key,
    };
    let record = done(api.store().nack(nack).await?, &id, "failed")?;
    api.metrics().store.tenants.failed(record.tenant.as_deref(), &record.queue);
    let mut body = format!(
        "{{\"id\":\"{0}\",\"job_id\":\"{0}\",\"state\":\"{1}\",\"attempt\":{2},\"max_attempts\":{3}",
        record.id,
        record.state,
        record.attempt,
        record.max_attempts()
    );
    if let Some((at, delay)) = record.next_retry() {
        push_time(&mut body, "next_attempt_at", Some(at));
        body.push_str(&format!(",\"retry_delay_ms\":{delay}"));
        api.metrics().jobs.retried(&record.queue, &record.kind);
    }
    if record.state == State::Discarded {
        push_time(&mut body, "discarded_at", record.finished());
        push_time(&mut body, "completed_at", record.finished());
        api.metrics().jobs.discarded(&record.queue, &record.kind);
    }
    Ok(response::raw_json(StatusCode::OK, with_job(body, &record)))
}

fn done(outcome: JobOutcome, id: &str, done: &str) -> Result<Box<Record>, ApiError> {
    match outcome {
        JobOutcome::Done(record, _) => Ok(record),
        JobOutcome::Missing => Err(ApiError::not_found("job", id)),
        JobOutcome::Conflict { state, holder } => Err(ApiError::conflict(id, done, state, "active", holder.as_deref())),
    }
}

fn with_job(mut body: String, record: &Record) -> String {
    body.push_str(",\"job\":");
    record.write(&mut body);
    body.push('}');
    body
}

/// Reads the idempotency key. A client that repeats an ack or nack with the same key gets the first response instead of a
/// conflict.
fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    let key = value.to_str().unwrap_or_default();
    names::check_worker("Idempotency-Key", key)?;
    Ok(Some(key.to_owned()))
}

/// `POST /workers/heartbeat`.
pub(crate) async fn heartbeat(api: Api, request: Request) -> Result<Response, ApiError> {
    let body = RequestBody::read(&api, request).await?;
    let beat = read_heartbeat(&body.fields()?)?;
    known_pool(&api, beat.pool.as_deref()).await?;
    let reply = api.store().heartbeat(&beat).await?;
    let body = answers::Heartbeat {
        state: reply.directive.name(),
        jobs_extended: &reply.extended,
        cancelled_jobs: &reply.cancelled,
        server_time: Timestamp(reply.server_time),
        acknowledged: true,
    };
    Ok(response::json_in_order(StatusCode::OK, &body))
}

/// `POST /workers/register`, with the members at top level or inside `worker`.
pub(crate) async fn register(api: Api, request: Request) -> Result<Response, ApiError> {
    let body = RequestBody::read(&api, request).await?;
    let outer = body.fields()?;
    let mut beat = match outer.get("worker") {
        None => read_heartbeat(&outer)?,
        Some(inner) => {
            let object = json::Object::parse(inner).map_err(|_| Invalid::field("worker", "an object", inner))?;
            read_heartbeat(&Fields::of(object)).map_err(|invalid| invalid.within("worker"))?
        }
    };
    known_pool(&api, beat.pool.as_deref()).await?;
    beat.registers = true;
    let reply = api.store().heartbeat(&beat).await?;
    let settings = api.store().settings();
    let interval = api.inner.heartbeat_interval;
    let body = WorkerRegistered {
        ok: true,
        worker_id: &beat.worker,
        state: reply.directive.name(),
        server_time: Timestamp(reply.server_time),
        heartbeat_interval: interval.as_secs_f64(),
        heartbeat_timeout: settings.dead_after as f64 / 1e3,
        visibility_timeout_default: settings.visibility as f64 / 1e3,
    };
    Ok(response::json(StatusCode::OK, &body))
}

/// `DELETE /workers/{id}`: returns its active jobs to their queues.
pub(crate) async fn deregister(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    let handed_back = api.store().deregister(&id).await?.ok_or_else(|| ApiError::not_found("worker", &id))?;
    let body = WorkerDeregistered { ok: true, worker_id: &id, jobs_requeued: handed_back };
    Ok(response::json(StatusCode::OK, &body))
}

/// Finds a pool by its name; an unknown pool is an error.
pub(crate) async fn known_pool(api: &Api, name: Option<&str>) -> Result<Option<Pool>, ApiError> {
    let Some(name) = name else { return Ok(None) };
    let known = api.registry().rules().known().await?;
    match known.dispatch.policy.pool(&api.store().scope().qualified(name)) {
        Some(pool) => Ok(Some(pool.clone())),
        None => Err(ApiError::not_found("pool", name)
            .with("field", "pool")
            .hint("Send GET /ojs/v1/admin/pools for a list of the pools.")),
    }
}

/// Reads a heartbeat in any of its dialects: the jobs are in `active_jobs` (ids or a count), `active_job_ids` or `job_id`.
fn read_heartbeat(fields: &Fields<'_>) -> Result<Heartbeat, Invalid> {
    let id = fields.text("id")?.filter(|_| fields.get("worker_id").is_none());
    id.iter().try_for_each(|id| names::check_worker("id", id))?;
    let worker = fields.worker()?.or(id).ok_or_else(|| Invalid::missing("worker_id", "the name of the worker"))?;
    let mut jobs = match fields.get("active_jobs") {
        Some(value) if value.starts_with('[') => fields.texts("active_jobs", MOST_NAMES)?.unwrap_or_default(),
        Some(_) => fields.number("active_jobs", 0).map(|_| Vec::new())?,
        None => Vec::new(),
    };
    jobs.extend(fields.texts("active_job_ids", MOST_NAMES)?.unwrap_or_default());
    jobs.extend(fields.text("job_id")?);
    jobs.dedup();
    let invalid = |name: &str| Invalid::field("state", "`running`, `quiet`, `terminate` or `drain`", name);
    let state = match fields.text("state")? {
        Some(name) => Some(WorkerState::from_name(&name).ok_or_else(|| invalid(&name))?),
        None => None,
    };
    let queues = fields.texts("queues", MOST_NAMES)?;
    fields.texts("labels", MOST_NAMES)?;
    fields.number("concurrency", 0)?;
    let described =
        ["hostname", "pid", "queues", "concurrency", "labels", "pool", "version", "started_at", "strategy", "weights"];
    // Stored as JSON text, because only people and dashboards read it.
    let stored = |name| Some((name, fields.get(name).filter(|value| value.len() <= 4096)?.to_owned()));
    Ok(Heartbeat {
        worker,
        state,
        visibility_ms: fields.milliseconds("visibility_timeout_ms")?,
        jobs,
        pool: fields.text("pool")?,
        registers: false,
        preference: preference(fields, queues)?,
        fields: described.into_iter().filter_map(stored).collect(),
    })
}

/// Reads the strategy and weights of a worker, for the queues that it names, or else those that have a weight.
fn preference(fields: &Fields<'_>, queues: Option<Vec<String>>) -> Result<Option<Preference>, Invalid> {
    let weighted = || {
        let object = fields.get("weights").and_then(|weights| json::Object::parse(weights).ok());
        object.iter().flat_map(|object| object.members()).map(|member| member.name.to_string()).collect()
    };
    let queues: Vec<String> = queues.unwrap_or_else(weighted);
    let Some(QueueChoice { strategy, weights }) = fetch::choice(fields, &queues)? else { return Ok(None) };
    if queues.len() > fetch::MOST_QUEUES {
        let expected = format!("at most {} queues", fetch::MOST_QUEUES);
        return Err(Invalid::field("queues", expected, &queues.len().to_string()));
    }
    queues.iter().try_for_each(|queue| names::check_queue(&format!("weights.{queue}"), queue))?;
    Ok(Some(Preference { strategy, weights: queues.into_iter().zip(weights).collect() }))
}
