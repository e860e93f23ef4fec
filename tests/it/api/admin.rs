//! The admin API: totals, queues, workers, job searches, and bulk operations.

use crate::support::{Answer, Client, NOON, TestApp, eventually, json};
use fairgate::clock::Clock;
use serde_json::Value;

async fn put_jobs(client: &Client, queue: &str, number: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..number {
        ids.push(client.enqueue_into(queue).await);
    }
    ids
}

/// Creates jobs that have used up their only attempt.
async fn dead(client: &Client, queue: &str, error: &str, policy: &str) -> String {
    let retry = json!({"max_attempts": 1, "on_exhaustion": policy});
    let id = client.enqueue(json!({"type": "dead.job", "args": [], "options": {"queue": queue, "retry": retry}})).await;
    client.fetch(queue, 1).await;
    let failure = json!({"job_id": id, "error": {"type": error, "message": "no"}});
    client.post("/v1/workers/nack", failure).await.expect(200);
    id
}

fn ids(answer: &Answer) -> Vec<String> {
    let items = answer.at("/items").as_array().cloned().unwrap_or_default();
    items.iter().map(|job| job["id"].as_str().unwrap_or_default().to_owned()).collect()
}

fn numbers(answer: &Answer) -> [u64; 4] {
    ["matched", "succeeded", "failed", "remaining"]
        .map(|name| answer.at(&format!("/{name}")).as_u64().expect("a number"))
}

async fn remove(client: &Client, path: &str, body: Value) -> Answer {
    client.send("DELETE", path, Some(body.to_string())).await
}

/// Waits until activity counting is on or off, which a process decides after its start.
async fn counts_activity(app: &TestApp, is_counted: bool) {
    eventually("activity counting is on or off", async || {
        let counted: Option<String> = app.redis.command(&["HGET", "fg:{default}:state", "throttled"]).await;
        counted.is_some() == is_counted
    })
    .await;
}

#[tokio::test]
async fn queues_report_processed_and_failed_jobs_of_the_last_minute() {
    let app = TestApp::start_at(NOON).await;
    let client = &app.client;
    counts_activity(&app, true).await;
    for queue in ["a", "b"] {
        let ids = put_jobs(client, queue, 3).await;
        client.fetch(queue, 3).await;
        client.ack(&ids[0]).await.expect(200);
        client.nack(&ids[1]).await.expect(200);
    }
    dead(client, "b", "no", "discard").await;
    let throughput = async || {
        let queues = client.get("/v1/admin/queues").await.expect(200);
        let of = |queue: usize, name: &str| queues.at(&format!("/items/{queue}/throughput/{name}_per_minute")).clone();
        [of(0, "processed"), of(0, "failed"), of(1, "processed"), of(1, "failed")].map(|value| value.as_u64())
    };
    assert_eq!(throughput().await, [1, 0, 1, 1].map(Some), "a failed attempt is not a failed job");
    app.clock.advance(10_000);
    let id = client.enqueue_into("a").await;
    client.fetch("a", 1).await;
    client.ack(&id).await.expect(200);
    assert_eq!(throughput().await, [2, 0, 1, 1].map(Some));
    app.clock.advance(120_000);
    assert_eq!(throughput().await, [0; 4].map(Some));
}

#[tokio::test]
async fn throughput_that_is_not_counted_is_null() {
    let app = TestApp::start_with(Clock::manual(NOON), |config| {
        config.noisy_neighbors.statistics = false;
    })
    .await;
    app.client.enqueue_into("a").await;
    let queues = app.client.get("/v1/admin/queues").await.expect(200);
    assert_eq!(queues.at("/items/0/throughput/processed_per_minute"), &Value::Null);
    assert_eq!(queues.at("/items/0/throughput/started_per_minute"), &json!(0));
}

#[tokio::test]
async fn totals_and_queues_are_reported() {
    let app = TestApp::start().await;
    let client = &app.client;
    put_jobs(client, "a", 3).await;
    put_jobs(client, "b", 1).await;
    let id = client.fetch("a", 1).await.job_ids().remove(0);
    client.ack(&id).await.expect(200);
    dead(client, "a2", "E", "discard").await;
    let stats = client.get("/v1/admin/stats").await.expect(200);
    for (pointer, expected) in [
        ("/queues", json!(3)),
        ("/jobs/available", json!(3)),
        ("/jobs/active", json!(0)),
        ("/jobs/completed", json!(1)),
        ("/jobs/discarded", json!(1)),
        ("/throughput/processed_per_minute", json!(1)),
        ("/throughput/failed_per_minute", json!(1)),
    ] {
        assert_eq!(stats.at(pointer), &expected, "{pointer}");
    }
    client.post("/v1/admin/queues/b/pause", json!({})).await.expect(200);
    let queues = client.get("/v1/admin/queues?per_page=1&page=3").await.expect(200);
    assert_eq!((queues.at("/items/0/name"), queues.at("/items/0/paused")), (&json!("b"), &json!(true)));
    assert_eq!(queues.at("/items/0/counts/available"), &json!(1));
    assert_eq!((queues.at("/pagination/total"), queues.at("/pagination/page")), (&json!(3), &json!(3)));
    let queue = client.get("/v1/admin/queues/a").await.expect(200);
    assert_eq!((queue.at("/counts/completed"), queue.at("/state")), (&json!(1), &json!("active")));
    assert!(queue.at("/oldest_available_at").is_string());
    client.get("/v1/admin/queues/c").await.expect(404);
}

