//! Tenants: list, settings, limits, and statistics.

use super::admin_jobs;
use crate::api::answers::lists::{Paged, Pagination};
use crate::api::answers::tenants::{
    self as answers, Change, Fairness, JobsAndEnded, LimitsUsage, TenantAnswer, TenantRemoved, TenantSettings,
    TenantStats, Throughput, Usage,
};
use crate::api::answers::types::Timestamp;
use crate::api::body::RequestBody;
use crate::api::error::ApiError;
use crate::api::list_response::ListResponse;
use crate::api::pagination::{Page, Query};
use crate::api::path::PathParam;
use crate::api::validation::validation_failed;
use crate::api::{Api, response};
use crate::config;
use crate::domain::invalid::{Invalid, Kind};
use crate::domain::tenant::{TenantLimits, Weight};
use crate::domain::{duration, tenant_id};
use crate::rules::{
    Author, DirectoryFilter, DirectoryOrder, EffectiveSettings, IfBusy, Removed, SettingsSource, TenantDirectory,
    TenantEntry, TenantSettingsRefused,
};
use crate::store::{TenantJobs, TenantStatistics};
use axum::extract::Request;
use axum::http::{StatusCode, Uri};
use axum::response::Response;

/// `GET /admin/tenants`.
pub(crate) async fn list(api: Api, uri: Uri) -> Result<Response, ApiError> {
    let query = Query::parse(&uri);
    let page = Page::from_query(&query)?;
    let order = match query.get("sort") {
        None => DirectoryOrder::default(),
        Some(name) => {
            let found = DirectoryOrder::NAMES.iter().find(|(known, _)| *known == name).map(|(_, order)| *order);
            let names: Vec<&str> = DirectoryOrder::NAMES.iter().map(|(name, _)| *name).collect();
            found.ok_or_else(|| Invalid::field("sort", format!("one of {}", names.join(", ")), name))?
        }
    };
    let configured = match query.get("configured") {
        None => None,
        Some("true") => Some(true),
        Some("false") => Some(false),
        Some(other) => return Err(Invalid::field("configured", "true or false", other).into()),
    };
    let filter = DirectoryFilter { prefix: query.get("prefix").unwrap_or_default().to_owned(), configured };
    let directory = TenantDirectory::read(api.store(), api.registry().rules(), &filter, order).await?;
    let page_items: Vec<&TenantEntry> = directory.tenants.iter().skip(page.offset).take(page.limit).collect();
    let ids: Vec<&str> = page_items.iter().map(|tenant| tenant.id.as_str()).collect();
    let jobs = api.store().tenant_jobs(&ids).await?;
    let items: Vec<answers::Tenant> =
        page_items.iter().zip(&jobs).map(|(tenant, jobs)| describe(&tenant.id, &tenant.served, jobs)).collect();
    let pagination = Pagination { truncated: Some(directory.truncated), ..page.describe(directory.tenants.len()) };
    Ok(ListResponse::from_values(&items, &[]).with(&Paged { pagination }).into_response())
}

/// `GET /admin/tenants/{id}`.
pub(crate) async fn show(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    found(&api, &id, StatusCode::OK).await
}

/// `PUT /admin/tenants/{id}`: replaces all settings of a tenant.
pub(crate) async fn put(api: Api, PathParam(id): PathParam, request: Request) -> Result<Response, ApiError> {
    check(&id)?;
    let body = RequestBody::read(&api, request).await?.value()?;
    let (terms, reason) =
        config::tenant_from_json(&id, body).map_err(|problems| validation_failed("tenant", &problems))?;
    let author = Author { by: api.actor(), reason };
    let is_new = api.registry().rules().put_tenant(&id, &terms, &author).await?;
    found(&api, &id, if is_new { StatusCode::CREATED } else { StatusCode::OK }).await
}

/// `PUT /admin/tenants/{id}/limits`: changes the limits that the body contains.
pub(crate) async fn put_limits(api: Api, PathParam(id): PathParam, request: Request) -> Result<Response, ApiError> {
    check(&id)?;
    let body = RequestBody::read(&api, request).await?.value()?;
    api.registry().rules().put_tenant_limits(&id, &body, &api.actor()).await?;
    found(&api, &id, StatusCode::OK).await
}

/// `DELETE /admin/tenants/{id}`.
pub(crate) async fn remove(api: Api, PathParam(id): PathParam, uri: Uri) -> Result<Response, ApiError> {
    check(&id)?;
    let if_busy = match Query::parse(&uri).get("force") {
        Some("true" | "1") => IfBusy::Remove,
        _ => IfBusy::Refuse,
    };
    let jobs = jobs_of(&api, &id).await?;
    let holds = match api.registry().rules().remove_tenant(&id, jobs, if_busy).await? {
        Removed::Gone => served(&api, &id).await?.source,
        Removed::Restored => SettingsSource::File,
        Removed::InFile => {
            let message = format!("Tenant {id} is set in the configuration file and was not changed at run time.");
            let error = ApiError::new(StatusCode::CONFLICT, "conflict", message).with("tenant_id", &id);
            return Err(error.hint("Remove it from the file and restart, or PUT other settings in their place."));
        }
        Removed::Unknown => {
            let error = ApiError::not_found("tenant", &id);
            return Err(error.hint("The tenant has no settings of its own to remove."));
        }
    };
    let holds = holds.name();
    let jobs_kept = (jobs.total() > 0)
        .then(|| format!("{} jobs remain and are served with the settings that apply now ({holds})", jobs.total()));
    let body = TenantRemoved { tenant_id: &id, removed: true, holds, total_jobs: jobs.total(), jobs: jobs_kept };
    Ok(response::json(StatusCode::OK, &body))
}

