//! Limits, tenants, staging and events, each at every entry point.

use super::prepare::ENTRY_POINTS;
use super::*;
use fairgate::store::AuditMode;

async fn audit(app: &TestApp, entry: EntryPoint) {
    assert_eq!(app.store().audit(AuditMode::Report, 5000, async || ()).await.unwrap().differences, [], "{entry:?}");
}

async fn set_limits(app: &TestApp, limits: Value) {
    app.client.send("PUT", "/v1/admin/tenants/t/limits", Some(limits.to_string())).await.expect(200);
}

async fn fetch_as(app: &TestApp, tenant: &str) -> Vec<String> {
    let body = json!({"queues": ["q"], "count": 9, "worker_id": "w"}).to_string();
    let headers = [("X-OJS-Tenant", tenant)];
    app.client.try_send("POST", "/v1/workers/fetch", &headers, Some(body)).await.unwrap().expect(200).job_ids()
}

#[tokio::test]
async fn staging() {
    for entry in ENTRY_POINTS {
        let app = start().await;
        fill(&app.client).await;
        let id = entry.enqueue(&app, job("planned.job", json!({}))).await;
        let job = app.client.job(&id).await;
        if entry == EntryPoint::Reschedule {
            // It has already passed staging and keeps its place.
            assert_eq!(job["state"], "available");
            continue;
        }
        assert_eq!((&job["state"], &job["x_staged"]), (&json!("pending"), &json!(true)), "{entry:?}");
        assert_eq!(app.store().rule_status("plan", None).await.unwrap().staged, 1, "{entry:?}");
        assert_eq!(app.store().tenant_names("plan", "q", 0, 9).await.unwrap().1, ["t"], "{entry:?}");
        audit(&app, entry).await;
    }
}

#[tokio::test]
async fn rate_limits_and_pauses() {
    for entry in ENTRY_POINTS {
        let app = start().await;
        let client = &app.client;
        let limit = json!({"key": "k", "concurrency": 1});
        let id = entry.enqueue(&app, job("free.job", json!({"rate_limit": limit}))).await;
        assert_eq!(client.state(&id).await, "available", "{entry:?}");
        // Another job of a higher priority takes the slot.
        let first =
            json!({"type": "free.job", "args": [], "options": {"queue": "q", "priority": 9, "rate_limit": limit}});
        let first = client.enqueue(first).await;
        assert_eq!(client.fetch("q", 9).await.job_ids(), [first.as_str()], "{entry:?}");
        client.ack(&first).await.expect(200);
        if entry == EntryPoint::Reschedule {
            // Instead of waiting for its slot it is rescheduled again.
            assert_eq!(client.state(&id).await, "scheduled");
            app.clock.advance(600_000);
            eventually("it becomes available", async || client.state(&id).await == "available").await;
        }
        client.post("/v1/queues/q/pause", json!({})).await.expect(200);
        assert_eq!(client.fetch("q", 9).await.job_ids().len(), 0, "{entry:?}");
        client.post("/v1/queues/q/resume", json!({})).await.expect(200);
        assert_eq!(client.fetch("q", 9).await.job_ids(), [id], "{entry:?}");
        audit(&app, entry).await;
    }
}

#[tokio::test]
async fn a_tenant_s_concurrency() {
    for entry in ENTRY_POINTS {
        let app = start().await;
        let client = &app.client;
        set_limits(&app, json!({"max_concurrency": 1})).await;
        let id = entry.enqueue(&app, job("free.job", json!({}))).await;
        let first = client.enqueue(job("more.job", json!({"priority": 9}))).await;
        assert_eq!(client.fetch("q", 9).await.job_ids(), [first.as_str()], "{entry:?}");
        assert_eq!(client.fetch("q", 9).await.job_ids().len(), 0, "{entry:?}");
        client.ack(&first).await.expect(200);
        assert_eq!(client.fetch("q", 9).await.job_ids(), [id.as_str()], "{entry:?}");
        audit(&app, entry).await;
    }
}

