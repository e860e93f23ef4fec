//! Backlogs for autoscalers: staged jobs count, numbers follow from measured rates, and unknown numbers are null.

use crate::support::{Answer, NOON, TestApp, eventually, json};
use fairgate::clock::Clock;
use fairgate::config::{Config, Role};
use fairgate::domain::plan::{Batch, Pace, Rule};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// A rule `r` for types `t.*` and the main queue `q`, which promotes up to `batch` jobs when the test asks.
fn rule(batch: u32, change: impl FnOnce(&mut Rule)) -> Rule {
    let mut rule = Rule::new("r", &["t.*"]);
    rule.queue = Some("q".to_owned());
    (rule.batch, rule.strict_interval, rule.pace) = (Batch::Jobs(batch), true, Pace::Every(3_600_000));
    change(&mut rule);
    rule
}

/// Starts a fairgate that counts activity and does not plan.
async fn counting(change: impl FnOnce(&mut Config)) -> TestApp {
    let app = TestApp::start_with(Clock::manual(NOON), |config| {
        config.server.roles = vec![Role::Api, Role::Dispatch];
        // Workers of these tests register once and send no heartbeats.
        config.workers.dead_after = Duration::from_secs(600);
        change(config);
    })
    .await;
    eventually("it counts", async || {
        app.redis.command::<Option<String>>(&["HGET", "fg:{default}:state", "throttled"]).await.is_some()
    })
    .await;
    app
}

/// Stages jobs of a tenant.
async fn stage(app: &TestApp, jobs: usize) {
    app.store().pause_rule("r", true, "test").await.unwrap();
    let job = json!({"type": "t.job", "args": [], "meta": {"tenant_id": "acme"}});
    app.enqueue_all(vec![job; jobs]).await;
    app.store().pause_rule("r", false, "test").await.unwrap();
}

async fn read(app: &TestApp, path: &str) -> Answer {
    app.client.get(&format!("/v1/admin/autoscale{path}")).await.expect(200)
}

async fn register(app: &TestApp, worker: Value) {
    app.client.post("/v1/workers/register", worker).await.expect(200);
}

/// The three recommended numbers with their bases.
fn advice(answer: &Answer) -> [[Value; 2]; 3] {
    ["backlog_seconds", "load", "workers_wanted"]
        .map(|name| [answer.at(&format!("/{name}")).clone(), answer.at(&format!("/basis/{name}")).clone()])
}

#[tokio::test]
async fn staged_jobs_count_for_their_rule_and_for_its_queue() {
    let app = counting(|config| config.plan = vec![rule(5, |_| {})]).await;
    stage(&app, 20).await;
    app.client.post("/v1/admin/planner/r/run", json!({})).await.expect(200);
    app.client.enqueue_into("q").await;
    app.client.enqueue_into("other").await;
    app.clock.advance(90_000);
    for path in ["/r", "/q"] {
        let seen = read(&app, path).await;
        assert_eq!((seen.at("/backlog_jobs"), seen.at("/oldest_seconds")), (&json!(21), &json!(90.0)), "{}", seen.text);
        let jobs = json!({"staged": 15, "available": 6, "blocked": 0, "undelivered": 0});
        assert_eq!((seen.at("/jobs"), seen.at("/basis/backlog_jobs")), (&jobs, &json!("counted")));
    }
    let other = read(&app, "/other").await;
    assert_eq!(
        (other.at("/kind"), other.at("/backlog_jobs"), other.at("/gate")),
        (&json!("queue"), &json!(1), &Value::Null)
    );
}

#[tokio::test]
async fn a_promotion_is_not_an_arrival() {
    let app = counting(|config| config.plan = vec![rule(5, |_| {})]).await;
    stage(&app, 12).await;
    app.client.post("/v1/admin/planner/r/run", json!({})).await.expect(200);
    let seen = read(&app, "/r").await;
    assert_eq!((seen.at("/jobs/available"), seen.at("/inputs/arrivals_per_second")), (&json!(5), &json!(0.2)));
}

