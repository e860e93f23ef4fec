//! What it costs when nothing happens: no writes, no memory. And what an emptied Redis does to rules.

use super::{SECOND, Site, planned};
use crate::support::{TestApp, eventually, json};
use fairgate::clock::Clock;
use fairgate::fairness::{OnUnknownWeight, Rule, Webhook, Weight};
use fairgate::store::{Begun, Why};

/// Changes of data since Redis started.
async fn writes(app: &TestApp) -> u64 {
    let info: String = app.redis.command(&["INFO", "persistence"]).await;
    let line = info.lines().find_map(|line| line.strip_prefix("rdb_changes_since_last_save:"));
    line.and_then(|number| number.trim().parse().ok()).expect("a number of changes")
}

async fn token(site: &Site) -> String {
    match site.begin(Why::Run).await {
        Begun::Round(round) => round.token,
        other => panic!("no round: {other:?}"),
    }
}

#[tokio::test]
async fn polls_and_ticks_of_an_idle_server_write_nothing() {
    let site = Site::open().await;
    let poll = async |step: usize| {
        assert!(site.app.client.fetch("default", 10).await.job_ids().is_empty());
        let why = [Why::Tick, Why::Wake, Why::Run][step % 3];
        assert_eq!(site.begin(why).await, Begun::Empty);
        assert!(!site.app.app.store.tick(false).await.unwrap());
        site.app.app.store.rule_status("plan", None).await.unwrap();
        site.app.app.store.next_tenants("plan", "default", 100, true).await.unwrap();
        site.app.clock.advance(SECOND);
    };
    poll(0).await; // Redis counts a function that it is given as a change
    for _ in 0..2 {
        let before = writes(&site.app).await;
        for step in 0..50 {
            poll(step).await;
        }
        assert_eq!(writes(&site.app).await, before);
        // And the same when there was work.
        for tenant in ["a", "b", "c"] {
            site.push(tenant).await;
        }
        assert_eq!(site.round(9).await, 2);
        for id in site.app.client.fetch("default", 9).await.job_ids() {
            site.app.client.ack(&id).await.expect(200);
        }
    }
}

/// Jobs are staged that cannot go: the first poll leaves a note of it, the others nothing.
#[tokio::test]
async fn polls_of_a_queue_that_is_dry_write_once() {
    let site = Site::busy(|_| {}).await;
    site.push("a").await;
    site.app.client.fetch("default", 1).await;
    site.app.client.fetch("default", 1).await;
    let before = writes(&site.app).await;
    for _ in 0..20 {
        site.app.client.fetch("default", 1).await;
        site.app.client.fetch("other", 1).await;
    }
    assert_eq!(writes(&site.app).await, before);
}

#[tokio::test]
async fn a_tenant_without_jobs_takes_no_memory() {
    let site = Site::busy(|rule| _ = rule.weights.fixed.insert("held".to_owned(), Weight::HELD)).await;
    let store = &site.app.app.store;
    let ids = [site.push("a").await, site.push("b").await, site.push("held").await, site.push("c").await];
    site.push("a").await;
    let (token, name) = (token(&site).await, |name: &str| name.to_owned());
    let weights = [(name("a"), Weight::MOST), (name("b"), Weight::HELD), (name("nobody"), Weight::ONE)];
    assert_eq!(store.reweigh("plan", &token, "default", false, &weights).await.unwrap(), Some(2));
    assert_eq!(site.round(1).await, 1);
    site.app.client.delete(&format!("/v1/jobs/{}", ids[3])).await.expect(200);
    site.app.client.delete(&format!("/v1/jobs/{}", ids[1])).await.expect(200);
    assert_eq!(site.round(9).await, 1);
    assert_eq!(site.tenants("default").await, ["held"]);
    let keys = site.tenant_keys().await;
    let part = |key: &String| key.rsplit("default:").next().unwrap_or_default().to_owned();
    assert_eq!(keys.iter().map(part).collect::<Vec<_>>(), ["busy", "held", "lane:held"], "{keys:?}");
    site.app.client.delete(&format!("/v1/jobs/{}", ids[2])).await.expect(200);
    assert_eq!(site.tenant_keys().await, Vec::<String>::new());
    let low: Vec<String> = site.app.redis.command(&["HGETALL", "fg:{default}:low"]).await;
    assert_eq!(low, Vec::<String>::new(), "nor does the planner want to hear of the queue");
    let staged: Option<String> = site.app.redis.command(&["HGET", "fg:{default}:state", "staged"]).await;
    assert_eq!(staged.as_deref(), Some("0"));
}

#[tokio::test]
async fn what_a_webhook_said_is_remembered_for_a_while() {
    let site = Site::busy(|rule| {
        let url = "http://127.0.0.1:9/".to_owned();
        rule.weights.webhook = Some(Webhook { url, timeout: 100, secret_env: None });
        rule.weights.on_unknown_weight = OnUnknownWeight::DefaultWeight;
        rule.weights.max_weight_age = 60_000;
    })
    .await;
    let store = &site.app.app.store;
    let id = site.push("drained").await;
    let cancelled = site.push("cancelled").await;
    site.push("untold").await;
    let told =
        [("drained", 3.0), ("cancelled", 0.0)].map(|(name, weight)| (name.to_owned(), Weight::of(weight).unwrap()));
    store.reweigh("plan", &token(&site).await, "default", true, &told).await.unwrap();
    site.app.client.delete(&format!("/v1/jobs/{cancelled}")).await.expect(200);
    assert_eq!(site.round(9).await, 2);
    assert_eq!(site.state(&id).await, "available");
    let keys = site.tenant_keys().await;
    assert_eq!(keys.len(), 2, "{keys:?}");
    for key in &keys {
        let left: i64 = site.app.redis.command(&["PTTL", key]).await;
        assert!(key.contains(":tag:") && (1..=60_000).contains(&left), "{key} {left}");
    }
    for name in ["drained", "cancelled", "untold"] {
        site.push(name).await;
    }
    let names = told.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    for (tenant, (_, weight)) in store.tenants("plan", "default", &names).await.unwrap().iter().zip(&told) {
        assert_eq!(tenant.weight, *weight, "{}", tenant.name);
    }
}

#[tokio::test]
async fn the_files_rules_hold_again_after_redis_was_emptied() {
    let site = Site::busy(|_| {}).await;
    let before = site.push("a").await;
    assert!(site.is_staged(&before).await);
    let _: String = site.app.redis.command(&["FLUSHALL"]).await;
    site.app.client.enqueue(json!({"type": "other.job", "args": []})).await;
    let after = site.push("b").await;
    assert!(site.is_staged(&after).await);
    assert_eq!((site.tenants("default").await, site.staged().await), (vec!["b".to_owned()], 1));
    assert_eq!(site.round(9).await, 1);
}

/// With a planner: what is staged afterwards is promoted, too.
#[tokio::test]
async fn the_planner_goes_on_after_redis_was_emptied() {
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
