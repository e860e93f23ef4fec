//! The HTTP surface: headers, health, metrics, limits, shutdown.

use crate::support::wire::{Connection, request};
use crate::support::{Monitor, Process, TestApp, TestRedis, json};
use fairgate::clock::Clock;
use fairgate::config::Role;
use fairgate::weights;
use std::io::Read;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test]
async fn every_answer_carries_version_media_type_and_request_id() {
    let app = TestApp::start().await;
    for (method, path) in
        [("GET", "/v1/queues"), ("GET", "/v1/jobs/none"), ("GET", "/nowhere"), ("ASSERT", "/"), ("PUT", "/v1/jobs")]
    {
        let headers = [("x-request-id", "my-id-1")];
        let answer = app.client.try_send(method, path, &headers, None).await.unwrap();
        assert_eq!(answer.header("ojs-version"), "1.0", "{path}");
        assert_eq!(answer.header("x-request-id"), "my-id-1", "{path}");
        assert_eq!(answer.header("content-type"), "application/openjobspec+json", "{path}");
        if answer.status >= 400 {
            assert_eq!(answer.text_at("/error/request_id"), "my-id-1");
        }
    }
    let generated = app.client.get("/health").await.expect(200);
    assert!(generated.header("x-request-id").starts_with("req_"));
}

#[tokio::test]
async fn releases_of_version_1_0_are_accepted() {
    let app = TestApp::start().await;
    for version in ["1", "1.0", "1.0.0", "1.0.0-rc.1"] {
        let answer = app.client.try_send("GET", "/v1/queues", &[("ojs-version", version)], None).await.unwrap();
        assert_eq!((answer.status, answer.header("ojs-version")), (200, "1.0"), "{version}");
    }
    let refused = app.client.try_send("GET", "/v1/queues", &[("ojs-version", "1.1")], None).await.unwrap();
    assert_eq!(refused.expect(422).text_at("/error/code"), "unsupported");
}

#[tokio::test]
async fn a_wrong_method_gets_the_allowed_ones() {
    let app = TestApp::start().await;
    let answer = app.client.send("PUT", "/v1/jobs", None).await.expect(405);
    assert_eq!(answer.header("allow"), "POST,GET,HEAD");
}

#[tokio::test]
async fn health_readiness_and_manifest_report_the_current_state() {
    let app = TestApp::start().await;
    let health = app.client.get("/ojs/v1/health").await.expect(200);
    assert_eq!((health.text_at("/status"), health.text_at("/backend/status")), ("ok", "ok"));
    assert!(health.at("/backend/latency_ms").is_u64(), "{}", health.text);
    assert_eq!(app.client.get("/ready").await.expect(200).text_at("/status"), "ready");
    let manifest = app.client.get("/ojs/manifest").await.expect(200);
    assert_eq!(manifest.at("/conformance_level"), &json!(4));
    for (name, works) in [("cron_jobs", true), ("unique_jobs", true), ("pause_resume", true), ("workflows", true)] {
        assert_eq!(manifest.at(&format!("/capabilities/{name}")), &json!(works), "{name}");
    }
    assert_eq!(manifest.at("/capabilities/rate_limiting"), &json!(true));
    assert_eq!(manifest.at("/extensions/official/1/uri"), "urn:ojs:ext:rate-limiting");
    let tenancy = json!({"name": "multi-tenancy", "uri": "urn:ojs:ext:multi-tenancy", "version": "1.0.0-rc.1"});
    assert!(manifest.at("/extensions/official").as_array().unwrap().contains(&tenancy), "{}", manifest.text);
    let old = "urn:ojs:ext:experimental:multi-tenancy";
    assert_eq!(manifest.at("/extensions/experimental/0/uri"), old);
    for uri in [old, "urn:ojs:ext:multi-tenancy"] {
        let headers = [("ojs-requires-extension", uri)];
        app.client.try_send("GET", "/v1/queues", &headers, None).await.unwrap().expect(200);
    }
}

#[tokio::test]
async fn the_cost_of_health_does_not_depend_on_the_number_of_queues() {
    // Without the other roles, nothing else reads queues meanwhile.
    let app = TestApp::start_with(Clock::System, |config| config.server.roles = vec![Role::Api]).await;
    app.client.get("/ready").await.expect(200); // loads its script
    let mut costs = Vec::new();
    for queues in [2, 60] {
        for number in 0..queues {
            app.client.enqueue_into(&format!("q{number}")).await;
            app.client.post(&format!("/v1/queues/q{number}/pause"), json!({})).await.expect(200);
        }
        let mut monitor = Monitor::start(&app.redis).await;
        let mut commands = Vec::new();
        for path in ["/health", "/healthz", "/ojs/v1/health", "/ready", "/readyz", "/ojs/manifest"] {
            app.client.get(path).await.expect(200);
            commands.extend(monitor.commands(&app.redis).await);
        }
        // API keys are read every few seconds.
        commands.retain(|command| !command.contains(":keys\""));
        costs.push(commands.iter().map(|command| command.split(' ').next().unwrap_or_default().to_owned()).collect());
    }
    let [few, many]: [Vec<String>; 2] = costs.try_into().unwrap();
    assert_eq!(few, many);
    // Readiness runs one script, which reads its state and a job that does not exist.
    let cheap = ["HLEN", "ZCARD", "FCALL", "TIME", "HGETALL", "GET"].map(|name| format!("\"{name}\""));
    assert!(few.iter().all(|command| cheap.contains(command)), "{few:?}");
    let health = app.client.get("/health").await.expect(200);
    assert_eq!(health.at("/queues"), &json!({"active": 0, "paused": 60}));
}

