//! Requests are proxied to the other server: clients change only their base URL.

use super::*;
use fairgate::config::Secret;
use std::time::Duration;
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

/// Starts a fairgate in front of a server.
async fn in_front(rules: &[Rule], ojs: Ojs) -> TestApp {
    TestApp::start_with(Clock::System, |config| {
        configure(config, rules, ojs);
        config.server.pass_through = Some("jobs".to_owned());
    })
    .await
}

async fn key(app: &TestApp, body: Value) -> String {
    app.client.post("/v1/admin/keys", body).await.expect(201).text_at("/api_key/key").to_owned()
}

#[tokio::test]
async fn a_client_needs_only_one_address() {
    let remote = TestApp::start().await;
    let app = in_front(&[by_hand(10)], Ojs::at(&url_of(&remote))).await;
    let client = &app.client;
    // An unplanned job is stored there at once.
    let plain = client.enqueue(json!({"type": "other.job", "args": [1], "options": {"queue": "plain"}})).await;
    assert_eq!(remote.client.state(&plain).await, "available");
    assert_eq!(client.job(&plain).await, remote.client.job(&plain).await);
    // A planned job is staged here, and this server responds for it.
    let staged = push(client, "a", 3).await;
    remote.client.get(&format!("/v1/jobs/{}", staged[0])).await.expect(404);
    assert_eq!(client.job(&staged[0]).await["x_staged"], true);
    client.get(&format!("/v1/jobs/{}/result", staged[0])).await.expect(408);
    client.delete(&format!("/v1/jobs/{}", staged[2])).await.expect(200);
    assert_eq!(client.state(&staged[2]).await, "cancelled");
    let unknown = fairgate::domain::job::id::generate();
    client.get(&format!("/v1/jobs/{unknown}")).await.expect(404);
    // After promotion the other server responds for it.
    assert_eq!(run(client).await["promoted"], 2);
    let there = client.job(&staged[0]).await;
    assert_eq!((&there, there.get("x_promoted_to")), (&remote.client.job(&staged[0]).await, None));
    // Worker requests are proxied as well.
    let fetched = client.fetch("heavy", 5).await.job_ids();
    assert_eq!(fetched, staged[..2]);
    client.ack(&fetched[0]).await.expect(200);
    assert_eq!(
        (client.state(&fetched[0]).await.as_str(), remote.client.state(&fetched[0]).await.as_str()),
        ("completed", "completed")
    );
    client.post(&format!("/v1/jobs/{}/cancel", fetched[1]), json!({})).await.expect(200);
    assert_eq!(remote.client.state(&fetched[1]).await, "cancelled");
    let stats = client.get("/v1/queues/heavy/stats").await.expect(200);
    assert_eq!(stats.at("/queue/completed"), &json!(1));
    client.send("PATCH", "/v1/queues/heavy", Some("{}".to_owned())).await.expect(405);
    assert_eq!(client.get("/ojs/manifest").await.expect(200).at("/implementation/name"), &json!("fairgate"));
    client.get("/v1/nowhere").await.expect(404);
    client.get("/health").await.expect(200);
}