#[tokio::test]
async fn a_rule_that_a_closed_gate_holds_back_shows_its_whole_backlog() {
    let app = counting(|config| config.plan = vec![rule(50, |rule| rule.max_depth = 3)]).await;
    stage(&app, 20).await;
    app.client.post("/v1/admin/planner/r/run", json!({})).await.expect(200);
    let seen = read(&app, "/r").await;
    assert_eq!(seen.at("/gate"), &json!({"open": false, "reason": "depth"}));
    assert_eq!((seen.at("/backlog_jobs"), seen.at("/jobs/available")), (&json!(20), &json!(3)));
}

/// A job arrives each second and runs for a second, for a minute.
async fn one_job_a_second(app: &TestApp) {
    register(app, json!({"worker_id": "w1", "queues": ["q"], "concurrency": 10})).await;
    for _ in 0..60 {
        app.client.enqueue_into("q").await;
        let ids = app.client.fetch("q", 1).await.job_ids();
        app.clock.advance(1000);
        app.client.ack(&ids[0]).await.expect(200);
    }
}

#[tokio::test]
async fn in_a_steady_state_the_numbers_follow_from_arrivals_and_run_times() {
    let app = counting(|_| {}).await;
    one_job_a_second(&app).await;
    let seen = read(&app, "/q").await;
    assert_eq!((seen.at("/inputs/arrivals_per_second"), seen.at("/inputs/run_seconds")), (&json!(1.0), &json!(1.0)));
    assert_eq!((seen.at("/inputs/slots"), seen.at("/workers")), (&json!(10), &json!(1)));
    let drained = seen.at("/inputs/drain_per_second").as_f64().unwrap();
    assert!((0.9..=1.0).contains(&drained), "{drained}");
    let expected = [[json!(0.0), json!("empty")], [json!(0.0), json!("busy_slots")], [json!(1), json!("run_time")]];
    assert_eq!(advice(&seen), expected);
}

#[tokio::test]
async fn a_backlog_wants_the_workers_that_clear_it_within_the_target() {
    let app = counting(|_| {}).await;
    one_job_a_second(&app).await;
    app.enqueue_all(vec![json!({"type": "t.job", "args": [], "queue": "q"}); 600]).await;
    let seen = read(&app, "/q").await;
    // 660 jobs arrived within the minute; with 600 jobs to be cleared in 60 s, 21 of 1 s each must run at a time.
    assert_eq!(seen.at("/inputs/arrivals_per_second"), &json!(11.0));
    let expected = [[json!(60.0), json!("run_time")], [json!(0.0), json!("busy_slots")], [json!(3), json!("run_time")]];
    assert_eq!(advice(&seen), expected);
    for (query, wanted) in [("?target_seconds=600", 2), ("?target_seconds=1", 62), ("?slots_per_worker=1", 21)] {
        assert_eq!(read(&app, &format!("/q{query}")).await.at("/workers_wanted"), &json!(wanted), "{query}");
    }
    // Once the backlog is older than the window, the measured rate counts.
    let fetch = json!({"queues": ["q"], "worker_id": "only_fetches", "count": 60});
    app.client.post("/v1/workers/fetch", fetch.clone()).await.expect(200);
    app.clock.advance(59_000);
    app.client.post("/v1/workers/fetch", fetch).await.expect(200);
    app.clock.advance(1000);
    let late = read(&app, "/q").await;
    assert_eq!((late.at("/basis/backlog_seconds"), late.at("/jobs/available")), (&json!("drain_rate"), &json!(480)));
    let drained = late.at("/inputs/drain_per_second").as_f64().unwrap();
    assert_eq!(late.at("/backlog_seconds").as_f64().unwrap().round(), (480.0 / drained).round());
    assert_eq!(late.at("/load"), &json!(12.0), "120 active jobs, and one known worker with ten slots");
}

