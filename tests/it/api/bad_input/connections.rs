//! Clients that send no HTTP or only part of a request leave no trace and do not affect others.

use super::{Contents, app, rows};
use crate::support::eventually;
use crate::support::wire::{Connection, request};
use std::time::Duration;

/// Requests that are not HTTP or too large. hyper responds to them with only a status and closes the connection, before
/// there is a request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_not_http_are_refused_and_the_server_continues() {
    let app = app(|_| {}).await;
    let mut contents = Contents::of(&app.redis).await;
    let before = contents.read().await;
    let start = "POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\n";
    let job = r#"{"type":"test.job","args":[]}"#;
    let endless = format!("{start}X-Long: {}", "a".repeat(rows::MAX_HEADER));
    for (name, bytes, status) in [
        ("headers that are too long", endless[..rows::MAX_HEADER].to_owned(), 431),
        ("a path that is too long", format!("GET /{}", "a".repeat(rows::MAX_HEADER - 5)), 431),
        ("too many headers", format!("{start}{}\r\n", "X-Many: 1\r\n".repeat(150)), 431),
        ("no request line", "hello\r\n\r\n".to_owned(), 400),
        ("TLS", "\u{16}\u{3}\u{1}\u{0}\u{5}hello".to_owned(), 400),
        ("another version of HTTP", "GET / HTTP/9.9\r\n\r\n".to_owned(), 400),
        ("a method that is none", "G@T / HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("a path with a blank", "GET /a b HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("a header without a name", format!("{start}: 1\r\n\r\n"), 400),
        ("a header with a blank in its name", format!("{start}X Y: 1\r\n\r\n"), 400),
        ("a header with a NUL", format!("{start}X-Y: a\0b\r\n\r\n"), 400),
        ("a folded header", format!("{start}X-Y: a\r\n b\r\n\r\n"), 400),
        ("a length below zero", format!("{start}Content-Length: -5\r\n\r\n{job}"), 400),
        ("a length that is no number", format!("{start}Content-Length: few\r\n\r\n{job}"), 400),
        ("two lengths", format!("{start}Content-Length: 5\r\nContent-Length: {}\r\n\r\n{job}", job.len()), 400),
        ("a length that is absurd", format!("{start}Content-Length: 18446744073709551615\r\n\r\n"), 431),
        ("an unknown transfer encoding", format!("{start}Transfer-Encoding: gzip\r\n\r\n{job}"), 400),
    ] {
        let mut connection = Connection::open(app.app.address).await;
        connection.send(bytes.as_bytes()).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        let answer = connection.receive().await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(answer.status, status, "{name}: {}", answer.text());
        assert!(connection.is_closed_by_the_server().await, "{name}");
        assert!(Connection::open(app.app.address).await.is_usable().await, "{name}");
    }
    assert_eq!(contents.read().await, before, "nothing was stored");
}

/// Requests of which only a part is sent.
fn half_a_request(body: &str) -> Vec<u8> {
    let bytes = request("POST", "/ojs/v1/jobs", &[], Some(body.as_bytes()));
    bytes[..bytes.len() - body.len() / 2].to_vec()
}

const JOB: &str = r#"{"type":"test.job","args":["a body of which half is sent"]}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_disconnect_during_a_request_leave_no_trace() {
    let app = app(|_| {}).await;
    let open = app.app.metrics.http.connections();
    let mut contents = Contents::of(&app.redis).await;
    let before = contents.read().await;
    let mut witness = Connection::open(app.app.address).await;
    assert!(witness.is_usable().await);
    let mut halves = Vec::new();
    for part in
        [half_a_request(JOB), b"POST /ojs/v1/jobs HT".to_vec(), b"POST /ojs/v1/jobs HTTP/1.1\r\nHost: f".to_vec()]
    {
        for _ in 0..20 {
            let mut connection = Connection::open(app.app.address).await;
            connection.send(&part).await.expect("sent");
            halves.push(connection);
        }
    }
    eventually("all of them are connected", async || open.get() == 61).await;
    assert!(witness.is_usable().await, "others are served while slow clients hold their connections");
    drop(halves);
    eventually("they are gone", async || open.get() == 1).await;
    assert_eq!(contents.read().await, before, "nothing was stored");
    assert!(witness.is_usable().await);
    app.client.enqueue_into("q").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_client_that_finishes_is_served() {
    let app = app(|_| {}).await;
    let mut connection = Connection::open(app.app.address).await;
    for byte in request("POST", "/ojs/v1/jobs", &[], Some(JOB.as_bytes())) {
        connection.send(&[byte]).await.expect("sent");
    }
    assert_eq!(connection.receive().await.expect("an answer").status, 201);
    assert!(connection.is_usable().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_connection_of_a_client_that_disconnects_is_free_again() {
    let app = app(|config| config.limits.max_connections = 2).await;
    let mut halves = Vec::new();
    for _ in 0..2 {
        let mut connection = Connection::open(app.app.address).await;
        connection.send(&half_a_request(JOB)).await.expect("sent");
        halves.push(connection);
    }
    let open = app.app.metrics.http.connections();
    eventually("both connections are in use", async || open.get() == 2).await;
    let mut waiting = Connection::open(app.app.address).await;
    let served = tokio::spawn(async move { waiting.is_usable().await });
    halves.pop();
    assert!(served.await.expect("no panic"), "the next in the backlog is served");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_never_ends_times_out_and_leaves_no_trace() {
    let app = app(|config| config.limits.request_timeout = Duration::from_millis(300)).await;
    let mut contents = Contents::of(&app.redis).await;
    let before = contents.read().await;
    let mut connection = Connection::open(app.app.address).await;
    connection.send(&half_a_request(JOB)).await.expect("sent");
    let answer = connection.receive().await.expect("an answer");
    assert!(connection.is_closed_by_the_server().await);
    assert_eq!(contents.read().await, before, "nothing was stored");
    assert!(Connection::open(app.app.address).await.is_usable().await);
    assert_eq!(answer.status, 408, "the client is late, not the store: {}", answer.text());
}
