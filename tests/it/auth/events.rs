//! Events: each tenant sees those of its own jobs, and a revoked key sees no further event.

use super::{Caller, caller, guarded, guarded_on};
use crate::support::{TestApp, TestRedis, eventually, json};
use fairgate::domain::plan::Rule;
use std::sync::Arc;
use std::time::Duration;

fn job(tenant: &str) -> serde_json::Value {
    json!({"type": "t", "args": [], "meta": {"tenant_id": tenant}, "options": {"queue": "q"}})
}

#[tokio::test]
async fn a_tenant_sees_only_the_events_of_its_jobs() {
    let app = guarded().await;
    let admin = caller(&app, "admin");
    let (of_acme, of_beta) = (admin.enqueue(job("acme")).await, admin.enqueue(job("beta")).await);
    let nobodys = admin.enqueue(json!({"type": "t", "args": [], "options": {"queue": "q"}})).await;
    admin.post("/v1/workers/heartbeat", json!({"worker_id": "w"})).await.expect(200);
    admin.post("/v1/workers/fetch", json!({"queues": ["q"], "count": 3})).await.expect(200);
    for id in [&of_acme, &of_beta, &nobodys] {
        admin.post("/v1/workers/ack", json!({"job_id": id})).await.expect(200);
    }
    let seen = |answer: crate::support::Answer| {
        let events = answer.at("/events").as_array().cloned().unwrap_or_default();
        let show = |event: &serde_json::Value| format!("{} {}", event["type"], event["subject"]).replace('"', "");
        events.iter().map(show).collect::<Vec<_>>()
    };
    let path = "/v1/events?limit=2";
    let acme = caller(&app, "acme-operator");
    let first = acme.get(path).await.expect(200);
    let cursor = first.text_at("/cursor").to_owned();
    assert_eq!(first.at("/has_more"), &json!(true));
    let expected = ["job.enqueued", "job.started", "job.completed"].map(|kind| format!("{kind} {of_acme}"));
    assert_eq!(seen(first), expected[..2]);
    assert_eq!(seen(acme.get(&format!("{path}&after={cursor}")).await.expect(200)), expected[2..]);
    assert_eq!(seen(admin.get("/v1/events").await).len(), 10, "three of each job, and the worker's");
    let other = seen(caller(&app, "beta-operator").get("/v1/events").await.expect(200));
    assert!(other.len() == 3 && other.iter().all(|event| event.ends_with(&of_beta)), "{other:?}");
}

#[tokio::test]
async fn a_tenant_sees_its_jobs_promoted() {
    let app = guarded_on(Arc::new(TestRedis::start()), |config| {
        let mut rule = Rule::new("r", &["t"]);
        rule.pace = fairgate::domain::plan::Pace::Every(20);
        config.plan = vec![rule];
    })
    .await;
    let admin = caller(&app, "admin");
    admin.post("/v1/admin/planner/r/pause", json!({})).await.expect(200);
    let id = admin.enqueue(job("acme")).await;
    admin.enqueue(job("beta")).await;
    admin.post("/v1/admin/planner/r/resume", json!({})).await.expect(200);
    let acme = caller(&app, "acme-operator");
    eventually("both streams report the event", async || {
        let answer = acme.get("/v1/events").await.expect(200);
        let events = answer.at("/events").as_array().cloned().unwrap_or_default();
        let kinds: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
        assert!(events.iter().all(|event| event["subject"] == id.as_str()), "{events:?}");
        kinds == ["job.staged", "job.enqueued"]
    })
    .await;
}

/// A reader of an event stream.
struct Stream(reqwest::Response);

impl Stream {
    async fn open(app: &TestApp, path: &str, key: &str) -> Self {
        let http = fairgate::weights::client_builder().build().unwrap();
        let request = http.get(format!("{}{path}", app.client.base())).bearer_auth(key);
        let response = request.header("accept", "text/event-stream").send().await.unwrap();
        assert_eq!(response.status(), 200);
        Stream(response)
    }

    /// The next chunk; `None` at the end.
    async fn next(&mut self) -> Option<String> {
        let next =
            tokio::time::timeout(Duration::from_secs(20), self.0.chunk()).await.expect("the stream continues or ends");
        next.unwrap().map(|chunk| String::from_utf8_lossy(&chunk).into_owned())
    }

    /// Everything until the end.
    async fn rest(mut self) -> String {
        let mut sent = String::new();
        while let Some(more) = self.next().await {
            sent += &more;
        }
        sent
    }
}

#[tokio::test]
async fn a_stream_keeps_to_its_tenant_and_ends_with_its_key() {
    let app = guarded().await;
    let admin = caller(&app, "admin");
    let made =
        admin.post("/v1/admin/keys", json!({"name": "s", "role": "operator", "tenant": "acme"})).await.expect(201);
    let (id, key) = (made.text_at("/api_key/id").to_owned(), made.text_at("/api_key/key").to_owned());
    let mut stream = Stream::open(&app, "/ojs/v1/events", &key).await;
    let first = stream.next().await.unwrap();
    let (of_beta, of_acme) = (admin.enqueue(job("beta")).await, admin.enqueue(job("acme")).await);
    let mut sent = first;
    while !sent.contains(&of_acme) {
        sent += &stream.next().await.unwrap();
    }
    admin.delete(&format!("/v1/admin/keys/{id}")).await.expect(200);
    sent += &stream.rest().await;
    assert!(!sent.contains(&of_beta), "{sent}");
}

#[tokio::test]
async fn a_stream_of_rounds_ends_with_its_key() {
    let app = guarded().await;
    let admin = caller(&app, "admin");
    let made = admin.post("/v1/admin/keys", json!({"name": "s", "role": "operator"})).await.expect(201);
    let stream = Stream::open(&app, "/ojs/v1/admin/planner/events", made.text_at("/api_key/key")).await;
    admin.delete(&format!("/v1/admin/keys/{}", made.text_at("/api_key/id"))).await.expect(200);
    stream.rest().await;
}

#[tokio::test]
async fn a_fetch_that_waits_gets_nothing_once_its_key_is_revoked() {
    let app = guarded().await;
    let admin = caller(&app, "admin");
    let made = admin.post("/v1/admin/keys", json!({"name": "w", "role": "worker"})).await.expect(201);
    let waiting = Caller::new(&app.client, made.text_at("/api_key/key"));
    let fetch =
        tokio::spawn(
            async move { waiting.post("/v1/workers/fetch", json!({"queues": ["q"], "wait_ms": 20000})).await },
        );
    eventually("it waits", async || admin.get("/metrics").await.text.contains("fairgate_long_polls 1")).await;
    admin.delete(&format!("/v1/admin/keys/{}", made.text_at("/api_key/id"))).await.expect(200);
    fetch.await.unwrap().expect(401);
    let id = admin.enqueue(job("acme")).await;
    assert_eq!(admin.post("/v1/workers/fetch", json!({"queues": ["q"]})).await.job_ids(), [id]);
}