#[tokio::test]
async fn jobs_are_found_by_their_attributes() {
    let app = TestApp::start_at(NOON).await;
    let client = &app.client;
    let first = put_jobs(client, "a", 2).await;
    app.clock.advance(1000);
    let mail = client.enqueue(json!({"type": "mail.send", "args": [], "options": {"queue": "b", "priority": 9}})).await;
    let later = json!({"type": "mail.later", "args": [], "options": {"queue": "b", "scheduled_at": "+PT1H"}});
    let later = client.enqueue(later).await;
    client.delete(&format!("/v1/jobs/{}", first[0])).await.expect(200);
    for (query, expected) in [
        ("queue=a", vec![&first[1], &first[0]]),
        ("queue=a&state=cancelled", vec![&first[0]]),
        ("state=available,scheduled&queue=b", vec![&later, &mail]),
        ("type=mail.send", vec![&mail]),
        ("type=mail.*&order=asc", vec![&mail, &later]),
        ("sort=priority", vec![&mail]),
        ("until=2027-01-15T08:00:00Z", vec![&first[1], &first[0]]),
        ("since=2027-01-15T08:00:00.500Z", vec![&later, &mail]),
        ("since=2027-01-15T09:00:00Z", vec![]),
    ] {
        let answer = client.get(&format!("/v1/admin/jobs?{query}")).await.expect(200);
        let found = ids(&answer);
        let shown: Vec<&String> = found.iter().take(expected.len().max(usize::from(expected.is_empty()))).collect();
        if query == "sort=priority" {
            assert_eq!(found[0], mail);
        } else {
            assert_eq!((shown, found.len()), (expected.clone(), expected.len()), "{query}");
            assert_eq!(answer.at("/pagination/total").as_u64(), Some(expected.len() as u64), "{query}");
        }
    }
    let page = client.get("/v1/admin/jobs?per_page=1&page=2&order=asc").await;
    assert_eq!((ids(&page).len(), page.at("/pagination/total")), (1, &json!(4)));
    for wrong in ["state=gone", "sort=color", "order=up", "since=now"] {
        client.get(&format!("/v1/admin/jobs?{wrong}")).await.expect(400);
    }
}

#[tokio::test]
async fn a_finished_job_can_be_retried() {
    let app = TestApp::start().await;
    let client = &app.client;
    let discarded = dead(client, "q", "E", "discard").await;
    let answer = client.post(&format!("/v1/admin/jobs/{discarded}/retry"), json!({})).await.expect(200);
    assert_eq!((answer.at("/state"), answer.at("/job/attempt")), (&json!("available"), &json!(0)));
    client.post(&format!("/v1/admin/jobs/{discarded}/retry"), json!({})).await.expect(409);
    let cancelled = client.post(&format!("/v1/admin/jobs/{discarded}/cancel"), json!({})).await.expect(200);
    assert_eq!(cancelled.at("/state"), &json!("cancelled"));
    client.post(&format!("/v1/admin/jobs/{discarded}/retry"), json!({})).await.expect(200);
    assert_eq!(client.fetch("q", 1).await.job_ids(), [discarded]);
    client.post("/v1/admin/jobs/019461a8-1a2b-7c3d-8e4f-000000000000/retry", json!({})).await.expect(404);
}

