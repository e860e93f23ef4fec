//! Webhooks for events: which endpoints receive them, signatures, retries, and addresses that are refused.

use crate::support::{Answer, Client, NOON, TestApp, TestRedis, eventually, json};
use fairgate::clock::Clock;
use fairgate::config::Secret;
use fairgate::weights::signature;
use serde_json::Value;
use std::sync::Arc;
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

async fn endpoint(answers: &[u16]) -> MockServer {
    let server = MockServer::start().await;
    for (index, status) in answers.iter().enumerate() {
        let mock = Mock::given(method("POST")).respond_with(ResponseTemplate::new(*status));
        let mock = if index + 1 < answers.len() { mock.up_to_n_times(1) } else { mock };
        mock.mount(&server).await;
    }
    server
}

async fn start() -> TestApp {
    TestApp::start_with(Clock::manual(NOON), |config| config.server.private_webhooks = true).await
}

async fn subscribe(client: &Client, url: &str, events: Value) -> Answer {
    let body = json!({"url": url, "events": events, "secret": "hunter2-hunter2"});
    client.post("/v1/webhooks/subscriptions", body).await.expect(201)
}

async fn received(server: &MockServer, number: usize) -> Vec<Request> {
    eventually("events are delivered", async || server.received_requests().await.unwrap_or_default().len() >= number)
        .await;
    server.received_requests().await.unwrap()
}

/// Waits until the only pending delivery has been tried this often; returns the time of its next attempt.
async fn tried(client: &Client, times: u64) {
    eventually("it is tried", async || {
        client.get("/v1/webhooks/deliveries").await.at("/deliveries/0/attempts").as_u64() == Some(times)
    })
    .await;
}

fn header<'a>(request: &'a Request, name: &str) -> &'a str {
    request.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

#[tokio::test]
async fn a_subscription_is_kept_shown_changed_and_removed() {
    let app = start().await;
    let client = &app.client;
    let body = json!({"url": "https://example.com/h", "events": ["job.completed", "job.failed"], "metadata": {"a": 1}});
    let made = client.post("/v1/webhooks/subscriptions", body).await.expect(201);
    let (id, secret) = (made.text_at("/subscription/id"), made.text_at("/subscription/secret"));
    assert!(id.starts_with("sub_") && secret.starts_with("whsec_") && secret.len() == 70, "{id} {secret}");
    let path = format!("/v1/webhooks/subscriptions/{id}");
    let shown = client.get(&path).await.expect(200);
    assert_eq!((shown.at("/subscription/active"), shown.at("/subscription/metadata/a")), (&json!(true), &json!(1)));
    assert_eq!(shown.at("/subscription/secret"), &Value::Null, "shown once");
    let events = json!({"events": ["job.*"], "active": false});
    let changed = client.send("PATCH", &path, Some(events.to_string())).await.expect(200);
    assert_eq!(
        (changed.at("/subscription/events"), changed.at("/subscription/active")),
        (&json!(["job.*"]), &json!(false))
    );
    let list = client.get("/v1/webhooks/subscriptions").await.expect(200);
    assert_eq!((list.at("/subscriptions/0/id"), list.at("/pagination/total")), (&json!(id), &json!(1)));
    let rotated = client.post(&format!("{path}/rotate-secret"), json!({})).await.expect(200);
    assert_ne!(rotated.text_at("/subscription/secret"), secret);
    client.delete(&path).await.expect(200);
    for method in ["GET", "DELETE"] {
        client.send(method, &path, None).await.expect(404);
    }
    client.send("PATCH", &path, Some("{}".to_owned())).await.expect(404);
}