/// `GET /admin/tenants/{id}/stats`.
pub(crate) async fn stats(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    check_own(&api, &id)?;
    let served = served(&api, &id).await?;
    let jobs = jobs_of(&api, &id).await?;
    // A value that was not counted is null, not 0.
    let statistics = api.store().tenant_statistics(&id).await?;
    let counted = Some(&statistics).filter(|statistics| statistics.counted);
    let per_minute =
        |rate: fn(&TenantStatistics) -> f64| counted.map(|counted| (rate(counted) * 100.0).round() / 100.0);
    let effective_share = match counted {
        Some(_) => api.inner.neighbors.expected_share(&id).await?.map(share),
        None => None,
    };
    let body = TenantStats {
        tenant_id: &id,
        total_jobs: jobs.total(),
        jobs: JobsAndEnded {
            jobs: (&jobs).into(),
            completed_24h: counted.map(|counted| counted.day.completed),
            failed_24h: counted.map(|counted| counted.day.failed),
        },
        throughput: Throughput {
            processed_per_minute: per_minute(|counted| counted.processed_per_minute),
            enqueued_per_minute: per_minute(|counted| counted.enqueued_per_minute),
        },
        limits: usage(&api, &id, &served.terms.limits, &jobs).await?,
        fairness: Fairness {
            weight: served.terms.weight.unwrap_or(Weight::ONE).to_json(),
            effective_share,
            actual_share: counted.map(|counted| share(counted.worker_share)),
        },
        counted: counted.is_some(),
        computed_at: Timestamp(api.store().clock().now_ms()),
    };
    Ok(response::json(StatusCode::OK, &body))
}

/// Rounds a share to four decimal places.
fn share(part: f64) -> f64 {
    (part * 1e4).round() / 1e4
}

/// `GET /admin/tenants/{id}/jobs`.
pub(crate) async fn jobs(api: Api, PathParam(id): PathParam, uri: Uri) -> Result<Response, ApiError> {
    check_own(&api, &id)?;
    admin_jobs::list_of(&api, &uri, Some(id)).await
}

/// Describes the limits of a tenant with their usage.
async fn usage(api: &Api, id: &str, limits: &TenantLimits, jobs: &TenantJobs) -> Result<LimitsUsage, ApiError> {
    let used = |limit: u64, current: u64| Usage { limit, current, period: None };
    let max_enqueue_rate = match limits.max_enqueue_rate {
        None => None,
        Some(rate) => {
            let current = api.store().enqueued_lately(id, rate.period).await?;
            Some(Usage { period: Some(duration::to_iso(rate.period)), ..used(rate.limit.into(), current) })
        }
    };
    Ok(LimitsUsage {
        max_concurrency: limits.max_concurrency.map(|limit| used(limit.into(), jobs.active)),
        max_queue_depth: limits.max_queue_depth.map(|limit| used(limit, jobs.depth())),
        max_scheduled: limits.max_scheduled.map(|limit| used(limit, jobs.scheduled)),
        max_enqueue_rate,
    })
}

async fn served(api: &Api, id: &str) -> Result<EffectiveSettings, ApiError> {
    Ok(api.registry().rules().served(&[id]).await?.pop().unwrap_or_default())
}

async fn jobs_of(api: &Api, id: &str) -> Result<TenantJobs, ApiError> {
    if id == tenant_id::DEFAULT {
        return Ok(api.store().default_tenant_jobs().await?);
    }
    Ok(api.store().tenant_jobs(&[id]).await?.pop().unwrap_or_default())
}

async fn found(api: &Api, id: &str, status: StatusCode) -> Result<Response, ApiError> {
    check(id)?;
    let served = served(api, id).await?;
    let tenant = describe(id, &served, &jobs_of(api, id).await?);
    let changes = served.changes.into_iter().map(Change).collect();
    Ok(response::json(status, &TenantAnswer { members: &tenant, tenant: &tenant, changes }))
}

fn describe(id: &str, served: &EffectiveSettings, jobs: &TenantJobs) -> answers::Tenant {
    answers::Tenant {
        settings: TenantSettings(served.terms.to_json()),
        tenant_id: id.to_owned(),
        source: served.source.name(),
        tier: served.tier.clone(),
        created_at: served.created.map(Timestamp),
        total_jobs: jobs.total(),
        jobs: jobs.into(),
    }
}

/// Refuses a tenant that is not in the scope of the request. The error is the same as for a tenant that does not exist.
fn check_own(api: &Api, id: &str) -> Result<(), ApiError> {
    check(id)?;
    if api.store().scope().admits(Some(id)) { Ok(()) } else { Err(ApiError::not_found("tenant", id)) }
}

/// Refuses a text that is not a valid tenant id.
fn check(id: &str) -> Result<(), ApiError> {
    if id == tenant_id::DEFAULT || tenant_id::is_id(id) {
        return Ok(());
    }
    Err(Invalid::field("id", tenant_id::NAME_EXPECTED, id).of_kind(Kind::Tenant).into())
}

impl From<TenantSettingsRefused> for ApiError {
    fn from(refusal: TenantSettingsRefused) -> Self {
        match refusal {
            TenantSettingsRefused::Mistakes(problems) => validation_failed("tenant", &problems),
            TenantSettingsRefused::Busy(jobs) => {
                let message = format!("The tenant has {} jobs that have not finished.", jobs.total());
                let error = ApiError::new(StatusCode::CONFLICT, "conflict", message);
                error.with_number("total_jobs", jobs.total() as usize).hint(
                    "Send ?force=true to remove the settings anyway; the jobs remain and are served with the settings of the tier or the defaults.",
                )
            }
            TenantSettingsRefused::Store(error) => error.into(),
        }
    }
}
