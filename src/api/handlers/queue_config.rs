//! The configuration of a queue: its bound and its rate limit.

use super::queue_limits::set_limit;
use crate::api::answers::queues::{Backpressure, QueueConfig, QueueConfigAnswer};
use crate::api::answers::rate_limits::Quota;
use crate::api::body::RequestBody;
use crate::api::error::ApiError;
use crate::api::path::PathParam;
use crate::api::{Api, response};
use crate::domain::invalid::{Invalid, Kind};
use crate::domain::json::Object;
use crate::domain::limit::{Bound, LimitChange, LimitKey};
use crate::domain::names;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;

/// The members of a configuration, in both dialects.
const KNOWN: [&str; 5] = ["backpressure", "max_size", "overflow_policy", "concurrency", "rate_limit"];

/// `GET /queues/{name}/config` and `GET /admin/queues/{name}/config`.
pub(crate) async fn show(api: Api, PathParam(name): PathParam) -> Result<Response, ApiError> {
    api.store().queue(&name).await?.ok_or_else(|| ApiError::not_found("queue", &name))?;
    config_response(&api, &name).await
}

/// `PUT /queues/{name}/config` and `PUT /admin/queues/{name}/config`: changes the members that the body
/// contains. A queue that does not exist is created.
pub(crate) async fn put(api: Api, PathParam(name): PathParam, request: Request) -> Result<Response, ApiError> {
    names::check_queue("name", &name)?;
    let body = RequestBody::read(&api, request).await?;
    let fields = body.fields()?;
    let config = fields.object();
    if let Some(unknown) = config.members().find(|member| !KNOWN.contains(&&*member.name)) {
        return Err(Invalid::new(Kind::Unsupported, unknown.name.clone(), "is not a setting of a queue").into());
    }
    // Both are parsed before either is set.
    let bound = Bound::parse(config, api.store().bound(&name).await?.as_ref())?;
    let limit = limit(config)?;
    if let Some(bound) = bound
        && !api.store().set_bound(&name, bound.as_ref()).await?
    {
        let message = "The limit on the number of queues with a bound is reached.";
        return Err(ApiError::new(StatusCode::CONFLICT, "conflict", message).with("queue", &name));
    }
    if let Some(change) = limit {
        set_limit(&api, &name, &change).await?;
    }
    config_response(&api, &name).await
}

/// Reads the limit of a configuration: `concurrency` alone, or `rate_limit` with all its members.
fn limit(config: &Object<'_>) -> Result<Option<LimitChange>, Invalid> {
    let concurrency = config.get("concurrency").map(|number| format!("\"concurrency\":{number}"));
    let text = match (config.get("rate_limit"), concurrency) {
        (None, None) => return Ok(None),
        (None, Some(concurrency)) => format!("{{{concurrency}}}"),
        (Some(limit), concurrency) => {
            let object = Object::parse(limit).map_err(|_| Invalid::field("rate_limit", "an object", limit))?;
            let members = object.members().map(|member| format!("{}:{}", member.raw_name, member.value));
            format!("{{{}}}", members.chain(concurrency).collect::<Vec<_>>().join(","))
        }
    };
    let object = Object::parse(&text).map_err(|_| Invalid::field("rate_limit", "an object", &text))?;
    LimitChange::parse_lasting(&object).map(Some).map_err(|error| error.within("rate_limit"))
}

async fn config_response(api: &Api, name: &str) -> Result<Response, ApiError> {
    let configuration = describe(api, name).await?;
    let body = QueueConfigAnswer { members: &configuration, name, configuration: &configuration };
    Ok(response::json(StatusCode::OK, &body))
}

/// Describes the settings of a queue, without those that are not set.
pub(crate) async fn describe(api: &Api, queue: &str) -> Result<QueueConfig, ApiError> {
    let backpressure = api.store().bound(queue).await?.map(Backpressure::from);
    let limit = api.store().limit(&LimitKey::queue(queue)).await?;
    let quota = limit.and_then(|state| state.admin.or(state.file));
    Ok(QueueConfig { backpressure, rate_limit: quota.as_ref().map(Quota::from) })
}
