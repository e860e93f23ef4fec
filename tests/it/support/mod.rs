//! Shared test support: Redis servers, fairgate in process or as its own process, and clients.

mod app;
mod chaos_proxy;
pub mod chromium;
mod client;
mod cluster;
pub mod contract;
mod load;
mod monitor;
mod process;
mod random;
mod redis;
pub mod server;
mod terminal;
pub mod wire;
mod workers;

pub use app::{NOON, TestApp};
pub use chaos_proxy::{ChaosProxy, Fault};
pub use client::{Answer, Client, json};
pub use cluster::Cluster;
pub use load::Load;
pub use monitor::Monitor;
pub use process::{Process, free_address};
pub use random::Random;
pub use redis::{ServerVersion, TestRedis};
pub use terminal::Terminal;
pub use workers::{Flood, Workers};

use std::time::{Duration, Instant};

/// The time limit for conditions that must become true.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until a condition holds; fails the test with the given description if it never does.
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "this did not happen within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
