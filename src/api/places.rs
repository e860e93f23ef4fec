//! Where a path leads: the table of routes, by path and method.

use super::problem::Problem;
use super::routes::{Access, Route};
use super::visit::Visit;
use axum::extract::Request;
use axum::http::header::ALLOW;
use axum::http::{HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use std::pin::Pin;

/// An answer in the making.
pub(super) type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// What answers a request.
pub(super) type Handle = Box<dyn Fn(Request, Visit) -> Answering + Send + Sync>;

/// All places. Looked up by ourselves, because a general router wraps every handler into layers that cost each request more than
/// the look-up.
pub(super) struct Places {
    by_path: matchit::Router<Place>,
}

/// A path, which may hold one variable part, and what can be done there.
pub(super) struct Place {
    pub(super) path: &'static str,
    doors: Vec<Door>,
}

/// A method at a place.
pub(super) struct Door {
    method: Method,
    pub(super) access: Access,
    pub(super) handle: Handle,
}

impl Places {
    pub(super) fn of(table: Vec<Route>) -> Self {
        let mut places: Vec<Place> = Vec::new();
        for Route { method, path, access, handle, .. } in table {
            let door = Door { method, access, handle };
            match places.iter_mut().find(|place| place.path == path) {
                Some(place) => place.doors.push(door),
                None => places.push(Place { path, doors: vec![door] }),
            }
        }
        let mut by_path = matchit::Router::new();
        for place in places {
            let path = place.path;
            if let Err(error) = by_path.insert(path, place) {
                unreachable!("{path} stands in the table beside one that is like it: {error}");
            }
        }
        Places { by_path }
    }

    pub(super) fn find(&self, path: &str) -> Option<&Place> {
        self.by_path.at(path).ok().map(|found| found.value)
    }
}

impl Place {
    /// The way in for a method. Whoever may GET may ask for the head of it.
    pub(super) fn door(&self, method: &Method) -> Option<&Door> {
        let wanted = if method == Method::HEAD { &Method::GET } else { method };
        self.doors.iter().find(|door| door.method == wanted)
    }

    /// Tells which methods there are, for want of the one that was asked for.
    pub(super) fn other_methods(&self) -> Response {
        let names: Vec<&str> = self
            .doors
            .iter()
            .map(|door| if door.method == Method::GET { "GET,HEAD" } else { door.method.as_str() })
            .collect();
        let mut response = Problem::method_not_allowed().into_response();
        // Methods hold nothing that a header may not.
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
    fn what_the_table_does_not_name_is_not_found() {
        let places = Places::of(routes::table());
        let access = |path, method| places.find(path).map(|place| place.door(&method).map(|door| door.access));
        assert!(matches!(access("/ready", Method::GET), Some(Some(Access::Public))));
        assert!(matches!(access("/ojs/v1/queues", Method::HEAD), Some(Some(Access::Scoped(_)))));
        assert!(matches!(access("/ojs/v1/queues", Method::PATCH), Some(None)));
        assert!(access("/ojs/v1/new", Method::GET).is_none());
        assert!(access("/ojs/v1/queues/", Method::GET).is_none(), "the frame takes the slash away");
    }

    #[test]
    fn a_path_that_is_written_out_goes_before_one_with_a_variable_part() {
        let places = Places::of(routes::table());
        let path = |path| places.find(path).map(|place| place.path);
        assert_eq!(path("/ojs/v1/dead-letter/stats"), Some("/ojs/v1/dead-letter/stats"));
        assert_eq!(path("/ojs/v1/dead-letter/stats/retry"), Some("/ojs/v1/dead-letter/{id}/retry"));
        assert_eq!(path("/ojs/v1/jobs/a%2Fb"), Some("/ojs/v1/jobs/{id}"));
        assert_eq!(path("/ojs/v1/jobs/a/b"), None);
    }

    #[test]
    fn a_wrong_method_is_told_the_right_ones() {
        let places = Places::of(routes::table());
        let response = places.find("/ojs/v1/jobs/x").expect("a place").other_methods();
        assert_eq!(response.headers()[ALLOW], "GET,HEAD,DELETE");
    }
}