#[tokio::test]
async fn jobs_that_wait_for_a_limit_want_no_workers() {
    let app = counting(|_| {}).await;
    let job = json!({"type": "t.job", "args": [], "queue": "q", "rate_limit": {"key": "k", "concurrency": 1}});
    app.enqueue_all(vec![job; 5]).await;
    let ids = app.client.fetch("q", 5).await.job_ids();
    app.client.fetch("q", 5).await;
    app.clock.advance(1000);
    let seen = read(&app, "/q").await;
    assert_eq!((ids.len(), seen.at("/backlog_jobs"), seen.at("/jobs/blocked")), (1, &json!(4), &json!(4)));
    assert_eq!((seen.at("/inputs/startable_jobs"), seen.at("/basis/backlog_seconds")), (&json!(0), &json!("empty")));
}

#[tokio::test]
async fn numbers_of_which_nothing_is_known_are_null() {
    let mut unbound = rule(5, |rule| rule.queue = None);
    unbound.name = "unbound".to_owned();
    let app = TestApp::start_passive(|config| config.plan = vec![unbound]).await;
    let none = || [[Value::Null, json!("no_data")], [Value::Null, json!("no_data")]];
    let seen = read(&app, "/unbound").await;
    assert_eq!((seen.at("/backlog_jobs"), seen.at("/inputs/arrivals_per_second")), (&json!(0), &Value::Null));
    assert_eq!(advice(&seen)[1..], none());
    // A backlog that no worker has touched wants one. While a worker is there, nothing is known of its speed.
    app.client.enqueue_into("q").await;
    assert_eq!(advice(&read(&app, "/q").await)[2], [json!(1), json!("first_worker")]);
    register(&app, json!({"worker_id": "w1", "queues": ["q"]})).await;
    let seen = read(&app, "/q").await;
    assert_eq!(advice(&seen)[0], none()[0]);
    assert_eq!((advice(&seen)[2].clone(), seen.at("/workers")), (none()[1].clone(), &json!(1)));
}

#[tokio::test]
async fn only_workers_that_get_jobs_of_the_queue_count() {
    let app = TestApp::start_passive(|_| {}).await;
    app.client.enqueue_into("q").await;
    let pool = json!({"queues": ["q", "mail"]});
    app.client.send("PUT", "/v1/admin/pools/p", Some(pool.to_string())).await.expect(201);
    for worker in [
        json!({"worker_id": "gone", "queues": ["q"], "concurrency": 50}),
        json!({"worker_id": "quiet", "queues": ["q"], "concurrency": 50}),
    ] {
        register(&app, worker).await;
    }
    app.clock.advance(app.store().settings().dead_after as i64 + 1);
    for worker in [
        json!({"worker_id": "quiet", "queues": ["q"], "concurrency": 50, "state": "quiet"}),
        json!({"worker_id": "both", "queues": ["q", "mail"], "concurrency": 4}),
        json!({"worker_id": "pooled", "pool": "p", "concurrency": 8}),
        json!({"worker_id": "other", "queues": ["mail"], "concurrency": 16}),
        json!({"worker_id": "plain"}),
    ] {
        register(&app, worker).await;
    }
    let seen = read(&app, "/q").await;
    assert_eq!((seen.at("/workers"), seen.at("/inputs/slots")), (&json!(2), &json!(12)), "{}", seen.text);
}

#[tokio::test]
async fn a_rule_takes_precedence_over_a_queue_of_its_name() {
    let mut same = rule(5, |_| {});
    same.name = "q".to_owned();
    let app = TestApp::start_passive(|config| config.plan = vec![same]).await;
    app.client.enqueue_into("q").await;
    app.client.enqueue_into("a").await;
    for (path, kind) in [("/q", "rule"), ("/q?kind=rule", "rule"), ("/q?kind=queue", "queue"), ("/a", "queue")] {
        assert_eq!(read(&app, path).await.at("/kind"), kind, "{path}");
    }
    let names = async |query: &str| {
        let list = read(&app, query).await;
        let name = |item: &Value| format!("{} {}", item["kind"].as_str().unwrap(), item["name"].as_str().unwrap());
        let items: Vec<String> = list.at("/items").as_array().unwrap().iter().map(name).collect();
        (items.join(", "), list.at("/pagination/total").as_u64().unwrap())
    };
    for (query, items, total) in [
        ("", "rule q, queue a, queue q", 3),
        ("?limit=2", "rule q, queue a", 3),
        ("?limit=2&offset=1", "queue a, queue q", 3),
        ("?limit=1&offset=2", "queue q", 3),
        ("?kind=rule", "rule q", 1),
        ("?kind=queue", "queue a, queue q", 2),
        ("?offset=9", "", 3),
    ] {
        assert_eq!(names(query).await, (items.to_owned(), total), "{query}");
    }
}