#[tokio::test]
async fn headers_are_kept_but_for_those_of_a_connection() {
    let server = MockServer::start().await;
    let answer = ResponseTemplate::new(218)
        .insert_header("x-of-server", "yes")
        .insert_header("keep-alive", "timeout=5")
        .insert_header("x-ratelimit-limit", "7")
        .set_body_raw("raw\u{0}bytes", "text/odd");
    Mock::given(method("PUT")).and(path("/base/ojs/v1/things/a%20b")).respond_with(answer).mount(&server).await;
    let ojs = Ojs { token: Some(Secret::new("its-token")), ..Ojs::at(&format!("{}/base", server.uri())) };
    let app = in_front(&[by_hand(1)], ojs).await;
    let headers = [
        ("authorization", "Bearer mine"),
        ("x-api-key", "mine"),
        ("connection", "x-hop"),
        ("x-hop", "1"),
        ("x-mine", "1"),
        ("ojs-requires-extension", "urn:of-theirs"),
        ("x-request-id", "mine-1"),
        ("content-type", "text/odd"),
    ];
    let path = "/ojs/v1/things/a%20b?q=%2F&q=2";
    let passed = app.client.try_send("PUT", path, &headers, Some("body".to_owned())).await.expect("an answer");
    assert_eq!((passed.status, passed.text.as_str()), (218, "raw\u{0}bytes"));
    let answered = ["x-of-server", "x-ratelimit-limit", "keep-alive", "content-type", "x-request-id"]
        .map(|name| passed.header(name));
    assert_eq!(answered, ["yes", "7", "", "text/odd", "mine-1"]);
    let requests = server.received_requests().await.unwrap_or_default();
    let [seen] = &requests[..] else { panic!("{requests:?}") };
    let header = |name: &str| seen.headers.get(name).map(|value| value.to_str().unwrap_or_default());
    assert_eq!((header("authorization"), header("x-api-key")), (Some("Bearer its-token"), None));
    assert_eq!((header("x-hop"), header("x-mine"), header("x-request-id")), (None, Some("1"), Some("mine-1")));
    assert_eq!((header("ojs-requires-extension"), header("content-length")), (Some("urn:of-theirs"), Some("4")));
    assert!(header("host").is_some_and(|host| server.uri().ends_with(host)));
    assert_eq!((seen.url.query(), &seen.body[..]), (Some("q=%2F&q=2"), &b"body"[..]));
}

#[tokio::test]
async fn streams_flow_while_they_are_open() {
    let remote = TestApp::start().await;
    let app = in_front(&[by_hand(1)], Ojs::at(&url_of(&remote))).await;
    let http = fairgate::weights::client_builder().build().expect("a client");
    let url = format!("{}/ojs/v1/events", url_of(&app));
    let answer = http.get(url).header("accept", "text/event-stream").send().await.expect("an answer");
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let mut text = String::new();
    let id = remote.client.enqueue_into("q").await;
    let mut answer = answer;
    let read = async {
        while !text.contains(&id) {
            let chunk = answer.chunk().await.expect("a chunk").expect("the stream is open");
            text.push_str(&String::from_utf8_lossy(&chunk));
        }
    };
    tokio::time::timeout(Duration::from_secs(20), read).await.expect("the event comes while the stream is open");
    // A process that shuts down waits for none of them.
    let stopping = tokio::spawn(app.app.shut_down());
    let end = async { while let Ok(Some(_)) = answer.chunk().await {} };
    tokio::time::timeout(Duration::from_secs(20), end).await.expect("the stream ends");
    tokio::time::timeout(Duration::from_secs(20), stopping).await.expect("it stops").expect("it stops");
}

#[tokio::test]
async fn a_body_is_sent_on_as_it_comes_and_is_bounded() {
    let server = MockServer::start().await;
    Mock::given(method("POST")).respond_with(ResponseTemplate::new(200)).mount(&server).await;
    let app = TestApp::start_with(Clock::System, |config| {
        configure(config, &[by_hand(1)], Ojs::at(&server.uri()));
        config.server.pass_through = Some("jobs".to_owned());
        (config.limits.max_body, config.limits.max_envelope) =
            (fairgate::config::ByteSize::kib(64), fairgate::config::ByteSize::kib(64));
    })
    .await;
    let chunk = vec![b'x'; 1024];
    for (chunks, is_taken) in [(60, true), (100, false)] {
        let address = app.app.address;
        let mut stream = tokio::net::TcpStream::connect(address).await.expect("a connection");
        let mut text =
            b"POST /ojs/v1/things HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
                .to_vec();
        for _ in 0..chunks {
            text.extend(format!("{:x}\r\n", chunk.len()).bytes().chain(chunk.iter().copied()).chain(*b"\r\n"));
        }
        text.extend(b"0\r\n\r\n");
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        _ = stream.write_all(&text).await;
        let mut answer = Vec::new();
        _ = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer);
        assert_eq!(answer.starts_with("HTTP/1.1 200"), is_taken, "{answer}");
    }
    let large = app.client.send("POST", "/v1/things", Some("x".repeat(70_000))).await;
    assert_eq!(large.status, 413);
    let requests = server.received_requests().await.unwrap_or_default();
    assert_eq!(requests.iter().map(|request| request.body.len()).collect::<Vec<_>>(), [60 * 1024]);
}

