//! Workers that run jobs by waiting for a moment.

use super::scenario::{FAILS_ONE_IN, NOISY, RULE, RUN_MS, TYPE, WORKERS};
use super::waits::{Group, Waits};
use crate::domain::time::parse_rfc3339;
use crate::remote::{Error, Remote};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Time for which a fetch waits for a job.
const WAIT_MS: u64 = 5000;
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);

/// Starts all workers.
pub(super) fn start(client: &Remote, waits: &Arc<Waits>, tasks: &TaskTracker, stop: &CancellationToken) {
    for number in 1..=WORKERS {
        // Two workers prefer other jobs, so that these do not wait for the end of a flood.
        let queues = if number <= 2 { ["default", RULE] } else { [RULE, "default"] };
        let name = format!("demo-{number}");
        let worker = DemoWorker { client: client.clone(), waits: Arc::clone(waits), name, queues };
        let stop = stop.clone();
        tasks.spawn(async move { stop.run_until_cancelled(worker.run()).await });
    }
}

struct DemoWorker {
    client: Remote,
    waits: Arc<Waits>,
    name: String,
    /// In the order in which it looks for jobs.
    queues: [&'static str; 2],
}

impl DemoWorker {
    async fn run(&self) {
        loop {
            if let Err(error) = self.work().await {
                tracing::warn!(%error, worker = self.name, "a worker of the demo failed");
                tokio::time::sleep(PAUSE_AFTER_ERROR).await;
            }
        }
    }

    /// Sends a heartbeat, fetches a job and runs it. Heartbeats make the worker visible, and bring
    /// the directives `quiet` and `terminate`.
    async fn work(&self) -> Result<(), Error> {
        let beat = self.client.api_post("/ojs/v1/workers/heartbeat", &json!({"worker_id": self.name})).await?;
        if ["quiet", "terminate"].contains(&beat["state"].as_str().unwrap_or_default()) {
            tokio::time::sleep(PAUSE_AFTER_ERROR).await;
            return Ok(());
        }
        let fetch = json!({"queues": self.queues, "worker_id": self.name, "wait_ms": WAIT_MS});
        let fetched = self.client.api_post("/ojs/v1/workers/fetch", &fetch).await?;
        match fetched.pointer("/jobs/0") {
            Some(job) => self.run_job(job).await,
            None => Ok(()),
        }
    }

    async fn run_job(&self, job: &Value) -> Result<(), Error> {
        if job["type"] == TYPE && job["attempt"] == 1 {
            let group = if job["meta"]["tenant_id"] == NOISY { Group::Noisy } else { Group::Quiet };
            self.waits.record(Instant::now(), group, waited_ms(job));
        }
        let (shortest, longest) = RUN_MS;
        tokio::time::sleep(Duration::from_millis(shortest + random() % (longest - shortest + 1))).await;
        if random().is_multiple_of(FAILS_ONE_IN) {
            let error = json!({"code": "timeout", "message": "the data source did not answer", "retryable": true});
            self.client.api_post("/ojs/v1/workers/nack", &json!({"job_id": job["id"], "error": error})).await?;
        } else {
            self.client.api_post("/ojs/v1/workers/ack", &json!({"job_id": job["id"]})).await?;
        }
        Ok(())
    }
}

/// Returns the time from the creation of a job to its start.
fn waited_ms(job: &Value) -> u64 {
    let at = |member: &str| job[member].as_str().and_then(parse_rfc3339).unwrap_or(0);
    u64::try_from(at("started_at") - at("created_at")).unwrap_or(0)
}

/// Returns a random number; 0 if the system has none.
fn random() -> u64 {
    getrandom::u64().unwrap_or(0)
}
