//! The weights webhook: requests, accepted responses, and webhooks that are slow, down, wrong or too large.

use crate::support::json;
use fairgate::clock::Clock;
use fairgate::config::Secret;
use fairgate::domain::plan::{Rule, Webhook};
use fairgate::domain::tenant::Weight;
use fairgate::telemetry::{Format, Metrics};
use fairgate::weights::{Ask, AskedTenant, BreakerState, ErrorKind, WebhookSource, client_builder};
use futures_util::FutureExt;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, ResponseTemplate};

const NOW: i64 = 1_700_000_000_000;
/// Longer than any test, so that no test ends because of it.
const LONG: u64 = 600_000;

/// A weights source for one URL.
struct Asker {
    source: WebhookSource,
    clock: Clock,
    metrics: Metrics,
}

impl Asker {
    fn new(url: &str, timeout: u64, secret: Option<&str>) -> Self {
        let mut rule = Rule::new("reports", &["report.*"]);
        rule.weights.webhook = Some(Webhook { url: url.to_owned(), timeout, secret_env: None });
        let (clock, metrics, http) = (Clock::manual(NOW), Metrics::default(), client_builder().build().unwrap());
        let source = WebhookSource::new(&rule, secret.map(Secret::new), http, clock.clone(), metrics.weights.clone());
        Asker { source: source.unwrap().expect("the rule has a webhook"), clock, metrics }
    }

    /// Requests weights of tenants a, b and c.
    async fn ask(&self) -> fairgate::weights::WebhookAnswer {
        let tenants = ["a", "b", "c"].map(AskedTenant::named).to_vec();
        self.source.ask(Ask { queue: "reports".to_owned(), round: 7, tenants }).await
    }

    /// Requests weights, which must fail; returns the kind and the text of the error.
    async fn ask_in_vain(&self) -> (ErrorKind, String) {
        let error = self.ask().await.expect_err("no answer");
        (error.kind, error.text)
    }
}

async fn answering(answer: ResponseTemplate) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(method("POST")).respond_with(answer).mount(&server).await;
    server
}

fn weights(weights: serde_json::Value) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({"weights": weights}))
}

/// A server that handles its only connection with `serve` after the first bytes of the request.
async fn raw<F: Future<Output = ()> + Send>(serve: impl FnOnce(TcpStream) -> F + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_u8().await.unwrap();
        serve(stream).await;
    });
    url
}

#[tokio::test]
async fn a_valid_response_to_a_signed_request() {
    let server = answering(weights(json!({"a": 3, "b": 0.5, "c": 0, "stranger": 9, "another": "x"}))).await;
    let asker = Asker::new(&format!("{}/w?x=1", server.uri()), LONG, Some("hunter2"));
    let outcome = asker.ask().await.unwrap();
    let expected = [("a", 3000), ("b", 500), ("c", 0)];
    assert_eq!(outcome.weights, expected.map(|(id, weight)| (id.to_owned(), Weight::from_thousandths(weight))));
    assert_eq!((outcome.invalid.len(), outcome.unknown), (0, 2));
    let status = asker.source.status();
    assert_eq!((status.last_success_at, status.errors_total, status.last_error), (Some(NOW), 0, None));

    let request = &server.received_requests().await.unwrap()[0];
    assert_eq!(request.url.query(), Some("x=1"));
    let header = |name: &str| request.headers[name].to_str().unwrap();
    assert_eq!(header("content-type"), "application/json");
    assert_eq!(header("user-agent"), concat!("fairgate/", env!("CARGO_PKG_VERSION")));
    let tenants = json!([{"id": "a"}, {"id": "b"}, {"id": "c"}]);
    let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(body, json!({"rule": "reports", "queue": "reports", "round": 7, "tenants": tenants}));
    // Verified with another library than the one used for signing.
    assert_eq!(header("x-ojs-timestamp"), "1700000000");
    let signed = [b"1700000000.", request.body.as_slice()].concat();
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"hunter2");
    let tag: String = ring::hmac::sign(&key, &signed).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(header("x-ojs-signature"), format!("sha256={tag}"));
}

#[tokio::test]
async fn without_a_secret_nothing_is_signed() {
    let server = answering(weights(json!({}))).await;
    Asker::new(&server.uri(), LONG, None).ask().await.unwrap();
    let request = &server.received_requests().await.unwrap()[0];
    assert!(request.headers.keys().all(|name| !name.as_str().starts_with("x-ojs")), "{:?}", request.headers);
}