#[tokio::test]
async fn metrics_count_requests_calls_and_jobs() {
    let app = TestApp::start().await;
    let id = app.client.enqueue_into("mail").await;
    app.client.enqueue_into("mail").await;
    app.client.fetch("mail", 1).await;
    app.client.ack(&id).await.expect(200);
    let headers = [("accept", "text/plain")];
    let answer = app.client.try_send("GET", "/metrics", &headers, None).await.unwrap().expect(200);
    assert_eq!(answer.header("content-type"), "text/plain");
    for line in [
        r#"fairgate_http_requests_total{method="POST",route="/ojs/v1/jobs",status="201"} 2"#,
        r#"fairgate_store_calls_total{call="ENQUEUE"} "#,
        r#"ojs_job_enqueued_total{queue="mail",type="test.job"} 2"#,
        r#"ojs_job_completed_total{queue="mail",type="test.job"} 1"#,
        r#"ojs_queue_depth{queue="mail",state="available"} 1"#,
        r#"ojs_queue_depth{queue="mail",state="completed"} 1"#,
    ] {
        assert!(answer.text.contains(line), "{line} is missing in\n{}", answer.text);
    }
}

#[tokio::test]
async fn large_responses_are_compressed_on_request() {
    let app = TestApp::start().await;
    for number in 0..30 {
        app.client.enqueue_into(&format!("queue-{number}")).await;
    }
    let ask = async |path: &str, accept: &str| {
        let mut connection = Connection::open(app.app.address).await;
        let headers = [("accept-encoding", accept.as_bytes().to_vec())];
        connection.send(&request("GET", path, &headers, None)).await.expect("sent");
        connection.receive().await.expect("an answer")
    };
    let plain = ask("/ojs/v1/queues", "identity").await;
    assert_eq!((plain.header("content-encoding"), plain.header("vary")), ("", "Accept-Encoding"));
    let compressed = ask("/ojs/v1/queues", "br, gzip").await;
    assert_eq!((compressed.status, compressed.header("content-encoding")), (200, "gzip"));
    assert!(compressed.body.len() * 2 < plain.body.len());
    let mut text = String::new();
    flate2::read::GzDecoder::new(&compressed.body[..]).read_to_string(&mut text).expect("gzip");
    let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
    assert_eq!(parse(&text), parse(&plain.text()));
    let small = ask("/ready", "gzip").await;
    assert_eq!((small.header("content-encoding"), small.header("vary")), ("", ""));
}

#[tokio::test]
async fn a_slash_at_the_end_of_a_path_makes_no_difference() {
    let app = TestApp::start().await;
    let job = json!({"type": "test.job", "args": []});
    let id = app.client.post("/v1/jobs/", job).await.expect(201).text_at("/job/id").to_owned();
    assert_eq!(app.client.get(&format!("/v1/jobs/{id}/")).await.expect(200).text_at("/id"), id);
    assert_eq!(app.client.get("/v1/queues/?limit=1").await.expect(200).at("/pagination/limit"), &json!(1));
    app.client.post("/v1/queues/default/pause/", json!({})).await.expect(200);
    app.client.get("/health/").await.expect(200);
    for none in ["/v1/queues//", "/nowhere/", "//health"] {
        app.client.get(none).await.expect(404);
    }
    assert_eq!(app.client.send("PUT", "/v1/jobs/", None).await.expect(405).header("allow"), "POST,GET,HEAD");
}

#[tokio::test]
async fn further_connections_wait_until_one_is_free() {
    let app = TestApp::start_with(Clock::System, |config| config.limits.max_connections = 1).await;
    let ask = b"GET /ready HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let first = TcpStream::connect(app.app.address).await.unwrap();
    let mut second = TcpStream::connect(app.app.address).await.unwrap();
    second.write_all(ask).await.unwrap();
    let mut answer = Vec::new();
    let too_early = tokio::time::timeout(std::time::Duration::from_millis(200), second.read_buf(&mut answer)).await;
    assert!(too_early.is_err(), "the second one is not served while the first is open");
    drop(first);
    second.read_to_end(&mut answer).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
}

#[tokio::test]
async fn a_request_in_flight_is_finished_before_the_end() {
    let redis = TestRedis::start();
    let mut process = Process::serve(&["--redis", &redis.url()]).await;
    process.client.enqueue_into("q").await;
    // Redis delays the request until after the signal.
    redis.command::<()>(&["CLIENT", "PAUSE", "700", "ALL"]).await;
    let client = process.client.clone();
    let request = tokio::spawn(async move { client.post("/v1/workers/fetch", json!({"queues": ["q"]})).await });
    tokio::time::sleep(std::time::Duration::from_millis(200)).await; // for the request to be on its way
    let status = tokio::task::spawn_blocking(move || process.terminate()).await.unwrap();
    assert_eq!(request.await.unwrap().expect(200).job_ids().len(), 1);
    assert_eq!(status, Some(0));
}

#[tokio::test]
async fn http2_is_supported() {
    let app = TestApp::start().await;
    let client = weights::client_builder().http2_prior_knowledge().build().unwrap();
    let response = client.get(format!("{}/ready", app.client.base())).send().await.unwrap();
    assert_eq!((response.status().as_u16(), response.version()), (200, reqwest::Version::HTTP_2));
}
