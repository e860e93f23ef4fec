//! Integration tests: one binary, a module for each behaviour. Each test starts its own Redis in a temporary directory.

mod support;

mod addresses;
mod architecture;
mod at_most_once;
mod bad_input;
mod cli;
mod envelope;
mod fair;
mod group_commit;
mod http;
mod lifecycle;
mod limits;
mod long_poll;
mod outage;
mod planner;
mod planner_api;
mod private_redis;
mod resend;
mod retention;
mod staging;
mod weights;
