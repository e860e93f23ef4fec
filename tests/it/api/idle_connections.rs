//! Clients that hold a connection without using it lose it; slow clients and those that wait for a response keep it.

use crate::support::wire::{Connection, request};
use crate::support::{TestApp, eventually, json};
use fairgate::clock::Clock;
use fairgate::config::Config;
use fairgate::weights;
use std::time::Duration;

/// Longer than any test waits.
const NEVER: Duration = Duration::from_secs(3600);
/// A short timeout, still longer than a loaded machine needs to send a few bytes to itself.
const SOON: Duration = Duration::from_millis(400);
/// The time a client waits to show that no deadline can end its connection.
const FOR_LONG: Duration = Duration::from_millis(1700);

async fn app(change: impl FnOnce(&mut Config)) -> TestApp {
    TestApp::start_with(Clock::System, |config| {
        let server = &mut config.server;
        (server.header_timeout, server.idle_timeout, server.send_timeout) = (NEVER, NEVER, NEVER);
        change(config);
    })
    .await
}

fn is_counted(app: &TestApp, reason: &str) -> bool {
    let text = app.app.metrics.encode(fairgate::telemetry::Format::Text);
    text.contains(&format!("fairgate_http_connections_closed_total{{reason=\"{reason}\"}}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_clients_do_not_block_others() {
    let app = app(|config| {
        config.limits.max_connections = 4;
        config.server.header_timeout = SOON;
    })
    .await;
    let mut silent = Vec::new();
    for _ in 0..8 {
        silent.push(Connection::open(app.app.address).await);
    }
    assert!(Connection::open(app.app.address).await.is_usable().await, "the older events were removed from the stream");
    for connection in &mut silent {
        assert!(connection.is_closed_by_the_server().await);
    }
    assert!(is_counted(&app, "header_timeout"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_begun_and_not_finished_ends_its_connection() {
    const PREFACE: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const NO_SETTINGS: &str = "\0\0\0\u{4}\0\0\0\0\0";
    let app = app(|config| config.server.header_timeout = SOON).await;
    for (what, bytes) in [
        ("half a head", "GET /ready HTTP/1.1\r\nHost: fair".to_owned()),
        ("half a preface of HTTP/2", PREFACE[..10].to_owned()),
        ("a preface and nothing else", PREFACE.to_owned()),
        ("a preface and settings, but no request", format!("{PREFACE}{NO_SETTINGS}")),
    ] {
        let mut connection = Connection::open(app.app.address).await;
        connection.send(bytes.as_bytes()).await.expect("sent");
        assert!(connection.is_ended_by_the_server().await, "{what}");
    }
    let mut second = Connection::open(app.app.address).await;
    assert!(second.is_usable().await);
    second.send(b"GET /ready HTTP/1.1\r\nHo").await.expect("sent");
    assert!(second.is_closed_by_the_server().await, "half of a second head");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_connection_is_closed() {
    let app = app(|config| config.server.idle_timeout = SOON).await;
    let mut connection = Connection::open(app.app.address).await;
    assert!(connection.is_usable().await);
    assert!(connection.is_closed_by_the_server().await);
    assert!(is_counted(&app, "idle_timeout"));

    let client = weights::client_builder().http2_prior_knowledge().build().unwrap();
    client.get(format!("{}/ready", app.client.base())).send().await.unwrap();
    let open = app.app.metrics.http.connections();
    eventually("an HTTP/2 connection is closed as well", async || open.get() == 0).await;
    client
        .get(format!("{}/ready", app.client.base()))
        .send()
        .await
        .expect("the client notices and opens another connection");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_its_response_is_disconnected() {
    let app = app(|config| (config.server.idle_timeout, config.server.send_timeout) = (SOON, SOON)).await;
    let args = json!(["x".repeat(9 << 20)]);
    let id = app.client.enqueue(json!({"type": "test.job", "args": args})).await;
    let open = app.app.metrics.http.connections();
    let path = format!("/ojs/v1/jobs/{id}");

    let mut connection = Connection::open(app.app.address).await;
    connection.send(&request("GET", &path, &[], None)).await.expect("sent");
    assert!(connection.take(1000, Duration::ZERO).await, "its response begins");
    eventually("it is closed although its response is not sent", async || open.get() == 0).await;

    let client = weights::client_builder().http2_prior_knowledge().build().unwrap();
    let response = client.get(format!("{}{path}", app.client.base())).send().await.unwrap();
    eventually("an HTTP/2 connection is closed as well", async || open.get() == 0).await;
    assert!(is_counted(&app, "send_timeout"));
    response.bytes().await.expect_err("the rest was not sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_wait_or_are_slow_are_served() {
    let app = app(|config| {
        let server = &mut config.server;
        (server.header_timeout, server.idle_timeout, server.send_timeout) = (SOON, SOON, SOON);
    })
    .await;
    let large = app.client.enqueue(json!({"type": "test.job", "args": ["x".repeat(9 << 20)]})).await;
    let wait = json!({"queues": ["empty"], "wait_ms": FOR_LONG.as_millis() as u64}).to_string();

    let long_poll = async {
        let mut connection = Connection::open(app.app.address).await;
        connection.send(&request("POST", "/ojs/v1/workers/fetch", &[], Some(wait.as_bytes()))).await.expect("sent");
        assert_eq!(connection.receive().await.expect("an answer").status, 200);
    };
    let stream = async {
        let client = weights::client_builder().build().unwrap();
        let events = client.get(format!("{}/ojs/v1/events", app.client.base())).header("accept", "text/event-stream");
        let mut response = events.send().await.unwrap();
        response.chunk().await.expect("the stream is open").expect("it begins");
        tokio::time::sleep(FOR_LONG).await;
        app.client.enqueue_into("q").await;
        response.chunk().await.expect("the stream is still open").expect("and has an event");
    };
    let upload = async {
        let body = json!({"type": "test.job", "args": ["a body that comes in parts"]}).to_string();
        let bytes = request("POST", "/ojs/v1/jobs", &[], Some(body.as_bytes()));
        let (start, rest) = bytes.split_at(bytes.len() - body.len());
        let mut connection = Connection::open(app.app.address).await;
        connection.send(start).await.expect("sent");
        for part in rest.chunks(rest.len() / 5) {
            tokio::time::sleep(FOR_LONG / 5).await;
            connection.send(part).await.expect("sent");
        }
        assert_eq!(connection.receive().await.expect("an answer").status, 201);
    };
    let download = async {
        let mut connection = Connection::open(app.app.address).await;
        connection.send(&request("GET", &format!("/ojs/v1/jobs/{large}"), &[], None)).await.expect("sent");
        assert!(connection.take(18 << 20, FOR_LONG / 10).await, "the whole response arrives");
    };
    tokio::join!(long_poll, stream, upload, download);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_of_one_peer_are_limited() {
    let app = app(|config| config.server.max_connections_per_peer = Some(2)).await;
    let (mut first, mut second) = (Connection::open(app.app.address).await, Connection::open(app.app.address).await);
    assert!(first.is_usable().await && second.is_usable().await);
    assert!(Connection::open(app.app.address).await.is_closed_by_the_server().await);
    assert!(is_counted(&app, "max_connections_per_peer"));
    drop(first);
    let open = app.app.metrics.http.connections();
    eventually("the server knows that one is gone", async || open.get() == 1).await;
    assert!(Connection::open(app.app.address).await.is_usable().await);
}
