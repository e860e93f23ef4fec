//! The planner's admin API: rules, their state, rounds, tenants, previews, and the hand on the switch.

use super::body::Text;
use super::listing::Listing;
use super::mistakes::refused;
use super::page::{Page, Query};
use super::path::Name;
use super::problem::Problem;
use super::{Api, answer};
use crate::config;
use crate::job::invalid::Invalid;
use crate::planner::{Order, Removed, RoundAttempt, RuleStats, TenantList, preview as dry_run, shadow};
use axum::extract::Request;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use serde_json::{Value, json};

/// `GET /admin/planner`.
pub(super) async fn list(api: Api, uri: Uri) -> Result<Response, Problem> {
    let page = Page::of(&Query::of(&uri))?;
    let known = api.registry().rules().known().await?;
    let names: Vec<&str> = known.names().collect();
    let mut items = Vec::new();
    for name in names.iter().skip(page.offset).take(page.limit) {
        items.extend(RuleStats::read(api.registry(), name).await?.map(|stats| stats.to_json()));
    }
    let version = json!(&*known.version);
    Ok(Listing::of_values(items, &["rules"]).with("version", version).paged(page, names.len()))
}

/// `GET /admin/planner/{rule}`.
pub(super) async fn show(api: Api, Name(name): Name) -> Result<Response, Problem> {
    let stats = RuleStats::read(api.registry(), &name).await?.ok_or_else(|| missing(&name))?;
    Ok(answer::value(StatusCode::OK, &stats.to_json()))
}

/// `PUT /admin/planner/{rule}`: adds a rule or replaces it as a whole.
pub(super) async fn put(api: Api, Name(name): Name, request: Request) -> Result<Response, Problem> {
    let options = Text::read(&api, request).await?.value()?;
    let rules = api.registry().rules();
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let main_queues = api.registry().main_queues().known();
    let scope =
        config::Scope { is_set: &is_set, main_queues: Some(&main_queues), passes_through: api.inner.relay.is_some() };
    let rule = config::plan_from_json(&name, options, rules.defaults(), scope)
        .map_err(|problems| refused("rule", &problems))?;
    let is_new = rules.known().await?.rules.get(&name).is_none();
    rules.put(rule).await?;
    let stats = RuleStats::read(api.registry(), &name).await?.ok_or_else(|| missing(&name))?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok(answer::value(status, &stats.to_json()))
}

/// `DELETE /admin/planner/{rule}`.
pub(super) async fn remove(api: Api, Name(name): Name) -> Result<Response, Problem> {
    let staged = api.store().rule_status(&name, None).await?.staged;
    let outcome = match api.registry().rules().remove(&name).await? {
        Removed::Gone => json!({"rule": name, "removed": true, "holds": null, "draining_jobs": staged}),
        Removed::Restored => json!({"rule": name, "removed": true, "holds": "file", "draining_jobs": 0}),
        Removed::InFile => {
            let message = format!("Plan rule {name} stands in the configuration file and was not changed at run time.");
            let problem = Problem::new(StatusCode::CONFLICT, "conflict", message).with("rule", &name);
            return Err(problem.hint("Remove it from the file and restart, or pause it."));
        }
        Removed::Unknown => return Err(missing(&name)),
    };
    Ok(answer::value(StatusCode::OK, &outcome))
}

/// `GET /admin/planner/{rule}/rounds`, newest first.
pub(super) async fn rounds(api: Api, Name(name): Name, uri: Uri) -> Result<Response, Problem> {
    exists(&api, &name).await?;
    let page = Page::of(&Query::of(&uri))?;
    let total = api.store().recorded_total(&name).await? as usize;
    let recorded =
        api.store().recorded_rounds(&name, None, page.offset.saturating_add(page.limit).min(total.max(1))).await?;
    let items: Vec<Value> =
        recorded.iter().skip(page.offset).filter_map(|round| serde_json::from_str(&round.document).ok()).collect();
    Ok(Listing::of_values(items, &[]).paged(page, total))
}

