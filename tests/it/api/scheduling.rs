//! Scheduling over HTTP: dispatches of the last minute per queue, and global settings.

use crate::support::{Answer, NOON, TestApp, TestRedis, eventually, json};
use fairgate::clock::Clock;
use fairgate::domain::pool::{Pool, PoolQueue, Starvation};
use fairgate::domain::tenant::Weight;
use serde_json::Value;
use std::sync::Arc;

const STATS: &str = "/ojs/v1/admin/scheduling/stats";
const CONFIG: &str = "/ojs/v1/admin/scheduling/config";

async fn put(app: &TestApp, body: Value) -> Answer {
    app.client.send("PUT", CONFIG, Some(body.to_string())).await
}

#[tokio::test]
async fn stats_are_exact_over_the_last_minute() {
    let app = TestApp::start_at(NOON).await;
    let none = app.client.get(STATS).await.expect(200);
    assert_eq!((none.at("/queues"), none.at("/window")), (&json!([]), &json!("PT1M")));
    for queue in ["critical", "critical", "critical", "low", "idle"] {
        app.client.enqueue_into(queue).await;
    }
    app.clock.advance(100);
    let jobs = app.client.fetch("critical", 3).await.job_ids();
    app.clock.advance(200);
    app.client.fetch("low", 1).await;
    app.client.ack(&jobs[0]).await.expect(200);
    let stats = app.client.get(STATS).await.expect(200);
    let queue = |name: &str, count: u64, ratio: f64, wait: u64, active: u64| {
        json!({"name": name, "dispatch_count_1m": count, "dispatch_ratio_1m": ratio, "avg_wait_ms": wait,
            "active_jobs": active})
    };
    let expected =
        json!([queue("critical", 3, 0.75, 100, 2), queue("idle", 0, 0.0, 0, 0), queue("low", 1, 0.25, 300, 1)]);
    assert_eq!(stats.at("/queues"), &expected);
    assert_eq!(stats.at("/stats"), &json!({"queues": expected, "window": "PT1M"}));
    // They leave the window one by one, to the second.
    app.clock.advance(59_000);
    assert_eq!(app.client.get(STATS).await.at("/queues/0/dispatch_count_1m"), 3);
    app.clock.advance(1_000);
    let later = app.client.get(STATS).await.expect(200);
    assert_eq!(later.at("/queues/0"), &queue("critical", 0, 0.0, 0, 2), "it still runs what it got");
    assert_eq!(later.at("/queues/2"), &queue("low", 0, 0.0, 0, 1));
}

/// Global settings have no pool; their strategies are those between tenants.
#[tokio::test]
async fn a_change_of_the_config_is_reported_with_its_fields() {
    let app = TestApp::start().await;
    for body in [
        json!({"tenant_fairness": {"enabled": true}}),
        json!({"tenant_fairness": {"enabled": true}}), // no change
        json!({"tenant_fairness": {"strategy": "round-robin"}}),
        json!({"starvation_prevention": {"enabled": true}}),
        json!({"queues": {"q": {"tenant_fairness": {"enabled": true, "strategy": "strict"}}}}),
    ] {
        put(&app, body).await.expect(200);
    }
    let pool = json!({"queues": ["a"]}).to_string();
    app.client.send("PUT", "/v1/admin/pools/p", Some(pool)).await.expect(201);
    let events = app.client.get("/v1/events?types=scheduling.rebalanced").await.expect(200);
    let reported: Vec<(&Value, &Value)> =
        events.at("/events").as_array().unwrap().iter().map(|event| (&event["subject"], &event["data"])).collect();
    let for_all = |from: Option<&str>, to: &str, changed: &str| json!({"pool": null, "previous_strategy": from, "new_strategy": to, "changed": [changed]});
    let expected = [
        ("", for_all(Some("fair-share"), "fair-share", "tenant_fairness")),
        ("", for_all(Some("fair-share"), "round-robin", "tenant_fairness")),
        ("", for_all(Some("round-robin"), "round-robin", "starvation_prevention")),
        ("q", json!({"pool": null, "queue": "q", "previous_strategy": "round-robin", "new_strategy": "strict"})),
        ("p", json!({"pool": "p", "previous_strategy": null, "new_strategy": "round-robin"})),
    ];
    let expected: Vec<(Value, Value)> = expected.into_iter().map(|(subject, data)| (json!(subject), data)).collect();
    assert_eq!(reported, expected.iter().map(|(subject, data)| (subject, data)).collect::<Vec<_>>());
}