#[tokio::test]
async fn only_requested_events_arrive_and_they_are_signed() {
    let app = start().await;
    let client = &app.client;
    let server = endpoint(&[200]).await;
    client.enqueue_into("q").await; // before anybody listened
    let made = subscribe(client, &server.uri(), json!(["job.completed"])).await;
    let id = client.enqueue_into("q").await;
    client.fetch("q", 2).await;
    client.ack(&id).await.expect(200);
    let requests = received(&server, 1).await;
    let request = &requests[0];
    let body = String::from_utf8(request.body.clone()).unwrap();
    let event: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&event["type"], &event["subject"]), (&json!("job.completed"), &json!(id)));
    assert_eq!(header(request, "x-ojs-event-type"), "job.completed");
    assert_eq!(header(request, "x-ojs-subscription-id"), made.text_at("/subscription/id"));
    assert_eq!(header(request, "user-agent"), "OJS-Webhook/1.0");
    let timestamp = header(request, "x-ojs-timestamp").parse().unwrap();
    assert_eq!(timestamp, NOON / 1000);
    let expected = signature(&Secret::new("hunter2-hunter2"), timestamp, &body);
    assert_eq!(header(request, "x-ojs-signature"), expected);
    // For a day after a rotation, both secrets sign.
    let rotate = format!("/v1/webhooks/subscriptions/{}/rotate-secret", made.text_at("/subscription/id"));
    let new = client.post(&rotate, json!({})).await.expect(200).text_at("/subscription/secret").to_owned();
    let id = client.fetch("q", 1).await.job_ids();
    assert!(id.is_empty());
    let id = client.enqueue_into("q").await;
    client.fetch("q", 1).await;
    client.ack(&id).await.expect(200);
    let requests = received(&server, 2).await;
    let body = String::from_utf8(requests[1].body.clone()).unwrap();
    let both = [new.as_str(), "hunter2-hunter2"].map(|secret| signature(&Secret::new(secret), NOON / 1000, &body));
    assert_eq!(header(&requests[1], "x-ojs-signature"), both.join(","));
    assert_eq!(
        client.get("/v1/webhooks/deliveries").await.at("/pagination/total"),
        &json!(0),
        "nothing of them remains"
    );
}

#[tokio::test]
async fn failed_deliveries_are_retried_under_the_same_id_and_finally_dead() {
    let app = start().await;
    let client = &app.client;
    let server = endpoint(&[500, 429, 200]).await;
    subscribe(client, &server.uri(), json!(["job.enqueued"])).await;
    client.enqueue_into("q").await;
    let first = received(&server, 1).await;
    tried(client, 1).await;
    let waiting = client.get("/v1/webhooks/deliveries").await;
    assert_eq!(waiting.at("/deliveries/0/last_error"), &json!("returned HTTP 500"));
    app.clock.advance(30_000);
    tried(client, 2).await;
    app.clock.advance(120_000);
    let all = received(&server, 3).await;
    let delivery = |request: &Request| header(request, "x-ojs-delivery-id").to_owned();
    assert!(all.iter().all(|request| delivery(request) == delivery(&first[0])));
    eventually("the job is accepted", async || {
        client.get("/v1/webhooks/deliveries").await.at("/pagination/total") == &json!(0)
    })
    .await;
    // A delivery that the endpoint rejects with a client error is not retried unless somebody requests it.
    let server = endpoint(&[404, 200]).await;
    subscribe(client, &server.uri(), json!(["job.cancelled"])).await;
    let id = client.enqueue_into("q").await;
    client.delete(&format!("/v1/jobs/{id}")).await.expect(200);
    eventually("it is given up", async || {
        client.get("/v1/webhooks/deliveries?status=dead").await.at("/pagination/total") == &json!(1)
    })
    .await;
    let dead = client.get("/v1/webhooks/deliveries?status=dead").await;
    let id = dead.text_at("/deliveries/0/id").to_owned();
    assert_eq!(dead.at("/deliveries/0/event/type"), &json!("job.cancelled"));
    let reported = client.get("/v1/events?types=webhook.dead").await;
    assert_eq!(reported.at("/events/0/data/delivery_id"), &json!(id));
    client.post(&format!("/v1/webhooks/deliveries/{id}/retry"), json!({})).await.expect(200);
    received(&server, 2).await;
    eventually("it is gone", async || client.get(&format!("/v1/webhooks/deliveries/{id}")).await.status == 404).await;
    client.post(&format!("/v1/webhooks/deliveries/{id}/retry"), json!({})).await.expect(404);
    client.get("/v1/webhooks/deliveries?status=odd").await.expect(400);
}

