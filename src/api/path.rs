//! The parameter of a path: an id or a name.

use super::context::HandlerState;
use super::error::ApiError;
use crate::domain::invalid::Invalid;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use percent_encoding::percent_decode_str;

/// The id or name in a path, percent-decoded.
pub(super) struct PathParam(pub(super) String);

impl FromRequestParts<HandlerState> for PathParam {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &HandlerState) -> Result<Self, ApiError> {
        let (route, path) = (state.context.route, parts.uri.path());
        let decoded = percent_decode_str(parameter_of(route, path)).decode_utf8();
        decoded.map(|text| PathParam(text.into_owned())).map_err(|_| {
            let field = ["name", "key"].into_iter().find(|name| route.contains(&format!("{{{name}}}"))).unwrap_or("id");
            Invalid::field(field, "percent-encoded UTF-8", path).into()
        })
    }
}

/// Returns the part of a path that the braces of its route stand for; empty if the path does not match.
fn parameter_of<'p>(route: &str, path: &'p str) -> &'p str {
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
    fn finds_the_parameter() {
        assert_eq!(parameter_of("/jobs/{id}", "/jobs/a%20b"), "a%20b");
        assert_eq!(parameter_of("/jobs/{id}/ack", "/jobs/ack/ack"), "ack");
        assert_eq!(parameter_of("/jobs", "/jobs"), "");
    }
}
