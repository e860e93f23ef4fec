//! Queues: pause and resume, size bounds and their responses to producers, limits as configuration.

use crate::support::{Answer, Client, NOON, Process, TestApp, TestRedis, eventually, json};
use futures_util::future::join_all;
use serde_json::Value;

async fn put(client: &Client, path: &str, body: Value) -> Answer {
    client.send("PUT", path, Some(body.to_string())).await
}

async fn bound(client: &Client, queue: &str, bound: Value) {
    put(client, &format!("/v1/admin/queues/{queue}/config"), json!({"backpressure": bound})).await.expect(200);
}

async fn stats(client: &Client, queue: &str) -> Value {
    client.get(&format!("/v1/queues/{queue}/stats")).await.expect(200).at("/queue").clone()
}

async fn events(client: &Client, kinds: &str) -> Vec<String> {
    let answer = client.get(&format!("/v1/events?types={kinds}")).await;
    let events = answer.at("/events").as_array().cloned().unwrap_or_default();
    events.iter().map(|event| event["type"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn a_paused_queue_accepts_jobs_and_dispatches_none() {
    let app = TestApp::start_at(NOON).await;
    let client = &app.client;
    let active = client.enqueue_into("q").await;
    assert_eq!(client.fetch("q", 1).await.job_ids(), [active.as_str()]);
    let paused = client.post("/v1/queues/q/pause", json!({})).await.expect(200);
    assert_eq!((paused.at("/queue/paused"), paused.at("/status")), (&json!(true), &json!("paused")));
    assert_eq!(paused.at("/paused_at"), "2027-01-15T08:00:00.000Z");
    let waiting = client.enqueue_into("q").await;
    let later = json!({"type": "t.job", "args": [], "options": {"queue": "q", "scheduled_at": "+PT1S"}});
    let later = client.enqueue(later).await;
    assert_eq!(client.fetch("q", 9).await.job_ids(), Vec::<String>::new());
    client.ack(&active).await.expect(200);
    app.clock.advance(1000);
    eventually("scheduled jobs still become due", async || client.state(&later).await == "available").await;
    assert_eq!(client.fetch("q", 9).await.job_ids(), Vec::<String>::new());
    // Other queues of the same request are served.
    let other = client.enqueue_into("other").await;
    let both = json!({"queues": ["q", "other"], "count": 9, "worker_id": "w"});
    assert_eq!(client.post("/v1/workers/fetch", both).await.job_ids(), [other]);
    assert_eq!(
        (stats(client, "q").await["paused"].clone(), stats(client, "q").await["available"].clone()),
        (json!(true), json!(2))
    );
    assert_eq!(client.get("/v1/health").await.at("/queues"), &json!({"active": 1, "paused": 1}));
    let list = client.get("/v1/queues").await;
    assert_eq!(list.at("/queues/1/status"), "paused");
    // Pausing is idempotent.
    client.post("/v1/queues/q/pause", json!({})).await.expect(200);
    let resumed = client.post("/v1/queues/q/resume", json!({})).await.expect(200);
    assert_eq!((resumed.at("/queue/paused"), resumed.at("/status")), (&json!(false), &json!("active")));
    client.post("/v1/queues/q/resume", json!({})).await.expect(200);
    assert_eq!(client.fetch("q", 9).await.job_ids(), [waiting, later]);
    assert_eq!(events(client, "queue.*").await, ["queue.paused", "queue.resumed"]);
    let page = client.get("/v1/events?types=queue.*").await.expect(200);
    assert_eq!(
        (page.at("/events/0/data/by"), page.at("/events/1/data/by")),
        (&json!("anonymous"), &json!("anonymous"))
    );
    client.post("/v1/queues/Q/pause", json!({})).await.expect(400);
}

#[tokio::test]
async fn pausing_holds_under_limits_and_with_every_strategy() {
    let app = TestApp::start().await;
    let client = &app.client;
    for queue in ["a", "b"] {
        let limited = json!({"type": "t.job", "args": [], "meta": {"tenant_id": "x"},
            "options": {"queue": queue, "rate_limit": {"key": queue, "concurrency": 5}}});
        client.enqueue(limited).await;
        client.enqueue_into(queue).await;
    }
    client.post("/v1/admin/queues/a/pause", json!({})).await.expect(200);
    for strategy in ["strict", "round-robin", "weighted", "least-loaded"] {
        let ask = json!({"queues": ["a", "b"], "count": 1, "strategy": strategy, "worker_id": "w"});
        let answer = client.post("/v1/workers/fetch", ask).await.expect(200);
        let queues: Vec<&Value> = answer.at("/jobs").as_array().unwrap().iter().map(|job| &job["queue"]).collect();
        assert!(queues.iter().all(|queue| **queue == json!("b")), "{strategy}: {queues:?}");
    }
    assert_eq!(stats(client, "a").await["available"], 2);
    let flat = client.post("/v1/admin/queues/a/resume", json!({})).await.expect(200);
    assert_eq!((flat.at("/paused"), flat.at("/name")), (&json!(false), &json!("a")));
    assert_eq!(client.fetch("a", 9).await.job_ids().len(), 2);
}

#[tokio::test]
async fn resuming_a_queue_wakes_long_polls_and_a_pause_survives_a_kill() {
    let redis = TestRedis::durable();
    let url = redis.url();
    let arguments = ["--redis", url.as_str()];
    let mut process = Process::serve(&arguments).await;
    process.client.post("/v1/queues/q/pause", json!({})).await.expect(200);
    let id = process.client.enqueue_into("q").await;
    process.kill();
    process.restart(&arguments);
    eventually("it is ready", async || {
        process.client.try_send("GET", "/ready", &[], None).await.is_ok_and(|answer| answer.status == 200)
    })
    .await;
    assert_eq!(process.client.fetch("q", 1).await.job_ids(), Vec::<String>::new());
    let waits = process.client.post("/v1/workers/fetch", json!({"queues": ["q"], "worker_id": "w", "wait_ms": 20_000}));
    let resume = async {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        process.client.post("/v1/queues/q/resume", json!({})).await
    };
    let (answer, _) = tokio::join!(waits, resume);
    assert_eq!(answer.job_ids(), [id]);
}

#[tokio::test]
async fn a_full_queue_refuses_jobs_and_reports_its_size() {
    let app = TestApp::start_at(NOON).await;
    let client = &app.client;
    bound(client, "q", json!({"max_depth": 3, "strategy": "reject"})).await;
    client.enqueue_into("q").await;
    // Scheduled and retryable jobs count as well, active ones do not.
    client.enqueue(json!({"type": "t.job", "args": [], "options": {"queue": "q", "scheduled_at": "+PT1H"}})).await;
    let retried = client.fetch("q", 1).await.job_ids();
    assert_eq!(retried.len(), 1);
    client.enqueue_into("q").await;
    client.nack(&retried[0]).await.expect(200);
    let job = json!({"type": "t.job", "args": [], "options": {"queue": "q"}});
    let refused = client.post("/v1/jobs", job.clone()).await.expect(429);
    assert_eq!((refused.text_at("/error/code"), refused.header("retry-after")), ("QUEUE_FULL", "1"));
    for at in ["/error", "/error/details"] {
        let numbers = (refused.at(&format!("{at}/depth")), refused.at(&format!("{at}/bound")));
        assert_eq!(numbers, (&json!(3), &json!(3)));
        assert_eq!(
            (refused.at(&format!("{at}/queue")), refused.at(&format!("{at}/strategy"))),
            (&json!("q"), &json!("reject"))
        );
    }
    assert_eq!((refused.header("x-ojs-queue-depth"), refused.header("x-ojs-queue-bound")), ("3", "3"));
    // Other queues have space, but a batch is accepted or refused as a whole.
    client.enqueue_into("other").await;
    let batch = json!({"jobs": [{"type": "t.job", "args": [], "options": {"queue": "other"}}, job]});
    client.post("/v1/jobs/batch", batch).await.expect(429);
    assert_eq!(stats(client, "other").await["available"], 1);
    assert_eq!(stats(client, "q").await["max_depth"], 3);
    client.fetch("q", 1).await;
    client.enqueue_into("q").await;
    bound(client, "q", json!({"max_depth": 0})).await;
    for _ in 0..5 {
        client.enqueue_into("q").await;
    }
    assert_eq!(events(client, "backpressure.*").await, ["backpressure.rejected", "backpressure.warning"]);
}

#[tokio::test]
async fn concurrent_producers_never_exceed_the_size_of_a_queue() {
    let app = TestApp::start().await;
    bound(&app.client, "q", json!({"max_depth": 20})).await;
    let job = || json!({"type": "t.job", "args": [], "options": {"queue": "q"}});
    let answers = join_all((0..100).map(|_| app.client.post("/v1/jobs", job()))).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 20);
    assert_eq!(answers.iter().filter(|answer| answer.status == 429).count(), 80);
}

#[tokio::test]
async fn producers_are_warned_above_the_threshold() {
    let app = TestApp::start().await;
    let client = &app.client;
    bound(client, "q", json!({"max_depth": 4, "warning_threshold": 0.5})).await;
    let job = json!({"type": "t.job", "args": [], "options": {"queue": "q"}});
    for (number, pressure) in ["", "", "0.75", "1.00"].into_iter().enumerate() {
        let answer = client.post("/v1/jobs", job.clone()).await.expect(201);
        assert_eq!(answer.header("x-ojs-queue-pressure"), pressure, "job {number}");
    }
    client.fetch("q", 3).await;
    client.post("/v1/jobs", job).await.expect(201);
    assert_eq!(events(client, "backpressure.*").await, ["backpressure.warning", "backpressure.cleared"]);
}

#[tokio::test]
async fn the_oldest_job_is_dropped_with_drop_oldest() {
    let app = TestApp::start().await;
    let client = &app.client;
    bound(client, "q", json!({"max_depth": 2, "strategy": "drop_oldest"})).await;
    let mut ids = Vec::new();
    for priority in [0, 5, -5, 0] {
        let job = json!({"type": "t.job", "args": [], "options": {"queue": "q", "priority": priority}});
        ids.push(client.enqueue(job).await);
    }
    let mut states = Vec::new();
    for id in &ids {
        states.push(client.state(id).await);
    }
    assert_eq!(states, ["discarded", "discarded", "available", "available"], "by age, whatever their priority");
    let dropped = client.job(&ids[0]).await;
    assert_eq!((&dropped["error"]["type"], &dropped["completed_at"]), (&json!("overflow"), &Value::Null));
    let batch: Vec<Value> = (0..3).map(|_| json!({"type": "t.job", "args": [], "options": {"queue": "q"}})).collect();
    client.post("/v1/jobs/batch", json!({"jobs": batch})).await.expect(429);
    assert_eq!(stats(client, "q").await["available"], 2, "a batch larger than the queue drops no waiting job");
}

#[tokio::test]
async fn a_producer_waits_for_space_with_block() {
    let app = TestApp::start().await;
    let client = &app.client;
    bound(client, "q", json!({"max_depth": 1, "strategy": "block"})).await;
    client.enqueue_into("q").await;
    let job = json!({"type": "t.job", "args": [], "options": {"queue": "q"}}).to_string();
    let waiting = async |seconds: &str| {
        client.try_send("POST", "/v1/jobs", &[("OJS-Block-Timeout", seconds)], Some(job.clone())).await
    };
    waiting("0").await.unwrap().expect(429);
    let (stored, _) = tokio::join!(waiting("20"), async {
        tokio::time::sleep(std::time::Duration::from_millis(120)).await;
        client.fetch("q", 1).await
    });
    stored.unwrap().expect(201);
    waiting("soon").await.unwrap().expect(400);
}

#[tokio::test]
async fn a_queues_configuration_is_shown_as_it_was_set() {
    let app = TestApp::start().await;
    let client = &app.client;
    client.get("/v1/queues/q/config").await.expect(404);
    let config = json!({"max_size": 10, "overflow_policy": "block", "concurrency": 1, "rate_limit": {"limit": 5, "period": "PT1S"}});
    put(client, "/v1/queues/q/config", config).await.expect(200);
    let shown = client.get("/v1/admin/queues/q/config").await.expect(200);
    assert_eq!(
        shown.at("/configuration"),
        &json!({"backpressure": {"max_depth": 10, "strategy": "block", "warning_threshold": 0.8},
            "rate_limit": {"concurrency": 1, "rate": {"limit": 5, "period": "PT1S"}}})
    );
    assert_eq!(client.get("/v1/queues/q").await.at("/config"), shown.at("/configuration"));
    client.enqueue_into("q").await;
    client.enqueue_into("q").await;
    assert_eq!(client.fetch("q", 9).await.job_ids().len(), 1, "the limit holds");
    for (wrong, status) in [
        (json!({"retention": {}}), 422),
        (json!({"backpressure": {"max_size_bytes": 1}}), 422),
        (json!({"backpressure": {"max_depth": "many"}}), 400),
        (json!({"rate_limit": {"x": 1}}), 422),
        (json!([]), 400),
    ] {
        assert_eq!(put(client, "/v1/queues/q/config", wrong.clone()).await.status, status, "{wrong}");
    }
    put(client, "/v1/queues/Q/config", json!({})).await.expect(400);
}
