//! `/metrics` as scrapers read it: Prometheus' own tool, and a strict OpenMetrics parser.

use crate::support::{Answer, TestApp, json};
use fairgate::clock::Clock;
use fairgate::domain::limit::Quota;
use fairgate::domain::plan::Rule;
use fairgate::domain::pool::{LimitRule, LimitTarget};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};

/// Starts a server and produces data for every metric.
async fn busy_server() -> TestApp {
    let limit = LimitRule {
        target: LimitTarget::Key("k".to_owned()),
        quota: Quota { concurrency: Some(1), ..Quota::default() },
    };
    let app = TestApp::start_with(Clock::System, |config| {
        config.plan = vec![Rule::new("reports", &["report.*"])];
        config.policy.limits = vec![limit];
    })
    .await;
    let pool = json!({"queues": ["mail", "q"], "concurrency": 5});
    app.client.send("PUT", "/v1/admin/pools/p", Some(pool.to_string())).await.expect(201);
    for tenant in ["acme", "beta"] {
        let meta = json!({"tenant_id": tenant});
        for kind in ["report.make", "mail.send"] {
            let limit = json!({"key": "k"});
            let job = json!({"type": kind, "args": [], "queue": "mail", "meta": meta, "rate_limit": limit});
            app.client.enqueue(job).await;
        }
    }
    let fetch = json!({"pool": "p", "worker_id": "w", "count": 2});
    for id in app.client.post("/v1/workers/fetch", fetch.clone()).await.expect(200).job_ids() {
        app.client.nack(&id).await.expect(200);
    }
    for id in app.client.post("/v1/workers/fetch", fetch).await.expect(200).job_ids() {
        app.client.ack(&id).await.expect(200);
    }
    app.client.get("/v1/jobs/none").await.expect(404);
    app
}

/// Returns the samples of some metrics, without those of other metrics.
async fn samples(app: &TestApp, names: &[&str]) -> Vec<String> {
    let text = scrape(app, "*/*").await.text;
    let is_own = |line: &&str| names.iter().any(|name| line.starts_with(name));
    text.lines().filter(is_own).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_closed_gate_has_a_reason_and_a_rule_without_a_planner_is_stalled() {
    let mut rule = Rule::new("r", &["t.*"]);
    rule.queue = Some("q".to_owned());
    rule.max_depth = 1;
    let app = TestApp::start_passive(|config| config.plan = vec![rule.clone()]).await;
    let names = ["fairgate_gate_closed{", "fairgate_rule_stalled{", "fairgate_gate_latency_threshold_seconds{"];
    let threshold = "fairgate_gate_latency_threshold_seconds{rule=\"r\"} 60.0";
    let stalled = |number| format!("fairgate_rule_stalled{{rule=\"r\"}} {number}");
    assert_eq!(samples(&app, &names).await, [threshold.to_owned(), stalled(0)]);
    // The first job passes through and fills the queue; nobody plans the second one.
    for _ in 0..2 {
        app.client.enqueue(json!({"type": "t.job", "args": [], "meta": {"tenant_id": "acme"}})).await;
    }
    let closed = |reason: &str| format!("fairgate_gate_closed{{rule=\"r\",reason=\"{reason}\"}} 1");
    assert_eq!(samples(&app, &names).await, [threshold.to_owned(), closed("depth"), stalled(0)]);
    app.clock.advance(120_000);
    assert_eq!(samples(&app, &names).await, [threshold.to_owned(), closed("latency"), stalled(1)]);
    app.store().pause_rule("r", true, "test").await.unwrap();
    assert_eq!(samples(&app, &names).await, [threshold.to_owned(), closed("paused"), stalled(0)]);
}

#[tokio::test]
async fn dead_letters_are_counted() {
    let app = TestApp::start_passive(|_| {}).await;
    let retry = json!({"max_attempts": 1, "on_exhaustion": "dead_letter"});
    for _ in 0..2 {
        app.client.enqueue(json!({"type": "t.job", "args": [], "queue": "q", "retry": retry})).await;
    }
    for id in app.client.fetch("q", 2).await.job_ids() {
        app.client.nack(&id).await.expect(200);
    }
    assert_eq!(samples(&app, &["fairgate_dead_letters "]).await, ["fairgate_dead_letters 2"]);
}

async fn scrape(app: &TestApp, accept: &str) -> Answer {
    app.client.try_send("GET", "/metrics", &[("accept", accept)], None).await.unwrap().expect(200)
}

#[tokio::test]
async fn promtool_accepts_the_text_format() {
    let app = busy_server().await;
    let answer = scrape(&app, "*/*").await;
    assert_eq!(answer.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is installed: Debian's package prometheus");
    promtool.stdin.take().unwrap().write_all(answer.text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success() && said == ["", ""], "{said:?}\n{}", answer.text);
    for line in ["# TYPE fairgate_http_requests_total counter", "# TYPE ojs_queue_depth gauge"] {
        assert!(answer.text.lines().any(|own| own == line), "{line} is missing in\n{}", answer.text);
    }
}

#[tokio::test]
async fn openmetrics_is_valid_if_requested() {
    let app = busy_server().await;
    let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
    let answer = scrape(&app, prometheus).await;
    assert_eq!(answer.header("content-type"), "application/openmetrics-text; version=1.0.0; charset=utf-8");
    let types = check_open_metrics(&answer.text);
    assert_eq!(types["fairgate_http_requests"], "counter");
    // Both formats hold the same samples.
    let names = |text: &str| {
        let sample = |line: &str| line.split(['{', ' ']).next().unwrap_or_default().to_owned();
        text.lines().filter(|line| !line.starts_with('#')).map(sample).collect::<BTreeSet<_>>()
    };
    assert_eq!(names(&answer.text), names(&scrape(&app, "text/plain").await.text));
}

/// Checks the rules of OpenMetrics that a scraper relies on; returns the types of the families.
fn check_open_metrics(text: &str) -> BTreeMap<&str, &str> {
    let body = text.strip_suffix("# EOF\n").expect("it ends with # EOF");
    let (mut types, mut current, mut seen) = (BTreeMap::new(), "", BTreeSet::new());
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            let (keyword, rest) = rest.split_once(' ').expect(line);
            let (name, value) = rest.split_once(' ').expect(line);
            assert!(matches!(keyword, "HELP" | "TYPE" | "UNIT"), "{line}");
            if name != current {
                assert!(!types.contains_key(name), "the family {name} is split: {line}");
                current = name;
            }
            if keyword == "TYPE" {
                assert!(types.insert(name, value).is_none(), "{line}");
            }
            continue;
        }
        let (series, value) = line.rsplit_once(' ').expect(line);
        assert!(value.parse::<f64>().is_ok(), "{line}");
        assert!(seen.insert(series), "duplicate series: {line}");
        let name = series.split('{').next().unwrap_or_default();
        let suffixes: &[&str] = match types.get(current).copied() {
            Some("counter") => &["_total", "_created"],
            Some("histogram") => &["_bucket", "_count", "_sum", "_created"],
            Some("gauge") => &[""],
            other => panic!("{current} is {other:?}"),
        };
        assert!(suffixes.iter().any(|suffix| name == format!("{current}{suffix}")), "{line} is not in {current}");
    }
    types
}
