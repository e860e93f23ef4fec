//! The other server is down, rejects the token, is busy, speaks another protocol, or accepts half of a batch: the
//! failure is reported and no job is lost.

use super::*;
use fairgate::config::{ByteSize, Secret};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

/// Starts a server with empty queues and the given manifest.
async fn server(manifest: Value) -> MockServer {
    let server = MockServer::start().await;
    let answer = ResponseTemplate::new(200).set_body_json(manifest);
    Mock::given(path("/ojs/manifest")).respond_with(answer).mount(&server).await;
    let queue = json!({"counts": {"available": 0, "active": 0}, "oldest_available_at": null});
    let answer = ResponseTemplate::new(200).set_body_json(queue);
    Mock::given(path("/ojs/v1/admin/queues/heavy")).respond_with(answer).mount(&server).await;
    server
}

fn manifest() -> Value {
    json!({"specversion": "1.0", "implementation": {"name": "x"}, "conformance_level": 4})
}

/// Sets the response to the first `times` batch posts.
async fn at_first(server: &MockServer, times: u64, answer: ResponseTemplate) {
    let posts = Mock::given(method("POST")).and(path("/ojs/v1/jobs/batch"));
    posts.respond_with(answer).up_to_n_times(times).with_priority(1).mount(server).await;
}

fn ids(request: &Request) -> Vec<String> {
    let body: Value = serde_json::from_slice(&request.body).expect("JSON");
    let id = |job: &Value| job["id"].as_str().expect("an id").to_owned();
    body["jobs"].as_array().map_or_else(|| vec![id(&body)], |jobs| jobs.iter().map(id).collect())
}

fn taken(ids: &[String]) -> ResponseTemplate {
    let jobs: Vec<Value> = ids.iter().map(|id| json!({"id": id, "state": "available"})).collect();
    ResponseTemplate::new(201).set_body_json(json!({"jobs": jobs, "count": ids.len(), "job": jobs.first()}))
}

/// Accepts all batches from then on.
async fn works(server: &MockServer) {
    let posts = Mock::given(method("POST"));
    posts.respond_with(|request: &Request| taken(&ids(request))).with_priority(9).mount(server).await;
}

/// All posted ids, including those of rejected posts.
async fn posted(server: &MockServer, to: &str) -> Vec<String> {
    let requests = server.received_requests().await.unwrap_or_default();
    requests.iter().filter(|request| request.method == "POST" && request.url.path() == to).flat_map(ids).collect()
}

async fn delivered(app: &TestApp) {
    eventually("all jobs are delivered", async || {
        let stats = stats(&app.client).await;
        stats["main_queue"]["undelivered"] == 0 && stats["staged"]["jobs"] == 0
    })
    .await;
}

/// Waits until a failed round and the stats report an error with this text; returns the stats.
async fn wait_for_report(app: &TestApp, kind: &str, part: &str) -> Value {
    let mut last = Value::Null;
    eventually(&format!("a failure is reported: {part}"), async || {
        last = stats(&app.client).await;
        let rounds = last["last_rounds"].as_array().cloned().unwrap_or_default();
        let fails = |round: &Value| round["outcome"] == "failed" && round["reason"] == "main_queue";
        let says = |text: &Value| text.as_str().is_some_and(|text| text.contains(part));
        let error = &last["main_queue"]["health"]["error"];
        rounds.iter().any(|round| fails(round) && says(&round["error"]))
            && error["kind"] == kind
            && says(&error["message"])
    })
    .await;
    last
}

#[tokio::test]
async fn down_at_the_start() {
    let (remote_address, app) = {
        let remote = TestApp::start().await;
        let app = before(&[often()], Ojs::at(&url_of(&remote))).await;
        let address = remote.app.address;
        remote.app.shut_down().await;
        (address, app)
    };
    let pushed = push(&app.client, "a", 5).await;
    let reported = wait_for_report(&app, "unreachable", "http://127.0.0.1").await;
    assert_eq!((&reported["gate"]["open"], &reported["gate"]["reason"]), (&json!(false), &json!("unreachable")));
    assert_eq!(reported["staged"]["jobs"], 5);
    eventually("the breaker opens", async || stats(&app.client).await["main_queue"]["health"]["breaker"] != "closed")
        .await;
    let remote = TestApp::start_with(Clock::System, |config| config.server.listen = remote_address).await;
    delivered(&app).await;
    assert_eq!(remote.client.fetch("heavy", 10).await.job_ids(), pushed);
}