#[tokio::test]
async fn invalid_values_do_not_affect_valid_ones() {
    for bad in ["-1", "1e999", r#""3""#, "null", r#"{"a": 1}"#] {
        let body = format!(r#"{{"weights": {{"a": {bad}, "b": 2}}}}"#);
        let server = answering(ResponseTemplate::new(200).set_body_string(body)).await;
        let asker = Asker::new(&server.uri(), LONG, None);
        let outcome = asker.ask().await.unwrap();
        assert_eq!(outcome.weights, [("b".to_owned(), Weight::from_thousandths(2000))], "{bad}");
        let reason = format!("expected a finite number of 0 or more, found {bad}");
        assert_eq!(outcome.invalid, [("a".to_owned(), reason)]);
        let counted =
            asker.metrics.encode(Format::Text).contains(r#"fairgate_weights_invalid_total{rule="reports"} 1"#);
        assert!(counted, "{}", asker.metrics.encode(Format::Text));
    }
}

#[tokio::test]
async fn a_response_with_only_invalid_values_is_an_error() {
    let server = answering(weights(json!({"a": "much"}))).await;
    let asker = Asker::new(&server.uri(), LONG, None);
    assert_eq!(asker.ask().await.unwrap().invalid_total, 1);
    assert_eq!(asker.source.status().last_success_at, None, "the age of the last weights keeps increasing");
}

#[tokio::test]
async fn each_kind_of_invalid_response_has_its_error() {
    let html = "<html><body>Bad gateway</body></html>";
    for (answer, kind, reported) in [
        (ResponseTemplate::new(500), ErrorKind::Status, "returned HTTP 500 Internal Server Error"),
        (ResponseTemplate::new(401), ErrorKind::Status, "returned HTTP 401 Unauthorized"),
        (ResponseTemplate::new(204), ErrorKind::Unreadable, "the body is not a JSON object"),
        (
            ResponseTemplate::new(200).set_body_raw(html, "text/html"),
            ErrorKind::Unreadable,
            "200 OK (text/html): the body is not",
        ),
        (ResponseTemplate::new(200).set_body_string(r#"{"weights": {"a""#), ErrorKind::Unreadable, "EOF while parsing"),
        (ResponseTemplate::new(200).set_body_string("[]"), ErrorKind::Unreadable, "the body is not a JSON object"),
        (ResponseTemplate::new(200).set_body_string(r#"{"a": 1}"#), ErrorKind::Unreadable, "no member \"weights\""),
        (ResponseTemplate::new(200).set_body_bytes(vec![b' '; 10_000_000]), ErrorKind::TooLarge, "than 1048576 bytes"),
    ] {
        let server = answering(answer).await;
        let asker = Asker::new(&server.uri(), LONG, None);
        let (found, text) = asker.ask_in_vain().await;
        assert!(found == kind && text.contains(reported), "{found:?} {text}");
        let status = asker.source.status();
        assert_eq!((status.last_success_at, status.errors_total, status.last_error), (None, 1, Some(text)));
        let line = format!(r#"fairgate_weights_requests_total{{rule="reports",outcome="{}"}} 1"#, kind.name());
        assert!(
            asker.metrics.encode(Format::Text).contains(&line),
            "{line} is missing in\n{}",
            asker.metrics.encode(Format::Text)
        );
    }
}

#[tokio::test]
async fn connection_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let (kind, text) = Asker::new(&url, LONG, None).ask_in_vain().await;
    assert!(kind == ErrorKind::Unreachable && text.contains("Connection refused"), "{kind:?} {text}");
}

#[tokio::test]
async fn a_server_without_tls_is_an_error() {
    let server = answering(weights(json!({"a": 1}))).await;
    let (kind, text) = Asker::new(&format!("https://{}/", server.address()), LONG, None).ask_in_vain().await;
    assert_eq!(kind, ErrorKind::Unreachable, "{text}");
    assert_eq!(server.received_requests().await.unwrap().len(), 0);
}

#[tokio::test]
async fn the_deadline_is_for_the_whole_exchange() {
    let silent = answering(weights(json!({"a": 1})).set_delay(Duration::from_millis(LONG))).await;
    let stalled = raw(async |mut stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n{\"weights\"").await.unwrap();
        std::future::pending().await
    });
    for url in [silent.uri(), stalled.await] {
        let (kind, text) = Asker::new(&url, 100, None).ask_in_vain().await;
        assert!(kind == ErrorKind::Timeout && text.contains("no complete response within 100ms"), "{kind:?} {text}");
    }
}

#[tokio::test]
async fn a_response_without_end_is_cut_off() {
    let (ended, end) = tokio::sync::oneshot::channel();
    let url = raw(async |mut stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
        let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
        while stream.write_all(chunk.as_bytes()).await.is_ok() {}
        ended.send(()).unwrap();
    });
    let (kind, _) = Asker::new(&url.await, LONG, None).ask_in_vain().await;
    assert_eq!(kind, ErrorKind::TooLarge);
    end.await.expect("the connection is closed");
}

#[tokio::test]
async fn a_truncated_response_is_an_error() {
    let url = raw(async |mut stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n{\"weights\"").await.unwrap();
        stream.shutdown().await.unwrap();
        // Closing with unread input would reset the connection, and the reset may overtake the response.
        _ = stream.read_to_end(&mut Vec::new()).await;
    });
    let (kind, text) = Asker::new(&url.await, LONG, None).ask_in_vain().await;
    assert!(kind == ErrorKind::Unreadable && text.contains("the response was cut off"), "{kind:?} {text}");
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let other = answering(weights(json!({"a": 1}))).await;
    for status in [301, 302, 303, 307, 308] {
        let redirect = ResponseTemplate::new(status).insert_header("location", format!("{}/w", other.uri()));
        let server = answering(redirect).await;
        let (kind, text) = Asker::new(&server.uri(), LONG, Some("hunter2")).ask_in_vain().await;
        assert_eq!(kind, ErrorKind::Redirect);
        assert!(text.contains(&format!("returned HTTP {status} ")) && text.contains("not followed"), "{text}");
    }
    assert_eq!(other.received_requests().await.unwrap().len(), 0);
}

#[tokio::test]
async fn a_failing_webhook_is_not_called_for_a_while_and_then_probed() {
    let server = MockServer::start().await;
    let broken = Mock::given(method("POST")).respond_with(ResponseTemplate::new(503)).mount_as_scoped(&server).await;
    let asker = Asker::new(&server.uri(), LONG, None);
    for _ in 0..5 {
        assert_eq!(asker.ask_in_vain().await.0, ErrorKind::Status);
    }
    for _ in 0..3 {
        let (kind, text) = asker.ask_in_vain().await;
        assert_eq!(kind, ErrorKind::BreakerOpen);
        assert!(text.contains("next attempt in 1000 ms") && text.contains("503 Service Unavailable"), "{text}");
    }
    assert_eq!(server.received_requests().await.unwrap().len(), 5);
    let status = asker.source.status();
    assert_eq!((status.breaker, status.errors_total), (BreakerState::Open, 5), "a cancelled request is not an error");
    for line in [
        r#"fairgate_weights_requests_total{rule="reports",outcome="status"} 5"#,
        r#"fairgate_weights_requests_total{rule="reports",outcome="breaker_open"} 3"#,
        r#"fairgate_weights_seconds_count{rule="reports"} 5"#,
    ] {
        assert!(
            asker.metrics.encode(Format::Text).contains(line),
            "{line} is missing in\n{}",
            asker.metrics.encode(Format::Text)
        );
    }

    asker.clock.advance(1_000);
    assert_eq!(asker.ask_in_vain().await.0, ErrorKind::Status, "the probe fails");
    asker.clock.advance(1_999);
    assert_eq!(asker.ask_in_vain().await.0, ErrorKind::BreakerOpen, "now for two seconds");
    drop(broken);
    Mock::given(method("POST")).respond_with(weights(json!({"a": 1}))).mount(&server).await;
    asker.clock.advance(1);
    assert_eq!(asker.source.status().breaker, BreakerState::HalfOpen);
    assert!(asker.ask().now_or_never().is_none(), "a probe that its caller cancels");
    asker.ask().await.expect("another probe is allowed");
    let status = asker.source.status();
    assert_eq!((status.breaker, status.last_success_at), (BreakerState::Closed, Some(NOW + 3_000)));
    asker.ask().await.expect("the probe succeeds");
}

#[tokio::test]
async fn secrets_are_printed_nowhere() {
    let server = answering(ResponseTemplate::new(500)).await;
    let nobody = "127.0.0.1:1".to_owned();
    for address in [server.address().to_string(), nobody] {
        let url = format!("http://user:hunter2@{address}/hunter2?token=hunter2");
        let asker = Asker::new(&url, LONG, Some("hunter2"));
        for _ in 0..6 {
            let error = asker.ask().await.unwrap_err();
            let texts = format!("{error:?} {error} {:?} {:?}", asker.source, asker.source.status());
            assert!(texts.contains(&address) && !texts.contains("hunter2"), "{texts}");
        }
        assert_eq!(asker.source.status().breaker, BreakerState::Open);
    }
    let mut rule = Rule::new("reports", &["report.*"]);
    let url = "ftp://user:hunter2@host/".to_owned();
    rule.weights.webhook = Some(Webhook { url, timeout: 1, secret_env: None });
    let http = client_builder().build().unwrap();
    let error = WebhookSource::new(&rule, None, http, Clock::System, Metrics::default().weights).unwrap_err();
    assert!(!format!("{error:?} {error}").contains("hunter2"), "{error}");
}
