//! Responses that are lists. Each has its items under `items`; some repeat them under an older name.

use super::answers::lists::Paged;
use super::pagination::Page;
use super::response;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

/// A list response under construction: JSON members without the closing brace.
pub(super) struct ListResponse {
    body: String,
}

impl ListResponse {
    /// Starts a list with `items`, a JSON array, repeated under each of `names`.
    pub(super) fn new(items: &str, names: &[&str]) -> Self {
        let mut body = String::with_capacity((names.len() + 1) * items.len() + 256);
        body.extend(["{\"items\":", items]);
        names.iter().for_each(|name| body.extend([",\"", name, "\":", items]));
        ListResponse { body }
    }

    /// Like [`ListResponse::new`], from values.
    pub(super) fn from_values(items: &[impl Serialize], names: &[&str]) -> Self {
        Self::new(&response::to_value(&items).to_string(), names)
    }

    /// Adds the members of an answer.
    pub(super) fn with(mut self, more: &impl Serialize) -> Self {
        let object = response::in_order(more);
        let members = object.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        self.body.extend([",", members.unwrap_or_default()]);
        self
    }

    /// Builds the response with this page of `total` items.
    pub(super) fn paged(self, page: Page, total: usize) -> Response {
        self.with(&Paged { pagination: page.describe(total) }).into_response()
    }

    /// Builds the response.
    pub(super) fn into_response(mut self) -> Response {
        self.body.push('}');
        response::raw_json(StatusCode::OK, self.body)
    }
}