#[tokio::test]
async fn down_in_the_middle_of_a_round() {
    let server = server(manifest()).await;
    at_first(&server, 3, ResponseTemplate::new(500)).await;
    works(&server).await;
    let app = before(&[often()], Ojs::at(&server.uri())).await;
    let pushed = push(&app.client, "a", 5).await;
    delivered(&app).await;
    let posts = posted(&server, "/ojs/v1/jobs/batch").await;
    assert_eq!(posts, [&pushed[..], &pushed, &pushed, &pushed].concat(), "the same batch until it is accepted");
    assert_eq!(stats(&app.client).await["main_queue"]["health"]["errors_total"].as_u64(), Some(0), "of looking");
}

#[tokio::test]
async fn a_wrong_token() {
    let remote = TestApp::start().await;
    let key = remote.client.post("/v1/admin/keys", json!({"name": "x", "role": "admin"})).await.expect(201);
    let key = key.text_at("/api_key/key").to_owned();
    let ojs = |token: &str| Ojs { token: Some(Secret::new(token)), ..Ojs::at(&url_of(&remote)) };
    let redis = {
        let app = before(&[often()], ojs("fgk_wrong_wrong_wrong_wrong_wrong_wrong_wrong_wr")).await;
        push(&app.client, "a", 5).await;
        let reported = wait_for_report(&app, "unauthorized", "check its token").await;
        assert!(!reported.to_string().contains("wrong_wrong"), "{reported}");
        let redis = Arc::clone(&app.redis);
        app.app.shut_down().await;
        redis
    };
    let app = TestApp::start_on(redis, Clock::System, |config| configure(config, &[often()], ojs(&key))).await;
    delivered(&app).await;
    let headers = format!("Bearer {key}");
    let counts = remote.client.try_send("GET", "/v1/admin/queues/heavy", &[("authorization", &headers)], None).await;
    assert_eq!(counts.unwrap().at("/counts/available"), &json!(5));
}

#[tokio::test]
async fn a_server_that_speaks_no_ojs_or_another_version() {
    let html = || ResponseTemplate::new(200).set_body_raw("<html>It works!</html>", "text/html");
    for (answer, kind, part) in [
        (
            ResponseTemplate::new(200).set_body_json(json!({"specversion": "2.0", "conformance_level": 4})),
            "unsupported",
            "speaks OJS 2.0",
        ),
        (ResponseTemplate::new(200).set_body_json(json!({"specversion": "1.0"})), "unsupported", "conformance level 0"),
        (ResponseTemplate::new(404), "unsupported", "is this an OJS server?"),
        (html(), "unreadable", "not OJS (text/html)"),
        (
            ResponseTemplate::new(302).insert_header("location", "http://127.0.0.1:1/"),
            "status",
            "redirects are not followed",
        ),
    ] {
        let server = MockServer::start().await;
        Mock::given(path("/ojs/manifest")).respond_with(answer).mount(&server).await;
        works(&server).await;
        let app = before(&[often()], Ojs::at(&server.uri())).await;
        push(&app.client, "a", 2).await;
        assert_eq!(wait_for_report(&app, kind, part).await["staged"]["jobs"], 2);
        assert_eq!(posted(&server, "/ojs/v1/jobs/batch").await.len(), 0);
    }
}

#[tokio::test]
async fn a_server_without_queue_statistics() {
    let server = MockServer::start().await;
    let manifest = json!({"specversion": "1.0", "conformance_level": 3});
    let answer = ResponseTemplate::new(200).set_body_json(manifest);
    Mock::given(path("/ojs/manifest")).respond_with(answer).mount(&server).await;
    let app = before(&[often()], Ojs::at(&server.uri())).await;
    push(&app.client, "a", 2).await;
    wait_for_report(&app, "unsupported", "reports no statistics of queue heavy").await;
    // A server that reports only the number of waiting jobs and their average wait, and has no batches.
    let stats = json!({"stats": {"depth": 1, "avg_wait_ms": 90_000}});
    let answer = ResponseTemplate::new(200).set_body_json(stats);
    Mock::given(path("/ojs/v1/queues/heavy/stats")).respond_with(answer).mount(&server).await;
    eventually("the average is what counts", async || super::stats(&app.client).await["gate"]["reason"] == "latency")
        .await;
    let stats = json!({"stats": {"depth": 0}});
    let answer = ResponseTemplate::new(200).set_body_json(stats);
    Mock::given(path("/ojs/v1/queues/heavy/stats")).respond_with(answer).with_priority(1).mount(&server).await;
    let alone = Mock::given(method("POST")).and(path("/ojs/v1/jobs"));
    alone.respond_with(|request: &Request| taken(&ids(request))).mount(&server).await;
    delivered(&app).await;
    assert_eq!(posted(&server, "/ojs/v1/jobs").await.len(), 2);
}

