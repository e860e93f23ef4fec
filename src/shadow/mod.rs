//! Rules in shadow: each watches a queue of a Sidekiq without changing it, and reports the waits to
//! expect under the rule.

mod report;
mod scheduler;
mod watcher;
mod weights;

pub use scheduler::ShadowScheduler;
