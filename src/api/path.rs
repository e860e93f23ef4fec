//! The one variable part of a path: an id or a name.

use super::problem::Problem;
use crate::job::invalid::Invalid;
use axum::extract::{FromRequestParts, MatchedPath, Path};
use axum::http::request::Parts;

/// The id or name in a path, decoded.
pub(super) struct Name(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let name = Path::<String>::from_request_parts(parts, state).await;
        name.map(|Path(name)| Name(name)).map_err(|_| {
            let route = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
            let field = ["name", "key"].into_iter().find(|name| route.contains(&format!("{{{name}}}"))).unwrap_or("id");
            Invalid::field(field, "percent-encoded UTF-8", parts.uri.path()).into()
        })
    }
}
