//! Integration tests: one binary, a module for each behaviour. Each test starts its own Redis in a temporary directory.

mod support;

mod addresses;
mod architecture;
mod at_most_once;
mod audit;
mod bad_input;
mod cli;
mod conformance;
mod dispatch;
mod envelope;
mod event_stream;
mod fair;
mod group_commit;
mod http;
mod lifecycle;
mod limits;
mod long_poll;
mod neighbors;
mod outage;
mod planner;
mod planner_api;
mod pools_api;
mod private_redis;
mod rate_limits_api;
mod resend;
mod retention;
mod scheduling_api;
mod staging;
mod tenant_filter;
mod weights;
