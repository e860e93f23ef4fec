//! Plan rules in the admin API: list, change, pause, run; their rounds, tenants and previews.

use super::PauseAction;
use crate::api::answers::lists::Truncated;
use crate::api::answers::planner::{RuleRemoved, RulesVersion};
use crate::api::body::RequestBody;
use crate::api::error::ApiError;
use crate::api::list_response::ListResponse;
use crate::api::pagination::{Page, Query};
use crate::api::path::PathParam;
use crate::api::validation::validation_failed;
use crate::api::{Api, response};
use crate::config;
use crate::domain::invalid::Invalid;
use crate::planner::{RoundAttempt, RuleStats, TenantList, TenantOrder, preview as dry_run, shadow};
use crate::rules::Removed;
use axum::extract::Request;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use serde_json::{Value, json};

/// `GET /admin/planner`.
pub(crate) async fn list(api: Api, uri: Uri) -> Result<Response, ApiError> {
    let page = Page::from_query(&Query::parse(&uri))?;
    let known = api.registry().rules().known().await?;
    let names: Vec<&str> = known.names().collect();
    let mut items = Vec::new();
    for name in names.iter().skip(page.offset).take(page.limit) {
        items.extend(RuleStats::read(api.registry(), name).await?.map(|stats| stats.to_json()));
    }
    Ok(ListResponse::from_values(&items, &["rules"])
        .with(&RulesVersion { version: known.version.to_string() })
        .paged(page, names.len()))
}

/// `GET /admin/planner/{rule}`.
pub(crate) async fn show(api: Api, PathParam(name): PathParam) -> Result<Response, ApiError> {
    let stats = RuleStats::read(api.registry(), &name).await?.ok_or_else(|| missing(&name))?;
    Ok(response::json(StatusCode::OK, &stats.to_json()))
}

/// `PUT /admin/planner/{rule}`: adds a rule or replaces it as a whole.
pub(crate) async fn put(api: Api, PathParam(name): PathParam, request: Request) -> Result<Response, ApiError> {
    let options = RequestBody::read(&api, request).await?.value()?;
    let rules = api.registry().rules();
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let main_queues = api.registry().main_queues().known();
    let scope = config::RuleContext {
        is_set: &is_set,
        main_queues: Some(&main_queues),
        passes_through: api.inner.proxy.is_some(),
    };
    let rule = config::plan_from_json(&name, options, rules.defaults(), scope)
        .map_err(|problems| validation_failed("rule", &problems))?;
    let is_new = rules.known().await?.rules.get(&name).is_none();
    rules.put(rule).await?;
    let stats = RuleStats::read(api.registry(), &name).await?.ok_or_else(|| missing(&name))?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok(response::json(status, &stats.to_json()))
}

/// `DELETE /admin/planner/{rule}`.
pub(crate) async fn remove(api: Api, PathParam(name): PathParam) -> Result<Response, ApiError> {
    let staged = api.store().rule_status(&name, None).await?.staged;
    let (holds, draining_jobs) = match api.registry().rules().remove(&name).await? {
        Removed::Gone => (None, staged),
        Removed::Restored => (Some("file"), 0),
        Removed::InFile => {
            let message = format!("Plan rule {name} is set in the configuration file and was not changed at run time.");
            let error = ApiError::new(StatusCode::CONFLICT, "conflict", message).with("rule", &name);
            return Err(error.hint("Remove it from the file and restart, or pause it."));
        }
        Removed::Unknown => return Err(missing(&name)),
    };
    Ok(response::json(StatusCode::OK, &RuleRemoved { rule: &name, removed: true, holds, draining_jobs }))
}

/// `GET /admin/planner/{rule}/rounds`, newest first.
pub(crate) async fn rounds(api: Api, PathParam(name): PathParam, uri: Uri) -> Result<Response, ApiError> {
    exists(&api, &name).await?;
    let page = Page::from_query(&Query::parse(&uri))?;
    let total = api.store().recorded_total(&name).await? as usize;
    let recorded =
        api.store().recorded_rounds(&name, None, page.offset.saturating_add(page.limit).min(total.max(1))).await?;
    let items: Vec<Value> =
        recorded.iter().skip(page.offset).filter_map(|round| serde_json::from_str(&round.document).ok()).collect();
    Ok(ListResponse::from_values(&items, &[]).paged(page, total))
}

