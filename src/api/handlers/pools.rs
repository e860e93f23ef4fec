//! Worker pools: list, add, change, remove, and their usage.

use crate::api::answers::pools::{self as answers, PoolAnswer, PoolRemoved, PoolSettings};
use crate::api::answers::types::Source;
use crate::api::body::RequestBody;
use crate::api::error::ApiError;
use crate::api::list_response::ListResponse;
use crate::api::pagination::{Page, Query};
use crate::api::path::PathParam;
use crate::api::validation::validation_failed;
use crate::api::{Api, response};
use crate::config;
use crate::domain::invalid::{Invalid, Kind};
use crate::domain::pool::Pool;
use crate::rules::{ActivePolicy, Removed};
use crate::store::PoolStatus;
use axum::extract::Request;
use axum::http::header::LOCATION;
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::Response;

/// `GET /admin/pools`.
pub(crate) async fn list(api: Api, uri: Uri) -> Result<Response, ApiError> {
    let page = Page::from_query(&Query::parse(&uri))?;
    let known = api.registry().rules().known().await?;
    let scope = api.store().scope();
    let pools = known.dispatch.policy.pools.iter().filter(|pool| scope.unqualified(&pool.name).is_some());
    let pools: Vec<&Pool> = pools.collect();
    let page_items: Vec<&Pool> = pools.iter().copied().skip(page.offset).take(page.limit).collect();
    let names: Vec<&str> = page_items.iter().map(|pool| pool.name.as_str()).collect();
    let statuses = api.store().scheduling(&names).await?.pools;
    let items: Vec<answers::Pool> =
        page_items.into_iter().zip(statuses).map(|(pool, status)| describe(&known.dispatch, pool, status)).collect();
    Ok(ListResponse::from_values(&items, &[]).paged(page, pools.len()))
}

/// `GET /admin/pools/{name}`.
pub(crate) async fn show(api: Api, PathParam(name): PathParam) -> Result<Response, ApiError> {
    found(&api, &name, StatusCode::OK).await
}

/// `PUT /admin/pools/{name}`: adds a pool, or replaces all of its settings.
pub(crate) async fn put(api: Api, PathParam(name): PathParam, request: Request) -> Result<Response, ApiError> {
    let body = RequestBody::read(&api, request).await?.value()?;
    let pool = config::pool_from_json(Some(&name), body).map_err(|problems| validation_failed("pool", &problems))?;
    let pool = of_caller(&api, pool)?;
    let is_new = api.registry().rules().put_pool(pool).await?;
    found(&api, &name, if is_new { StatusCode::CREATED } else { StatusCode::OK }).await
}

/// `POST /admin/pools`: adds a pool; the body contains the name.
pub(crate) async fn add(api: Api, request: Request) -> Result<Response, ApiError> {
    let body = RequestBody::read(&api, request).await?.value()?;
    let pool = config::pool_from_json(None, body).map_err(|problems| validation_failed("pool", &problems))?;
    let name = pool.own_name().to_owned();
    let pool = of_caller(&api, pool)?;
    api.registry().rules().add_pool(pool).await?;
    let mut response = found(&api, &name, StatusCode::CREATED).await?;
    // Pool names are valid in a header.
    if let Ok(location) = HeaderValue::try_from(format!("/ojs/v1/admin/pools/{name}")) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

/// `DELETE /admin/pools/{name}`.
pub(crate) async fn remove(api: Api, PathParam(name): PathParam) -> Result<Response, ApiError> {
    let holds = match api.registry().rules().remove_pool(&api.store().scope().qualified(&name)).await? {
        Removed::Gone => None,
        Removed::Restored => Some("file"),
        Removed::InFile => {
            let message = format!("Pool {name} is set in the configuration file and was not changed at run time.");
            let error = ApiError::new(StatusCode::CONFLICT, "conflict", message).with("pool", &name);
            return Err(error.hint("Remove it from the file and restart, or PUT another pool in its place."));
        }
        Removed::Unknown => return Err(missing(&name)),
    };
    Ok(response::json(StatusCode::OK, &PoolRemoved { pool: &name, removed: true, holds }))
}

/// Assigns a pool to the tenant that the request names, if tenants have pools of their own.
fn of_caller(api: &Api, pool: Pool) -> Result<Pool, ApiError> {
    match (&pool.tenant, api.store().scope().namespace()) {
        (None, Some(tenant)) => Ok(pool.of_tenant(tenant)),
        (named, own) if named.as_deref() == own => Ok(pool),
        (named, _) => {
            let expected = "the tenant of the X-OJS-Tenant header, or left out";
            Err(Invalid::field("tenant", expected, named.as_deref().unwrap_or_default()).of_kind(Kind::Policy).into())
        }
    }
}

async fn found(api: &Api, name: &str, status: StatusCode) -> Result<Response, ApiError> {
    let known = api.registry().rules().known().await?;
    let qualified = api.store().scope().qualified(name);
    let pool = known.dispatch.policy.pool(&qualified).ok_or_else(|| missing(name))?;
    let usage = api.store().scheduling(&[&qualified]).await?.pools.first().copied().unwrap_or_default();
    let pool = describe(&known.dispatch, pool, usage);
    Ok(response::json(status, &PoolAnswer { members: &pool, pool: &pool }))
}

fn describe(held: &ActivePolicy, pool: &Pool, status: PoolStatus) -> answers::Pool {
    answers::Pool {
        settings: PoolSettings(pool.to_json()),
        active_workers: status.active_workers,
        active_jobs: status.active_jobs,
        source: Source(held.source_of(&pool.name).name()),
    }
}

fn missing(name: &str) -> ApiError {
    ApiError::not_found("pool", name).hint("Send GET /ojs/v1/admin/pools for a list of the pools.")
}
