//! The entry points, and the steps that lead up to each of them.

use super::{TestApp, Value, eventually, fill, json};
use crate::support::Answer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryPoint {
    Push,
    WorkflowChild,
    Cron,
    Retry,
    DeadLetterReplay,
    BulkRetry,
    DueSchedule,
    Reschedule,
    UniqueReplace,
}

pub const ENTRY_POINTS: [EntryPoint; 9] = [
    EntryPoint::Push,
    EntryPoint::WorkflowChild,
    EntryPoint::Cron,
    EntryPoint::Retry,
    EntryPoint::DeadLetterReplay,
    EntryPoint::BulkRetry,
    EntryPoint::DueSchedule,
    EntryPoint::Reschedule,
    EntryPoint::UniqueReplace,
];

/// A job one step away from its queue.
pub struct Prepared {
    entry: EntryPoint,
    job: Value,
    /// The id of the job, or of the job before it in a workflow; empty if neither exists yet.
    id: String,
}

impl EntryPoint {
    /// Takes a job through the entry point and returns its id.
    pub async fn enqueue(self, app: &TestApp, job: Value) -> String {
        self.prepare(app, job).await.enter(app).await.unwrap_or_else(|answer| panic!("{self:?}: {}", answer.text))
    }

    /// Does everything but the last step.
    pub async fn prepare(self, app: &TestApp, mut job: Value) -> Prepared {
        let client = &app.client;
        let id = match self {
            EntryPoint::Push => String::new(),
            EntryPoint::Cron => {
                let cron = json!({"name": "c", "expression": "@yearly", "job_template": job});
                client.post("/v1/cron", cron).await.expect(201);
                String::new()
            }
            EntryPoint::WorkflowChild => {
                let first = json!({"type": "other.job", "args": [], "options": {"queue": "first"}});
                let chain = json!({"type": "chain", "steps": [first, job], "meta": {"tenant_id": "t"}});
                client.post("/v1/workflows", chain).await.expect(201);
                client.fetch("first", 1).await.job_ids().remove(0)
            }
            EntryPoint::DueSchedule => {
                job["options"]["scheduled_at"] = "+PT1S".into();
                client.enqueue(job.clone()).await
            }
            EntryPoint::UniqueReplace => {
                job["options"]["unique"] = json!({"on_conflict": "replace"});
                client.enqueue(job.clone()).await
            }
            EntryPoint::Retry | EntryPoint::DeadLetterReplay | EntryPoint::BulkRetry => {
                let (attempts, end) = if self == EntryPoint::Retry { (2, "discard") } else { (1, "dead_letter") };
                job["options"]["retry"] = json!({"max_attempts": attempts, "on_exhaustion": end, "initial_interval": "PT1S", "jitter": false});
                let id = available(app, &job).await;
                let taken = client.fetch("q", 9).await.job_ids();
                assert!(taken.contains(&id), "{self:?}");
                client.nack(&id).await.expect(200);
                if taken.len() > 1 {
                    fill(client).await;
                }
                id
            }
            EntryPoint::Reschedule => {
                let limit = &mut job["options"]["rate_limit"];
                if limit.is_null() {
                    *limit = json!({"key": "put-off", "concurrency": 1});
                }
                limit["on_limit"] = "reschedule".into();
                let other = json!({"type": "free.job", "args": [], "options": {"queue": "q", "priority": 100, "rate_limit": limit}});
                let (other, id) = (client.enqueue(other).await, available(app, &job).await);
                let taken = client.fetch("q", 9).await.job_ids();
                assert!(taken.contains(&other) && client.state(&id).await == "scheduled", "{taken:?}");
                client.ack(&other).await.expect(200);
                if taken.len() > 1 {
                    fill(client).await;
                }
                id
            }
        };
        Prepared { entry: self, job, id }
    }
}

impl Prepared {
    /// Does the last step; returns the job's id, or the response that refused it.
    pub async fn enter(self, app: &TestApp) -> Result<String, Answer> {
        let client = &app.client;
        let Prepared { entry, job, id } = self;
        match entry {
            EntryPoint::Push | EntryPoint::UniqueReplace => {
                let answer = accepted(client.post("/v1/jobs", job).await)?;
                if entry == EntryPoint::UniqueReplace {
                    assert_eq!(client.state(&id).await, "cancelled");
                }
                Ok(answer.text_at("/job/id").to_owned())
            }
            EntryPoint::Cron => {
                Ok(accepted(client.post("/v1/cron/c/run", json!({})).await)?.text_at("/job/id").to_owned())
            }
            EntryPoint::WorkflowChild => {
                let workflow = client.job(&id).await["workflow_id"].as_str().unwrap().to_owned();
                client.ack(&id).await.expect(200);
                let shown = client.get(&format!("/v1/workflows/{workflow}")).await.expect(200);
                Ok(shown.text_at("/workflow/steps/1/job_id").to_owned())
            }
            EntryPoint::DueSchedule | EntryPoint::Retry | EntryPoint::Reschedule => {
                let before = client.state(&id).await;
                app.clock.advance(if entry == EntryPoint::Reschedule { 600_000 } else { 1000 });
                eventually("it is due", async || client.state(&id).await != before).await;
                Ok(id)
            }
            EntryPoint::DeadLetterReplay => {
                accepted(client.post(&format!("/v1/dead-letter/{id}/retry"), json!({})).await).map(|_| id)
            }
            EntryPoint::BulkRetry => {
                let all = json!({"filter": {"state": "discarded"}, "confirm": true});
                let answer = accepted(client.post("/v1/admin/jobs/bulk/retry", all).await)?;
                if answer.at("/succeeded") == 1 { Ok(id) } else { Err(answer) }
            }
        }
    }
}

fn accepted(answer: Answer) -> Result<Answer, Answer> {
    if answer.status < 300 { Ok(answer) } else { Err(answer) }
}

/// Enqueues a job and makes it available. A planned job takes two activations: the first stages it.
async fn available(app: &TestApp, job: &Value) -> String {
    let mut job = job.clone();
    job["options"]["pending"] = true.into();
    let id = app.client.enqueue(job).await;
    let activate = format!("/v1/jobs/{id}/activate");
    app.client.post(&activate, json!({})).await.expect(200);
    if app.client.state(&id).await == "pending" {
        app.client.post(&activate, json!({})).await.expect(200);
    }
    id
}