/// `GET /admin/planner/{rule}/tenants`.
pub(super) async fn tenants(api: Api, Name(name): Name, uri: Uri) -> Result<Response, Problem> {
    let query = Query::of(&uri);
    let page = Page::of(&query)?;
    let order = match query.get("sort") {
        None => Order::default(),
        Some(sort) => Order::from_name(sort)
            .ok_or_else(|| Invalid::field("sort", "one of pending, oldest, weight, name", sort))?,
    };
    let list = TenantList::read(api.registry(), &name, order).await?.ok_or_else(|| missing(&name))?;
    let items = list.page(page.offset, page.limit);
    Ok(Listing::of_values(items, &[]).with("truncated", list.truncated).paged(page, list.len()))
}

/// `GET /admin/planner/{rule}/preview`: the next round, or with `jobs` one of that size.
pub(super) async fn preview(api: Api, Name(name): Name, uri: Uri) -> Result<Response, Problem> {
    let jobs = Query::of(&uri).number("jobs", 1, 1000)?.map(|jobs| jobs as u64);
    let preview = dry_run(api.registry(), &name, jobs).await?.ok_or_else(|| missing(&name))?;
    Ok(answer::value(StatusCode::OK, &preview))
}

/// `GET /admin/planner/{rule}/shadow`: the waits that tenants have and would have, of a rule in shadow.
pub(super) async fn show_shadow(api: Api, Name(name): Name) -> Result<Response, Problem> {
    exists(&api, &name).await?;
    let seen = shadow(api.registry(), &name).await?.ok_or_else(|| {
        Problem::missing("shadow of plan rule", &name)
            .hint("Set `shadow = true` on a rule whose main queue is a Sidekiq.")
    })?;
    Ok(answer::value(StatusCode::OK, &seen))
}

/// `POST /admin/planner/{rule}/run`: one whole round now.
pub(super) async fn run(api: Api, Name(name): Name) -> Result<Response, Problem> {
    let round = match api.registry().run(&name).await?.ok_or_else(|| missing(&name))? {
        RoundAttempt::Ran { report, .. } => report.to_json(),
        RoundAttempt::Paused => skipped(&name, "paused"),
        RoundAttempt::Empty => skipped(&name, "empty"),
        RoundAttempt::Gone => return Err(missing(&name)),
        RoundAttempt::Elsewhere { by, .. } => {
            let message = format!("{by} is in the middle of a round of plan rule {name}.");
            return Err(Problem::new(StatusCode::CONFLICT, "conflict", message).with("holder", &by));
        }
        RoundAttempt::Early { .. } => {
            let message = format!("The schedule of plan rule {name} changes faster than this process can read it.");
            return Err(Problem::new(StatusCode::CONFLICT, "conflict", message).hint("Try again."));
        }
    };
    Ok(answer::value(StatusCode::OK, &round))
}

/// `POST /admin/planner/{rule}/pause`.
pub(super) async fn pause(api: Api, Name(name): Name) -> Result<Response, Problem> {
    set_paused(&api, &name, true).await
}

/// `POST /admin/planner/{rule}/resume`.
pub(super) async fn resume(api: Api, Name(name): Name) -> Result<Response, Problem> {
    set_paused(&api, &name, false).await
}

async fn set_paused(api: &Api, name: &str, paused: bool) -> Result<Response, Problem> {
    exists(api, name).await?;
    let by = api.actor();
    let was_paused = api.store().rule_status(name, None).await?.paused;
    api.store().pause_rule(name, paused, &by).await?;
    if paused != was_paused {
        tracing::info!(rule = name, by, "{}", if paused { "plan rule paused" } else { "plan rule resumed" });
    }
    let stats = RuleStats::read(api.registry(), name).await?.ok_or_else(|| missing(name))?;
    Ok(answer::value(StatusCode::OK, &stats.to_json()))
}

/// A round that found nothing to do, in the shape of one that did.
fn skipped(name: &str, reason: &str) -> Value {
    json!({"rule": name, "round": null, "outcome": "skipped", "reason": reason, "promoted": 0, "tenants": 0, "served": []})
}

async fn exists(api: &Api, name: &str) -> Result<(), Problem> {
    let known = api.registry().rules().known().await?;
    if known.has(name) { Ok(()) } else { Err(missing(name)) }
}

fn missing(name: &str) -> Problem {
    Problem::missing("plan rule", name).hint("GET /ojs/v1/admin/planner lists the rules.")
}
