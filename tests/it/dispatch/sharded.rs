//! Isolation `sharded` is fair without further settings: jobs that name a tenant take turns.

use super::{DispatchEnv, from, ids, invariant, job, tenant_of};
use crate::support::{TestApp, TestRedis, json};
use fairgate::clock::Clock;
use fairgate::config::Role;
use fairgate::domain::plan::Rule;
use fairgate::domain::tenant::Isolation;
use fairgate::store::{Begun, Why};
use std::collections::BTreeMap;
use std::sync::Arc;

fn counts(turns: &[String]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    turns.iter().for_each(|tenant| *counts.entry(tenant.as_str()).or_default() += 1);
    counts
}

/// The Redis commands since the last call, without the script calls themselves.
async fn commands(redis: &TestRedis) -> BTreeMap<String, u64> {
    let text: String = redis.command(&["INFO", "commandstats"]).await;
    let _: String = redis.command(&["CONFIG", "RESETSTAT"]).await;
    let of = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let calls = rest.split(',').next()?.parse().ok()?;
        let counts = !["info", "config", "ping", "hello", "client"].iter().any(|other| name.starts_with(other));
        counts.then(|| (name.to_owned(), calls))
    };
    text.lines().filter_map(|line| of(line.trim())).collect()
}

#[tokio::test]
async fn fifty_jobs_do_not_block_five() {
    let env = DispatchEnv::open(json!({})).await;
    let pushed = env.push_for(&[("a", 50), ("b", 5)]).await;
    let got = env.fetch(from(&["q"], 55)).await;
    let turns: Vec<String> = got.iter().map(tenant_of).collect();
    assert_eq!(turns[..10], ["a", "b"].repeat(5));
    let of_a: Vec<String> = got.iter().filter(|record| tenant_of(record) == "a").map(|it| it.id.clone()).collect();
    assert_eq!(of_a, pushed[..50], "first in, first out inside a tenant");
    invariant::check(&env).await;
}

#[tokio::test]
async fn a_tenants_fairness_weight_is_its_share() {
    let env = DispatchEnv::open(json!({})).await;
    env.app
        .client
        .send("PUT", "/v1/admin/tenants/a", Some(json!({"fairness_weight": 3}).to_string()))
        .await
        .expect(201);
    env.push_for(&[("a", 100), ("b", 100)]).await;
    assert_eq!(counts(&env.turns(40).await), [("a", 30), ("b", 10)].into());
    env.app
        .client
        .send("PUT", "/v1/admin/tenants/b", Some(json!({"fairness_weight": 9}).to_string()))
        .await
        .expect(201);
    let turns = env.turns(40).await;
    assert!(counts(&turns)["b"].abs_diff(30) <= 1, "a change applies to waiting tenants: {turns:?}");
    invariant::check(&env).await;
}

#[tokio::test]
async fn jobs_without_a_tenant_take_turns_with_those_of_tenants_whoever_came_first() {
    for nameless_first in [true, false] {
        let env = DispatchEnv::open(json!({})).await;
        if nameless_first {
            env.push("q", 30).await;
        }
        env.push_for(&[("a", 30), ("b", 5)]).await;
        if !nameless_first {
            env.push("q", 30).await;
        }
        assert_eq!(counts(&env.turns(15).await), [("_default", 5), ("a", 5), ("b", 5)].into());
        invariant::check(&env).await;
        assert_eq!(counts(&env.turns(20).await), [("_default", 10), ("a", 10)].into());
        assert_eq!(counts(&env.turns(99).await), [("_default", 15), ("a", 15)].into());
        invariant::check(&env).await;
        assert!(env.redis.keys_with("level:").await.is_empty());
    }
}

