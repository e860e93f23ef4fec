//! Progress, checkpoints and results that workers report.

use crate::support::{Answer, Client, NOON, Process, TestApp, TestRedis, eventually, json};
use serde_json::Value;

async fn put(client: &Client, path: &str, body: Value) -> Answer {
    client.send("PUT", path, Some(body.to_string())).await
}

async fn started(client: &Client) -> String {
    let id = client.enqueue_into("q").await;
    assert_eq!(client.fetch("q", 1).await.job_ids(), [id.as_str()]);
    id
}

#[tokio::test]
async fn progress_increases_within_an_attempt_and_restarts_with_the_next() {
    let app = TestApp::start_at(NOON).await;
    let client = &app.client;
    let id = started(client).await;
    let path = format!("/v1/jobs/{id}/progress");
    let none = client.get(&path).await.expect(200);
    assert_eq!(
        (none.at("/progress"), none.at("/data"), none.at("/state")),
        (&Value::Null, &Value::Null, &json!("active"))
    );
    let reported =
        put(client, &path, json!({"progress": 0.5, "message": "half", "data": {"n": 1.0}})).await.expect(200);
    assert_eq!(
        (reported.at("/progress"), reported.at("/message"), reported.at("/job_id")),
        (&json!(0.5), &json!("half"), &json!(id))
    );
    for (sent, shown) in [(0.25, 0.5), (-3.0, 0.5), (1.5, 1.0)] {
        assert_eq!(
            put(client, &path, json!({"progress": sent})).await.expect(200).at("/progress"),
            &json!(shown),
            "{sent}"
        );
    }
    let shown = client.get(&path).await.expect(200);
    assert!(shown.text.contains("\"data\":{\"n\":1.0}"), "{}", shown.text);
    assert_eq!((shown.header("x-ojs-progress"), shown.header("cache-control")), ("1", "no-cache"));
    client.nack(&id).await.expect(200);
    assert_eq!(client.get(&path).await.at("/progress"), &json!(1.0), "kept on failure");
    assert_eq!(
        put(client, &path, json!({"progress": 0.1})).await.expect(200).at("/progress"),
        &json!(1.0),
        "the job is not active"
    );
    app.clock.advance(60_000);
    client.fetch("q", 1).await;
    assert_eq!(client.get(&path).await.at("/progress"), &Value::Null);
    put(client, &path, json!({"progress": 0.3})).await.expect(200);
    assert_eq!(client.get(&path).await.at("/message"), &Value::Null, "nothing of the last attempt remains");
    client.ack(&id).await.expect(200);
    assert_eq!(client.get(&path).await.at("/progress"), &json!(1.0));
    let events = client.get("/v1/events?types=job.progress").await;
    assert_eq!(events.at("/events/0/data/progress_percent"), &json!(50));
    assert_eq!(events.at("/events/0/data/progress_message"), &json!("half"));
    for wrong in [json!({}), json!({"message": "m"}), json!({"progress": "x"}), json!({"progress": 0.1, "message": 1})]
    {
        put(client, &path, wrong).await.expect(400);
    }
    put(client, &path, json!({"data": "x".repeat(5000)})).await.expect(413);
    put(client, "/v1/jobs/019461a8-1a2b-7c3d-8e4f-000000000000/progress", json!({"progress": 1})).await.expect(404);
    client.get("/v1/jobs/019461a8-1a2b-7c3d-8e4f-000000000000/progress").await.expect(404);
}

#[tokio::test]
async fn a_progress_report_counts_as_heartbeat_only_from_the_lease_holder() {
    let app = TestApp::start_at(NOON).await;
    let client = &app.client;
    let id = client.enqueue_into("q").await;
    let ask = json!({"queues": ["q"], "worker_id": "w1", "visibility_timeout_ms": 10_000});
    client.post("/v1/workers/fetch", ask).await.expect(200);
    let path = format!("/v1/jobs/{id}/progress");
    put(client, &path, json!({"progress": 0.1, "worker_id": "w2"})).await.expect(409);
    app.clock.advance(9_000);
    put(client, &path, json!({"progress": 0.1, "worker_id": "w1"})).await.expect(200);
    app.clock.advance(9_000);
    client.fetch("other", 1).await; // whatever is due comes due
    assert_eq!(client.state(&id).await, "active");
    app.clock.advance(1_001);
    eventually("the reservation expires", async || client.state(&id).await == "available").await;
}

