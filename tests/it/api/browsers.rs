//! A server without keys is protected against pages in a browser on the same machine.

use crate::support::wire::{Connection, request};
use crate::support::{TestApp, chromium, json};
use fairgate::clock::Clock;
use std::net::{SocketAddr, TcpListener};
use wiremock::{Mock, MockServer, ResponseTemplate};

/// A page that tries several requests and reports the outcomes to its own server.
const PAGE: &str = r#"<!doctype html><body><iframe name="frame"></iframe>
<form method="post" enctype="text/plain" target="frame" action="BASE/jobs">
<input name='{"type":"test.job","args":["' value='"]}'></form><script>
const job = JSON.stringify({type: "test.job", args: []});
const frame = document.querySelector("iframe"), form = document.querySelector("form");
const tries = {
  form: () => new Promise(done => { frame.onload = () => done({type: "form", status: 0}); form.submit(); }),
  text: () => fetch("BASE/jobs", {method: "POST", mode: "no-cors", body: job}),
  blob: () => fetch("BASE/jobs", {method: "POST", mode: "no-cors", body: new Blob([job])}),
  pause: () => fetch("BASE/queues/q/pause", {method: "POST", mode: "no-cors"}),
  json: () => fetch("BASE/jobs", {method: "POST", headers: {"content-type": "application/json"}, body: job}),
  remove: () => fetch("BASE/dead-letter", {method: "DELETE"}),
  read: () => fetch("BASE/queues"),
};
(async () => {
  let report = "";
  for (const [name, run] of Object.entries(tries)) {
    try { const answer = await run(); report += `${name} is ${answer.type} ${answer.status}; `; }
    catch (error) { report += `${name} is ${error.name}; `; }
  }
  await fetch("/report", {method: "POST", body: report});
})();
</script></body>"#;

/// Serves the page from another port.
async fn page(app: &TestApp, listener: TcpListener) -> MockServer {
    let server = MockServer::builder().listener(listener).start().await;
    let page = PAGE.replace("BASE", &format!("{}/ojs/v1", app.client.base()));
    Mock::given(wiremock::matchers::any())
        .respond_with(ResponseTemplate::new(200).set_body_raw(page, "text/html"))
        .mount(&server)
        .await;
    server
}

/// Shows the page in a browser under one of this machine's names; returns the outcomes that its script reports.
async fn page_report(page: &MockServer, host: &str) -> String {
    let url = format!("http://{host}:{}/", page.address().port());
    let report = async || {
        let requests = page.received_requests().await.unwrap_or_default();
        let report = requests.into_iter().find(|request| request.url.path() == "/report")?;
        Some(String::from_utf8_lossy(&report.body).into_owned())
    };
    chromium::shown(&url, report).await
}

