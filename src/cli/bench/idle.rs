//! What fetches that wait for nothing ask of Redis.

use super::client::{Connection, request};
use super::commands::Commands;
use super::resp::Resp;
use super::rig::Rig;
use super::scenario::{expect_success, find};
use anyhow::{Context, ensure};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Fetches that wait.
pub(super) const POLLS: usize = 1000;
/// Runs of retention, of which there is one a second, in a period: between two of them lie as many ticks each time.
const RETENTIONS: u64 = 5;
/// How often the server is asked whether something has happened.
const LOOK: Duration = Duration::from_millis(2);
const PATIENCE: Duration = Duration::from_secs(15);

/// Redis commands a second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Idle {
    pub(super) without: f64,
    pub(super) with: f64,
}

impl Idle {
    /// Measures a server that nobody talks to, and then the same with many fetches that wait.
    pub(super) async fn measure() -> anyhow::Result<Idle> {
        let rig = Rig::start(false, "").await?;
        let mut redis = rig.redis()?;
        // What a server does once at its start is over, and every script is loaded.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let before = rate(&mut redis).await?;
        let mut polls = JoinSet::new();
        for poll in 0..POLLS {
            let body = format!(r#"{{"queues":["empty"],"worker_id":"idle-{poll}","wait_ms":30000}}"#);
            let mut connection = Connection::open(rig.address).await.context("cannot connect to the server")?;
            polls.spawn(async move { connection.exchange(&request("/ojs/v1/workers/fetch", &body)).await });
        }
        until_waiting(&rig, POLLS).await?;
        let with = rate(&mut redis).await?;
        if let Some(ended) = polls.try_join_next() {
            anyhow::bail!("a fetch was to wait and got {ended:?}");
        }
        drop(polls);
        until_waiting(&rig, 0).await?;
        // Before and after, so that a machine that grows busier meanwhile shows on both sides.
        let after = rate(&mut redis).await?;
        Ok(Idle { without: (before + after) / 2.0, with })
    }

    /// What the polls add, as a share of what the server does anyway.
    pub(super) fn share(&self) -> f64 {
        (self.with - self.without) / self.without.max(1e-9)
    }
}

/// Redis commands a second, between two runs of retention. Those begin with a question after the schema's mark.
async fn rate(redis: &mut Resp) -> anyhow::Result<f64> {
    let (started, first) = edge(redis, 1).await?;
    let (ended, last) = edge(redis, RETENTIONS).await?;
    Ok((last.total() - first.total()) as f64 / (ended - started).as_secs_f64())
}

/// Waits until retention has run so often.
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

/// Waits until so many fetches wait.
async fn until_waiting(rig: &Rig, wanted: usize) -> anyhow::Result<()> {
    let mut connection = Connection::open(rig.address).await?;
    let started = Instant::now();
    loop {
        expect_success(&mut connection, &request("/metrics", ""), "/metrics").await?;
        let waiting = waiting(connection.body()).context("no long polls in /metrics")?;
        if waiting == wanted {
            return Ok(());
        }
        ensure!(started.elapsed() < PATIENCE, "{waiting} fetches wait instead of {wanted}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The number of long polls in what `/metrics` says.
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
    fn the_share_is_of_what_happens_anyway() {
        assert!((Idle { without: 200.0, with: 203.0 }.share() - 0.015).abs() < 1e-9);
    }
}
