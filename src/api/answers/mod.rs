//! The JSON bodies of responses as structs, one file per resource. Handlers serialize them, and the OpenAPI document has the
//! schemas that are derived from them. So a member is written once, and its doc comment is its description in the document.
//!
//! - A member of type `Option` is `null` if there is no value; with `skip_serializing_if`, it is left out instead.
//! - A struct is a component of the document under its own name, unless it is marked `inline`.
//! - `types` has the values that many responses share.
//!
//! Not here: jobs, workflows and events, which are stored text and never a Rust value, and the answers of hot routes.

pub(super) mod autoscale;
pub(super) mod bulk;
pub(super) mod crons;
pub(super) mod dead_letter;
pub(super) mod events;
pub(super) mod explain;
pub(super) mod health_report;
pub(super) mod history;
pub(super) mod keys;
pub(super) mod lists;
pub(super) mod noise;
pub(super) mod planner;
pub(super) mod pools;
pub(super) mod progress;
pub(super) mod queues;
pub(super) mod rate_limits;
pub(super) mod sidekiq;
pub(super) mod stats;
pub(super) mod system;
pub(super) mod tenants;
pub(super) mod types;
pub(super) mod waiting_for;
pub(super) mod webhooks;
pub(super) mod workers;
