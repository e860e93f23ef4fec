//! The planner's admin API: rules at run time, state, rounds, tenants, previews, pause and resume, live events.

use crate::support::{NOON, TestApp, eventually, json};
use fairgate::clock::Clock;
use fairgate::config::Role;
use fairgate::domain::plan::{Batch, Rule, TenantKey};
use fairgate::domain::tenant::Weight;
use serde_json::Value;

const PLANNER: &str = "/ojs/v1/admin/planner";

fn reports() -> Rule {
    let mut rule = Rule::new("reports", &["report.*"]);
    rule.queue = Some("reports".to_owned());
    rule.batch = Batch::Jobs(4);
    rule.strict_interval = true;
    // Not `tenant_id`, which is validated: these tenants have arbitrary names.
    rule.tenant_key = TenantKey::parse("meta.owner").unwrap();
    rule.weights.fixed.insert("acme".to_owned(), Weight::of(3.0).unwrap());
    rule
}

/// Starts a server whose rounds only the test runs, with a paused rule so that nothing passes through.
async fn start(rule: Rule) -> TestApp {
    let app = TestApp::start_with(Clock::manual(NOON), |config| {
        config.plan = vec![rule];
        config.server.roles = vec![Role::Api, Role::Dispatch];
    })
    .await;
    app.client.post(&format!("{PLANNER}/reports/pause"), json!({})).await.expect(200);
    app
}

async fn push(app: &TestApp, tenant: &str, jobs: usize) {
    for number in 0..jobs {
        let job = json!({"type": "report.daily", "args": [number], "meta": {"owner": tenant}});
        assert_eq!(app.client.post("/v1/jobs", job).await.expect(201).at("/job/x_staged"), true);
    }
}

async fn resume(app: &TestApp) {
    app.client.post(&format!("{PLANNER}/reports/resume"), json!({})).await.expect(200);
}