#[tokio::test]
async fn half_a_batch_is_completed() {
    let server = server(manifest()).await;
    let half = |request: &Request| taken(&ids(request)[..3]);
    Mock::given(path("/ojs/v1/jobs/batch")).respond_with(half).mount(&server).await;
    works(&server).await;
    let app = before(&[by_hand(10)], Ojs::at(&server.uri())).await;
    let pushed = push(&app.client, "a", 6).await;
    assert_eq!(run(&app.client).await["promoted"], 6);
    delivered(&app).await;
    assert_eq!(posted(&server, "/ojs/v1/jobs/batch").await, pushed);
    assert_eq!(posted(&server, "/ojs/v1/jobs").await, pushed[3..]);
}

#[tokio::test]
async fn a_repeated_batch_is_resolved_one_by_one() {
    let remote = TestApp::start().await;
    let proxy = crate::support::ChaosProxy::before(remote.app.address).await;
    let app = before(&[often()], Ojs { timeout: Duration::from_secs(1), ..Ojs::at(&proxy.http_url()) }).await;
    proxy.arm("POST /ojs/v1/jobs/batch");
    let pushed = push(&app.client, "a", 3).await;
    proxy.struck().await;
    assert_eq!(stats(&app.client).await["main_queue"]["undelivered"], 3);
    proxy.open();
    delivered(&app).await;
    assert_eq!(remote.client.fetch("heavy", 10).await.job_ids(), pushed);
}

#[tokio::test]
async fn error_pages_of_a_proxy_are_not_accepted() {
    let server = server(manifest()).await;
    let html = |status| ResponseTemplate::new(status).set_body_raw("<html>It works!</html>", "text/html");
    at_first(&server, 1, html(200)).await;
    // The jobs of a refused batch are posted one by one and refused in the same way.
    let alone = Mock::given(method("POST")).and(path("/ojs/v1/jobs"));
    alone.respond_with(html(400)).up_to_n_times(1).with_priority(1).mount(&server).await;
    let again = Mock::given(method("POST")).and(path("/ojs/v1/jobs/batch"));
    again.respond_with(html(400)).up_to_n_times(1).with_priority(2).mount(&server).await;
    works(&server).await;
    let app = before(&[often()], Ojs::at(&server.uri())).await;
    let pushed = push(&app.client, "a", 2).await;
    delivered(&app).await;
    let batches = posted(&server, "/ojs/v1/jobs/batch").await;
    assert_eq!(batches, [&pushed[..], &pushed, &pushed].concat());
    assert_eq!(posted(&server, "/ojs/v1/jobs").await, pushed[..1]);
    assert_eq!(app.client.state(&pushed[0]).await, "available");
}

#[tokio::test]
async fn a_busy_server_is_left_alone_for_as_long_as_it_says() {
    for status in [429, 503] {
        let server = server(manifest()).await;
        let answer = json!({"error": {"code": "QUEUE_FULL", "message": "full"}});
        let answer = ResponseTemplate::new(status).insert_header("retry-after", "2").set_body_json(answer);
        at_first(&server, 1, answer).await;
        works(&server).await;
        let app = before(&[often()], Ojs::at(&server.uri())).await;
        let pushed = push(&app.client, "a", 4).await;
        eventually("it was posted", async || !posted(&server, "/ojs/v1/jobs/batch").await.is_empty()).await;
        let since = Instant::now();
        push(&app.client, "b", 1).await;
        eventually("the gate is closed", async || stats(&app.client).await["gate"]["reason"] == "retry_after").await;
        let reported = stats(&app.client).await;
        let health = &reported["main_queue"]["health"];
        assert_eq!((&health["state"], &reported["main_queue"]["undelivered"]), (&json!("busy"), &json!(4)), "{health}");
        assert!(health["retry_after_ms"].as_u64() <= Some(2000), "{health}");
        eventually("a round reports it", async || {
            let rounds = stats(&app.client).await["last_rounds"].as_array().cloned().unwrap_or_default();
            rounds.iter().any(|round| round["reason"] == "retry_after")
        })
        .await;
        delivered(&app).await;
        assert!(since.elapsed() > Duration::from_millis(1500), "{:?}", since.elapsed());
        let posts = posted(&server, "/ojs/v1/jobs/batch").await;
        assert_eq!((&posts[..4], &posts[4..8], posts.len()), (&pushed[..], &pushed[..], 9));
    }
}