#[tokio::test]
async fn a_checkpoint_survives_attempts_and_kills() {
    let redis = TestRedis::durable();
    let url = redis.url();
    let arguments = ["--redis", url.as_str()];
    let mut process = Process::serve(&arguments).await;
    let retry = json!({"initial_interval": "PT0.05S", "jitter": false});
    let job = json!({"type": "t.job", "args": [], "options": {"queue": "q", "retry": retry}});
    let id = process.client.enqueue(job).await;
    process.client.fetch("q", 1).await;
    let path = format!("/v1/jobs/{id}/checkpoint");
    process.client.get(&path).await.expect(404);
    for sequence in 1..=2 {
        let kept = put(&process.client, &path, json!({"state": {"at": sequence}})).await.expect(200);
        assert_eq!((kept.at("/sequence"), kept.at("/checkpoint/sequence")), (&json!(sequence), &json!(sequence)));
    }
    process.client.nack(&id).await.expect(200);
    process.kill();
    process.restart(&arguments);
    eventually("the next attempt gets it", async || {
        let Ok(answer) =
            process.client.try_send("POST", "/v1/workers/fetch", &[], Some(json!({"queues": ["q"]}).to_string())).await
        else {
            return false;
        };
        let checkpoint = answer.at("/jobs/0/checkpoint");
        (&checkpoint["state"], &checkpoint["sequence"]) == (&json!({"at": 2}), &json!(2))
    })
    .await;
    let client = &process.client;
    assert_eq!(client.get(&path).await.expect(200).at("/state"), &json!({"at": 2}));
    assert_eq!(client.delete(&path).await.expect(200).at("/deleted"), &json!(true));
    client.delete(&path).await.expect(200);
    client.get(&path).await.expect(404);
    assert_eq!(client.job(&id).await.get("checkpoint"), None);
    let kept = client.post(&path, json!({"state": [1]})).await.expect(200);
    assert_eq!(kept.at("/sequence"), &json!(1), "the sequence starts again");
    client.post(&path, json!({})).await.expect(400);
    client.post(&path, json!({"state": "x".repeat(2 << 20)})).await.expect(413);
    put(client, &format!("/v1/jobs/{id}/progress"), json!({"progress": 0.5, "checkpoint": [2]})).await.expect(200);
    client.ack(&id).await.expect(200);
    assert_eq!(client.get(&path).await.expect(200).at("/state"), &json!([2]), "kept as long as the job is");
    client.post(&path, json!({"state": 1})).await.expect(409);
    for part in ["prog:", "chk:"] {
        let key = redis.keys_with(part).await.remove(0);
        assert!(redis.command::<i64>(&["PTTL", &key]).await > 0, "{key} goes with the job");
    }
    client.get("/v1/jobs/019461a8-1a2b-7c3d-8e4f-000000000000/checkpoint").await.expect(404);
    client.delete("/v1/jobs/019461a8-1a2b-7c3d-8e4f-000000000000/checkpoint").await.expect(404);
}

#[tokio::test]
async fn a_result_can_be_waited_for_and_read_with_others() {
    let app = TestApp::start().await;
    let client = &app.client;
    let id = started(client).await;
    let path = format!("/v1/jobs/{id}/result");
    client.get(&path).await.expect(408);
    client.get(&format!("{path}?wait=true&timeout=0")).await.expect(408);
    client.get(&format!("{path}?wait=maybe")).await.expect(400);
    client.get(&format!("{path}?timeout=999")).await.expect(400);
    let url = format!("{path}?wait=true&timeout=20");
    let (result, _) = tokio::join!(client.get(&url), async {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        client.post("/v1/workers/ack", json!({"job_id": id, "result": {"n": 1}})).await
    });
    let result = result.expect(200);
    assert_eq!((result.at("/state"), result.at("/result")), (&json!("completed"), &json!({"n": 1})));
    let waiting = client.enqueue_into("q").await;
    let both = client.post("/v1/jobs/results", json!({"ids": [id, waiting, "nobody"]})).await.expect(200);
    assert_eq!(
        both.at("/results"),
        &json!({id.as_str(): {"state": "completed", "result": {"n": 1}}, waiting.as_str(): {"state": "available", "result": null}})
    );
    client.post("/v1/jobs/results", json!({})).await.expect(400);
    client.get("/v1/jobs/019461a8-1a2b-7c3d-8e4f-000000000000/result").await.expect(404);
}
