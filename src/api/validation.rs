//! Validation errors of rules, pools, tenants and scheduling, all in one response, as for a configuration file.

use super::error::ApiError;
use crate::config;
use crate::rules::PolicyRefused;
use axum::http::StatusCode;
use serde_json::{Value, json};

/// The hint for an error that has none of its own.
const HINT: &str = "See docs/configuration.md for the options and their allowed values.";

/// Builds the error for a `what` that failed validation.
pub(super) fn validation_failed(what: &str, problems: &[config::Problem]) -> ApiError {
    let first = problems.first();
    let message = first.map_or_else(
        || format!("The {what} is not valid."),
        |problem| match problem.path.as_str() {
            "" => format!("The request body is not valid: {}.", problem.message),
            path => format!("`{path}`: {}.", problem.message),
        },
    );
    let all: Vec<Value> = problems
        .iter()
        .map(|problem| json!({"field": problem.path, "message": problem.message, "hint": problem.help}))
        .collect();
    ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "validation_error", message)
        .with("field", first.map_or("", |problem| problem.path.as_str()))
        .with_json("mistakes", &Value::from(all))
        .hint(first.and_then(|problem| problem.help.as_deref()).unwrap_or(HINT))
}

impl From<PolicyRefused> for ApiError {
    fn from(refusal: PolicyRefused) -> Self {
        match refusal {
            PolicyRefused::Conflicts(conflicts) => {
                let problems: Vec<_> = conflicts.into_iter().map(config::Problem::from).collect();
                validation_failed("pool", &problems)
            }
            PolicyRefused::Exists(name) => {
                let message = format!("`name` is taken: pool {name:?} already exists.");
                let error = ApiError::new(StatusCode::CONFLICT, "duplicate", message).with("field", "name");
                error.with("pool", &name).hint(format!("Send PUT /ojs/v1/admin/pools/{name} to change it."))
            }
            PolicyRefused::Mistakes(problems) => validation_failed("scheduling", &problems),
            PolicyRefused::Store(error) => error.into(),
        }
    }
}