/// A job counts against its tenant's queue depth exactly once until it starts, at every entry point.
#[tokio::test]
async fn a_tenant_s_depth_counts() {
    for entry in ENTRY_POINTS {
        let app = start().await;
        let client = &app.client;
        let id = entry.enqueue(&app, job("free.job", json!({}))).await;
        set_limits(&app, json!({"max_queue_depth": 1})).await;
        let refused = client.post("/v1/jobs", job("more.job", json!({}))).await.expect(429);
        assert_eq!(refused.at("/error/current"), 1, "{entry:?}: {}", refused.text);
        assert_eq!(client.fetch("q", 9).await.job_ids(), [id], "{entry:?}");
        client.post("/v1/jobs", job("more.job", json!({}))).await.expect(201);
        audit(&app, entry).await;
    }
}

/// New jobs are refused if the tenant's queue is full; jobs that were accepted earlier always get their place.
#[tokio::test]
async fn a_tenant_s_depth_refuses() {
    for entry in ENTRY_POINTS {
        let app = start().await;
        let prepared = entry.prepare(&app, job("free.job", json!({}))).await;
        let waiting = app.store().tenant_jobs(&["t"]).await.unwrap()[0];
        let room = waiting.available + waiting.scheduled;
        set_limits(&app, json!({"max_queue_depth": room})).await;
        let result = prepared.enter(&app).await;
        let expected = match entry {
            EntryPoint::Push => "refused",
            EntryPoint::Cron => "skipped",
            EntryPoint::UniqueReplace => "accepted: it replaces another job",
            EntryPoint::WorkflowChild => "accepted: checked when the workflow was created",
            EntryPoint::Retry | EntryPoint::DueSchedule | EntryPoint::Reschedule => {
                "accepted: checked when it was enqueued"
            }
            EntryPoint::DeadLetterReplay | EntryPoint::BulkRetry => {
                "accepted: an operator decided about an existing job"
            }
        };
        match result {
            Ok(id) => {
                assert!(expected.starts_with("accepted"), "{entry:?} should be {expected}");
                assert_eq!(app.client.state(&id).await, "available", "{entry:?}");
            }
            Err(answer) if expected == "skipped" => {
                assert_eq!(
                    (answer.status, answer.text_at("/error/details/reason")),
                    (409, "tenant_limit"),
                    "{entry:?}"
                );
                let events = app.client.get("/v1/events?types=cron.skipped").await.expect(200);
                assert_eq!(events.text_at("/events/0/data/reason"), "tenant_limit");
            }
            Err(answer) => {
                assert_eq!(expected, "refused", "{entry:?}: {}", answer.text);
                assert_eq!((answer.status, answer.text_at("/error/code")), (429, "TENANT_LIMIT_EXCEEDED"), "{entry:?}");
            }
        }
        audit(&app, entry).await;
    }
}

/// A job is visible to its own tenant only, at every entry point.
#[tokio::test]
async fn tenant_scope() {
    for entry in ENTRY_POINTS {
        let app = start().await;
        let id = entry.enqueue(&app, job("free.job", json!({}))).await;
        let path = format!("/v1/jobs/{id}");
        for (tenant, status) in [("other", 404), ("t", 200)] {
            let answer = app.client.try_send("GET", &path, &[("X-OJS-Tenant", tenant)], None).await.unwrap();
            assert_eq!(answer.status, status, "{entry:?} {tenant}");
        }
        assert_eq!(fetch_as(&app, "other").await.len(), 0, "{entry:?}");
        assert_eq!(fetch_as(&app, "t").await, [id.as_str()], "{entry:?}");
        let events = app.client.get("/v1/events?limit=200").await.expect(200);
        let of_job = |event: &&Value| event["subject"] == id.as_str();
        let events: Vec<&Value> = events.at("/events").as_array().unwrap().iter().filter(of_job).collect();
        assert!(
            !events.is_empty() && events.iter().all(|event| event["data"]["tenant_id"] == "t"),
            "{entry:?}: {events:?}"
        );
    }
}
