//! Integration tests: one binary, a module for each behaviour. Each test starts its own Redis in a temporary directory.

mod support;

mod at_most_once;
mod envelope;
mod group_commit;
mod lifecycle;
mod private_redis;
