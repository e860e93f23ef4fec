//! Cost of idling: no writes and no memory. Also the effect of an emptied Redis on rules.

use super::{SECOND, StagingEnv, planned};
use crate::support::{TestApp, eventually, json};
use fairgate::clock::Clock;
use fairgate::domain::plan::{OnUnknownWeight, Rule, Webhook};
use fairgate::domain::tenant::Weight;
use fairgate::store::{Begun, WeightOrigin, Why};

/// The number of changes since Redis started.
async fn writes(app: &TestApp) -> u64 {
    let info: String = app.redis.command(&["INFO", "persistence"]).await;
    let line = info.lines().find_map(|line| line.strip_prefix("rdb_changes_since_last_save:"));
    line.and_then(|number| number.trim().parse().ok()).expect("a number of changes")
}

async fn token(env: &StagingEnv) -> String {
    match env.begin(Why::Run).await {
        Begun::Round(round) => round.token,
        other => panic!("no round: {other:?}"),
    }
}

#[tokio::test]
async fn polls_and_ticks_of_an_idle_server_write_nothing() {
    let env = StagingEnv::open().await;
    let poll = async |step: usize| {
        assert!(env.client.fetch("default", 10).await.job_ids().is_empty());
        let why = [Why::Tick, Why::Wake, Why::Run][step % 3];
        assert_eq!(env.begin(why).await, Begun::Empty);
        assert!(!env.store().tick().await.unwrap());
        env.store().rule_status("plan", None).await.unwrap();
        env.store().next_tenants_with_ages("plan", "default", 100).await.unwrap();
        env.clock.advance(SECOND);
    };
    poll(0).await; // Redis counts a function that it is given as a change
    for _ in 0..2 {
        let before = writes(&env.app).await;
        for step in 0..50 {
            poll(step).await;
        }
        assert_eq!(writes(&env.app).await, before);
        // The same after there was work.
        for tenant in ["a", "b", "c"] {
            env.push(tenant).await;
        }
        assert_eq!(env.round(9).await, 2);
        for id in env.client.fetch("default", 9).await.job_ids() {
            env.client.ack(&id).await.expect(200);
        }
    }
}

/// Staged jobs that cannot be promoted: the first poll records it, the others write nothing.
#[tokio::test]
async fn polls_of_a_queue_that_is_dry_write_once() {
    let env = StagingEnv::busy(|_| {}).await;
    env.push("a").await;
    env.client.fetch("default", 1).await;
    env.client.fetch("default", 1).await;
    let before = writes(&env.app).await;
    for _ in 0..20 {
        env.client.fetch("default", 1).await;
        env.client.fetch("other", 1).await;
    }
    assert_eq!(writes(&env.app).await, before);
}

#[tokio::test]
async fn a_tenant_without_jobs_takes_no_memory() {
    let env = StagingEnv::busy(|rule| _ = rule.weights.fixed.insert("held".to_owned(), Weight::HELD)).await;
    let store = env.store();
    let ids = [env.push("a").await, env.push("b").await, env.push("held").await, env.push("c").await];
    env.push("a").await;
    let (token, name) = (token(&env).await, |name: &str| name.to_owned());
    let weights = [(name("a"), Weight::MOST), (name("b"), Weight::HELD), (name("nobody"), Weight::ONE)];
    assert_eq!(store.reweigh("plan", &token, "default", WeightOrigin::Rule, &weights).await.unwrap(), Some(2));
    assert_eq!(env.round(1).await, 1);
    env.client.delete(&format!("/v1/jobs/{}", ids[3])).await.expect(200);
    env.client.delete(&format!("/v1/jobs/{}", ids[1])).await.expect(200);
    assert_eq!(env.round(9).await, 1);
    assert_eq!(env.tenants("default").await, ["held"]);
    let keys = env.tenant_keys().await;
    let part = |key: &String| key.rsplit("default:").next().unwrap_or_default().to_owned();
    assert_eq!(keys.iter().map(part).collect::<Vec<_>>(), ["busy", "held", "lane:held"], "{keys:?}");
    env.client.delete(&format!("/v1/jobs/{}", ids[2])).await.expect(200);
    assert_eq!(env.tenant_keys().await, Vec::<String>::new());
    let low: Vec<String> = env.redis.command(&["HGETALL", "fg:{default}:low_water"]).await;
    assert_eq!(low, Vec::<String>::new(), "the planner does not watch the queue either");
    let staged: Option<String> = env.redis.command(&["HGET", "fg:{default}:state", "staged"]).await;
    assert_eq!(staged.as_deref(), Some("0"));
}

#[tokio::test]
async fn webhook_weights_are_kept_for_a_while() {
    let env = StagingEnv::busy(|rule| {
        let url = "http://127.0.0.1:9/".to_owned();
        rule.weights.webhook = Some(Webhook { url, timeout: 100, secret_env: None });
        rule.weights.on_unknown_weight = OnUnknownWeight::DefaultWeight;
        rule.weights.max_weight_age = 60_000;
    })
    .await;
    let store = env.store();
    let id = env.push("drained").await;
    let cancelled = env.push("cancelled").await;
    env.push("untold").await;
    let reported =
        [("drained", 3.0), ("cancelled", 0.0)].map(|(name, weight)| (name.to_owned(), Weight::of(weight).unwrap()));
    store.reweigh("plan", &token(&env).await, "default", WeightOrigin::Webhook, &reported).await.unwrap();
    env.client.delete(&format!("/v1/jobs/{cancelled}")).await.expect(200);
    assert_eq!(env.round(9).await, 2);
    assert_eq!(env.state(&id).await, "available");
    let keys = env.tenant_keys().await;
    assert_eq!(keys.len(), 2, "{keys:?}");
    for key in &keys {
        let left: i64 = env.redis.command(&["PTTL", key]).await;
        assert!(key.contains(":tag:") && (1..=60_000).contains(&left), "{key} {left}");
    }
    for name in ["drained", "cancelled", "untold"] {
        env.push(name).await;
    }
    let names = reported.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    for (tenant, (_, weight)) in store.tenants("plan", "default", &names).await.unwrap().iter().zip(&reported) {
        assert_eq!(tenant.weight, *weight, "{}", tenant.name);
    }
}

#[tokio::test]
async fn the_files_rules_hold_again_after_redis_was_emptied() {
    let env = StagingEnv::busy(|_| {}).await;
    let before = env.push("a").await;
    assert!(env.is_staged(&before).await);
    let _: String = env.redis.command(&["FLUSHALL"]).await;
    env.client.enqueue(json!({"type": "other.job", "args": []})).await;
    let after = env.push("b").await;
    assert!(env.is_staged(&after).await);
    assert_eq!((env.tenants("default").await, env.staged().await), (vec!["b".to_owned()], 1));
    assert_eq!(env.round(9).await, 1);
}

/// With a planner, jobs staged afterwards are promoted as well.
#[tokio::test]
async fn the_planner_continues_after_redis_was_emptied() {
    let app = TestApp::start_with(Clock::System, |config| config.plan = vec![Rule::new("plan", &["test.*"])]).await;
    for _ in 0..2 {
        let mut ids = Vec::new();
        for _ in 0..5 {
            ids.push(app.client.enqueue(planned("a")).await);
        }
        let mut got = Vec::new();
        eventually("all jobs are promoted", async || {
            got.extend(app.client.fetch("default", 10).await.job_ids());
            got.len() == ids.len()
        })
        .await;
        assert_eq!(got, ids);
        let _: String = app.redis.command(&["FLUSHALL"]).await;
    }
}
