//! `POST /workers/fetch`: leases jobs to a worker.

use super::workers::known_pool;
use crate::api::body::{Fields, RequestBody};
use crate::api::context::WaitingTime;
use crate::api::error::ApiError;
use crate::api::{Api, rate_limit_headers, response};
use crate::domain::invalid::{Invalid, Kind};
use crate::domain::pool::{PoolQueue, Strategy};
use crate::domain::tenant::Weight;
use crate::domain::{json, names};
use crate::long_poll::LONGEST_WAIT;
use crate::store::{Fetch, QueueChoice};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use std::time::Duration;

/// The number of jobs in one fetch. A larger count is clamped.
const MOST_JOBS: u64 = 1000;
/// The members for the number of jobs, by precedence. A public SDK sends the second.
const COUNT: [&str; 2] = ["count", "batch_size"];
/// The number of queues in one fetch.
pub(crate) const MOST_QUEUES: usize = 256;

/// The hint for a strategy or a weight that is not valid.
const CHOICE_HINT: &str = "See docs/dispatch.md for strategies and weights.";

/// `POST /workers/fetch`.
pub(crate) async fn fetch(api: Api, waiting: WaitingTime, request: Request) -> Result<Response, ApiError> {
    let body = RequestBody::read(&api, request).await?;
    let fields = body.fields()?;
    let names_count = COUNT.iter().any(|name| fields.get(name).is_some());
    let fetch = read(&api, &fields).await?;
    let wait = wait(&fields)?;
    waiting.set(wait);
    let (polls, session) = (api.long_polls(), api.session());
    let fetched = polls.fetch(fetch, wait);
    let (leased, waited) = match wait.is_zero() {
        true => fetched.await?,
        // The key may be revoked during the wait.
        false => tokio::select! {
            fetched = fetched => fetched?,
            () = session.ended() => return Err(ApiError::invalid_key()),
        },
    };
    waiting.set(waited);
    if !session.is_valid() {
        return Err(ApiError::invalid_key()); // dropping `leased` returns the jobs
    }
    // Nothing is awaited from here on, so the jobs that are marked as delivered do leave with this response.
    let limit = leased.limit();
    let records = leased.deliver();
    let mut body = String::from("{\"jobs\":");
    response::push_jobs(&mut body, &records);
    // Older SDKs do not send `count` and read `job`.
    if let Some(first) = records.first().filter(|_| !names_count) {
        body.push_str(",\"job\":");
        first.write(&mut body);
    }
    body.push('}');
    let now = api.store().clock().now_ms();
    for record in &records {
        let waited = now - record.enqueued().unwrap_or(now);
        api.metrics().jobs.started(&record.queue, &record.kind, waited);
        api.metrics().store.dispatch.dispatched(&record.queue, record.pool.as_deref(), waited);
    }
    let response = response::raw_json(StatusCode::OK, body);
    Ok(limit.into_iter().fold(response, rate_limit_headers::add_usage))
}

async fn read(api: &Api, fields: &Fields<'_>) -> Result<Fetch, ApiError> {
    let pool = known_pool(api, fields.text("pool")?.as_deref()).await?;
    let (named, scope) = (queues(fields)?, api.store().scope());
    let whole_pool = named.is_none();
    let queues = match (named, &pool) {
        (Some(queues), _) => queues,
        (None, Some(pool)) => {
            let own = |pool_queue: PoolQueue| scope.unqualified(&pool_queue.queue).map(str::to_owned);
            pool.queues.iter().cloned().filter_map(own).collect()
        }
        (None, None) => return Err(Invalid::missing("queues", expected_queues()).into()),
    };
    let fetch_id = fields.text("fetch_id")?;
    fetch_id.iter().try_for_each(|id| names::check_worker("fetch_id", id))?;
    Ok(Fetch {
        worker: fields.worker()?,
        choice: choice(fields, &queues).map_err(|invalid| ApiError::from(invalid).hint(CHOICE_HINT))?,
        // Qualified names, as the store and the signals that wake a waiting fetch have them.
        queues: queues.iter().map(|queue| scope.qualified(queue).into_owned()).collect(),
        count: count(fields)?.min(MOST_JOBS) as usize,
        visibility_ms: fields.milliseconds("visibility_timeout_ms")?,
        pool: pool.map(|pool| pool.name),
        whole_pool,
        tenant: None,
        fetch_id,
    })
}

