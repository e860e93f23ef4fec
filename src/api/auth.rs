//! Authorization: the key that a request presents, and the check of its role against the route.
//!
//! It happens before anything but the head of the request is read. A path that is not in the table of routes is refused.

use super::Api;
use super::error::ApiError;
use super::router::MethodRouter;
use super::routes::Access;
use super::tenant_header;
use crate::auth::{AuthMode, Caller, Role};
use crate::domain::tenant::{Isolation, Scope, TenantSource};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderName, Method, Uri};
use axum::response::{IntoResponse, Response};

static API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The access to paths of the upstream server that are not in the table of routes.
const UNMATCHED: Access = Access::Global(&[Role::Admin]);

/// The parts of a request that authorization reads.
#[derive(Clone, Copy)]
pub(super) struct RequestHead<'a> {
    pub(super) method: &'a Method,
    pub(super) uri: &'a Uri,
    pub(super) headers: &'a HeaderMap,
}

/// The treatment of a request whose path is not in the table of routes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unmatched {
    /// The request is answered here, with an error.
    Refuse,
    /// The request is forwarded to the upstream server, which may have such a path.
    Forward,
}

/// Authorizes a request and returns its caller, `None` if no key is needed. The error is a response.
pub(super) async fn authorize(
    api: &Api,
    head: RequestHead<'_>,
    matched: Option<&MethodRouter>,
    unmatched: Unmatched,
) -> Result<Option<Caller>, Response> {
    let RequestHead { method, uri, headers } = head;
    let keys = &api.inner.keys;
    let check_browser =
        || api.inner.browser.check(method, uri, headers).map(|()| None).map_err(IntoResponse::into_response);
    if keys.mode() == AuthMode::Disabled {
        return check_browser();
    }
    let access = matched.and_then(|matched| matched.for_method(method)).map(|route| route.access);
    if access == Some(Access::Public) {
        return Ok(None);
    }
    let mode = keys.known_mode().await.map_err(|error| ApiError::from(error).into_response())?;
    if mode == AuthMode::Disabled {
        return check_browser();
    }
    let caller = authenticate(api, headers).map_err(IntoResponse::into_response)?;
    match (access.or((unmatched == Unmatched::Forward).then_some(UNMATCHED)), matched) {
        (Some(access), _) => check_access(&caller, access, headers).map_err(|error| {
            let (key, name) = (caller.key.id(), &caller.key.name);
            let route = matched.map_or("", |matched| matched.path);
            tracing::info!(key, name, %method, route, status = error.status.as_u16(), "refused");
            error.into_response()
        })?,
        (None, Some(matched)) => return Err(matched.method_not_allowed()),
        // The middleware answers that the path does not exist.
        (None, None) => {}
    }
    Ok(Some(caller))
}

/// Returns the scope of a request: that of the caller's key, or of the tenant that a header names. With isolation by
/// namespace, a request that names a tenant reaches the tenant's namespace and no route that spans all tenants.
pub(super) fn scope(
    api: &Api,
    caller: Option<&Caller>,
    headers: &HeaderMap,
    access: Access,
) -> Result<Scope, ApiError> {
    let tenancy = &api.inner.tenancy;
    let has_namespaces = tenancy.isolation == Isolation::Namespace;
    let of_key = caller.map(|caller| &caller.scope).filter(|scope| scope.tenant().is_some());
    let scope = match (of_key, access) {
        (Some(scope), _) => scope.clone(),
        (None, Access::Public) => return Ok(Scope::ALL),
        (None, _) if !tenancy.has(TenantSource::Header) => return Ok(Scope::ALL),
        (None, _) => match tenant_header::selected(headers)? {
            None => return Ok(Scope::ALL),
            Some(tenant) if has_namespaces && matches!(access, Access::Global(_)) => {
                return Err(ApiError::unknown_path()
                    .hint(format!("This endpoint spans all tenants; the request names tenant {tenant:?}.")));
            }
            Some(tenant) => Scope::named(&tenant),
        },
    };
    Ok(if has_namespaces { scope.in_namespace() } else { scope })
}

/// Finds the caller by the presented key.
fn authenticate(api: &Api, headers: &HeaderMap) -> Result<Caller, ApiError> {
    let presented = presented(headers).ok_or_else(ApiError::missing_key)?;
    api.inner.keys.caller(presented).ok_or_else(ApiError::invalid_key)
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

/// Checks that a key has a role of the route, and that its tenant may use it.
fn check_access(caller: &Caller, access: Access, headers: &HeaderMap) -> Result<(), ApiError> {
    let (roles, admits_tenants) = match access {
        Access::Public => return Ok(()),
        Access::Scoped(roles) => (roles, true),
        Access::Namespaced(roles) | Access::Global(roles) => (roles, false),
    };
    if !roles.contains(&caller.key.role) {
        return Err(ApiError::forbidden_role(caller.key.role, roles));
    }
    let Some(tenant) = caller.scope.tenant() else { return Ok(()) };
    if !admits_tenants {
        let hint = format!("This endpoint spans all tenants; the API key is bound to tenant {tenant:?}.");
        return Err(ApiError::unknown_path().hint(hint));
    }
    match tenant_header::value(headers)? {
        Some((header, named)) if named != tenant => Err(ApiError::foreign_tenant(tenant, header)),
        _ => Ok(()),
    }
}
