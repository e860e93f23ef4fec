//! DELETE: waiting jobs end, active jobs may finish, no further jobs start.

use super::*;
use crate::support::{NOON, eventually};

async fn cancel(client: &Client, id: &str) -> Answer {
    client.delete(&format!("/v1/workflows/{id}")).await
}

#[tokio::test]
async fn waiting_jobs_are_cancelled_and_active_jobs_may_finish() {
    let app = app().await;
    let client = &app.client;
    let scheduled = json!({"type": "test.later", "args": [], "options": {"queue": "q", "delay_until": "+PT1H"}});
    let pending = json!({"type": "test.pending", "args": [], "options": {"queue": "q", "pending": true}});
    let chained = chain(jobs(&["x", "y"]));
    let id = begin(client, group(vec![job("a"), job("b"), scheduled, pending, chained])).await;
    let active = client.fetch("q", 1).await.at("/jobs/0").clone();
    assert_eq!(name(&active), "a");
    let answer = cancel(client, &id).await.expect(200);
    assert_eq!(answer.text_at("/workflow/state"), "cancelled");
    assert_eq!(states(answer.at("/workflow")), ["active", "cancelled", "cancelled", "cancelled", "cancelled"]);
    assert!(answer.at("/workflow/cancelled_at").is_string());
    assert!(taken(client).await.is_empty());
    let stats = client.get("/v1/queues/q/stats").await.expect(200);
    assert_eq!(
        (stats.at("/queue/available"), stats.at("/queue/scheduled"), stats.at("/queue/active")),
        (&json!(0), &json!(0), &json!(1))
    );
    finish(client, &active, json!(1)).await;
    let shown = show(client, &id).await;
    assert_eq!((shown["state"].as_str(), states(&shown)[0]), (Some("cancelled"), "completed"));
    assert!(taken(client).await.is_empty());
    assert_eq!(cancel(client, &id).await.expect(409).text_at("/error/code"), "conflict");
}

#[tokio::test]
async fn active_jobs_of_a_cancelled_workflow_are_not_retried() {
    for way in ["nack", "requeue", "goodbye", "silence"] {
        let app = TestApp::start_at(NOON).await;
        let client = &app.client;
        let id = begin(client, chain(jobs(&["a", "b"]))).await;
        let body = json!({"queues": ["q"], "worker_id": "w1", "visibility_timeout_ms": 1000});
        let job = client.post("/v1/workers/fetch", body).await.expect(200).at("/jobs/0").clone();
        cancel(client, &id).await.expect(200);
        assert_eq!(client.state(super::id(&job)).await, "active");
        let error = json!({"message": "no"});
        match way {
            "nack" => _ = client.nack(super::id(&job)).await.expect(200),
            "requeue" => {
                let body = json!({"job_id": super::id(&job), "requeue": true, "error": error});
                client.post("/v1/workers/nack", body).await.expect(200);
            }
            "goodbye" => _ = client.delete("/v1/workers/w1").await,
            _ => app.clock.advance(2000),
        }
        assert!(taken(client).await.is_empty(), "{way}");
        eventually("it is cancelled", async || client.state(super::id(&job)).await == "cancelled").await;
        assert_eq!(states(&show(client, &id).await), ["cancelled", "cancelled"], "{way}");
    }
}

#[tokio::test]
async fn only_running_workflows_can_be_cancelled() {
    let app = app().await;
    let done = begin(&app.client, group(jobs(&["a"]))).await;
    pass(&app.client, "a").await;
    let answer = cancel(&app.client, &done).await.expect(409);
    assert_eq!(
        (answer.text_at("/error/code"), answer.text_at("/error/details/current_state")),
        ("conflict", "completed")
    );
    for id in ["019461a8-1a2b-7c3d-8e4f-000000000000", "x", &format!("{done}:nodes")] {
        let answer = cancel(&app.client, id).await.expect(404);
        assert_eq!(answer.text_at("/error/details/resource_type"), "workflow");
        app.client.get(&format!("/v1/workflows/{id}")).await.expect(404);
    }
}
