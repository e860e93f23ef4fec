//! Redis commands caused by idle long polls.

use crate::client::{Connection, request};
use crate::commands::Commands;
use crate::resp::Resp;
use crate::scenario::{expect_success, find};
use crate::servers::Servers;
use anyhow::{Context, ensure};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Concurrent long polls.
pub const POLLS: usize = 1000;
/// Retention runs per measurement period. Retention runs once a second, and the number of ticks between two runs is
/// constant.
const RETENTIONS: u64 = 5;
/// The interval at which a condition is checked.
const LOOK: Duration = Duration::from_millis(2);
const PATIENCE: Duration = Duration::from_secs(15);

/// Redis commands per second.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    pub without: f64,
    pub with: f64,
}

impl Idle {
    /// Measures an idle server without and with many long polls.
    pub async fn measure() -> anyhow::Result<Idle> {
        let servers = Servers::start(false, "").await?;
        let mut redis = servers.redis()?;
        // Startup work is done and every script is loaded.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let before = rate(&mut redis).await?;
        let mut polls = JoinSet::new();
        for poll in 0..POLLS {
            let body = format!(r#"{{"queues":["empty"],"worker_id":"idle-{poll}","wait_ms":30000}}"#);
            let mut connection = Connection::open(servers.address).await.context("cannot connect to the server")?;
            polls.spawn(async move { connection.exchange(&request("/ojs/v1/workers/fetch", &body)).await });
        }
        until_waiting(&servers, POLLS).await?;
        let with = rate(&mut redis).await?;
        if let Some(ended) = polls.try_join_next() {
            anyhow::bail!("a long poll returned early: {ended:?}");
        }
        drop(polls);
        until_waiting(&servers, 0).await?;
        // Measured before and after, so that changing load on the machine affects both sides.
        let after = rate(&mut redis).await?;
        Ok(Idle { without: (before + after) / 2.0, with })
    }

    /// The commands that the polls add, relative to the idle server.
    pub fn share(&self) -> f64 {
        (self.with - self.without) / self.without.max(1e-9)
    }
}

/// Redis commands per second between two retention runs. A retention run is recognised by its EXISTS on
/// the schema key.
async fn rate(redis: &mut Resp) -> anyhow::Result<f64> {
    let (started, first) = edge(redis, 1).await?;
    let (ended, last) = edge(redis, RETENTIONS).await?;
    Ok((last.total() - first.total()) as f64 / (ended - started).as_secs_f64())
}

/// Waits for a number of retention runs.
async fn edge(redis: &mut Resp, times: u64) -> anyhow::Result<(Instant, Commands)> {
    let started = Instant::now();
    let marks = Commands::read(redis)?.of("exists") + times;
    loop {
        let now = Commands::read(redis)?;
        if now.of("exists") >= marks {
            return Ok((Instant::now(), now));
        }
        ensure!(started.elapsed() < PATIENCE, "the server's retention does not run");
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until `wanted` fetches are long polling.
async fn until_waiting(servers: &Servers, wanted: usize) -> anyhow::Result<()> {
    let mut connection = Connection::open(servers.address).await?;
    let started = Instant::now();
    loop {
        expect_success(&mut connection, &request("/metrics", ""), "/metrics").await?;
        let waiting = waiting(connection.body()).context("/metrics reports no long polls")?;
        if waiting == wanted {
            return Ok(());
        }
        ensure!(started.elapsed() < PATIENCE, "{waiting} fetches are waiting, expected {wanted}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The number of long polls in the `/metrics` response.
fn waiting(metrics: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"\nfairgate_long_polls ";
    let rest = &metrics[find(metrics, NAME)? + NAME.len()..];
    std::str::from_utf8(rest.split(|byte| *byte == b'\n').next()?).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_gauge() {
        let text = b"# TYPE fairgate_long_polls gauge\nfairgate_long_polls 17\nother 3\n";
        assert_eq!(waiting(text), Some(17));
        assert_eq!(waiting(b"other 3\n"), None);
    }

    #[test]
    fn the_share_is_relative_to_the_idle_server() {
        assert!((Idle { without: 200.0, with: 203.0 }.share() - 0.015).abs() < 1e-9);
    }
}