#[tokio::test]
async fn a_batch_goes_to_one_of_the_two_servers() {
    let remote = TestApp::start().await;
    let app = in_front(&[by_hand(10)], Ojs::at(&url_of(&remote))).await;
    let (planned, other) = (json!({"type": "t.job", "args": []}), json!({"type": "other.job", "args": []}));
    let post = async |jobs: &[&Value]| app.client.post("/v1/jobs/batch", json!({"jobs": jobs})).await;
    let theirs = post(&[&other, &other]).await.expect(201).job_ids();
    assert_eq!(remote.client.state(&theirs[1]).await, "available");
    let ours = post(&[&planned, &planned]).await.expect(201).job_ids();
    assert_eq!(app.client.job(&ours[1]).await["x_staged"], true);
    let refused = post(&[&planned, &other]).await.expect(422);
    assert!(refused.text_at("/error/hint").contains("Send them in two batches"));
    assert_eq!(stats(&app.client).await["staged"]["jobs"], 2);
    // Malformed requests get an error from this server; requests that the other server rejects get its error.
    app.client.send("POST", "/v1/jobs", Some("{".to_owned())).await.expect(400);
    app.client.post("/v1/jobs/batch", json!({"jobs": []})).await.expect(400);
    app.client.post("/v1/jobs", json!({"type": "other.job", "args": 1})).await.expect(400);
    let builtin = json!({"types": ["x"], "main_queue": "builtin"});
    let refused = app.client.send("PUT", "/v1/admin/planner/x", Some(builtin.to_string())).await;
    assert!(refused.status == 422 && refused.text.contains("sends workers to another server"), "{}", refused.text);
}

#[tokio::test]
async fn keys_are_checked_here_and_never_sent_to_the_other_server() {
    let remote = TestApp::start().await;
    let its = key(&remote, json!({"name": "front", "role": "admin"})).await;
    let ojs = Ojs { token: Some(Secret::new(its.clone())), ..Ojs::at(&url_of(&remote)) };
    let app = in_front(&[by_hand(10)], ojs).await;
    let admin = key(&app, json!({"name": "admin", "role": "admin"})).await;
    let authorized = |key: &str| format!("Bearer {key}");
    let make = async |role: &str, tenant: Option<&str>| {
        let body =
            json!({"name": format!("{role}{}", tenant.unwrap_or("")), "role": role, "tenant": tenant}).to_string();
        let bearer = authorized(&admin);
        let made = app.client.try_send("POST", "/v1/admin/keys", &[("authorization", &bearer)], Some(body)).await;
        made.expect("an answer").expect(201).text_at("/api_key/key").to_owned()
    };
    let (producer, worker, bound) =
        (make("producer", None).await, make("worker", None).await, make("producer", Some("acme")).await);
    let send = async |key: &str, method: &str, path: &str, body: &str| {
        let body = (!body.is_empty()).then(|| body.to_owned());
        app.client.try_send(method, path, &[("authorization", &authorized(key))], body).await.expect("an answer")
    };
    let (other, planned) = (r#"{"type":"other.job","args":[]}"#, r#"{"type":"t.job","args":[]}"#);
    let fetch = r#"{"queues":["default"]}"#;
    for (key, method, path, body, status) in [
        ("", "POST", "/v1/workers/fetch", fetch, 401),
        ("", "GET", "/ojs/manifest", "", 200),
        (&its, "GET", "/v1/queues", "", 401),
        (&producer, "POST", "/v1/jobs", other, 201),
        (&producer, "POST", "/v1/workers/fetch", fetch, 403),
        (&producer, "GET", "/v1/queues", "", 403),
        (&worker, "POST", "/v1/jobs", other, 403),
        (&worker, "POST", "/v1/workers/fetch", fetch, 200),
        (&worker, "POST", "/v1/jobs/bulk", "{}", 403),
        (&worker, "GET", "/v1/anything", "", 403),
        (&admin, "GET", "/v1/anything", "", 404),
        (&admin, "GET", "/v1/queues", "", 200),
        (&bound, "POST", "/v1/jobs", other, 403),
        (&bound, "POST", "/v1/jobs", planned, 201),
        (&bound, "GET", "/v1/workflows/x", "", 403),
    ] {
        let answer = send(key, method, path, body).await;
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.text);
    }
    // A key of a tenant sees the tenant's data as far as it is known here, and nothing of others.
    let staged = send(&bound, "POST", "/v1/jobs", planned).await.expect(201).text_at("/job/id").to_owned();
    let foreign = send(&producer, "POST", "/v1/jobs", planned).await.expect(201).text_at("/job/id").to_owned();
    send(&bound, "GET", &format!("/v1/jobs/{staged}"), "").await.expect(200);
    send(&bound, "GET", &format!("/v1/jobs/{foreign}"), "").await.expect(403);
    send(&admin, "POST", "/v1/admin/planner/r/run", "{}").await.expect(200);
    let there = send(&bound, "GET", &format!("/v1/jobs/{staged}"), "").await.expect(200);
    assert_eq!(there.at("/job/x_promoted_to"), &json!("jobs"), "{}", there.text);
    let there = send(&producer, "GET", &format!("/v1/jobs/{staged}"), "").await.expect(200);
    assert_eq!(there.at("/job/x_promoted_to"), &Value::Null, "{}", there.text);
    send(&bound, "GET", &format!("/v1/jobs/{foreign}"), "").await.expect(403);
}