#[tokio::test]
async fn unknown_names_are_404_and_bad_parameters_400() {
    let app = TestApp::start_passive(|config| config.plan = vec![rule(5, |_| {})]).await;
    app.client.enqueue_into("a").await;
    for (path, status) in [
        ("/none", 404),
        ("/r?kind=queue", 404),
        ("/a?kind=rule", 404),
        ("/r?kind=pool", 400),
        ("?kind=x", 400),
        ("/r?target_seconds=0", 400),
        ("/r?target_seconds=1.5", 400),
        ("/r?target_seconds=86401", 400),
        ("/r?slots_per_worker=-1", 400),
        ("?slots_per_worker=10001", 400),
        ("?limit=0", 400),
    ] {
        app.client.get(&format!("/v1/admin/autoscale{path}")).await.expect(status);
    }
}

#[tokio::test]
async fn metrics_have_the_same_numbers_and_no_series_for_unknown_ones() {
    let app = counting(|config| config.plan = vec![rule(5, |_| {})]).await;
    stage(&app, 7).await;
    let own = async |app: &TestApp| {
        let text = app.client.get("/metrics").await.expect(200).text;
        let own = text.lines().filter(|line| line.starts_with("fairgate_autoscale_") && line.contains("kind=\"rule\""));
        own.map(str::to_owned).collect::<Vec<_>>()
    };
    let series = own(&app).await;
    for expected in ["backlog_jobs{kind=\"rule\",name=\"r\"} 7", "workers_wanted{kind=\"rule\",name=\"r\"} 1"] {
        assert!(series.contains(&format!("fairgate_autoscale_{expected}")), "{expected} is not in {series:?}");
    }
    assert_eq!(series.len(), 2, "nothing is known of the load and the time: {series:?}");
}

/// Returns the value of a key in a YAML file that has it once.
fn yaml_value<'t>(text: &'t str, key: &str) -> &'t str {
    let values: Vec<&str> = text.lines().filter_map(|line| line.trim().strip_prefix(key)?.strip_prefix(": ")).collect();
    assert_eq!(values.len(), 1, "{key} in {text}");
    values[0].trim_matches('"')
}

/// KEDA sends a GET with a bearer token, and finds the number by a path of members.
#[tokio::test]
async fn the_scaled_object_for_keda_finds_its_number_in_a_response() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/kubernetes/keda-scaledobject.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    let url = yaml_value(&text, "url").strip_prefix("http://fairgate:8080").expect("the Service of service.yaml");
    let mut reports = rule(5, |_| {});
    reports.name = "reports".to_owned();
    let app = counting(|config| config.plan = vec![reports]).await;
    stage(&app, 300).await;
    let key = json!({"name": "root", "role": "admin"});
    let root = app.client.post("/v1/admin/keys", key).await.expect(201).text_at("/api_key/key").to_owned();
    let bearer = |key: &str| format!("Bearer {key}");
    let key = json!({"name": "keda", "role": "operator"}).to_string();
    let header = [("authorization", bearer(&root))];
    let header = header.each_ref().map(|(name, value)| (*name, value.as_str()));
    let made = app.client.try_send("POST", "/v1/admin/keys", &header, Some(key)).await.unwrap().expect(201);
    app.client.get(url).await.expect(401);
    assert_eq!(yaml_value(&text, "authMode"), "bearer");
    let header = bearer(made.text_at("/api_key/key"));
    let seen = app.client.try_send("GET", url, &[("authorization", &header)], None).await.unwrap().expect(200);
    let location = yaml_value(&text, "valueLocation");
    let number = location.split('.').fold(&seen.body, |value, member| &value[member]);
    assert_eq!(number, &json!(1), "{location} in {}", seen.text);
    assert_eq!(seen.at("/inputs/slots_per_worker"), &json!(10.0), "{url}");
}
