//! Answers about plan rules.

use schemars::JsonSchema;
use serde::Serialize;

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct RulesVersion {
    /// Identifies the rules as a whole; it changes with each of them.
    pub version: String,
}