#[tokio::test]
async fn the_config_is_changed_in_parts_and_acts_at_once() {
    let app = TestApp::start().await;
    let before = app.client.get(CONFIG).await.expect(200);
    assert_eq!((before.at("/source"), before.at("/tenant_fairness/enabled")), (&json!("file"), &json!(null)));
    assert_eq!(before.at("/starvation_prevention/rotation_interval"), "PT30S");

    let changed =
        put(&app, json!({"tenant_fairness": {"enabled": true, "weights": {"tenant:acme": 2}}})).await.expect(200);
    assert_eq!((changed.at("/source"), changed.at("/tenant_fairness/weights")), (&json!("api"), &json!({"acme": 2})));
    let changed = put(&app, json!({"starvation_prevention": {"max_consecutive": 7}, "tenant_fairness": null})).await;
    let changed = changed.expect(200);
    assert_eq!(changed.at("/starvation_prevention/max_consecutive"), 7);
    assert_eq!(
        changed.at("/starvation_prevention/min_dispatch_ratio"),
        &json!(0.05),
        "members that are not set are unchanged"
    );
    assert_eq!(changed.at("/tenant_fairness/weights"), &json!({"acme": 2}));
    assert_eq!(put(&app, changed.body.clone()).await.expect(200).body, changed.body, "a response can be sent back");
    assert_eq!(app.client.get(CONFIG).await.body, changed.body);

    for (tenant, jobs) in [("noisy", 6), ("acme", 4), ("beta", 2)] {
        for _ in 0..jobs {
            app.client.enqueue(json!({"type": "t.x", "args": [], "queue": "q", "meta": {"tenant_id": tenant}})).await;
        }
    }
    let got = app.client.fetch("q", 8).await;
    let tenants: Vec<&str> =
        got.at("/jobs").as_array().unwrap().iter().map(|job| job["meta"]["tenant_id"].as_str().unwrap()).collect();
    for (tenant, jobs) in [("noisy", 2), ("acme", 4), ("beta", 2)] {
        assert_eq!(tenants.iter().filter(|got| **got == tenant).count(), jobs, "{tenants:?}");
    }
}

#[tokio::test]
async fn a_queue_has_its_own_fairness_until_it_is_taken_away() {
    let app = TestApp::start().await;
    put(&app, json!({"tenant_fairness": {"enabled": false}})).await.expect(200);
    let own = json!({"queues": {"q": {"tenant_fairness": {"enabled": true, "strategy": "round_robin"}}}});
    let set = put(&app, own).await.expect(200);
    assert_eq!(set.at("/queues/q/tenant_fairness/strategy"), "round-robin");
    put(&app, json!({"queues": {"r": {"tenant_fairness": {"enabled": true}}}})).await.expect(200);
    assert_eq!(app.client.get(CONFIG).await.at("/queues").as_object().map(|queues| queues.len()), Some(2));
    let tenants = async |queue: &str| {
        for tenant in ["a", "a", "b"] {
            let job = json!({"type": "t.x", "args": [], "queue": queue, "meta": {"tenant_id": tenant}});
            app.client.enqueue(job).await;
        }
        let got = app.client.fetch(queue, 3).await;
        let jobs = got.at("/jobs").as_array().unwrap().clone();
        jobs.iter().map(|job| job["meta"]["tenant_id"].as_str().unwrap().to_owned()).collect::<String>()
    };
    assert_eq!(tenants("q").await, "aba");
    let gone = put(&app, json!({"queues": {"q": {"tenant_fairness": null}}})).await.expect(200);
    assert!(gone.at("/queues/q").is_null() && gone.at("/queues/r").is_object(), "{}", gone.text);
    assert_eq!(tenants("q").await, "aab");
}

#[tokio::test]
async fn settings_persist_apply_in_all_processes_and_are_lost_with_an_emptied_redis() {
    let redis = Arc::new(TestRedis::start());
    let with_file = |config: &mut fairgate::config::Config| {
        config.policy.starvation = Starvation { enabled: true, rotation_interval: 5_000, ..Starvation::default() };
    };
    let one = TestApp::start_on(Arc::clone(&redis), Clock::System, with_file).await;
    let other = TestApp::start_on(Arc::clone(&redis), Clock::System, with_file).await;
    let interval = async |app: &TestApp| {
        let config = app.client.get(CONFIG).await;
        (config.text_at("/starvation_prevention/rotation_interval").to_owned(), config.text_at("/source").to_owned())
    };
    let (of_file, of_api) = (("PT5S".to_owned(), "file".to_owned()), ("PT9S".to_owned(), "api".to_owned()));
    assert_eq!(interval(&one).await, of_file);
    put(&one, json!({"starvation_prevention": {"rotation_interval": "9s"}})).await.expect(200);
    eventually("the other process sees it", async || interval(&other).await == of_api).await;
    other.app.shut_down().await;
    let other = TestApp::start_on(Arc::clone(&redis), Clock::System, with_file).await;
    assert_eq!(interval(&other).await, of_api, "after a restart as well");
    let () = redis.command(&["FLUSHALL"]).await;
    eventually("the file's holds again", async || interval(&one).await == of_file && interval(&other).await == of_file)
        .await;
}