#[tokio::test]
async fn bulk_operations_need_a_filter_and_a_confirmation() {
    let app = TestApp::start().await;
    let client = &app.client;
    for _ in 0..3 {
        dead(client, "q", "E", "discard").await;
    }
    let kept = dead(client, "other", "E", "discard").await;
    let all = json!({"filter": {"queue": "q", "state": "discarded"}});
    for action in ["retry", "cancel", "delete"] {
        client.post(&format!("/v1/admin/jobs/bulk/{action}"), all.clone()).await.expect(400);
    }
    let with = |filter: Value, more: Value| {
        let mut body = json!({"filter": filter, "confirm": true});
        more.as_object().unwrap().iter().for_each(|(name, value)| body[name] = value.clone());
        body
    };
    let dry = json!({"filter": {"queue": "q"}, "dry_run": true});
    assert_eq!(numbers(&client.post("/v1/admin/jobs/bulk/retry", dry).await.expect(200)), [3, 0, 0, 3]);
    let two = with(json!({"queue": "q"}), json!({"limit": 2}));
    assert_eq!(numbers(&client.post("/v1/admin/jobs/bulk/retry", two).await.expect(200)), [3, 2, 0, 1]);
    let waiting = with(json!({"queue": "q"}), json!({}));
    assert_eq!(numbers(&client.post("/v1/admin/jobs/bulk/cancel", waiting.clone()).await.expect(200)), [2, 2, 0, 0]);
    assert_eq!(numbers(&client.post("/v1/admin/jobs/bulk/delete", waiting).await.expect(200)), [3, 3, 0, 0]);
    assert_eq!(ids(&client.get("/v1/admin/jobs").await), [kept.as_str()]);
    for (action, wrong) in [
        ("retry", with(json!({"state": "active"}), json!({}))),
        ("delete", with(json!({"state": "available"}), json!({}))),
        ("cancel", with(json!({"state": "completed"}), json!({}))),
        ("delete", with(json!({"quue": "q"}), json!({}))),
        ("delete", with(json!({}), json!({"limit": 100_000}))),
    ] {
        client.post(&format!("/v1/admin/jobs/bulk/{action}"), wrong).await.expect(400);
    }
    assert_eq!(client.state(&kept).await, "discarded");
}

#[tokio::test]
async fn purging_a_queue_removes_only_the_named_states() {
    let app = TestApp::start_at(NOON).await;
    let client = &app.client;
    put_jobs(client, "q", 3).await;
    let active = client.fetch("q", 1).await.job_ids().remove(0);
    let done = client.fetch("q", 1).await.job_ids().remove(0);
    client.ack(&done).await.expect(200);
    app.clock.advance(60_000);
    let young = client.enqueue_into("q").await;
    let other = client.enqueue_into("other").await;
    let path = "/v1/admin/queues/q/jobs";
    remove(client, path, json!({"states": ["available"]})).await.expect(400);
    remove(client, path, json!({"confirm": true})).await.expect(400);
    remove(client, path, json!({"states": ["active"], "confirm": true})).await.expect(400);
    let body = json!({"states": ["available", "completed"], "older_than": "30s", "confirm": true});
    let answer = remove(client, path, body).await.expect(200);
    assert_eq!(answer.at("/purged_count"), &json!(2));
    client.get(&format!("/v1/jobs/{done}")).await.expect(404);
    assert_eq!(client.state(&active).await, "active");
    assert_eq!(client.fetch("q", 9).await.job_ids(), [young]);
    assert_eq!(client.state(&other).await, "available");
    client.ack(&active).await.expect(200);
}

#[tokio::test]
async fn workers_are_listed_and_receive_directives() {
    let app = TestApp::start_at(NOON).await;
    let client = &app.client;
    for name in ["w1", "w2"] {
        let beat = json!({"worker_id": name, "hostname": "h", "queues": ["q"], "concurrency": 4});
        client.post("/v1/workers/heartbeat", beat).await.expect(200);
    }
    let id = client.enqueue_into("q").await;
    client.fetch("q", 1).await;
    let list = client.get("/v1/admin/workers").await.expect(200);
    assert_eq!(list.at("/summary"), &json!({"total": 2, "running": 2, "quiet": 0, "stale": 0}));
    assert_eq!((list.at("/items/0/id"), list.at("/items/0/active_jobs")), (&json!("w1"), &json!(1)));
    assert_eq!((list.at("/items/0/hostname"), list.at("/items/0/concurrency")), (&json!("h"), &json!(4)));
    let one = client.get("/v1/admin/workers/w1").await.expect(200);
    assert_eq!(one.at("/active_job_ids"), &json!([id]));
    // A quiet worker gets no jobs until it is resumed; a terminating one cannot be resumed.
    client.enqueue_into("q").await;
    client.post("/v1/admin/workers/w1/quiet", json!({})).await.expect(200);
    assert_eq!(client.fetch("q", 1).await.job_ids().len(), 0);
    let beat = client.post("/v1/workers/heartbeat", json!({"worker_id": "w1"})).await;
    assert_eq!(beat.at("/state"), &json!("quiet"));
    assert_eq!(client.fetch("q", 1).await.job_ids().len(), 0, "a heartbeat does not change it");
    client.post("/v1/admin/workers/w1/resume", json!({})).await.expect(200);
    assert_eq!(client.fetch("q", 1).await.job_ids().len(), 1);
    client.post("/v1/admin/workers/w2/terminate", json!({})).await.expect(200);
    client.post("/v1/admin/workers/w2/resume", json!({})).await.expect(409);
    let beat = client.post("/v1/workers/heartbeat", json!({"worker_id": "w2"})).await;
    assert_eq!(beat.at("/state"), &json!("terminate"));
    // Only a worker without heartbeats can be removed.
    remove(client, "/v1/admin/workers/w1", json!({})).await.expect(409);
    client.post("/v1/admin/workers/w3/quiet", json!({})).await.expect(404);
    client.get("/v1/admin/workers/w3").await.expect(404);
    app.clock.advance(20_000);
    client.get("/v1/workers/w1/health").await.expect(503);
    let removed = remove(client, "/v1/admin/workers/w1", json!({})).await.expect(200);
    assert_eq!(removed.at("/jobs_requeued"), &json!(2));
    eventually("its job is available again", async || client.state(&id).await == "available").await;
}

