//! Crons: register, list, show, update, delete, run now, next times.

use crate::api::answers::crons::{Cron, CronAnswer, CronTimes};
use crate::api::answers::lists::Count;
use crate::api::answers::types::{CronName, Json, Timestamp};
use crate::api::body::RequestBody;
use crate::api::error::ApiError;
use crate::api::list_response::ListResponse;
use crate::api::pagination::{Page, Query};
use crate::api::path::PathParam;
use crate::api::{Api, response};
use crate::domain::cron::{CronJob, CronSkip, Timing};
use crate::domain::invalid::Invalid;
use crate::domain::job::push_time;
use crate::domain::json;
use crate::domain::json::Object;
use crate::domain::tenant_id::DEFAULT;
use crate::enqueue::Refusal;
use crate::store::{FireCronOutcome, MOST_CRONS, RegisterCronOutcome, StoredCron};
use axum::extract::Request;
use axum::http::header::LOCATION;
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::Response;

/// The number of attempts to change a cron while other requests change it.
const ATTEMPTS: usize = 8;
/// The default number of times in a preview.
const TIMES: usize = 5;
/// The largest number of times in a preview.
pub(crate) const MOST_TIMES: usize = 100;
/// The member that contains the job of a cron, unless its members are at top level.
const TEMPLATE: &str = "job_template";

/// `POST /cron`: creates a cron (201), or changes the one of that name (200).
pub(crate) async fn register(api: Api, request: Request) -> Result<Response, ApiError> {
    let body = RequestBody::read(&api, request).await?;
    let is_flat = body.fields()?.get("job_template").is_none();
    let cron = CronJob::parse(body.as_str(), &api.inner.limits, tenant_of(&api))?;
    check_job(&api, &cron, if is_flat { "" } else { TEMPLATE }).await?;
    for _ in 0..ATTEMPTS {
        let before = find(&api, &cron.name).await?;
        let status = match save(&api, &cron, before.1.as_ref(), before.0).await? {
            RegisterCronOutcome::Stale => continue,
            RegisterCronOutcome::Created => StatusCode::CREATED,
            RegisterCronOutcome::Changed => StatusCode::OK,
            RegisterCronOutcome::Full => return Err(full()),
        };
        let stored = stored(&api, &cron.name).await?.1;
        let mut response = cron_response(status, &stored);
        // Cron names are valid in a header.
        if let Ok(location) = HeaderValue::try_from(format!("/ojs/v1/cron/{}", cron.name)) {
            response.headers_mut().insert(LOCATION, location);
        }
        return Ok(response);
    }
    Err(busy(&cron.name))
}

/// `PATCH /cron/{name}`: changes the members that the body contains.
pub(crate) async fn update(api: Api, PathParam(name): PathParam, request: Request) -> Result<Response, ApiError> {
    let body = RequestBody::read(&api, request).await?;
    body.fields()?;
    for _ in 0..ATTEMPTS {
        let (now, before) = stored(&api, &name).await?;
        let cron = read(&before)?.changed(body.as_str(), &api.inner.limits, tenant_of(&api))?;
        check_job(&api, &cron, TEMPLATE).await?;
        if save(&api, &cron, Some(&before), now).await? != RegisterCronOutcome::Stale {
            return Ok(cron_response(StatusCode::OK, &stored(&api, &name).await?.1));
        }
    }
    Err(busy(&name))
}

/// The tenant of the request, which the jobs of the cron get.
fn tenant_of(api: &Api) -> Option<&str> {
    api.store().scope().tenant().filter(|tenant| *tenant != DEFAULT)
}

/// Refuses a cron whose jobs would be refused each time it fires, for instance because they name no tenant.
async fn check_job(api: &Api, cron: &CronJob, path: &str) -> Result<(), ApiError> {
    let job = cron.job(api.store().clock().now_ms(), &api.inner.limits)?;
    api.enqueue_service().check(job).await.map_err(|refusal| match refusal {
        Refusal::Invalid(invalid) if !path.is_empty() => invalid.within(path).into(),
        other => other.into(),
    })
}

async fn save(
    api: &Api,
    cron: &CronJob,
    before: Option<&StoredCron>,
    now: i64,
) -> Result<RegisterCronOutcome, ApiError> {
    let next = if cron.enabled { cron.timing.next_wake(now, now) } else { None };
    Ok(api.store().register_cron(cron, before.map(|before| before.version.as_str()), next).await?)
}

