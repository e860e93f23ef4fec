//! The ways in which a job comes to where it would be available.

use super::{TestApp, Value, eventually, fill, json};
use crate::support::Answer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
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

pub const WAYS: [Way; 9] = [
    Way::Push,
    Way::WorkflowChild,
    Way::Cron,
    Way::Retry,
    Way::DeadLetterReplay,
    Way::BulkRetry,
    Way::DueSchedule,
    Way::Reschedule,
    Way::UniqueReplace,
];

/// A job that one step takes to where it would be available.
pub struct Ready {
    way: Way,
    job: Value,
    /// Its id, or that of what comes before it; empty if there is neither.
    id: String,
}

impl Way {
    /// Brings a job there.
    pub async fn arrive(self, app: &TestApp, job: Value) -> String {
        self.prepare(app, job).await.come(app).await.unwrap_or_else(|answer| panic!("{self:?}: {}", answer.text))
    }

    /// Everything but the last step.
    pub async fn prepare(self, app: &TestApp, mut job: Value) -> Ready {
        let client = &app.client;
        let id = match self {
            Way::Push => String::new(),
            Way::Cron => {
                let cron = json!({"name": "c", "expression": "@yearly", "job_template": job});
                client.post("/v1/cron", cron).await.expect(201);
                String::new()
            }
            Way::WorkflowChild => {
                let first = json!({"type": "other.job", "args": [], "options": {"queue": "first"}});
                let chain = json!({"type": "chain", "steps": [first, job], "meta": {"tenant_id": "t"}});
                client.post("/v1/workflows", chain).await.expect(201);
                client.fetch("first", 1).await.job_ids().remove(0)
            }
            Way::DueSchedule => {
                job["options"]["scheduled_at"] = "+PT1S".into();
                client.enqueue(job.clone()).await
            }
            Way::UniqueReplace => {
                job["options"]["unique"] = json!({"on_conflict": "replace"});
                client.enqueue(job.clone()).await
            }
            Way::Retry | Way::DeadLetterReplay | Way::BulkRetry => {
                let (attempts, end) = if self == Way::Retry { (2, "discard") } else { (1, "dead_letter") };
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
            Way::Reschedule => {
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
        Ready { way: self, job, id }
    }
}

impl Ready {
    /// The last step: the job's id, or what was answered instead.
    pub async fn come(self, app: &TestApp) -> Result<String, Answer> {
        let client = &app.client;
        let Ready { way, job, id } = self;
        match way {
            Way::Push | Way::UniqueReplace => {
                let answer = accepted(client.post("/v1/jobs", job).await)?;
                if way == Way::UniqueReplace {
                    assert_eq!(client.state(&id).await, "cancelled");
                }
                Ok(answer.text_at("/job/id").to_owned())
            }
            Way::Cron => Ok(accepted(client.post("/v1/cron/c/run", json!({})).await)?.text_at("/job/id").to_owned()),
            Way::WorkflowChild => {
                let workflow = client.job(&id).await["workflow_id"].as_str().unwrap().to_owned();
                client.ack(&id).await.expect(200);
                let shown = client.get(&format!("/v1/workflows/{workflow}")).await.expect(200);
                Ok(shown.text_at("/workflow/steps/1/job_id").to_owned())
            }
            Way::DueSchedule | Way::Retry | Way::Reschedule => {
                let before = client.state(&id).await;
                app.clock.advance(if way == Way::Reschedule { 600_000 } else { 1000 });
                eventually("its time comes", async || client.state(&id).await != before).await;
                Ok(id)
            }
            Way::DeadLetterReplay => {
                accepted(client.post(&format!("/v1/dead-letter/{id}/retry"), json!({})).await).map(|_| id)
            }
            Way::BulkRetry => {
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

/// Enqueues a job and makes it available, whatever its plan: activated twice, it passes staging.
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