#[tokio::test]
async fn a_full_queue_takes_the_rest_later() {
    let remote = TestApp::start().await;
    let bound = json!({"backpressure": {"max_depth": 3, "strategy": "reject"}});
    remote.client.send("PUT", "/v1/queues/heavy/config", Some(bound.to_string())).await.expect(200);
    let small = rule(|rule| (rule.batch, rule.pace) = (Batch::Jobs(2), Pace::Every(50)));
    let app = before(&[small], Ojs::at(&url_of(&remote))).await;
    let pushed = push(&app.client, "a", 6).await;
    let mut fetched = Vec::new();
    eventually("all are there", async || {
        fetched.extend(remote.client.fetch("heavy", 1).await.job_ids());
        fetched.len() == 6
    })
    .await;
    assert_eq!(fetched, pushed);
}

#[tokio::test]
async fn an_outbox_drains_after_a_restart() {
    let server = server(manifest()).await;
    at_first(&server, 1, ResponseTemplate::new(502)).await;
    let app = before(&[by_hand(10)], Ojs::at(&server.uri())).await;
    let pushed = push(&app.client, "a", 3).await;
    assert_eq!(run(&app.client).await["promoted"], 3);
    assert_eq!(stats(&app.client).await["main_queue"]["undelivered"], 3);
    let redis = Arc::clone(&app.redis);
    app.app.shut_down().await;
    works(&server).await;
    let app =
        TestApp::start_on(redis, Clock::System, |config| configure(config, &[often()], Ojs::at(&server.uri()))).await;
    delivered(&app).await;
    assert_eq!(posted(&server, "/ojs/v1/jobs/batch").await[3..], pushed);
}

#[tokio::test]
async fn a_slow_server_ends_within_its_deadline() {
    let server = server(manifest()).await;
    at_first(&server, 1, ResponseTemplate::new(201).set_delay(Duration::from_secs(60))).await;
    works(&server).await;
    let app = before(&[often()], Ojs { timeout: Duration::from_millis(200), ..Ojs::at(&server.uri()) }).await;
    push(&app.client, "a", 3).await;
    delivered(&app).await;
}

#[tokio::test]
async fn tls_with_a_private_authority() {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
    let directory = tempfile::tempdir().expect("a directory");
    let ca_file = directory.path().join("ca.pem");
    std::fs::write(&ca_file, made.cert.pem()).expect("a file");
    let remote = TestApp::start().await;
    let address = super::tls_before(remote.app.address, &made).await;
    let ojs = Ojs { ca_file: Some(ca_file), ..Ojs::at(&format!("https://{address}")) };
    let app = before(&[often()], ojs).await;
    let pushed = push(&app.client, "a", 3).await;
    delivered(&app).await;
    assert_eq!(remote.client.fetch("heavy", 10).await.job_ids(), pushed);
    let public = before(&[often()], Ojs::at(&format!("https://{address}"))).await;
    push(&public.client, "a", 1).await;
    wait_for_report(&public, "unreachable", "certificate").await;
}

#[tokio::test]
async fn a_job_larger_than_a_megabyte() {
    let remote = TestApp::start().await;
    let app = before(&[often()], Ojs::at(&url_of(&remote))).await;
    let text = "x".repeat(ByteSize::kib(3000).bytes());
    let id = app.client.enqueue(json!({"type": "t.job", "args": [text]})).await;
    delivered(&app).await;
    assert_eq!(remote.client.job(&id).await["args"][0].as_str().map(str::len), Some(text.len()));
}
