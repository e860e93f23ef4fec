//! Jobs that end without success: cancelled jobs, and dead letters, which can be retried.

use super::{MINUTE, NOBODY, NOON, SECOND};
use crate::support::{TestApp, json};

#[tokio::test]
async fn any_unfinished_job_can_be_cancelled_and_is_in_no_queue_afterwards() {
    let app = TestApp::start_at(NOON).await;
    let available = app.client.enqueue_into("q").await;
    let active = app.client.enqueue_into("active").await;
    app.client.fetch("active", 1).await;
    let scheduled = app.client.enqueue(json!({"type": "test.job", "args": [], "scheduled_at": "+PT1M"})).await;
    let pending = app.client.enqueue(json!({"type": "test.job", "args": [], "options": {"pending": true}})).await;
    let retryable = app.client.enqueue_into("retryable").await;
    app.client.fetch("retryable", 1).await;
    app.client.nack(&retryable).await.expect(200);
    for (id, state) in [
        (&available, "available"),
        (&active, "active"),
        (&scheduled, "scheduled"),
        (&pending, "pending"),
        (&retryable, "retryable"),
    ] {
        let answer = app.client.delete(&format!("/v1/jobs/{id}")).await.expect(200);
        assert_eq!((answer.text_at("/job/state"), answer.text_at("/job/previous_state")), ("cancelled", state));
        let again = app.client.delete(&format!("/v1/jobs/{id}")).await.expect(409);
        assert_eq!(again.text_at("/error/details/current_state"), "cancelled");
    }
    let beat = json!({"worker_id": "w1", "active_jobs": [active]});
    let answer = app.client.post("/v1/workers/heartbeat", beat).await.expect(200);
    assert_eq!(answer.at("/cancelled_jobs"), &json!([active]), "its worker is notified");
    app.client.ack(&active).await.expect(409);
    app.clock.advance(60 * MINUTE);
    let queues = json!({"queues": ["q", "active", "default", "retryable"], "count": 10});
    assert!(app.client.post("/v1/workers/fetch", queues).await.job_ids().is_empty());
    for set in ["due", "leases", "expiry", "ready", "lane"] {
        assert_eq!(app.redis.keys_with(set).await, Vec::<String>::new(), "{set} is empty");
    }
}

#[tokio::test]
async fn a_dead_letter_can_be_found_retried_and_deleted() {
    let app = TestApp::start_at(NOON).await;
    let mut ids = Vec::new();
    for (queue, kind) in [("a", "Smtp"), ("b", "Http"), ("b", "Smtp")] {
        let retry = json!({"max_attempts": 1, "on_exhaustion": "dead_letter"});
        let options = json!({"queue": queue, "retry": retry});
        let id = app.client.enqueue(json!({"type": "test.job", "args": [], "options": options})).await;
        app.client.fetch(queue, 1).await;
        let nack = json!({"job_id": id, "error": {"type": kind, "message": "m"}});
        app.client.post("/v1/workers/nack", nack).await.expect(200);
        app.clock.advance(SECOND);
        ids.push(id);
    }
    let found = async |query: &str| app.client.get(&format!("/v1/dead-letter?{query}")).await.expect(200).job_ids();
    assert_eq!(found("").await, [&*ids[2], &*ids[1], &*ids[0]], "newest first");
    assert_eq!(found("queue=b").await, [&*ids[2], &*ids[1]]);
    assert_eq!(found("error_type=Smtp").await, [&*ids[2], &*ids[0]]);
    assert_eq!(found("until=2027-01-15T08:00:00.500Z").await, [&*ids[0]]);
    assert_eq!(found("limit=1&offset=1").await, [&*ids[1]]);
    let stats = app.client.get("/v1/dead-letter/stats").await.expect(200);
    assert_eq!(stats.at("/by_error_type"), &json!({"Smtp": 2, "Http": 1}));

    let revived = app.client.post(&format!("/v1/dead-letter/{}/retry", ids[0]), json!({})).await.expect(200);
    assert_eq!((revived.text_at("/job/state"), revived.at("/job/attempt")), ("available", &json!(0)));
    assert_eq!(revived.at("/job/errors").as_array().map(Vec::len), Some(1), "its history stays");
    assert!(revived.at("/job/completed_at").is_null());
    assert_eq!(app.client.fetch("a", 1).await.job_ids(), [ids[0].clone()]);
    let ttl: i64 = app.redis.command(&["PTTL", &format!("fg:{{default}}:job:{}", ids[0])]).await;
    assert_eq!(ttl, -1, "a living job never has a TTL");

    app.client.delete(&format!("/v1/dead-letter/{}", ids[1])).await.expect(200);
    app.client.get(&format!("/v1/jobs/{}", ids[1])).await.expect(404);
    assert_eq!(app.redis.keys_with(&ids[1]).await, Vec::<String>::new());
    app.client.post(&format!("/v1/dead-letter/{NOBODY}/retry"), json!({})).await.expect(404);
}