#[tokio::test]
async fn priorities_come_first_and_levels_end_with_their_last_tenant() {
    let env = DispatchEnv::open(json!({})).await;
    let jobs = [(None, 0), (Some("a"), 5), (None, 5), (Some("a"), 0), (None, 5), (None, 0), (Some("a"), -1)];
    let pushed = env.enqueue_all(jobs.map(|(tenant, priority)| job("q", tenant, priority)).into()).await;
    let mut got = Vec::new();
    for _ in 0..7 {
        got.extend(ids(&env.fetch(from(&["q"], 1)).await));
        invariant::check(&env).await;
    }
    let expected: Vec<&String> = [2, 1, 4, 0, 3, 5, 6].iter().map(|place| &pushed[*place]).collect();
    assert_eq!(got.iter().collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_cancelled_tenant_leaves_the_others_where_they_are() {
    let env = DispatchEnv::open(json!({})).await;
    let nameless = env.push("q", 3).await;
    let of_a = env.push_for(&[("a", 2)]).await;
    assert_eq!(ids(&env.fetch(from(&["q"], 1)).await), nameless[..1]);
    for id in &of_a {
        env.client.send("DELETE", &format!("/v1/jobs/{id}"), None).await.expect(200);
    }
    assert_eq!(ids(&env.fetch(from(&["q"], 9)).await), nameless[1..]);
    invariant::check(&env).await;
    assert!(env.redis.keys_with("level:").await.is_empty());
}

#[tokio::test]
async fn shared_isolation_is_first_in_first_out() {
    let app = TestApp::start_with(Clock::System, |config| config.tenancy.isolation = Isolation::Shared).await;
    let jobs: Vec<_> = ["a", "a", "a", "b", "a", "b"].map(|tenant| job("q", Some(tenant), 0)).into();
    let pushed = app.client.post("/v1/jobs/batch", json!({"jobs": jobs})).await.expect(201).job_ids();
    assert_eq!(app.client.fetch("q", 9).await.job_ids(), pushed);
}

/// Settings of a queue, a pool or the server override the default of the isolation.
#[tokio::test]
async fn fairness_that_is_switched_off_is_first_in_first_out() {
    let off = json!({"enabled": false});
    for (policy, queue) in [
        (json!({"tenant_fairness": off}), "q"),
        (json!({"queues": {"q": {"tenant_fairness": off}}}), "q"),
        (json!({"pool": [{"name": "p", "queues": ["q"], "tenant_fairness": off}]}), "q"),
    ] {
        let env = DispatchEnv::open(policy).await;
        let jobs = ["a", "a", "a", "b"].map(|tenant| job(queue, Some(tenant), 0));
        let pushed = env.enqueue_all(jobs.into()).await;
        assert_eq!(ids(&env.fetch(from(&[queue], 9)).await), pushed);
        let others = ["a", "a", "a", "b"].map(|tenant| job("other", Some(tenant), 0));
        env.enqueue_all(others.into()).await;
        let turns: String = env.fetch(from(&["other"], 9)).await.iter().map(tenant_of).collect();
        let holds_for_all = env.rules.now().dispatch.policy.tenant_fairness.is_off();
        assert_eq!(turns, if holds_for_all { "aaab" } else { "abaa" });
    }
}

#[tokio::test]
async fn strategy_and_weights_hold_without_being_switched_on() {
    let env = DispatchEnv::open(json!({"tenant_fairness": {"weights": {"a": 4, "_default": 2}}})).await;
    env.push("q", 50).await;
    env.push_for(&[("a", 50), ("b", 50)]).await;
    assert_eq!(counts(&env.turns(35).await), [("_default", 10), ("a", 20), ("b", 5)].into());
    env.put_scheduling(json!({"tenant_fairness": {"strategy": "round-robin"}})).await;
    let turns = env.turns(30).await;
    assert!(counts(&turns).values().all(|got| got.abs_diff(10) <= 1), "{turns:?}");
}

/// The tenants of the planned jobs in order of dispatch, next to jobs of an unplanned tenant, and the positions of the
/// latter.
async fn promoted(others: usize) -> (String, Vec<usize>) {
    let rule = Rule::new("r", &["planned.*"]);
    let file = rule.clone();
    let app = TestApp::start_with(Clock::manual(super::NOON), |config| {
        config.server.roles = vec![Role::Api];
        config.plan = vec![file];
    })
    .await;
    for tenant in ["a", "a", "a", "b", "b", "c"] {
        let mut planned = job("q", Some(tenant), 0);
        planned["type"] = "planned.job".into();
        app.client.enqueue(planned).await;
    }
    let store = app.store();
    let Begun::Round(round) = store.begin_round(&rule, "test", Why::Run, None).await.unwrap() else {
        panic!("no round");
    };
    store.promote("r", &round.token, "q", 9).await.unwrap();
    for _ in 0..others {
        app.client.enqueue(job("q", Some("x"), 0)).await;
    }
    let got: Vec<String> = store.fetch(from(&["q"], 99)).await.unwrap().deliver().iter().map(tenant_of).collect();
    let of_others = got.iter().enumerate().filter(|(_, tenant)| *tenant == "x").map(|(place, _)| place).collect();
    (got.into_iter().filter(|tenant| tenant != "x").collect(), of_others)
}

/// Promoted jobs and jobs of unplanned tenants do not block each other.
#[tokio::test]
async fn planned_jobs_keep_the_order_of_their_rule() {
    let (alone, _) = promoted(0).await;
    assert_eq!(alone.len(), 6);
    let (among_others, places) = promoted(3).await;
    assert_eq!(among_others, alone);
    assert_eq!((places.len(), places[0]), (3, 1), "{places:?}");
}

/// Each tenant has one share, for planned and unplanned jobs together.
#[tokio::test]
async fn promoted_jobs_weigh_as_much_as_their_tenants() {
    let rule = Rule::new("r", &["planned.*"]);
    let file = rule.clone();
    let app = TestApp::start_with(Clock::manual(super::NOON), |config| {
        config.server.roles = vec![Role::Api];
        config.plan = vec![file];
    })
    .await;
    let enqueue = async |kind: &str, tenant: &str, jobs| {
        let mut one = job("q", Some(tenant), 0);
        one["type"] = kind.into();
        app.client.post("/v1/jobs/batch", json!({"jobs": vec![one; jobs]})).await.expect(201);
    };
    enqueue("own.job", "x", 50).await;
    for tenant in ["a", "b", "c"] {
        enqueue("planned.job", tenant, 50).await;
    }
    let store = app.store();
    let Begun::Round(round) = store.begin_round(&rule, "test", Why::Run, None).await.unwrap() else {
        panic!("no round");
    };
    store.promote("r", &round.token, "q", 60).await.unwrap();
    let turns: Vec<String> = store.fetch(from(&["q"], 40)).await.unwrap().deliver().iter().map(tenant_of).collect();
    assert_eq!(counts(&turns)["x"], 10, "{turns:?}");
}

#[tokio::test]
async fn the_manifest_states_what_is_in_force() {
    let env = DispatchEnv::open(json!({})).await;
    let manifest = env.client.get("/ojs/manifest").await.expect(200);
    let by_isolation = json!({"interleaved": "with_tenant", "strategy": "fair-share", "set_by": "isolation"});
    assert_eq!(manifest.at("/tenancy/dispatch"), &by_isolation);
    let change =
        json!({"tenant_fairness": {"enabled": false}, "queues": {"x": {"tenant_fairness": {"enabled": true}}}});
    env.client.send("PUT", "/v1/admin/scheduling/config", Some(change.to_string())).await.expect(200);
    let manifest = env.client.get("/ojs/manifest").await.expect(200);
    let off = json!({"interleaved": "none", "strategy": null, "set_by": "tenant_fairness"});
    assert_eq!(manifest.at("/tenancy/dispatch"), &off);
    assert_eq!(manifest.at("/tenancy/queues/x/dispatch/interleaved"), "all");
    let unset = json!({"tenant_fairness": {"enabled": null}});
    env.client.send("PUT", "/v1/admin/scheduling/config", Some(unset.to_string())).await.expect(200);
    assert_eq!(env.client.get("/ojs/manifest").await.at("/tenancy/dispatch"), &by_isolation);
}

/// The simple strategy serves jobs without a tenant until a tenant arrives; after that such jobs need no more commands
/// each.
#[tokio::test]
async fn jobs_without_a_tenant_cost_what_they_cost() {
    let redis = Arc::new(TestRedis::start());
    let env = DispatchEnv::open_on(&redis, Clock::manual(super::NOON), json!({})).await;
    let mut costs = Vec::new();
    for with_tenant in [false, true] {
        env.push_for(if with_tenant { &[("a", 1)] } else { &[] }).await;
        let mut of_sizes = Vec::new();
        for jobs in [1, 1, 64] {
            commands(&redis).await;
            env.push("q", jobs).await;
            let stored = commands(&redis).await;
            assert_eq!(env.fetch(from(&["q"], 64)).await.len(), jobs + usize::from(with_tenant && of_sizes.is_empty()));
            of_sizes.push((stored.values().sum::<u64>(), commands(&redis).await.values().sum::<u64>()));
        }
        costs.push([of_sizes[1], of_sizes[2]]);
    }
    let [before, after] = [costs[0], costs[1]];
    assert_eq!(before.map(|(stored, _)| stored), after.map(|(stored, _)| stored), "{costs:?}");
    let a_job = |sizes: [(u64, u64); 2]| sizes[1].1 - sizes[0].1;
    assert_eq!(a_job(before), a_job(after), "for each job more: {costs:?}");
}