#[tokio::test]
async fn an_unreachable_server_affects_only_its_own_responses() {
    let server = MockServer::start().await;
    let app = in_front(&[by_hand(10)], Ojs::at("http://127.0.0.1:1")).await;
    let away = app.client.get("/v1/queues").await.expect(503);
    assert_eq!((away.header("retry-after"), away.text_at("/error/code")), ("1", "backend_unavailable"));
    let other = app.client.post("/v1/jobs", json!({"type": "other.job", "args": []})).await;
    assert_eq!(other.status, 503);
    let staged = push(&app.client, "a", 2).await;
    assert_eq!(app.client.job(&staged[0]).await["x_staged"], true);
    app.client.get("/ready").await.expect(200);
    drop(server);
}

#[tokio::test]
async fn undelivered_jobs_are_served_by_this_server() {
    let server = MockServer::start().await;
    let manifest = json!({"specversion": "1.0", "conformance_level": 4});
    Mock::given(path("/ojs/manifest"))
        .respond_with(ResponseTemplate::new(200).set_body_json(manifest))
        .mount(&server)
        .await;
    Mock::given(path("/ojs/v1/jobs/batch")).respond_with(ResponseTemplate::new(500)).mount(&server).await;
    let app = in_front(&[by_hand(10)], Ojs::at(&server.uri())).await;
    let staged = push(&app.client, "a", 1).await;
    assert_eq!(run(&app.client).await["promoted"], 1);
    let job = app.client.job(&staged[0]).await;
    assert_eq!((&job["state"], &job["x_promoted_to"]), (&json!("available"), &json!("jobs")));
    app.client.delete(&format!("/v1/jobs/{}", staged[0])).await.expect(409);
}

#[tokio::test]
async fn a_proxy_loop_is_detected() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let app = TestApp::start_with(Clock::System, |config| {
        configure(config, &[by_hand(1)], Ojs::at(&format!("http://{address}")));
        (config.server.listen, config.server.pass_through) = (address, Some("jobs".to_owned()));
    })
    .await;
    let answer = app.client.get("/v1/queues").await;
    assert!(answer.status == 508 && answer.text.contains("Forwarding loop"), "{}", answer.text);
}

#[tokio::test]
async fn redirects_are_passed_to_the_client() {
    let server = MockServer::start().await;
    let answer = ResponseTemplate::new(307).insert_header("location", "http://169.254.169.254/secret");
    Mock::given(method("GET")).respond_with(answer).expect(1).mount(&server).await;
    let app = in_front(&[by_hand(1)], Ojs::at(&server.uri())).await;
    let answer = app.client.get("/v1/things").await;
    assert_eq!((answer.status, answer.header("location")), (307, "http://169.254.169.254/secret"));
}
