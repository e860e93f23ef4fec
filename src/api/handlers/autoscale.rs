//! Backlogs of plan rules and queues, for autoscalers.

use crate::api::answers::autoscale::Autoscale;
use crate::api::error::ApiError;
use crate::api::list_response::ListResponse;
use crate::api::pagination::{Page, Query};
use crate::api::path::PathParam;
use crate::api::{Api, response};
use crate::domain::invalid::Invalid;
use crate::planner::{ScalingKind, ScalingOptions, ScalingReader, ScalingReport};
use crate::store::Store;
use axum::http::{StatusCode, Uri};
use axum::response::Response;

/// Largest target, in seconds: a day.
pub(crate) const MOST_TARGET: usize = 86_400;
/// Largest number of jobs that one worker runs at the same time.
pub(crate) const MOST_SLOTS: usize = 10_000;

/// `GET /admin/autoscale`: rules, then queues.
pub(crate) async fn list(api: Api, uri: Uri) -> Result<Response, ApiError> {
    let query = Query::parse(&uri);
    let (page, kind) = (Page::from_query(&query)?, kind(&query)?);
    let reader = ScalingReader::open(api.registry(), options(&query)?).await?;
    let rules = if kind == Some(ScalingKind::Queue) { Vec::new() } else { reader.rules() };
    let queues = if kind == Some(ScalingKind::Rule) { Vec::new() } else { api.store().queues().await? };
    let mut reports = Vec::new();
    for name in rules.iter().skip(page.offset).take(page.limit) {
        reports.extend(reader.rule(name).await?);
    }
    let behind = page.offset.saturating_sub(rules.len());
    let room = page.limit - rules.len().saturating_sub(page.offset).min(page.limit);
    let names: Vec<&str> = queues.iter().skip(behind).take(room).map(|queue| queue.name.as_str()).collect();
    reports.extend(reader.queues(&names).await?);
    let items: Vec<Autoscale<'_>> = reports.iter().map(describe).collect();
    Ok(ListResponse::from_values(&items, &[]).paged(page, rules.len() + queues.len()))
}

/// `GET /admin/autoscale/{name}`: a rule, or else a queue, of that name.
pub(crate) async fn show(api: Api, PathParam(name): PathParam, uri: Uri) -> Result<Response, ApiError> {
    let query = Query::parse(&uri);
    let kind = kind(&query)?;
    let reader = ScalingReader::open(api.registry(), options(&query)?).await?;
    let mut found = if kind == Some(ScalingKind::Queue) { None } else { reader.rule(&name).await? };
    if found.is_none() && kind != Some(ScalingKind::Rule) && api.store().queue(&name).await?.is_some() {
        found = reader.queues(&[&name]).await?.pop();
    }
    let what = kind.map_or("plan rule or queue", |kind| if kind == ScalingKind::Rule { "plan rule" } else { "queue" });
    let report = found.ok_or_else(|| {
        ApiError::not_found(what, &name).hint("Send GET /ojs/v1/admin/autoscale for a list of rules and queues.")
    })?;
    Ok(response::json_in_order(StatusCode::OK, &describe(&report)))
}

fn describe(report: &ScalingReport) -> Autoscale<'_> {
    Autoscale::of(report, Store::RUN_WINDOW.as_secs_f64())
}

fn kind(query: &Query) -> Result<Option<ScalingKind>, ApiError> {
    let Some(name) = query.get("kind") else { return Ok(None) };
    let kind = ScalingKind::from_name(name);
    kind.map(Some).ok_or_else(|| Invalid::field("kind", "`rule` or `queue`", name).into())
}

fn options(query: &Query) -> Result<ScalingOptions, ApiError> {
    let number = |name: &str, most: usize| Ok::<_, ApiError>(query.number(name, 1, most)?.map(|number| number as u64));
    Ok(ScalingOptions {
        target_seconds: number("target_seconds", MOST_TARGET)?,
        slots_per_worker: number("slots_per_worker", MOST_SLOTS)?,
    })
}