/// `GET /admin/planner/{rule}/tenants`.
pub(crate) async fn tenants(api: Api, PathParam(name): PathParam, uri: Uri) -> Result<Response, ApiError> {
    let query = Query::parse(&uri);
    let page = Page::from_query(&query)?;
    let order = match query.get("sort") {
        None => TenantOrder::default(),
        Some(sort) => TenantOrder::from_name(sort)
            .ok_or_else(|| Invalid::field("sort", "one of pending, oldest, weight, name", sort))?,
    };
    let list = TenantList::read(api.registry(), &name, order).await?.ok_or_else(|| missing(&name))?;
    let items = list.page(page.offset, page.limit);
    Ok(ListResponse::from_values(&items, &[]).with(&Truncated { truncated: list.truncated }).paged(page, list.len()))
}

/// `GET /admin/planner/{rule}/preview`: what the next round would do, or with `jobs` a round of that size.
pub(crate) async fn preview(api: Api, PathParam(name): PathParam, uri: Uri) -> Result<Response, ApiError> {
    let jobs = Query::parse(&uri).number("jobs", 1, 1000)?.map(|jobs| jobs as u64);
    let preview = dry_run(api.registry(), &name, jobs).await?.ok_or_else(|| missing(&name))?;
    Ok(response::json(StatusCode::OK, &preview))
}

/// `GET /admin/planner/{rule}/shadow`: the actual and the simulated waits of tenants, for a rule in shadow.
pub(crate) async fn show_shadow(api: Api, PathParam(name): PathParam) -> Result<Response, ApiError> {
    exists(&api, &name).await?;
    let seen = shadow(api.registry(), &name).await?.ok_or_else(|| {
        ApiError::not_found("shadow of plan rule", &name)
            .hint("Set `shadow = true` on a rule whose main queue is a Sidekiq.")
    })?;
    Ok(response::json(StatusCode::OK, &seen))
}

/// `POST /admin/planner/{rule}/run`: runs one round now.
pub(crate) async fn run(api: Api, PathParam(name): PathParam) -> Result<Response, ApiError> {
    let round = match api.registry().run(&name).await?.ok_or_else(|| missing(&name))? {
        RoundAttempt::Ran { report, .. } => report.to_json(),
        RoundAttempt::Paused => skipped_round(&name, "paused"),
        RoundAttempt::Empty => skipped_round(&name, "empty"),
        RoundAttempt::Gone => return Err(missing(&name)),
        RoundAttempt::Elsewhere { by, .. } => {
            let message = format!("Process {by} is running a round of plan rule {name}.");
            return Err(ApiError::new(StatusCode::CONFLICT, "conflict", message).with("holder", &by));
        }
        RoundAttempt::Early { .. } => {
            let message = format!("The schedule of plan rule {name} was changed by other requests at the same time.");
            return Err(ApiError::new(StatusCode::CONFLICT, "conflict", message).hint("Send the request again."));
        }
    };
    Ok(response::json(StatusCode::OK, &round))
}

/// `POST /admin/planner/{rule}/pause`.
pub(crate) async fn pause(api: Api, PathParam(name): PathParam) -> Result<Response, ApiError> {
    set_paused(&api, &name, PauseAction::Pause).await
}

/// `POST /admin/planner/{rule}/resume`.
pub(crate) async fn resume(api: Api, PathParam(name): PathParam) -> Result<Response, ApiError> {
    set_paused(&api, &name, PauseAction::Resume).await
}

async fn set_paused(api: &Api, name: &str, action: PauseAction) -> Result<Response, ApiError> {
    exists(api, name).await?;
    let by = api.actor();
    let was_paused = api.store().rule_status(name, None).await?.paused;
    api.store().pause_rule(name, action.is_pause(), &by).await?;
    match action {
        PauseAction::Pause if !was_paused => tracing::info!(rule = name, by, "plan rule paused"),
        PauseAction::Resume if was_paused => tracing::info!(rule = name, by, "plan rule resumed"),
        PauseAction::Pause | PauseAction::Resume => {} // nothing changed
    }
    let stats = RuleStats::read(api.registry(), name).await?.ok_or_else(|| missing(name))?;
    Ok(response::json(StatusCode::OK, &stats.to_json()))
}

/// The report of a round that was skipped, in the shape of [`RoundReport`](crate::planner::RoundReport).
fn skipped_round(name: &str, reason: &str) -> Value {
    json!({"rule": name, "round": null, "outcome": "skipped", "reason": reason, "promoted": 0, "tenants": 0, "served": []})
}

async fn exists(api: &Api, name: &str) -> Result<(), ApiError> {
    let known = api.registry().rules().known().await?;
    if known.has(name) { Ok(()) } else { Err(missing(name)) }
}

fn missing(name: &str) -> ApiError {
    ApiError::not_found("plan rule", name).hint("Send GET /ojs/v1/admin/planner for a list of the rules.")
}
