//! Worker pools: list, add, change, remove, and how busy they are.

use crate::api::body::RequestBody;
use crate::api::error::ApiError;
use crate::api::list_response::ListResponse;
use crate::api::pagination::{Page, Query};
use crate::api::path::PathParam;
use crate::api::validation::validation_failed;
use crate::api::{Api, response};
use crate::config;
use crate::fairness::Pool;
use crate::job::invalid::{Invalid, Kind};
use crate::planner::{Held, Removed};
use crate::store::PoolStatus;
use axum::extract::Request;
use axum::http::header::LOCATION;
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::Response;
use serde_json::{Value, json};

/// `GET /admin/pools`.
pub(crate) async fn list(api: Api, uri: Uri) -> Result<Response, ApiError> {
    let page = Page::from_query(&Query::parse(&uri))?;
    let known = api.registry().rules().known().await?;
    let scope = api.store().scope();
    let pools = known.dispatch.policy.pools.iter().filter(|pool| scope.unqualified(&pool.name).is_some());
    let pools: Vec<&Pool> = pools.collect();
    let shown: Vec<&Pool> = pools.iter().copied().skip(page.offset).take(page.limit).collect();
    let names: Vec<&str> = shown.iter().map(|pool| pool.name.as_str()).collect();
    let statuses = api.store().scheduling(&names).await?.pools;
    let items: Vec<Value> =
        shown.into_iter().zip(statuses).map(|(pool, status)| describe(&known.dispatch, pool, status)).collect();
    Ok(ListResponse::from_values(items, &[]).paged(page, pools.len()))
}

/// `GET /admin/pools/{name}`.
pub(crate) async fn show(api: Api, PathParam(name): PathParam) -> Result<Response, ApiError> {
    found(&api, &name, StatusCode::OK).await
}

/// `PUT /admin/pools/{name}`: adds a pool or replaces it as a whole.
pub(crate) async fn put(api: Api, PathParam(name): PathParam, request: Request) -> Result<Response, ApiError> {
    let body = RequestBody::read(&api, request).await?.value()?;
    let pool = config::pool_from_json(Some(&name), body).map_err(|problems| validation_failed("pool", &problems))?;
    let pool = of_caller(&api, pool)?;
    let is_new = api.registry().rules().put_pool(pool).await?;
    found(&api, &name, if is_new { StatusCode::CREATED } else { StatusCode::OK }).await
}

/// `POST /admin/pools`, the name being in the body.
pub(crate) async fn add(api: Api, request: Request) -> Result<Response, ApiError> {
    let body = RequestBody::read(&api, request).await?.value()?;
    let pool = config::pool_from_json(None, body).map_err(|problems| validation_failed("pool", &problems))?;
    let name = pool.own_name().to_owned();
    let pool = of_caller(&api, pool)?;
    api.registry().rules().add_pool(pool).await?;
    let mut response = found(&api, &name, StatusCode::CREATED).await?;
    // A name holds nothing that a header may not.
    if let Ok(location) = HeaderValue::try_from(format!("/ojs/v1/admin/pools/{name}")) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

/// `DELETE /admin/pools/{name}`.
pub(crate) async fn remove(api: Api, PathParam(name): PathParam) -> Result<Response, ApiError> {
    let holds = match api.registry().rules().remove_pool(&api.store().scope().qualified(&name)).await? {
        Removed::Gone => Value::Null,
        Removed::Restored => json!("file"),
        Removed::InFile => {
            let message = format!("Pool {name} stands in the configuration file and was not changed at run time.");
            let problem = ApiError::new(StatusCode::CONFLICT, "conflict", message).with("pool", &name);
            return Err(problem.hint("Remove it from the file and restart, or PUT another one in its place."));
        }
        Removed::Unknown => return Err(missing(&name)),
    };
    Ok(response::json(StatusCode::OK, &json!({"pool": name, "removed": true, "holds": holds})))
}

/// The pool as one of the tenant's that the request names, where tenants have pools of their own.
fn of_caller(api: &Api, pool: Pool) -> Result<Pool, ApiError> {
    match (&pool.tenant, api.store().scope().namespace()) {
        (None, Some(tenant)) => Ok(pool.of_tenant(tenant)),
        (named, own) if named.as_deref() == own => Ok(pool),
        (named, _) => {
            let expected = "the tenant that the request's header names, or left out";
            Err(Invalid::field("tenant", expected, named.as_deref().unwrap_or_default()).of_kind(Kind::Policy).into())
        }
    }
}

async fn found(api: &Api, name: &str, status: StatusCode) -> Result<Response, ApiError> {
    let known = api.registry().rules().known().await?;
    let inside = api.store().scope().qualified(name);
    let pool = known.dispatch.policy.pool(&inside).ok_or_else(|| missing(name))?;
    let usage = api.store().scheduling(&[&inside]).await?.pools.first().copied().unwrap_or_default();
    let pool = describe(&known.dispatch, pool, usage);
    let mut body = pool.clone();
    body["pool"] = pool;
    Ok(response::json(status, &body))
}

fn describe(held: &Held, pool: &Pool, status: PoolStatus) -> Value {
    let mut shown = pool.to_json();
    shown["active_workers"] = status.active_workers.into();
    shown["active_jobs"] = status.active_jobs.into();
    shown["source"] = held.source_of(&pool.name).name().into();
    shown
}

fn missing(name: &str) -> ApiError {
    ApiError::not_found("pool", name).hint("GET /ojs/v1/admin/pools lists the pools.")
}
