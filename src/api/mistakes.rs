//! What is wrong with rules, pools and scheduling: all of it at once, as a configuration file is answered.

use super::problem::Problem;
use crate::config;
use crate::planner::PolicyRefused;
use axum::http::StatusCode;
use serde_json::{Value, json};

/// Where to look where a mistake says no more than that it is one.
const HINT: &str = "docs/configuration.md has every option with its meaning and its bounds.";

/// The answer to a request about a `what` that is full of mistakes.
pub(super) fn refused(what: &str, problems: &[config::Problem]) -> Problem {
    let first = problems.first();
    let message = first.map_or_else(
        || format!("The {what} is refused."),
        |problem| match problem.path.as_str() {
            "" => format!("The request body is refused: {}.", problem.message),
            path => format!("`{path}`: {}.", problem.message),
        },
    );
    let all: Vec<Value> = problems
        .iter()
        .map(|problem| json!({"field": problem.path, "message": problem.message, "hint": problem.help}))
        .collect();
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "validation_error", message)
        .with("field", first.map_or("", |problem| problem.path.as_str()))
        .with_json("mistakes", &Value::from(all))
        .hint(first.and_then(|problem| problem.help.as_deref()).unwrap_or(HINT))
}

impl From<PolicyRefused> for Problem {
    fn from(refusal: PolicyRefused) -> Self {
        match refusal {
            PolicyRefused::Conflicts(conflicts) => {
                let problems: Vec<_> = conflicts.into_iter().map(config::Problem::from).collect();
                refused("pool", &problems)
            }
            PolicyRefused::Exists(name) => {
                let message = format!("`name`: there is a pool {name:?} already.");
                let problem = Problem::new(StatusCode::CONFLICT, "duplicate", message).with("field", "name");
                problem.with("pool", &name).hint(format!("PUT /ojs/v1/admin/pools/{name} changes it."))
            }
            PolicyRefused::Mistakes(problems) => refused("scheduling", &problems),
            PolicyRefused::Store(error) => error.into(),
        }
    }
}
