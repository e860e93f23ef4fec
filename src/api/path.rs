//! The one variable part of a path: an id or a name.

use super::problem::Problem;
use super::visit::Visit;
use crate::job::escape::decode;
use crate::job::invalid::Invalid;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;

/// The id or name in a path, decoded.
pub(super) struct Name(pub(super) String);

impl FromRequestParts<Visit> for Name {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, visit: &Visit) -> Result<Self, Problem> {
        let (route, path) = (visit.ticket.route, parts.uri.path());
        String::from_utf8(decode(variable_part(route, path))).map(Name).map_err(|_| {
            let field = ["name", "key"].into_iter().find(|name| route.contains(&format!("{{{name}}}"))).unwrap_or("id");
            Invalid::field(field, "percent-encoded UTF-8", path).into()
        })
    }
}

/// What stands in a path where its route has braces; nothing where the two do not fit.
fn variable_part<'p>(route: &str, path: &'p str) -> &'p str {
    let part = route
        .split_once('{')
        .zip(route.rsplit_once('}'))
        .and_then(|((before, _), (_, behind))| path.strip_prefix(before)?.strip_suffix(behind));
    part.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_variable_part() {
        assert_eq!(variable_part("/jobs/{id}", "/jobs/a%20b"), "a%20b");
        assert_eq!(variable_part("/jobs/{id}/ack", "/jobs/ack/ack"), "ack");
        assert_eq!(variable_part("/jobs", "/jobs"), "");
    }
}
