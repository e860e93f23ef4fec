//! However a job comes into its queue, it takes the one way in: it is staged if its type is planned, held by its limit, kept out while
//! its queue is paused.

use crate::support::{Client, TestApp, eventually, json};
use fairgate::clock::Clock;
use fairgate::config::Role;
use fairgate::fair::Rule;
use serde_json::Value;

const NOON: i64 = 1_800_000_000_000;
const WAYS: [&str; 7] = ["push", "cron", "due", "retry", "dead letter", "bulk retry", "unique replace"];

async fn start() -> TestApp {
    TestApp::start_with(Clock::manual(NOON), |config| {
        config.plan.push(Rule::new("plan", &["planned.*"]));
        // Nobody promotes.
        config.server.roles = vec![Role::Api, Role::Dispatch];
    })
    .await
}

/// Brings a job to where it would be available.
async fn arrive(app: &TestApp, way: &str, kind: &str, options: Value) -> String {
    let client = &app.client;
    let mut job = json!({"type": kind, "args": [], "meta": {"tenant_id": "t"}, "options": options});
    match way {
        "push" => client.enqueue(job).await,
        "cron" => {
            let cron = json!({"name": "c", "expression": "@yearly", "job_template": job});
            client.post("/v1/cron", cron).await.expect(201);
            client.post("/v1/cron/c/run", json!({})).await.expect(201).text_at("/job/id").to_owned()
        }
        "due" => {
            job["options"]["scheduled_at"] = "+PT1S".into();
            let id = client.enqueue(job).await;
            app.clock.advance(1000);
            eventually("it comes due", async || client.state(&id).await != "scheduled").await;
            id
        }
        "unique replace" => {
            job["options"]["unique"] = json!({"on_conflict": "replace"});
            let first = client.enqueue(job.clone()).await;
            let id = client.enqueue(job).await;
            assert_eq!(client.state(&first).await, "cancelled");
            id
        }
        "retry" | "dead letter" | "bulk retry" => {
            let (attempts, end) = if way == "retry" { (2, "discard") } else { (1, "dead_letter") };
            let retry =
                json!({"max_attempts": attempts, "on_exhaustion": end, "initial_interval": "PT1S", "jitter": false});
            job["options"]["retry"] = retry;
            job["options"]["pending"] = true.into();
            let id = client.enqueue(job).await;
            run_once(client, &id).await;
            match way {
                "retry" => {
                    app.clock.advance(1000);
                    eventually("it is tried again", async || client.state(&id).await != "retryable").await;
                }
                "dead letter" => _ = client.post(&format!("/v1/dead-letter/{id}/retry"), json!({})).await.expect(200),
                _ => {
                    let all = json!({"filter": {"state": "discarded"}, "confirm": true});
                    let done = client.post("/v1/admin/jobs/bulk/retry", all).await.expect(200);
                    assert_eq!(done.at("/succeeded"), &json!(1));
                }
            }
            id
        }
        other => panic!("{other}"),
    }
}

/// Its first attempt, which fails. Activated twice, it passes staging.
async fn run_once(client: &Client, id: &str) {
    client.post(&format!("/v1/jobs/{id}/activate"), json!({})).await.expect(200);
    if client.state(id).await == "pending" {
        client.post(&format!("/v1/jobs/{id}/activate"), json!({})).await.expect(200);
    }
    let taken = client.fetch("q", 9).await.job_ids();
    assert!(taken.iter().any(|taken| taken == id));
    if taken.len() > 1 {
        fill(client).await;
    }
    client.nack(id).await.expect(200);
}

/// Something waits in the queue, so that nothing passes staging.
async fn fill(client: &Client) {
    client.enqueue(json!({"type": "other.job", "args": [], "options": {"queue": "q", "priority": -100}})).await;
}

#[tokio::test]
async fn a_planned_job_is_staged() {
    for way in WAYS {
        let app = start().await;
        fill(&app.client).await;
        let id = arrive(&app, way, "planned.job", json!({"queue": "q"})).await;
        let job = app.client.job(&id).await;
        assert_eq!((&job["state"], &job["x_staged"]), (&json!("pending"), &json!(true)), "{way}");
    }
}

#[tokio::test]
async fn a_limited_job_waits_for_its_limit_and_a_paused_queue_hands_it_out_to_nobody() {
    for way in WAYS {
        let app = start().await;
        let client = &app.client;
        let limit = json!({"key": "k", "concurrency": 1});
        let id = arrive(&app, way, "free.job", json!({"queue": "q", "rate_limit": limit})).await;
        assert_eq!(client.state(&id).await, "available", "{way}");
        // Another one, of a higher priority, takes the slot.
        let first =
            json!({"type": "free.job", "args": [], "options": {"queue": "q", "priority": 9, "rate_limit": limit}});
        let first = client.enqueue(first).await;
        assert_eq!(client.fetch("q", 9).await.job_ids(), [first.as_str()], "{way}");
        client.ack(&first).await.expect(200);
        client.post("/v1/queues/q/pause", json!({})).await.expect(200);
        assert_eq!(client.fetch("q", 9).await.job_ids().len(), 0, "{way}");
        client.post("/v1/queues/q/resume", json!({})).await.expect(200);
        assert_eq!(client.fetch("q", 9).await.job_ids(), [id], "{way}");
    }
}