#[tokio::test]
async fn a_worker_that_drains_gets_no_more_jobs() {
    let app = TestApp::start().await;
    let client = &app.client;
    client.enqueue_into("q").await;
    let beat = json!({"worker_id": "w1", "state": "drain", "active_jobs": 2, "shutdown": true});
    let answer = client.post("/v1/workers/beat", beat).await.expect(200);
    assert_eq!(answer.at("/acknowledged"), &json!(true));
    let health = client.get("/v1/workers/w1/health").await.expect(200);
    assert_eq!(health.at("/state"), &json!("drain"));
    assert_eq!(client.fetch("q", 1).await.job_ids().len(), 0);
    client.post("/v1/workers/beat", json!({"worker_id": "w1"})).await.expect(200);
    assert_eq!(client.fetch("q", 1).await.job_ids().len(), 1);
    client.get("/v1/workers/w9/health").await.expect(404);
}

#[tokio::test]
async fn dead_letters_are_listed_by_two_routes_and_replayed_in_bulk() {
    let app = TestApp::start_at(NOON).await;
    let client = &app.client;
    let mut letters = Vec::new();
    for (queue, error) in [("a", "Timeout"), ("a", "Refused"), ("b", "Timeout"), ("b", "Timeout")] {
        letters.push(dead(client, queue, error, "dead_letter").await);
        app.clock.advance(1000);
    }
    let page = client.get("/v1/admin/dead-letter").await.expect(200);
    assert_eq!((ids(&page).len(), page.at("/pagination/page")), (4, &json!(1)));
    assert_eq!(client.get("/v1/admin/dead-letter/stats").await.at("/total"), &json!(4));
    let shown = client.get(&format!("/v1/admin/dead-letter/{}", letters[0])).await.expect(200);
    assert_eq!(shown.at("/id"), &json!(letters[0]));
    let retried = client.send("POST", &format!("/v1/admin/dead-letter/{}/retry", letters[0]), None).await.expect(200);
    assert_eq!((retried.at("/state"), retried.at("/job/attempt")), (&json!("available"), &json!(0)));
    let deleted = client.delete(&format!("/v1/admin/dead-letter/{}", letters[1])).await.expect(204);
    assert_eq!(deleted.text, "");
    client.delete(&format!("/v1/admin/dead-letter/{}", letters[1])).await.expect(404);
    for path in ["/v1/dead-letter/retry", "/v1/admin/dead-letter/retry"] {
        client.post(path, json!({"filter": {"queue": "b"}})).await.expect(400);
        let dry = client.post(path, json!({"filter": {"error_type": "Timeout"}, "dry_run": true})).await.expect(200);
        assert_eq!(numbers(&dry), [2, 0, 0, 2]);
    }
    let one = json!({"filter": {"queue": "b"}, "confirm": true, "limit": 1});
    assert_eq!(numbers(&client.post("/v1/dead-letter/retry", one).await.expect(200)), [2, 1, 0, 1]);
    assert_eq!(client.fetch("b", 9).await.job_ids(), [letters[2].clone()], "the oldest first");
    let old = json!({"older_than": "PT1H", "confirm": true});
    assert_eq!(numbers(&remove(client, "/v1/dead-letter", old).await.expect(200)), [0, 0, 0, 0]);
    let rest = remove(client, "/v1/admin/dead-letter", json!({"confirm": true})).await.expect(200);
    assert_eq!((numbers(&rest), rest.at("/purged_count")), ([1, 1, 0, 0], &json!(1)));
    client.get(&format!("/v1/jobs/{}", letters[3])).await.expect(404);
    client.post("/v1/dead-letter/retry", json!({"filter": {"colour": 1}, "confirm": true})).await.expect(400);
}
