//! What holds for every way.

use super::ways::WAYS;
use super::*;

async fn audit(app: &TestApp, way: Way) {
    assert_eq!(app.app.store.audit(false, 5000, async || ()).await.unwrap().differences, [], "{way:?}");
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
    for way in WAYS {
        let app = start().await;
        fill(&app.client).await;
        let id = way.arrive(&app, job("planned.job", json!({}))).await;
        let job = app.client.job(&id).await;
        if way == Way::Reschedule {
            // It has been through staging, and its slot is waiting for it.
            assert_eq!(job["state"], "available");
            continue;
        }
        assert_eq!((&job["state"], &job["x_staged"]), (&json!("pending"), &json!(true)), "{way:?}");
        assert_eq!(app.app.store.rule_status("plan", None).await.unwrap().staged, 1, "{way:?}");
        assert_eq!(app.app.store.tenant_names("plan", "q", 0, 9).await.unwrap().1, ["t"], "{way:?}");
        audit(&app, way).await;
    }
}

#[tokio::test]
async fn rate_limits_and_pauses() {
    for way in WAYS {
        let app = start().await;
        let client = &app.client;
        let limit = json!({"key": "k", "concurrency": 1});
        let id = way.arrive(&app, job("free.job", json!({"rate_limit": limit}))).await;
        assert_eq!(client.state(&id).await, "available", "{way:?}");
        // Another one, of a higher priority, takes the slot.
        let first =
            json!({"type": "free.job", "args": [], "options": {"queue": "q", "priority": 9, "rate_limit": limit}});
        let first = client.enqueue(first).await;
        assert_eq!(client.fetch("q", 9).await.job_ids(), [first.as_str()], "{way:?}");
        client.ack(&first).await.expect(200);
        if way == Way::Reschedule {
            // It does not wait for its slot but is put off once more.
            assert_eq!(client.state(&id).await, "scheduled");
            app.clock.advance(600_000);
            eventually("its time comes", async || client.state(&id).await == "available").await;
        }
        client.post("/v1/queues/q/pause", json!({})).await.expect(200);
        assert_eq!(client.fetch("q", 9).await.job_ids().len(), 0, "{way:?}");
        client.post("/v1/queues/q/resume", json!({})).await.expect(200);
        assert_eq!(client.fetch("q", 9).await.job_ids(), [id], "{way:?}");
        audit(&app, way).await;
    }
}

#[tokio::test]
async fn a_tenant_s_concurrency() {
    for way in WAYS {
        let app = start().await;
        let client = &app.client;
        set_limits(&app, json!({"max_concurrency": 1})).await;
        let id = way.arrive(&app, job("free.job", json!({}))).await;
        let first = client.enqueue(job("more.job", json!({"priority": 9}))).await;
        assert_eq!(client.fetch("q", 9).await.job_ids(), [first.as_str()], "{way:?}");
        assert_eq!(client.fetch("q", 9).await.job_ids().len(), 0, "{way:?}");
        client.ack(&first).await.expect(200);
        assert_eq!(client.fetch("q", 9).await.job_ids(), [id.as_str()], "{way:?}");
        audit(&app, way).await;
    }
}

/// A job counts against its tenant's depth however it came, once, and until it runs.
#[tokio::test]
async fn a_tenant_s_depth_counts() {
    for way in WAYS {
        let app = start().await;
        let client = &app.client;
        let id = way.arrive(&app, job("free.job", json!({}))).await;
        set_limits(&app, json!({"max_queue_depth": 1})).await;
        let refused = client.post("/v1/jobs", job("more.job", json!({}))).await.expect(429);
        assert_eq!(refused.at("/error/current"), 1, "{way:?}: {}", refused.text);
        assert_eq!(client.fetch("q", 9).await.job_ids(), [id], "{way:?}");
        client.post("/v1/jobs", job("more.job", json!({}))).await.expect(201);
        audit(&app, way).await;
    }
}

/// What is new is refused where its tenant has no room; what was accepted before finds its place.
#[tokio::test]
async fn a_tenant_s_depth_refuses() {
    for way in WAYS {
        let app = start().await;
        let ready = way.prepare(&app, job("free.job", json!({}))).await;
        let waiting = app.app.store.tenant_jobs(&["t"]).await.unwrap()[0];
        let room = waiting.available + waiting.scheduled;
        set_limits(&app, json!({"max_queue_depth": room})).await;
        let came = ready.come(&app).await;
        let expected = match way {
            Way::Push => "refused",
            Way::Cron => "skipped",
            Way::UniqueReplace => "accepted: it takes the place of another",
            Way::WorkflowChild => "accepted: with the workflow, which was measured",
            Way::Retry | Way::DueSchedule | Way::Reschedule => "accepted: with its first enqueue",
            Way::DeadLetterReplay | Way::BulkRetry => "accepted: an operator's decision about a job that is there",
        };
        match came {
            Ok(id) => {
                assert!(expected.starts_with("accepted"), "{way:?} should be {expected}");
                assert_eq!(app.client.state(&id).await, "available", "{way:?}");
            }
            Err(answer) if expected == "skipped" => {
                assert_eq!((answer.status, answer.text_at("/error/details/reason")), (409, "tenant_limit"), "{way:?}");
                let told = app.client.get("/v1/events?types=cron.skipped").await.expect(200);
                assert_eq!(told.text_at("/events/0/data/reason"), "tenant_limit");
            }
            Err(answer) => {
                assert_eq!(expected, "refused", "{way:?}: {}", answer.text);
                assert_eq!((answer.status, answer.text_at("/error/code")), (429, "TENANT_LIMIT_EXCEEDED"), "{way:?}");
            }
        }
        audit(&app, way).await;
    }
}

/// A job is its tenant's, and nobody else's, however it came.
#[tokio::test]
async fn tenant_scope() {
    for way in WAYS {
        let app = start().await;
        let id = way.arrive(&app, job("free.job", json!({}))).await;
        let path = format!("/v1/jobs/{id}");
        for (tenant, status) in [("other", 404), ("t", 200)] {
            let answer = app.client.try_send("GET", &path, &[("X-OJS-Tenant", tenant)], None).await.unwrap();
            assert_eq!(answer.status, status, "{way:?} {tenant}");
        }
        assert_eq!(fetch_as(&app, "other").await.len(), 0, "{way:?}");
        assert_eq!(fetch_as(&app, "t").await, [id.as_str()], "{way:?}");
        let events = app.client.get("/v1/events?limit=200").await.expect(200);
        let of_job = |event: &&Value| event["subject"] == id.as_str();
        let events: Vec<&Value> = events.at("/events").as_array().unwrap().iter().filter(of_job).collect();
        assert!(
            !events.is_empty() && events.iter().all(|event| event["data"]["tenant_id"] == "t"),
            "{way:?}: {events:?}"
        );
    }
}
