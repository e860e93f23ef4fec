//! Integration tests: one binary, whose modules mirror `src`. Each test starts its own Redis in a temporary directory.

mod support;

mod api;
mod architecture;
mod auth;
mod background;
mod benches;
mod cli;
mod conformance;
mod crons;
mod dispatch;
mod enqueue;
mod explain;
mod fairness;
mod lifecycle;
mod limits;
mod long_poll;
mod ojs;
mod planner;
mod rules;
mod shadow;
mod sidekiq;
mod staging;
mod store;
mod telemetry;
mod tenants;
mod webhooks;
mod weights;
mod workflows;
