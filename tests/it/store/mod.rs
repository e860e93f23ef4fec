//! The store and its Redis: addresses, topologies, failures and repeated calls.

mod addresses;
mod clock_steps;
mod failover;
mod group_commit;
mod lost_replies;
mod outage;
mod private_redis;
mod repeated_calls;
mod replicas;
mod resharding;
mod server_versions;
mod stored_data;
