//! Who is let in: the key that a request presents, and whether its role opens the route.
//!
//! Decided before anything of the request is read, its body least of all. What the table of routes does not name is refused.

use super::problem::Problem;
use super::routes::{Access, Route};
use super::{Api, Root};
use crate::auth::Role;
use crate::keyring::{Caller, Gate};
use axum::extract::{FromRequestParts, MatchedPath, Request};
use axum::http::header::{ALLOW, AUTHORIZATION};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use std::collections::HashMap;
use std::convert::Infallible;

static API_KEY: HeaderName = HeaderName::from_static("x-api-key");
static TENANT: HeaderName = HeaderName::from_static("x-ojs-tenant");

/// Who may use which route, by path and method.
pub(super) struct Accesses(HashMap<&'static str, Vec<(Method, Access)>>);

impl Accesses {
    pub(super) fn of(routes: &[Route]) -> Self {
        let mut accesses = HashMap::<_, Vec<_>>::new();
        for route in routes {
            accesses.entry(route.path).or_default().push((route.method.clone(), route.access));
        }
        Accesses(accesses)
    }

    fn find(&self, path: &str, method: &Method) -> Found<'_> {
        let Some(methods) = self.0.get(path) else { return Found::NoPath };
        // Whoever may GET may ask for the head of it.
        let wanted = if method == Method::HEAD { &Method::GET } else { method };
        match methods.iter().find(|(known, _)| known == wanted) {
            Some((_, access)) => Found::Access(*access),
            None => Found::OtherMethods(methods),
        }
    }
}

enum Found<'a> {
    Access(Access),
    OtherMethods(&'a [(Method, Access)]),
    NoPath,
}

/// Who may ask another server for what the table of routes does not name.
const UNNAMED: Access = Access::Whole(&[Role::Admin]);

/// Lets a request in, with who sent it, or answers it. One that passes through to another server may be for a path that we do not have.
pub(super) async fn admit(
    api: &Api,
    request: &mut Request,
    path: Option<&MatchedPath>,
    passes: bool,
) -> Result<(), Response> {
    let keys = &api.inner.keys;
    if keys.gate() == Gate::Open {
        return Ok(());
    }
    let found = path.map(|path| api.inner.accesses.find(path.as_str(), request.method()));
    if matches!(found, Some(Found::Access(Access::Public))) {
        return Ok(());
    }
    let gate = keys.known_gate().await.map_err(|error| Problem::from(error).into_response())?;
    if gate == Gate::Open {
        return Ok(());
    }
    let caller = authenticate(api, request.headers()).map_err(IntoResponse::into_response)?;
    let found = match found {
        None | Some(Found::NoPath | Found::OtherMethods(_)) if passes => Some(Found::Access(UNNAMED)),
        found => found,
    };
    match found {
        // The router has nothing there, and says so.
        None => return Ok(()),
        Some(Found::NoPath) => return Err(Problem::unknown_path().into_response()),
        Some(Found::OtherMethods(methods)) => return Err(other_methods(methods)),
        Some(Found::Access(access)) => {
            authorise(&caller, access, request.headers()).map_err(|problem| {
                let (key, name) = (caller.key.id(), &caller.key.name);
                let route = path.map_or("", MatchedPath::as_str);
                tracing::info!(key, name, method = %request.method(), route, status = problem.status.as_u16(), "refused");
                problem.into_response()
            })?;
        }
    }
    request.extensions_mut().insert(caller);
    Ok(())
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
        Access::Whole(roles) => (roles, true),
    };
    if !roles.contains(&caller.key.role) {
        return Err(Problem::forbidden_role(caller.key.role, roles));
    }
    let Some(tenant) = caller.scope.tenant() else { return Ok(()) };
    if is_whole {
        return Err(Problem::unknown_path().hint("The key is bound to a tenant, and this is about all of them."));
    }
    match headers.get(&TENANT) {
        Some(named) if named.as_bytes() != tenant.as_bytes() => Err(Problem::foreign_tenant(tenant, "X-OJS-Tenant")),
        _ => Ok(()),
    }
}

fn other_methods(methods: &[(Method, Access)]) -> Response {
    let names: Vec<&str> = methods.iter().map(|(method, _)| method.as_str()).collect();
    let mut response = Problem::method_not_allowed().into_response();
    if let Ok(allow) = HeaderValue::try_from(names.join(",")) {
        response.headers_mut().insert(ALLOW, allow);
    }
    response
}

/// Handlers get the API as far as their caller's key reaches, and nothing else: its store shows them no more than that.
impl FromRequestParts<Root> for Api {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, root: &Root) -> Result<Api, Infallible> {
        let api = root.0.clone();
        Ok(match parts.extensions.get::<Caller>() {
            Some(caller) => api.of_caller(caller),
            None => api,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::routes;
    use super::*;

    #[test]
    fn what_the_table_does_not_name_is_not_found() {
        let accesses = Accesses::of(&routes::table());
        let found = |path, method| accesses.find(path, &method);
        assert!(matches!(found("/ready", Method::GET), Found::Access(Access::Public)));
        assert!(matches!(found("/ojs/v1/queues", Method::HEAD), Found::Access(Access::Scoped(_))));
        assert!(matches!(found("/ojs/v1/queues", Method::PATCH), Found::OtherMethods(_)));
        assert!(matches!(found("/ojs/v1/new", Method::GET), Found::NoPath));
    }
}
