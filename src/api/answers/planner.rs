//! Answers about plan rules.

use schemars::JsonSchema;
use serde::Serialize;

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct RulesVersion {
    /// Identifies the rules as a whole; it changes with each of them.
    pub version: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct RuleRemoved<'a> {
    pub rule: &'a str,
    pub removed: bool,
    /// The source of the rule of that name that applies now.
    pub holds: Option<&'static str>,
    /// Staged jobs of the removed rule, which are still promoted.
    pub draining_jobs: u64,
}
