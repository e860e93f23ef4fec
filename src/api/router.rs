//! The router: finds the handler of a request by its path and method.

use super::context::HandlerState;
use super::error::ApiError;
use super::routes::{Access, Route};
use axum::extract::Request;
use axum::http::header::ALLOW;
use axum::http::{HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use std::pin::Pin;

/// A response that a handler is computing.
pub(super) type ResponseFuture = Pin<Box<dyn Future<Output = Response> + Send>>;

/// A handler of any signature, behind one type.
pub(super) type BoxedHandler = Box<dyn Fn(Request, HandlerState) -> ResponseFuture + Send + Sync>;

/// All routes by path.
///
/// The router is ours because a general one wraps each handler into layers, which cost a request more than the look-up.
pub(super) struct Router {
    by_path: matchit::Router<MethodRouter>,
}

/// The routes of one path, by method. The path may contain one parameter.
pub(super) struct MethodRouter {
    pub(super) path: &'static str,
    routes: Vec<MethodRoute>,
}

/// The handler of one method of a path.
pub(super) struct MethodRoute {
    method: Method,
    pub(super) access: Access,
    pub(super) handler: BoxedHandler,
}

impl Router {
    pub(super) fn new(table: Vec<Route>) -> Self {
        let mut paths: Vec<MethodRouter> = Vec::new();
        for Route { method, path, access, handler, .. } in table {
            let route = MethodRoute { method, access, handler };
            match paths.iter_mut().find(|known| known.path == path) {
                Some(known) => known.routes.push(route),
                None => paths.push(MethodRouter { path, routes: vec![route] }),
            }
        }
        let mut by_path = matchit::Router::new();
        for methods in paths {
            let path = methods.path;
            if let Err(error) = by_path.insert(path, methods) {
                unreachable!("route {path} conflicts with another route of the table: {error}");
            }
        }
        Router { by_path }
    }

    /// The routes of a path.
    pub(super) fn at(&self, path: &str) -> Option<&MethodRouter> {
        self.by_path.at(path).ok().map(|found| found.value)
    }
}

impl MethodRouter {
    /// The route of a method. The route of GET serves HEAD as well.
    pub(super) fn for_method(&self, method: &Method) -> Option<&MethodRoute> {
        let wanted = if method == Method::HEAD { &Method::GET } else { method };
        self.routes.iter().find(|route| route.method == wanted)
    }

    /// Builds the error for a method that the path does not have, with the methods that it has in `Allow`.
    pub(super) fn method_not_allowed(&self) -> Response {
        let names: Vec<&str> = self
            .routes
            .iter()
            .map(|route| if route.method == Method::GET { "GET,HEAD" } else { route.method.as_str() })
            .collect();
        let mut response = ApiError::method_not_allowed().into_response();
        // Method names are valid in a header.
        if let Ok(allow) = HeaderValue::try_from(names.join(",")) {
            response.headers_mut().insert(ALLOW, allow);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::super::routes;
    use super::*;

    #[test]
    fn only_routes_of_the_table_are_found() {
        let router = Router::new(routes::table());
        let access =
            |path, method| router.at(path).map(|methods| methods.for_method(&method).map(|route| route.access));
        assert!(matches!(access("/ready", Method::GET), Some(Some(Access::Public))));
        assert!(matches!(access("/ojs/v1/queues", Method::HEAD), Some(Some(Access::Scoped(_)))));
        assert!(matches!(access("/ojs/v1/queues", Method::PATCH), Some(None)));
        assert!(access("/ojs/v1/new", Method::GET).is_none());
        assert!(access("/ojs/v1/queues/", Method::GET).is_none(), "the middleware removes the trailing slash");
    }

    #[test]
    fn a_literal_path_takes_precedence_over_one_with_a_parameter() {
        let router = Router::new(routes::table());
        let path = |path| router.at(path).map(|methods| methods.path);
        assert_eq!(path("/ojs/v1/dead-letter/stats"), Some("/ojs/v1/dead-letter/stats"));
        assert_eq!(path("/ojs/v1/dead-letter/stats/retry"), Some("/ojs/v1/dead-letter/{id}/retry"));
        assert_eq!(path("/ojs/v1/jobs/a%2Fb"), Some("/ojs/v1/jobs/{id}"));
        assert_eq!(path("/ojs/v1/jobs/a/b"), None);
    }

    #[test]
    fn an_unsupported_method_lists_the_supported_ones() {
        let router = Router::new(routes::table());
        let response = router.at("/ojs/v1/jobs/x").expect("a path of the table").method_not_allowed();
        assert_eq!(response.headers()[ALLOW], "GET,HEAD,DELETE");
    }
}