async fn fetched_tenants(app: &TestApp, count: usize) -> Vec<String> {
    let answer = app.client.fetch("reports", count).await;
    let jobs = answer.at("/jobs").as_array().cloned().unwrap_or_default();
    jobs.iter().map(|job| job["meta"]["owner"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn a_preview_matches_the_following_round() {
    let app = start(reports()).await;
    push(&app, "acme", 9).await;
    push(&app, "beta", 3).await;
    push(&app, "gamma", 3).await;
    let paused = app.client.get(&format!("{PLANNER}/reports/preview")).await.expect(200);
    assert_eq!((paused.at("/batch"), paused.at("/gate/reason")), (&json!(0), &json!("paused")));
    resume(&app).await;
    for _ in 0..3 {
        let preview = app.client.get(&format!("{PLANNER}/reports/preview")).await.expect(200);
        assert_eq!((preview.at("/batch"), preview.at("/gate/open")), (&json!(4), &json!(true)));
        let round = app.client.post(&format!("{PLANNER}/reports/run"), json!({})).await.expect(200);
        assert_eq!((round.at("/outcome"), round.at("/promoted")), (&json!("promoted"), &json!(4)));
        let order: Vec<String> = serde_json::from_value(preview.at("/order").clone()).unwrap();
        assert_eq!(order, fetched_tenants(&app, 10).await);
        let foreseen: u64 =
            preview.at("/tenants").as_array().unwrap().iter().map(|t| t["jobs"].as_u64().unwrap()).sum();
        assert_eq!(foreseen, 4);
    }
    let longer = app.client.get(&format!("{PLANNER}/reports/preview?jobs=100")).await.expect(200);
    assert_eq!(longer.at("/order").as_array().map(Vec::len), Some(3), "what is left");
    app.client.get(&format!("{PLANNER}/reports/preview?jobs=0")).await.expect(400);
}

#[tokio::test]
async fn a_preview_goes_by_priority_and_tenants_are_counted_once() {
    let app = start(reports()).await;
    for (tenant, priority) in [("acme", 0), ("beta", 0), ("beta", 7), ("gamma", 7), ("gamma", 7), ("acme", -7)] {
        let job =
            json!({"type": "report.daily", "args": [], "meta": {"owner": tenant}, "options": {"priority": priority}});
        app.client.post("/v1/jobs", job).await.expect(201);
        app.clock.advance(1000);
    }
    let stats = app.client.get(&format!("{PLANNER}/reports")).await.expect(200);
    assert_eq!(stats.at("/staged"), &json!({"jobs": 6, "tenants": 3, "oldest_age_ms": 6000}));
    assert_eq!(stats.at("/main_queue/queues/0/waiting_tenants"), &json!(3));
    // The bound is that of the lightest tenant of the same priority.
    assert_eq!(stats.at("/fairness/worst_wait_bound_jobs"), &json!(5));
    let tenants = app.client.get(&format!("{PLANNER}/reports/tenants?sort=name")).await.expect(200);
    let listed = tenants.at("/items").as_array().unwrap();
    let figures = |tenant: &Value| ["tenant_id", "pending", "expected_share"].map(|name| tenant[name].clone());
    let listed: Vec<_> = listed.iter().map(figures).collect();
    assert_eq!(json!(listed), json!([["acme", 2, 0.6], ["beta", 2, 0.2], ["gamma", 2, 0.2]]));
    resume(&app).await;
    let preview = app.client.get(&format!("{PLANNER}/reports/preview?jobs=9")).await.expect(200);
    let order: Vec<String> = serde_json::from_value(preview.at("/order").clone()).unwrap();
    assert_eq!(order, ["beta", "gamma", "gamma", "acme", "beta", "acme"]);
    for _ in 0..2 {
        app.client.post(&format!("{PLANNER}/reports/run"), json!({})).await.expect(200);
    }
    assert_eq!(fetched_tenants(&app, 10).await, order);
}

#[tokio::test]
async fn a_rule_reports_its_state() {
    let app = start(reports()).await;
    push(&app, "acme", 6).await;
    app.clock.advance(1500);
    push(&app, "b:{}%é", 2).await;
    let before = app.client.get(&format!("{PLANNER}/reports")).await.expect(200);
    for (pointer, expected) in [
        ("/rule", json!("reports")),
        ("/types", json!(["report.*"])),
        ("/queue", json!("reports")),
        ("/state", json!("paused")),
        ("/source", json!("file")),
        ("/staged", json!({"jobs": 8, "tenants": 2, "oldest_age_ms": 1500})),
        ("/main_queue/kind", json!("builtin")),
        ("/main_queue/depth", json!(0)),
        ("/gate/reason", json!("paused")),
        ("/gate/latency_threshold_ms", json!(60000)),
        ("/lock", Value::Null),
        ("/weights/source", json!("static")),
        ("/fairness/worst_wait_bound_jobs", json!(5)),
        ("/rounds/total", json!(0)),
    ] {
        assert_eq!(before.at(pointer), &expected, "{pointer}");
    }
    resume(&app).await;
    app.client.post(&format!("{PLANNER}/reports/run"), json!({})).await.expect(200);
    let after = app.client.get(&format!("{PLANNER}/reports")).await.expect(200);
    for (pointer, expected) in [
        ("/state", json!("running")),
        ("/staged/jobs", json!(4)),
        ("/main_queue/depth", json!(4)),
        ("/gate", json!({"open": true, "reason": null, "latency_threshold_ms": 60000, "max_depth": 10000})),
        ("/rounds/total", json!(1)),
        ("/rounds/promoted_total", json!(4)),
        ("/last_rounds/0/promoted", json!(4)),
        ("/last_rounds/0/tenants", json!(2)),
        ("/last_rounds/0/weights_source", json!("static")),
        ("/fairness/jain_index", json!(1.0)),
    ] {
        assert_eq!(after.at(pointer), &expected, "{pointer}: {}", after.text);
    }
    assert!(after.at("/lock").is_null(), "whoever asked for a round gives the lock back: {}", after.text);
    let all = app.client.get(PLANNER).await.expect(200);
    assert_eq!((all.at("/rules/0/rule"), all.at("/pagination/total")), (&json!("reports"), &json!(1)));
    let metrics = app.client.get("/metrics").await.text;
    for line in [
        r#"fairgate_staged_jobs{rule="reports"} 4"#,
        r#"fairgate_main_queue_depth{rule="reports"} 4"#,
        r#"fairgate_planner_promoted_total{rule="reports",tenant="acme"} 3"#,
        r#"fairgate_gate_open{rule="reports"} 1"#,
        r#"fairgate_planner_rounds_total{rule="reports",outcome="promoted",reason=""} 1"#,
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
}

#[tokio::test]
async fn held_tenants_count_in_staged_figures_and_gauges() {
    let mut rule = reports();
    rule.weights.fixed.extend(["held-1", "held-2"].map(|tenant| (tenant.to_owned(), Weight::HELD)));
    let app = start(rule).await;
    push(&app, "held-1", 22).await;
    app.clock.advance(1000);
    push(&app, "held-2", 1).await;
    app.clock.advance(299_000);
    resume(&app).await;
    let held = app.client.post(&format!("{PLANNER}/reports/run"), json!({})).await.expect(200);
    assert_eq!((held.at("/promoted"), held.at("/reason")), (&json!(0), &json!("hold")));
    let stats = app.client.get(&format!("{PLANNER}/reports")).await.expect(200);
    assert_eq!(stats.at("/staged"), &json!({"jobs": 23, "tenants": 2, "oldest_age_ms": 300_000}));
    assert_eq!(stats.at("/main_queue/queues/0/waiting_tenants"), &json!(0), "no tenant waits for its turn");
    assert_eq!(stats.at("/fairness/jain_index"), &json!(1.0), "holding a tenant does not count as unfair");
    let metrics = app.client.get("/metrics").await.text;
    for line in
        [r#"fairgate_staged_tenants{rule="reports"} 2"#, r#"fairgate_staged_oldest_seconds{rule="reports"} 300.0"#]
    {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
}

#[tokio::test]
async fn tenants_are_listed_in_pages_and_orders() {
    let app = start(reports()).await;
    for (tenant, jobs) in [("zeta", 1), ("acme", 2), ("mid", 3)] {
        push(&app, tenant, jobs).await;
        app.clock.advance(100);
    }
    for (sort, expected) in [
        ("pending", ["mid", "acme", "zeta"]),
        ("oldest", ["zeta", "acme", "mid"]),
        ("weight", ["acme", "mid", "zeta"]),
        ("name", ["acme", "mid", "zeta"]),
    ] {
        let mut names = Vec::new();
        for offset in 0..3 {
            let path = format!("{PLANNER}/reports/tenants?sort={sort}&limit=1&offset={offset}");
            let page = app.client.get(&path).await.expect(200);
            assert_eq!((page.at("/pagination/total"), page.at("/truncated")), (&json!(3), &json!(false)));
            names.push(page.text_at("/items/0/tenant_id").to_owned());
        }
        assert_eq!(names, expected, "{sort}");
    }
    let first = app.client.get(&format!("{PLANNER}/reports/tenants?sort=weight")).await;
    let acme = first.at("/items/0");
    assert_eq!((&acme["pending"], &acme["weight"], &acme["expected_share"]), (&json!(2), &json!(3.0), &json!(0.6)));
    assert_eq!((&acme["wait_bound_jobs"], &acme["oldest_age_ms"]), (&json!(3), &json!(200)));
    app.client.get(&format!("{PLANNER}/reports/tenants?sort=colour")).await.expect(400);
}

#[tokio::test]
async fn rules_are_created_and_deleted_at_run_time() {
    let app = start(reports()).await;
    let put = async |name: &str, rule: Value| {
        app.client.send("PUT", &format!("{PLANNER}/{name}"), Some(rule.to_string())).await
    };
    let refused = put("mail", json!({"types": [], "enqueue_jobs": 0, "wieghts": {}})).await.expect(422);
    let mistakes = refused.at("/error/details/mistakes").as_array().unwrap();
    let fields: Vec<&str> = mistakes.iter().map(|mistake| mistake["field"].as_str().unwrap()).collect();
    assert_eq!(fields, ["types", "enqueue_jobs", "wieghts"]);
    assert!(refused.text.contains(r#"did you mean \"weights\"?"#), "{}", refused.text);
    put("events", json!({"types": ["a"]})).await.expect(405);
    put("mail", json!([])).await.expect(400);

    let added = put("mail", json!({"types": ["mail.*"], "queue": "post", "enqueue_jobs": 7})).await.expect(201);
    assert_eq!((added.at("/source"), added.at("/options/enqueue_jobs")), (&json!("api"), &json!(7)));
    let job = json!({"type": "mail.send", "args": [], "queue": "elsewhere"});
    assert_eq!(app.client.post("/v1/jobs", job).await.expect(201).at("/job/queue"), "post");

    let changed = put("reports", json!({"types": ["report.*"], "queue": "other"})).await.expect(200);
    assert_eq!((changed.at("/source"), changed.at("/queue")), (&json!("api"), &json!("other")));
    let restored = app.client.delete(&format!("{PLANNER}/reports")).await.expect(200);
    assert_eq!(restored.at("/holds"), "file");
    let restored = app.client.get(&format!("{PLANNER}/reports")).await.expect(200);
    assert_eq!((restored.at("/source"), restored.at("/queue")), (&json!("file"), &json!("reports")));
    app.client.delete(&format!("{PLANNER}/reports")).await.expect(409);

    app.client.delete(&format!("{PLANNER}/mail")).await.expect(200);
    app.client.get(&format!("{PLANNER}/mail")).await.expect(404);
    for path in ["/rounds", "/tenants", "/preview", "/events", ""] {
        app.client.get(&format!("{PLANNER}/mail{path}")).await.expect(404);
    }
    for verb in ["run", "pause", "resume"] {
        app.client.post(&format!("{PLANNER}/mail/{verb}"), json!({})).await.expect(404);
    }
}

#[tokio::test]
async fn rounds_are_recorded_and_streamed() {
    let app = start(reports()).await;
    push(&app, "acme", 9).await;
    resume(&app).await;
    let url = format!("{}{PLANNER}/events", app.client.base());
    let mut live = fairgate::weights::client_builder().build().unwrap().get(url).send().await.unwrap();
    assert_eq!(live.headers()["content-type"], "text/event-stream");
    for round in 1..=2 {
        let answer = app.client.post(&format!("{PLANNER}/reports/run"), json!({})).await.expect(200);
        let mut reported = String::new();
        while !reported.contains("\n\n") {
            let chunk = live.chunk().await.unwrap().expect("the stream goes on");
            reported.push_str(&String::from_utf8_lossy(&chunk));
        }
        assert!(reported.starts_with("event: round\nid: reports/"), "{reported}");
        let data = reported.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!((&data["round"], &data["promoted"]), (&json!(round), answer.at("/promoted")));
    }
    let recorded = app.client.get(&format!("{PLANNER}/reports/rounds?limit=1")).await.expect(200);
    assert_eq!((recorded.at("/items/0/round"), recorded.at("/pagination/total")), (&json!(2), &json!(2)));
    let older = app.client.get(&format!("{PLANNER}/reports/rounds?limit=1&offset=1")).await.expect(200);
    assert_eq!(older.at("/items/0/round"), 1);
}

#[tokio::test]
async fn a_planner_runs_automatically_and_can_be_paused() {
    let mut rule = reports();
    (rule.batch, rule.strict_interval) = (Batch::Auto, false);
    let app = TestApp::start_with(Clock::System, |config| config.plan = vec![rule]).await;
    app.client.post(&format!("{PLANNER}/reports/pause"), json!({})).await.expect(200);
    push(&app, "acme", 20).await;
    push(&app, "beta", 5).await;
    assert_eq!(app.client.post(&format!("{PLANNER}/reports/run"), json!({})).await.expect(200).at("/reason"), "paused");
    assert_eq!(fetched_tenants(&app, 10).await.len(), 0);
    resume(&app).await;
    let mut got = 0;
    eventually("all jobs are promoted as workers fetch them", async || {
        got += fetched_tenants(&app, 5).await.len();
        got == 25
    })
    .await;
    eventually("the idle rule holds no lock", async || {
        app.client.get(&format!("{PLANNER}/reports")).await.at("/lock").is_null()
    })
    .await;
}

/// Its types are planned no more, and its other options are shown until it is empty.
#[tokio::test]
async fn a_rule_that_drains_is_shown_without_types() {
    let app = start(reports()).await;
    let passing = json!({"types": ["passing.*"], "queue": "passing", "tenant_key": "meta.owner"}).to_string();
    app.client.send("PUT", &format!("{PLANNER}/passing"), Some(passing)).await.expect(201);
    app.client.post(&format!("{PLANNER}/passing/pause"), json!({})).await.expect(200);
    app.client.enqueue(json!({"type": "passing.job", "args": [], "meta": {"owner": "acme"}})).await;
    app.client.delete(&format!("{PLANNER}/passing")).await.expect(200);
    let rule = app.client.get(&format!("{PLANNER}/passing")).await.expect(200);
    assert_eq!((rule.at("/state"), rule.at("/options/types")), (&json!("draining"), &json!([])));
}