/// Reads the number of jobs.
fn count(fields: &Fields<'_>) -> Result<u64, Invalid> {
    let [count, batch_size] = COUNT.map(|name| fields.number(name, 1));
    Ok(count?.or(batch_size?).unwrap_or(1))
}

fn expected_queues() -> String {
    format!("an array of 1 to {MOST_QUEUES} queue names")
}

fn queues(fields: &Fields<'_>) -> Result<Option<Vec<String>>, Invalid> {
    let Some(mut queues) = fields.texts("queues", MOST_QUEUES)? else { return Ok(None) };
    if queues.is_empty() {
        return Err(Invalid::field("queues", expected_queues(), "[]"));
    }
    for (index, queue) in queues.iter().enumerate() {
        names::check_queue(&format!("queues[{index}]"), queue)?;
    }
    // A queue that is named twice gets one turn.
    let mut seen = std::collections::HashSet::new();
    queues.retain(|queue| seen.insert(queue.clone()));
    Ok(Some(queues))
}

/// Reads the strategy and weights of a request. They apply unless a pool sets its own.
pub(crate) fn choice(fields: &Fields<'_>, queues: &[String]) -> Result<Option<QueueChoice>, Invalid> {
    let weights = match fields.get("weights") {
        None => None,
        Some(value) => Some(weights(value, queues)?),
    };
    let Some(name) = fields.text("strategy")? else {
        return Ok(weights.map(|weights| QueueChoice { strategy: Strategy::Weighted, weights }));
    };
    let expected = format!("one of {}", Strategy::NAMES.join(", "));
    let strategy =
        Strategy::parse(&name).ok_or_else(|| Invalid::field("strategy", expected, &name).of_kind(Kind::Policy))?;
    Ok(Some(QueueChoice { strategy, weights: weights.unwrap_or_else(|| vec![Weight::ONE; queues.len()]) }))
}

fn weights(value: &str, queues: &[String]) -> Result<Vec<Weight>, Invalid> {
    let refused = |path: &str, expected: &str, value: &str| Invalid::field(path, expected, value).of_kind(Kind::Policy);
    let object =
        json::Object::parse(value).map_err(|_| refused("weights", "an object of queue names and numbers", value))?;
    let mut weights = vec![Weight::ONE; queues.len()];
    for member in object.members() {
        let path = format!("weights.{}", member.name);
        let place = queues.iter().position(|queue| *queue == member.name);
        let place = place.ok_or_else(|| refused(&path, "the name of a queue in `queues`", &member.name))?;
        let weight = json::number(member.value).and_then(Weight::of).filter(|weight| !weight.is_held());
        weights[place] = weight.ok_or_else(|| refused(&path, "a number above 0", member.value))?;
    }
    Ok(weights)
}

/// Reads the time that a fetch waits if there are no jobs.
fn wait(fields: &Fields<'_>) -> Result<Duration, Invalid> {
    let Some(value) = fields.get("wait_ms") else { return Ok(Duration::ZERO) };
    // Parsed as a float, because the value is clamped and may be larger than any integer type.
    let ms = json::number(value).filter(|ms| *ms >= 0.0 && ms.fract() == 0.0);
    let expected = || format!("a whole number of milliseconds from 0 to {}", LONGEST_WAIT.as_millis());
    let ms = ms.ok_or_else(|| Invalid::field("wait_ms", expected(), value))?;
    Ok(LONGEST_WAIT.min(Duration::from_millis(ms as u64)))
}