/// The number of jobs, and if the queue is paused.
async fn harm(app: &TestApp) -> (usize, serde_json::Value) {
    let jobs = app.client.fetch("default", 10).await.job_ids().len();
    let queues = app.client.get("/v1/queues").await.expect(200);
    let paused = queues.at("/queues").as_array().expect("queues").iter().any(|queue| queue["status"] == "paused");
    (jobs, json!(paused))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_another_origin_changes_nothing() {
    let app = TestApp::start().await;
    app.client.enqueue_into("q").await;
    // Another port of the same host is another origin of the same site; another host name is another site.
    for host in ["127.0.0.1", "localhost"] {
        let page = page(&app, TcpListener::bind("127.0.0.1:0").unwrap()).await;
        let report = page_report(&page, host).await;
        for refused in ["json is TypeError", "remove is TypeError", "read is TypeError"] {
            assert!(report.contains(refused), "{refused} is missing in {report}");
        }
        assert_eq!(harm(&app).await, (0, json!(false)), "{host}: {report}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_whose_origin_is_listed_uses_the_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = format!("http://{}", listener.local_addr().unwrap());
    let app = TestApp::start_with(Clock::System, |config| config.server.cors_origins = vec![own.clone()]).await;
    app.client.enqueue_into("q").await;
    let page = page(&app, listener).await;
    let report = page_report(&page, "127.0.0.1").await;
    for allowed in ["form is form", "json is cors 201", "read is cors 200", "remove is cors 4"] {
        assert!(report.contains(allowed), "{allowed} is missing in {report}");
    }
    // Requests that pages send without a preflight have no JSON media type, so they are refused.
    assert_eq!(harm(&app).await, (1, json!(true)), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dns_rebinding_is_refused() {
    let app = TestApp::start().await;
    let port = app.app.address.port();
    let rebound = ["--host-resolver-rules=MAP rebound.example 127.0.0.1"];
    let report = chromium::rendered(&format!("http://rebound.example:{port}/docs"), &rebound).await;
    assert!(!report.contains("id=\"post_jobs\""), "{report}");
    let report = chromium::rendered(&format!("http://localhost:{port}/docs"), &rebound).await;
    assert!(report.contains("id=\"post_jobs\""), "{report}");
}

/// Returns the status of a request and a header of its response.
async fn ask(address: SocketAddr, method: &str, headers: &[(&str, &str)], header: &str) -> (u16, String) {
    let body = r#"{"type":"test.job","args":[]}"#;
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_bytes().to_vec())).collect();
    let mut connection = Connection::open(address).await;
    let body = (method == "POST").then_some(body.as_bytes());
    connection.send(&request(method, "/ojs/v1/jobs", &headers, body)).await.expect("sent");
    let answer = connection.receive().await.expect("an answer");
    (answer.status, answer.header(header).to_owned())
}

#[tokio::test]
async fn preflight_requests_succeed_for_listed_origins() {
    const OWN: &str = "https://dash.example.com";
    let app = TestApp::start_with(Clock::System, |config| config.server.cors_origins = vec![OWN.to_owned()]).await;
    let address = app.app.address;
    let asks = ("access-control-request-method", "POST");
    let (status, origin) = ask(address, "OPTIONS", &[("origin", OWN), asks], "access-control-allow-origin").await;
    assert_eq!((status, origin.as_str()), (204, OWN));
    let (_, methods) = ask(address, "OPTIONS", &[("origin", OWN), asks], "access-control-allow-methods").await;
    assert!(methods.contains("POST") && methods.contains("DELETE"), "{methods}");
    let (_, headers) = ask(address, "OPTIONS", &[("origin", OWN), asks], "access-control-allow-headers").await;
    assert!(headers.contains("Authorization") && headers.contains("Content-Type"), "{headers}");
    let (status, origin) =
        ask(address, "OPTIONS", &[("origin", "https://evil.example"), asks], "access-control-allow-origin").await;
    assert_eq!((status, origin.as_str()), (405, ""));

    let (status, origin) = ask(address, "POST", &[("origin", OWN)], "access-control-allow-origin").await;
    assert_eq!((status, origin.as_str()), (201, OWN));
    assert_eq!(ask(address, "POST", &[("origin", OWN)], "vary").await.1, "Origin");
    assert_eq!(ask(address, "POST", &[], "vary").await, (201, "Origin".to_owned()), "caches need the Vary header");
}

/// Response headers that browsers always show to a page, or need for themselves.
const ALWAYS_READABLE: [&str; 11] = [
    "access-control-allow-origin",
    "access-control-expose-headers",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "transfer-encoding",
    "vary",
    "x-content-type-options",
];

#[tokio::test]
async fn a_page_whose_origin_is_listed_may_read_every_header() {
    const OWN: &str = "https://dash.example.com";
    let app = TestApp::start_with(Clock::System, |config| config.server.cors_origins = vec![OWN.to_owned()]).await;
    let send = async |method: &str, path: &str, body: Option<serde_json::Value>| {
        let body = body.map(|body| body.to_string());
        let answer = app.client.try_send(method, path, &[("origin", OWN)], body).await.expect("an answer");
        let exposed = answer.header("access-control-expose-headers").to_ascii_lowercase();
        let exposed: Vec<&str> = exposed.split(',').map(str::trim).collect();
        for name in answer.headers.keys().map(|name| name.as_str()) {
            let is_readable = ALWAYS_READABLE.contains(&name) || exposed.contains(&name);
            assert!(is_readable, "{method} {path}: {name} is not in {exposed:?}");
        }
        answer
    };
    let limit = json!({"key": "stripe", "rate": {"limit": 1, "period": "PT1M"}});
    let job = json!({"type": "a.b", "args": [], "options": {"queue": "q", "rate_limit": limit}});
    assert_ne!(send("POST", "/v1/jobs", Some(job)).await.expect(201).header("location"), "");
    let limit = send("GET", "/v1/rate-limits/stripe", None).await.expect(200);
    assert_ne!((limit.header("x-ratelimit-limit"), limit.header("x-ratelimit-reset")), ("", ""));
    send("DELETE", "/v1/queues", None).await.expect(405);
    send("GET", "/v1/jobs/none", None).await;
    let bound = json!({"backpressure": {"max_depth": 1, "strategy": "reject"}});
    send("PUT", "/v1/queues/full/config", Some(bound)).await.expect(200);
    let job = json!({"type": "a.b", "args": [], "options": {"queue": "full"}});
    send("POST", "/v1/jobs", Some(job.clone())).await.expect(201);
    let full = send("POST", "/v1/jobs", Some(job)).await.expect(429);
    assert_ne!((full.header("retry-after"), full.header("x-ojs-queue-bound")), ("", ""));
}

#[tokio::test]
async fn with_keys_a_page_needs_one_and_names_do_not_matter() {
    let app = crate::auth::guarded().await;
    let foreign = [("host", "jobs.example.com"), ("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")];
    assert_eq!(ask(app.app.address, "POST", &foreign, "x").await.0, 401);
}
