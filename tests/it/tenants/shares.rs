//! Global weights of tenants, and their priority boosts.

use super::{job, start_with};
use crate::support::{TestApp, json};
use fairgate::domain::plan::Rule;
use fairgate::domain::tenant::{TenantRule, TenantSettings, Weight};

fn weighing(id: &str, weight: f64, boost: i8) -> TenantRule {
    TenantRule {
        id: id.to_owned(),
        terms: TenantSettings { weight: Weight::of(weight), boost, ..TenantSettings::default() },
    }
}

async fn tenants_in_order(app: &TestApp, count: usize) -> Vec<String> {
    let answer = app.client.fetch("q", count).await;
    let jobs = answer.at("/jobs").as_array().cloned().unwrap_or_default();
    jobs.iter().map(|job| job["meta"]["tenant_id"].as_str().unwrap_or_default().to_owned()).collect()
}

fn count(tenants: &[String], tenant: &str) -> usize {
    tenants.iter().filter(|name| *name == tenant).count()
}

#[tokio::test]
async fn the_weight_of_a_tenant_counts_where_tenants_share_a_queue() {
    let app = start_with(&[], |config| {
        config.tenant = vec![weighing("gold-*", 3.0, 0)];
        config.policy.tenant_fairness.enabled = Some(true);
        config.policy.tenant_fairness.weights.insert("gold-2".to_owned(), Weight::ONE);
    })
    .await;
    for _ in 0..30 {
        for tenant in ["free", "gold-1", "gold-2"] {
            app.push(job(tenant)).await.expect(201);
        }
    }
    let got = tenants_in_order(&app, 25).await;
    assert_eq!(["free", "gold-1", "gold-2"].map(|tenant| count(&got, tenant)), [5, 15, 5], "{got:?}");
    // A change applies to waiting jobs.
    app.put("/v1/admin/tenants/gold-1", json!({"fairness_weight": 1})).await.expect(201);
    let got = tenants_in_order(&app, 24).await;
    assert_eq!(["free", "gold-1", "gold-2"].map(|tenant| count(&got, tenant)), [8, 8, 8], "{got:?}");
}

#[tokio::test]
async fn the_weight_of_a_tenant_counts_in_a_plan_rule_unless_that_says_one() {
    let app = start_with(&[], |config| {
        config.tenant = vec![weighing("gold", 3.0, 0), weighing("own", 9.0, 0)];
        let mut rule = Rule::new("r", &["t.job"]);
        rule.max_depth = 1;
        rule.pace = fairgate::domain::plan::Pace::Every(86_400_000);
        rule.weights.fixed.insert("own".to_owned(), Weight::of(2.0).unwrap());
        config.plan = vec![rule];
    })
    .await;
    app.push(job("x")).await.expect(201); // passes, and closes the gate
    for tenant in ["gold", "own", "free"] {
        for _ in 0..2 {
            app.push(job(tenant)).await.expect(201);
        }
    }
    let weights = async || {
        let path = "/v1/admin/planner/r/tenants?sort=name";
        let items = app.client.get(path).await.expect(200).at("/items").as_array().cloned().unwrap();
        items
            .iter()
            .map(|item| (item["tenant_id"].as_str().unwrap().to_owned(), item["weight"].as_f64().unwrap()))
            .collect::<Vec<_>>()
    };
    let expected = |gold: f64| vec![("free".to_owned(), 1.0), ("gold".to_owned(), gold), ("own".to_owned(), 2.0)];
    assert_eq!(weights().await, expected(3.0));
    app.put("/v1/admin/tenants/gold", json!({"fairness_weight": 5})).await.expect(200);
    app.client.post("/v1/admin/planner/r/run", json!({})).await.expect(200);
    assert_eq!(weights().await, expected(5.0), "the next round updates the weights of waiting tenants");
    // Promoted jobs are counted by their actual priority.
    let passed = app.client.fetch("q", 9).await.job_ids();
    app.client.ack(&passed[0]).await.expect(200);
    app.client.post("/v1/admin/planner/r/run", json!({})).await.expect(200);
    let mut waiting = (0, 0);
    for tenant in ["gold", "own", "free"] {
        let jobs = app.jobs_of(tenant).await;
        waiting = (waiting.0 + jobs.pending, waiting.1 + jobs.available);
    }
    assert!(waiting.1 > 0 && waiting.0 + waiting.1 == 6, "{waiting:?}");
    app.assert_consistent().await;
}

#[tokio::test]
async fn a_boost_raises_the_priority_and_is_not_shown() {
    let app = start_with(&[], |config| {
        config.tenant = vec![weighing("vip", 1.0, 10), weighing("max", 1.0, 100), weighing("_default", 1.0, -50)]
    })
    .await;
    let bare = app.client.enqueue(json!({"type": "t.job", "args": [], "queue": "q"})).await;
    let plain = app.client.enqueue(job("plain")).await;
    let mut urgent = job("plain");
    urgent["priority"] = 5.into();
    let urgent = app.client.enqueue(urgent).await;
    let vip = app.client.enqueue(job("vip")).await;
    let mut top = job("max");
    top["priority"] = 100.into();
    let top = app.client.enqueue(top).await;
    assert_eq!(app.client.job(&vip).await["priority"], 0);
    assert_eq!(app.client.fetch("q", 9).await.job_ids(), [top.clone(), vip.clone(), urgent, plain, bare]);
    // A job keeps its place when it is returned, and is found when it is cancelled.
    app.client
        .post("/v1/workers/nack", json!({"job_id": vip, "requeue": true, "error": {"code": "x", "message": "y"}}))
        .await
        .expect(200);
    app.client.delete(&format!("/v1/jobs/{vip}")).await.expect(200);
    assert_eq!(app.redis.keys_with("lane:").await, Vec::<String>::new());
    app.assert_consistent().await;
}