#[tokio::test]
async fn a_clock_step_does_not_delay_the_next_attempt() {
    let app = start().await;
    let server = endpoint(&[500, 200]).await;
    subscribe(&app.client, &server.uri(), json!(["job.enqueued"])).await;
    app.client.enqueue_into("q").await;
    received(&server, 1).await;
    tried(&app.client, 1).await;
    app.store().tick_and_signal().await.unwrap();
    app.clock.advance(-3_600_000);
    eventually("the step is accepted", async || {
        app.client.get("/v1/events?types=clock.stepped_back").await.at("/events/0").is_object()
    })
    .await;
    app.clock.advance(30_000);
    received(&server, 2).await;
}

#[tokio::test]
async fn each_event_is_sent_once_with_any_number_of_processes() {
    let redis = Arc::new(TestRedis::start());
    let mut apps = Vec::new();
    for _ in 0..3 {
        let private = |config: &mut fairgate::config::Config| config.server.private_webhooks = true;
        apps.push(TestApp::start_on(redis.clone(), Clock::System, private).await);
    }
    let server = endpoint(&[200]).await;
    subscribe(&apps[0].client, &server.uri(), json!(["job.enqueued"])).await;
    for number in 0..30 {
        apps[number % 3].client.enqueue_into("q").await;
    }
    let requests = received(&server, 30).await;
    let mut ids: Vec<&str> = requests.iter().map(|request| header(request, "x-ojs-delivery-id")).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((ids.len(), requests.len()), (30, 30));
}

#[tokio::test]
async fn internal_addresses_are_refused() {
    let app = TestApp::start().await;
    let client = &app.client;
    for url in [
        "http://example.com/",
        "https://127.0.0.1/",
        "https://10.0.0.1/",
        "https://[::1]/",
        "https://169.254.169.254/",
        "x",
    ] {
        let answer = client.post("/v1/webhooks/subscriptions", json!({"url": url, "events": ["*"]})).await.expect(400);
        assert_eq!(answer.text_at("/error/details/field"), "url", "{url}");
    }
    let made = client.post("/v1/webhooks/subscriptions", json!({"url": "https://example.com", "events": ["*"]})).await;
    let path = format!("/v1/webhooks/subscriptions/{}", made.expect(201).text_at("/subscription/id"));
    client.send("PATCH", &path, Some(json!({"url": "https://127.0.0.1/"}).to_string())).await.expect(400);
    let inside = json!({"url": "https://localhost/", "events": ["job.enqueued"]});
    for refused in [
        client.post("/v1/webhooks/subscriptions", inside.clone()).await.expect(400),
        client.send("PATCH", &path, Some(inside.to_string())).await.expect(400),
    ] {
        let reason = refused.text_at("/error/message");
        assert!(reason.contains("localhost resolves to") && reason.contains("not a public address"), "{reason}");
    }
    let unknown = json!({"url": "https://does-not-exist.invalid/", "events": ["job.enqueued"]});
    client.send("PATCH", &path, Some(unknown.to_string())).await.expect(200);

    // A name that resolves to an internal address by the time of the delivery is refused then.
    let lenient = TestApp::start_on(Arc::clone(&app.redis), Clock::System, |config| {
        config.server.private_webhooks = true;
        config.server.roles = vec![fairgate::config::Role::Api];
    })
    .await;
    lenient.client.send("PATCH", &path, Some(inside.to_string())).await.expect(200);
    client.enqueue_into("q").await;
    eventually("it is refused", async || {
        let waiting = client.get("/v1/webhooks/deliveries").await;
        waiting.at("/deliveries/0/attempts").as_u64().is_some_and(|tries| tries > 0)
    })
    .await;
}