/// `GET /cron`, ordered by name; `enabled` filters.
pub(crate) async fn list(api: Api, uri: Uri) -> Result<Response, ApiError> {
    let query = Query::parse(&uri);
    let page = Page::from_query(&query)?;
    let enabled = match query.get("enabled") {
        None => None,
        Some(value) => Some(json::boolean(value).ok_or_else(|| Invalid::field("enabled", "true or false", value))?),
    };
    let table = api.store().crons(page.offset, page.limit, enabled).await?;
    let crons: Vec<Cron> = table.crons.iter().map(describe).collect();
    Ok(ListResponse::new(&response::in_order(&crons), &["crons", "cron_jobs"])
        .with(&Count { count: crons.len() })
        .paged(page, table.total))
}

/// `GET /cron/{name}`.
pub(crate) async fn show(api: Api, PathParam(name): PathParam) -> Result<Response, ApiError> {
    Ok(cron_response(StatusCode::OK, &stored(&api, &name).await?.1))
}

/// `DELETE /cron/{name}`: jobs that the cron created remain.
pub(crate) async fn remove(api: Api, PathParam(name): PathParam) -> Result<Response, ApiError> {
    let (_, cron) = stored(&api, &name).await?;
    api.store().remove_cron(&name).await?;
    let body = CronAnswer { deleted: Some(true), name: Some(CronName(name)), ..answer(&cron) };
    Ok(response::json_in_order(StatusCode::OK, &body))
}

/// `POST /cron/{name}/run`: runs the cron now, whatever its schedule. Its overlap policy applies.
pub(crate) async fn run(api: Api, PathParam(name): PathParam) -> Result<Response, ApiError> {
    for _ in 0..ATTEMPTS {
        let (now, cron) = stored(&api, &name).await?;
        match api.inner.cron_runner.run_now(&cron, now).await? {
            FireCronOutcome::Stored(record) => {
                api.metrics().jobs.enqueued(&record.queue, &record.kind);
                return Ok(response::created(&record));
            }
            FireCronOutcome::Skipped { reason, job } => return Err(run_refused(&name, reason, job.as_deref())),
            FireCronOutcome::Gone | FireCronOutcome::Stale => {} // changed or removed by another request: read it again
        }
    }
    Err(busy(&name))
}

/// `GET /cron/{name}/next`: the next times of a cron, enabled or not.
pub(crate) async fn next_times(api: Api, PathParam(name): PathParam, uri: Uri) -> Result<Response, ApiError> {
    let count = Query::parse(&uri).number("count", 1, MOST_TIMES)?.unwrap_or(TIMES);
    let (now, stored) = stored(&api, &name).await?;
    let cron = read(&stored)?;
    let times = times(&cron.timing, stored.next, now, count);
    let body = CronTimes {
        expression: cron.expression,
        timezone: cron.timezone,
        next_run_times: times,
        name: Some(name),
        enabled: Some(cron.enabled),
    };
    Ok(response::json_in_order(StatusCode::OK, &body))
}

/// `POST /cron-preview`: the next times of an expression, without a cron.
pub(crate) async fn preview(api: Api, request: Request) -> Result<Response, ApiError> {
    let body = RequestBody::read(&api, request).await?;
    let fields = body.fields()?;
    let count = fields.number("count", 1)?.unwrap_or(TIMES as u64);
    if count > MOST_TIMES as u64 {
        return Err(Invalid::field("count", format!("1 to {MOST_TIMES}"), &count.to_string()).into());
    }
    let (expression, timezone) = (fields.text("expression")?, fields.text("timezone")?);
    let expression = expression.ok_or_else(|| Invalid::missing("expression", crate::domain::cron::EXPECTED))?;
    let timezone = timezone.unwrap_or_else(|| "UTC".to_owned());
    let timing = Timing::parse(&expression, &timezone).map_err(|error| Invalid {
        problem: format!("cannot be parsed: {error}"),
        ..Invalid::field("expression", "", &expression)
    })?;
    let now = api.store().crons(0, 1, None).await?.now;
    let next_run_times = times(&timing, None, now, count as usize);
    let body = CronTimes { expression, timezone, next_run_times, name: None, enabled: None };
    Ok(response::json_in_order(StatusCode::OK, &body))
}

