//! History: a sample of rules, queues and tenants after each interval, kept for a day.

use crate::planner::registry;
use crate::support::{NOON, TestApp, eventually, json};
use fairgate::background::HistoryRecorder;
use fairgate::domain::plan::{Batch, Rule, TenantKey};
use fairgate::store::INTERVAL_MS;
use serde_json::Value;

fn reports() -> Rule {
    let mut rule = Rule::new("reports", &["report.*"]);
    rule.queue = Some("reports".to_owned());
    rule.batch = Batch::Jobs(4);
    rule.strict_interval = true;
    rule.tenant_key = TenantKey::parse("meta.tenant_id").unwrap();
    rule
}

/// Starts a server that counts the activity of tenants, as by default.
async fn counting() -> TestApp {
    let app = TestApp::start_with(fairgate::clock::Clock::manual(NOON), |config| config.plan = vec![reports()]).await;
    eventually("it counts", async || {
        app.redis.command::<Option<String>>(&["HGET", "fg:{default}:state", "throttled"]).await.is_some()
    })
    .await;
    app
}

fn recorder(app: &TestApp) -> HistoryRecorder {
    HistoryRecorder::new(registry(app.store(), &[reports()]))
}

async fn samples(app: &TestApp) -> Vec<Value> {
    let history = app.client.get("/v1/admin/history").await.expect(200);
    history.at("/samples").as_array().unwrap().clone()
}

async fn work_one(app: &TestApp, queue: &str, ms: i64) {
    let id = app.client.fetch(queue, 1).await.job_ids().remove(0);
    app.clock.advance(ms);
    app.client.ack(&id).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sample_has_rules_queues_and_shares_of_the_interval() {
    let app = counting().await;
    recorder(&app).record().await.unwrap();
    for (tenant, jobs) in [("noisy", 9), ("acme", 3)] {
        for n in 0..jobs {
            let meta = json!({"tenant_id": tenant});
            app.client.enqueue(json!({"type": "mail.send", "args": [n], "queue": "mail", "meta": meta})).await;
        }
    }
    for _ in 0..6 {
        work_one(&app, "mail", 1000).await;
    }
    app.clock.advance(INTERVAL_MS);
    recorder(&app).record().await.unwrap();
    let samples = samples(&app).await;
    assert_eq!(samples.len(), 2, "{samples:?}");
    let last = &samples[1];
    assert_eq!(last["at"], "2027-01-15T08:00:00.000Z");
    assert_eq!(last["queues"]["mail"]["completed_per_s"], json!(0.02), "6 in 300 s: {last}");
    assert_eq!((&last["queues"]["mail"]["available"], &last["queues"]["mail"]["active"]), (&json!(6), &json!(0)));
    assert_eq!(last["rules"]["reports"]["gate_open"], true);
    let tenants = last["tenants"].as_array().unwrap();
    let completed: u64 = tenants.iter().map(|tenant| tenant["completed"].as_u64().unwrap()).sum();
    let shares: f64 = tenants.iter().map(|tenant| tenant["worker_share"].as_f64().unwrap()).sum();
    assert_eq!((tenants.len(), completed, shares), (2, 6, 1.0), "{tenants:?}");
    assert_eq!((&tenants[0]["tenant_id"], &tenants[0]["enqueued"]), (&json!("noisy"), &json!(9)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn promotions_are_rates_between_neighbouring_samples() {
    let app = counting().await;
    recorder(&app).record().await.unwrap();
    for n in 0..12 {
        app.client.enqueue(json!({"type": "report.daily", "args": [n], "meta": {"tenant_id": "acme"}})).await;
    }
    app.client.post("/v1/admin/planner/reports/run", json!({})).await.expect(200);
    let promoted = app.client.get("/v1/admin/planner/reports").await.at("/rounds/promoted_total").as_u64().unwrap();
    app.client.post("/v1/admin/planner/reports/pause", json!({})).await.expect(200);
    app.clock.advance(INTERVAL_MS);
    recorder(&app).record().await.unwrap();
    // An interval in which no server recorded.
    app.clock.advance(2 * INTERVAL_MS);
    recorder(&app).record().await.unwrap();
    let samples = samples(&app).await;
    let rates: Vec<&Value> = samples.iter().map(|sample| &sample["rules"]["reports"]["promoted_per_s"]).collect();
    let expected = (promoted as f64 / 300.0 * 1e3).round() / 1e3;
    assert!(promoted > 0);
    assert_eq!(rates, [&Value::Null, &json!(expected), &Value::Null]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sample_is_stored_once_and_expires_after_a_day() {
    let app = counting().await;
    let (one, other) = (recorder(&app), recorder(&app));
    let (first, second) = tokio::join!(one.record(), other.record());
    first.and(second).unwrap();
    let keys = app.redis.keys_with("history:").await;
    assert_eq!(keys.len(), 1, "{keys:?}");
    let ttl: i64 = app.redis.command(&["PTTL", &keys[0]]).await;
    assert!(ttl > 24 * 3_600_000 && ttl <= 25 * 3_600_000, "{ttl}");
    app.clock.advance(24 * 3_600_000 - 2 * INTERVAL_MS);
    assert_eq!(samples(&app).await.len(), 1);
    assert_eq!(app.client.get("/v1/admin/history?hours=1").await.expect(200).at("/samples"), &json!([]));
    app.client.get("/v1/admin/history?hours=25").await.expect(400);
}

/// A sample has at most 50 rules, queues and tenants, so a day of them is bounded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sample_is_bounded_and_keeps_the_busiest() {
    let app = counting().await;
    let mut jobs = Vec::new();
    for number in 0..60 {
        for _ in 0..=number {
            let (queue, meta) = (format!("q{number}"), json!({"tenant_id": format!("t{number}")}));
            jobs.push(json!({"type": "mail.send", "args": [], "queue": queue, "meta": meta}));
        }
    }
    app.enqueue_all(jobs).await;
    app.clock.advance(INTERVAL_MS);
    recorder(&app).record().await.unwrap();
    let last = samples(&app).await.pop().unwrap();
    let (queues, tenants) = (last["queues"].as_object().unwrap(), last["tenants"].as_array().unwrap());
    assert_eq!((queues.len(), tenants.len()), (50, 50));
    assert!(!queues.contains_key("q9") && queues.contains_key("q10"));
    assert_eq!(tenants[0]["tenant_id"], "t59");
    let keys = app.redis.keys_with("history:").await;
    let bytes: usize = app.redis.command(&["STRLEN", keys.last().unwrap()]).await;
    assert!(bytes < 16_384, "{bytes} bytes");
}
