//! The HTTP API: requests, responses, errors and the documents that describe them.

mod admin;
mod autoscale;
mod bad_input;
mod browsers;
mod client_shapes;
mod dashboard;
mod event_stream;
mod health_report;
mod http;
mod idle_connections;
mod openapi;
mod planner;
mod pools;
mod portable_json;
mod progress;
mod queues;
mod rate_limits;
mod scanned_lists;
mod scheduling;
mod waiting_for;
