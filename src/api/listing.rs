//! Answers that are lists. Every one has its items under `items`; some have them again under an older name.

use super::answer;
use super::page::Page;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::Value;
use std::fmt::Display;

/// A list, before it is sent: JSON members without the closing brace.
pub(super) struct Listing {
    body: String,
}

impl Listing {
    /// A list of items, which are a JSON array, and the further names that this list has for them.
    pub(super) fn of(items: &str, names: &[&str]) -> Self {
        let mut body = String::with_capacity((names.len() + 1) * items.len() + 256);
        body.extend(["{\"items\":", items]);
        names.iter().for_each(|name| body.extend([",\"", name, "\":", items]));
        Listing { body }
    }

    /// The same of values.
    pub(super) fn of_values(items: Vec<Value>, names: &[&str]) -> Self {
        Self::of(&Value::Array(items).to_string(), names)
    }

    /// Adds a member, whose value prints as JSON.
    pub(super) fn with(mut self, name: &str, value: impl Display) -> Self {
        self.body.push_str(&format!(",\"{name}\":{value}"));
        self
    }

    /// The answer with this page of `total` items.
    pub(super) fn paged(self, page: Page, total: usize) -> Response {
        self.with("pagination", page.describe(total)).answer()
    }

    /// The answer.
    pub(super) fn answer(mut self) -> Response {
        self.body.push('}');
        answer::json(StatusCode::OK, self.body)
    }
}
