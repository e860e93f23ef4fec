//! Answers about events.

use schemars::JsonSchema;
use serde::Serialize;

/// Members of a list of events beside its items.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct EventsPage<'a> {
    /// The `after` of the next request.
    pub cursor: &'a str,
    pub has_more: bool,
}
