//! Who is let in: the key that a request presents, and whether its role opens the route.
//!
//! Decided before anything of the request is read, its body least of all. What the table of routes does not name is refused.

use super::Api;
use super::places::Place;
use super::problem::Problem;
use super::routes::Access;
use super::tenant;
use crate::auth::Role;
use crate::fairness::{Isolation, TenantSource};
use crate::job::Scope;
use crate::keyring::{Caller, Gate};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderName, Method, Uri};
use axum::response::{IntoResponse, Response};

static API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Who may ask another server for what the table of routes does not name.
const UNNAMED: Access = Access::Whole(&[Role::Admin]);

/// Lets a request in and tells who sent it, or answers it. One that passes through to another server may be for a path that we do not
/// have.
pub(super) async fn admit(
    api: &Api,
    (method, uri, headers): (&Method, &Uri, &HeaderMap),
    place: Option<&Place>,
    passes: bool,
) -> Result<Option<Caller>, Response> {
    let keys = &api.inner.keys;
    let check_browser =
        || api.inner.browser.check(method, uri, headers).map(|()| None).map_err(IntoResponse::into_response);
    if keys.gate() == Gate::Open {
        return check_browser();
    }
    let access = place.and_then(|place| place.door(method)).map(|door| door.access);
    if access == Some(Access::Public) {
        return Ok(None);
    }
    let gate = keys.known_gate().await.map_err(|error| Problem::from(error).into_response())?;
    if gate == Gate::Open {
        return check_browser();
    }
    let caller = authenticate(api, headers).map_err(IntoResponse::into_response)?;
    match (access.or(passes.then_some(UNNAMED)), place) {
        (Some(access), _) => authorise(&caller, access, headers).map_err(|problem| {
            let (key, name) = (caller.key.id(), &caller.key.name);
            let route = place.map_or("", |place| place.path);
            tracing::info!(key, name, %method, route, status = problem.status.as_u16(), "refused");
            problem.into_response()
        })?,
        (None, Some(place)) => return Err(place.other_methods()),
        // There is nothing, which the frame says.
        (None, None) => {}
    }
    Ok(Some(caller))
}

/// How far a request reaches: as far as the caller's key, or the tenant that it names in a header. Whoever names a tenant has its
/// namespace, if tenants have some; what spans all of them is not there then.
pub(super) fn reach(api: &Api, caller: Option<&Caller>, headers: &HeaderMap, access: Access) -> Result<Scope, Problem> {
    let tenancy = &api.inner.tenancy;
    let has_namespaces = tenancy.isolation == Isolation::Namespace;
    let of_key = caller.map(|caller| &caller.scope).filter(|scope| scope.tenant().is_some());
    let scope = match (of_key, access) {
        (Some(scope), _) => scope.clone(),
        (None, Access::Public) => return Ok(Scope::ALL),
        (None, _) if !tenancy.has(TenantSource::Header) => return Ok(Scope::ALL),
        (None, _) => match tenant::wanted(headers)? {
            None => return Ok(Scope::ALL),
            Some(tenant) if has_namespaces && matches!(access, Access::Whole(_)) => {
                let hint = format!("This endpoint spans all tenants, and the request names tenant {tenant:?}.");
                return Err(Problem::unknown_path().hint(&hint));
            }
            Some(tenant) => Scope::named(&tenant),
        },
    };
    Ok(if has_namespaces { scope.in_namespace() } else { scope })
}

/// Whose key it is.
fn authenticate(api: &Api, headers: &HeaderMap) -> Result<Caller, Problem> {
    let presented = presented(headers).ok_or_else(|| Problem::unauthorized(false))?;
    api.inner.keys.caller(presented).ok_or_else(|| Problem::unauthorized(true))
}

/// `Authorization: Bearer KEY`, or `X-API-Key: KEY`.
fn presented(headers: &HeaderMap) -> Option<&str> {
    let bearer = || {
        let (scheme, key) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
    };
    let own = || headers.get(&API_KEY)?.to_str().ok().map(str::trim);
    bearer().or_else(own).filter(|key| !key.is_empty())
}

/// Whether a key opens a route.
fn authorise(caller: &Caller, access: Access, headers: &HeaderMap) -> Result<(), Problem> {
    let (roles, is_whole) = match access {
        Access::Public => return Ok(()),
        Access::Scoped(roles) => (roles, false),
        Access::Named(roles) | Access::Whole(roles) => (roles, true),
    };
    if !roles.contains(&caller.key.role) {
        return Err(Problem::forbidden_role(caller.key.role, roles));
    }
    let Some(tenant) = caller.scope.tenant() else { return Ok(()) };
    if is_whole {
        return Err(Problem::unknown_path().hint("The key is bound to a tenant, and this is about all of them."));
    }
    match tenant::value(headers)? {
        Some((header, named)) if named != tenant => Err(Problem::foreign_tenant(tenant, header)),
        _ => Ok(()),
    }
}