/// Returns the next times. The first is the stored one, if there is one.
fn times(timing: &Timing, next: Option<i64>, now: i64, count: usize) -> Vec<Timestamp> {
    let first = next.and_then(|next| timing.fires(next)).or_else(|| timing.next_after(now, now));
    std::iter::successors(first, |at| timing.next_after(*at, *at)).take(count).map(Timestamp).collect()
}

/// Reads a cron, and the time of the store in milliseconds.
async fn find(api: &Api, name: &str) -> Result<(i64, Option<StoredCron>), ApiError> {
    let table = api.store().cron(name).await?;
    Ok((table.now, table.crons.into_iter().next()))
}

async fn stored(api: &Api, name: &str) -> Result<(i64, StoredCron), ApiError> {
    let (now, cron) = find(api, name).await?;
    Ok((now, cron.ok_or_else(|| ApiError::not_found("cron", name))?))
}

fn read(stored: &StoredCron) -> Result<CronJob, ApiError> {
    CronJob::stored(&stored.document).map_err(|error| {
        tracing::error!(cron = stored.name, %error, "cannot parse a stored cron");
        ApiError::internal()
    })
}

fn cron_response(status: StatusCode, stored: &StoredCron) -> Response {
    response::json_in_order(status, &answer(stored))
}

fn answer(stored: &StoredCron) -> CronAnswer {
    let cron = describe(stored);
    CronAnswer { cron: cron.clone(), cron_job: cron, deleted: None, name: None }
}

/// Serializes a cron for both dialects: its document, the members of its template repeated at top level, and its times.
fn describe(stored: &StoredCron) -> Cron {
    let mut out = stored.document.strip_suffix('}').unwrap_or("{").to_owned();
    // The document is JSON that this server wrote.
    if let Ok(document) = Object::parse(&stored.document) {
        let mut push = |name: &str, value: &str| out.extend([",\"", name, "\":", value]);
        document.get("expression").into_iter().for_each(|expression| push("cron", expression));
        let template = document.get("job_template").and_then(|template| Object::parse(template).ok());
        for name in ["type", "queue", "args", "meta", "options"] {
            let value = template.as_ref().and_then(|template| template.get(name));
            value.into_iter().for_each(|value| push(name, value));
        }
    }
    let fires = |at| CronJob::stored(&stored.document).map_or(Some(at), |cron| cron.timing.fires(at));
    match stored.next.and_then(fires) {
        Some(next) => push_time(&mut out, "next_run_at", Some(next)),
        None => out.push_str(",\"next_run_at\":null"),
    }
    match stored.last {
        Some(_) => push_time(&mut out, "last_run_at", stored.last),
        None => out.push_str(",\"last_run_at\":null"),
    }
    out.push_str(&format!(",\"run_count\":{}", stored.runs));
    push_time(&mut out, "created_at", Some(stored.created));
    out.push('}');
    Cron(Json::parse(Some(&out)).0)
}

/// The error of a request that lost against other requests in each of its attempts.
fn busy(name: &str) -> ApiError {
    let message = format!("Cron {name} was changed by other requests at the same time.");
    ApiError::new(StatusCode::CONFLICT, "conflict", message).with("name", name).hint("Send the request again.")
}

fn full() -> ApiError {
    let message = format!("The limit of {MOST_CRONS} crons is reached.");
    ApiError::new(StatusCode::CONFLICT, "conflict", message).hint("Delete crons that are not needed any more.")
}

fn run_refused(name: &str, reason: CronSkip, job: Option<&str>) -> ApiError {
    let message = match reason {
        CronSkip::OverlapSkip => {
            format!("The previous job of cron {name} has not finished, and the overlap policy of the cron is `skip`.")
        }
        CronSkip::QueueFull => format!("The queue of cron {name} is full."),
        CronSkip::TenantLimit => format!("The tenant of cron {name} has reached one of its limits."),
        CronSkip::JobRefused => {
            format!("The job of cron {name} was refused by the current rules; see the log for the reason.")
        }
        // A run on request has no scheduled time that daylight saving could skip.
        CronSkip::Duplicate | CronSkip::DstSkip => {
            format!("A job that is a duplicate of the job of cron {name} already exists.")
        }
    };
    let error =
        ApiError::new(StatusCode::CONFLICT, "conflict", message).with("name", name).with("reason", reason.name());
    job.into_iter().fold(error, |error, job| error.with("existing_job_id", job))
}