/// Each metric of the specifications of fair scheduling and rate limiting, with its labels, after traffic that causes
/// it.
#[tokio::test]
async fn every_metric_of_dispatch_is_there_with_its_labels() {
    let app = TestApp::start_with(Clock::manual(NOON), |config| {
        let place = |queue: &str| PoolQueue { queue: queue.to_owned(), weight: Weight::ONE };
        let queues = vec![place("busy"), place("quiet")];
        config.policy.pools = vec![Pool { name: "p".to_owned(), queues, concurrency: Some(4), ..Pool::default() }];
        config.policy.starvation = Starvation { enabled: true, rotation_interval: 1_000, ..Starvation::default() };
    })
    .await;
    let limited = json!({"type": "t.x", "args": [], "queue": "busy", "rate_limit": {"key": "api", "concurrency": 1}});
    app.client.enqueue(limited.clone()).await;
    app.client.enqueue(limited).await;
    let fetch = json!({"pool": "p", "worker_id": "w", "queues": ["busy"], "count": 2});
    let got = app.client.post("/v1/workers/fetch", fetch.clone()).await.expect(200).job_ids();
    assert_eq!(got.len(), 1, "the other one waits for the limit");
    let metrics = async || app.client.get("/metrics").await.text;
    let has = |text: &str, line: &str| text.lines().any(|shown| shown == line);
    let text = metrics().await;
    for line in [
        r#"ojs_scheduling_dispatch_total{queue="busy",pool="p"} 1"#,
        r#"ojs_scheduling_dispatch_ratio{queue="busy"} 1.0"#,
        r#"ojs_scheduling_queue_wait_duration_count{queue="busy"} 1"#,
        r#"ojs_scheduling_pool_utilization{pool="p"} 0.25"#,
        r#"ojs_rate_limit_active{key="api"} 1"#,
        r#"ojs_rate_limit_waiting{key="api"} 1"#,
        r#"ojs_rate_limit_exceeded_total{key="api",strategy="concurrency"} 1"#,
        "fairgate_drift 0",
    ] {
        assert!(has(&text, line), "{line} is not in\n{text}");
    }
    app.clock.advance(3_000);
    app.client.ack(&got[0]).await.expect(200);
    app.client.post("/v1/workers/fetch", fetch).await.expect(200);
    let text = metrics().await;
    for line in [
        r#"ojs_rate_limit_wait_duration_count{key="api"} 1"#,
        r#"ojs_rate_limit_wait_duration_sum{key="api"} 3.0"#,
        r#"ojs_rate_limit_waiting{key="api"} 0"#,
    ] {
        assert!(has(&text, line), "{line} is not in\n{text}");
    }
    app.client.enqueue_into("quiet").await;
    app.clock.advance(1_500);
    eventually("the tick finds the queue starved", async || {
        has(&metrics().await, r#"ojs_scheduling_starvation_events_total{queue="quiet"} 1"#)
    })
    .await;
    let text = metrics().await;
    for (name, kind) in [
        ("ojs_scheduling_dispatch_total", "counter"),
        ("ojs_scheduling_dispatch_ratio", "gauge"),
        ("ojs_scheduling_queue_wait_duration", "histogram"),
        ("ojs_scheduling_pool_utilization", "gauge"),
        ("ojs_scheduling_starvation_events_total", "counter"),
        ("ojs_rate_limit_active", "gauge"),
        ("ojs_rate_limit_waiting", "gauge"),
        ("ojs_rate_limit_exceeded_total", "counter"),
        ("ojs_rate_limit_wait_duration", "histogram"),
        ("fairgate_drift", "gauge"),
    ] {
        assert!(has(&text, &format!("# TYPE {name} {kind}")), "{name} is no {kind} in\n{text}");
    }
    // Metrics of removed objects disappear.
    let without = json!({"queues": ["busy", "quiet"]});
    app.client.send("PUT", "/ojs/v1/admin/pools/p", Some(without.to_string())).await.expect(200);
    assert!(!metrics().await.contains("ojs_scheduling_pool_utilization{"), "a pool without a bound has no utilization");
    let () = app.redis.command(&["FLUSHALL"]).await;
    let text = metrics().await;
    for gone in ["ojs_rate_limit_active{", "ojs_rate_limit_waiting{", "ojs_scheduling_dispatch_ratio{"] {
        assert!(!text.contains(gone), "{gone} is still in\n{text}");
    }
}
