//! Tenants that enqueue jobs.

use super::scenario::{self, FLOOD_EVERY, FLOOD_JOBS, NOISY, QUIET, QUIET_EVERY, TYPE};
use crate::remote::{Error, Remote};
use serde_json::{Value, json};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Jobs in one request of a flood.
const BATCH: usize = 500;
const EMAIL_EVERY: Duration = Duration::from_millis(400);
const WORKFLOW_EVERY: Duration = Duration::from_secs(15);

/// Starts all producers, and registers the cron.
pub(super) async fn start(client: &Remote, tasks: &TaskTracker, stop: &CancellationToken) -> Result<(), Error> {
    client.api_post("/ojs/v1/cron", &scenario::cron()).await?;
    let (flooding, emails, workflows) = (client.clone(), client.clone(), client.clone());
    tasks.spawn(repeat(FLOOD_EVERY, stop.clone(), async move || flood(&flooding).await));
    for (number, tenant) in QUIET.into_iter().enumerate() {
        let client = client.clone();
        // Different intervals, so that the tenants do not act in step.
        let every = QUIET_EVERY + Duration::from_millis(37 * number as u64);
        let produce = async move || enqueue(&client, &report(tenant)).await;
        tasks.spawn(repeat(every, stop.clone(), produce));
    }
    let mut turn = QUIET.into_iter().cycle();
    let email = move |tenant: &str| json!({"type": "email.send", "args": [format!("ops@{tenant}.example")], "meta": {"tenant_id": tenant}});
    tasks.spawn(repeat(EMAIL_EVERY, stop.clone(), async move || {
        enqueue(&emails, &email(turn.next().unwrap_or(QUIET[0]))).await;
    }));
    tasks.spawn(repeat(WORKFLOW_EVERY, stop.clone(), async move || {
        report_error(workflows.api_post("/ojs/v1/workflows", &scenario::workflow()).await);
    }));
    Ok(())
}

/// Enqueues the jobs of one flood.
pub(super) async fn flood(client: &Remote) {
    for _ in 0..FLOOD_JOBS / BATCH {
        let jobs: Vec<Value> = (0..BATCH).map(|_| report(NOISY)).collect();
        report_error(client.api_post("/ojs/v1/jobs/batch", &json!({"jobs": jobs})).await);
    }
}

fn report(tenant: &str) -> Value {
    json!({"type": TYPE, "args": ["monthly"], "queue": scenario::RULE, "meta": {"tenant_id": tenant},
           "options": {"retry": {"max_attempts": 3, "initial_interval": "PT5S"}}})
}

async fn enqueue(client: &Remote, job: &Value) {
    report_error(client.api_post("/ojs/v1/jobs", job).await);
}

fn report_error(outcome: Result<Value, Error>) {
    if let Err(error) = outcome {
        tracing::warn!(%error, "a producer of the demo failed");
    }
}

/// Repeats an action, beginning now, until the demo stops.
async fn repeat(every: Duration, stop: CancellationToken, mut act: impl AsyncFnMut() + Send) {
    let mut timer = tokio::time::interval(every);
    while stop.run_until_cancelled(timer.tick()).await.is_some() {
        act().await;
    }
}
