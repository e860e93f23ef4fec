//! Changes at run time apply to waiting jobs.

use super::{DispatchEnv, NOON, SECOND, from, ids, invariant, job, of_pool, tenant_of};
use crate::support::{Random, TestRedis, json};
use fairgate::clock::Clock;
use fairgate::domain::job::Record;
use fairgate::domain::plan::Rule;
use fairgate::domain::tenant::Isolation;
use fairgate::store::{Begun, Why};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Starts a fairgate with isolation `shared`:
async fn open_shared(policy: Value) -> DispatchEnv {
    let redis = Arc::new(TestRedis::start());
    DispatchEnv::open_with(&redis, Clock::manual(NOON), policy, |config| config.tenancy.isolation = Isolation::Shared)
        .await
}

async fn fetch_all(env: &DispatchEnv, portion: usize) -> Vec<Record> {
    let mut all = Vec::new();
    loop {
        let got = env.fetch(from(&["q"], portion)).await;
        if got.is_empty() {
            return all;
        }
        invariant::check(env).await;
        all.extend(got);
    }
}

/// Each job was dispatched once, and those of each tenant in the order of their enqueue.
fn assert_in_order(pushed: &[String], got: &[Record]) {
    let mut of_tenants: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for record in got {
        let place = pushed.iter().position(|id| *id == record.id).expect("one that was pushed");
        of_tenants.entry(tenant_of(record)).or_default().push(place);
    }
    assert_eq!(got.len(), pushed.len());
    for (tenant, places) in of_tenants {
        assert!(places.is_sorted_by(|one, next| one < next), "{tenant}: {places:?}");
    }
}

fn on() -> Value {
    json!({"tenant_fairness": {"enabled": true}})
}

fn off() -> Value {
    json!({"tenant_fairness": {"enabled": false}})
}

async fn put(env: &DispatchEnv, path: &str, body: Value) {
    let answer = env.client.send("PUT", path, Some(body.to_string())).await;
    assert!([200, 201].contains(&answer.status), "{}", answer.text);
}

#[tokio::test]
async fn new_jobs_do_not_wait_for_a_backlog_from_before_fairness_was_switched_on() {
    for env in [open_shared(json!({})).await, DispatchEnv::open(off()).await] {
        let mut pushed = env.push_for(&[("a", 200)]).await;
        env.put_scheduling(on()).await;
        pushed.extend(env.push_for(&[("b", 10)]).await);
        let mut got = env.fetch(from(&["q"], 20)).await;
        let turns: Vec<String> = got.iter().map(tenant_of).collect();
        assert_eq!(turns, ["a", "b"].repeat(10));
        invariant::check(&env).await;
        got.extend(fetch_all(&env, 50).await);
        assert_in_order(&pushed, &got);
    }
}

#[tokio::test]
async fn a_mixed_backlog_is_sorted_by_tenant() {
    for (portion, env) in [(1, open_shared(json!({})).await), (64, DispatchEnv::open(off()).await)] {
        let mut pushed = env.push_for(&[("a", 200), ("b", 10), ("a", 5)]).await;
        env.put_scheduling(on()).await;
        pushed.extend(env.push_for(&[("c", 10), ("a", 1)]).await);
        let mut got = Vec::new();
        while got.len() < 30 {
            got.extend(env.fetch(from(&["q"], portion.min(30 - got.len()))).await);
            invariant::check(&env).await;
        }
        for tenant in ["a", "b", "c"] {
            assert_eq!(got.iter().filter(|record| tenant_of(record) == tenant).count(), 10, "{tenant}");
        }
        got.extend(fetch_all(&env, 50).await);
        assert_in_order(&pushed, &got);
        assert!(env.redis.keys_with("level:").await.is_empty());
    }
}

/// One call moves part of the backlog; other jobs are served meanwhile.
#[tokio::test]
async fn a_backlog_of_thousands_is_sorted_in_steps() {
    let env = open_shared(json!({})).await;
    let mut pushed = env.push_for(&[("a", 3000)]).await;
    env.put_scheduling(on()).await;
    pushed.extend(env.push_for(&[("b", 3)]).await);
    let mut got = Vec::new();
    for _ in 0..6 {
        got.extend(env.fetch(from(&["q"], 1)).await);
    }
    assert_eq!(got.iter().filter(|record| tenant_of(record) == "b").count(), 3);
    let left: u64 = env.redis.command(&["ZCARD", "fg:{default}:lane:q:p0"]).await;
    assert!(left > 0, "not all in one call");
    invariant::check(&env).await;
    got.extend(fetch_all(&env, 1000).await);
    assert_in_order(&pushed, &got);
}

#[tokio::test]
async fn a_backlog_is_first_in_first_out_again_once_fairness_is_switched_off() {
    for env in [open_shared(on()).await, DispatchEnv::open(on()).await, DispatchEnv::open(json!({})).await] {
        let mut pushed = env.push_for(&[("a", 20), ("b", 20), ("a", 5)]).await;
        env.put_scheduling(off()).await;
        pushed.extend(env.push_for(&[("c", 2), ("a", 2)]).await);
        let mut got = ids(&env.fetch(from(&["q"], 1)).await);
        invariant::check(&env).await;
        got.extend(ids(&fetch_all(&env, 10).await));
        assert_eq!(got, pushed);
    }
}

#[tokio::test]
async fn another_strategy_applies_to_waiting_jobs() {
    let strategy = |name: &str| json!({"tenant_fairness": {"enabled": true, "strategy": name}});
    let env = DispatchEnv::open(on()).await;
    let pushed = env.push_for(&[("a", 20), ("b", 20)]).await;
    env.put_scheduling(strategy("strict")).await;
    let mut got = env.fetch(from(&["q"], 10)).await;
    assert_eq!(got.iter().map(tenant_of).collect::<Vec<_>>(), ["a", "b"], "one slot each");
    invariant::check(&env).await;
    env.put_scheduling(strategy("round-robin")).await;
    got.extend(env.fetch(from(&["q"], 10)).await);
    assert_eq!(got.len(), 12);
    invariant::check(&env).await;
    got.extend(fetch_all(&env, 10).await);
    assert_in_order(&pushed, &got);
}

#[tokio::test]
async fn weights_apply_to_waiting_jobs() {
    let env = DispatchEnv::open(json!({})).await;
    env.push_for(&[("a", 200), ("b", 200)]).await;
    env.turns(10).await;
    let of_a = async || env.turns(40).await.iter().filter(|tenant| *tenant == "a").count();
    env.put_scheduling(json!({"tenant_fairness": {"weights": {"a": 3}}})).await;
    assert!(of_a().await.abs_diff(30) <= 1);
    put(&env, "/v1/admin/tenants/b", json!({"fairness_weight": 9})).await;
    assert!(of_a().await.abs_diff(10) <= 1);
    invariant::check(&env).await;
}

#[tokio::test]
async fn a_changed_pool_serves_waiting_jobs_by_its_new_settings() {
    let env = DispatchEnv::open(json!({"pool": [{"name": "p", "queues": ["q"], "concurrency": 2}]})).await;
    env.push_for(&[("a", 50), ("b", 5)]).await;
    env.push("r", 50).await;
    assert_eq!(env.fetch(of_pool("p", "w", 50)).await.len(), 2);
    let pool = json!({"queues": ["q", "r"], "strategy": "round-robin", "concurrency": 12, "tenant_fairness": {"enabled": false}});
    env.put_pool("p", pool).await;
    assert_eq!(env.order(of_pool("p", "w", 50)).await, "qr".repeat(5), "ten more");
    invariant::check(&env).await;
    let pool = json!({"queues": ["q"], "concurrency": 100, "tenant_fairness": {"enabled": true, "weights": {"b": 5}}});
    env.put_pool("p", pool).await;
    let turns: Vec<String> = env.fetch(of_pool("p", "w", 6)).await.iter().map(tenant_of).collect();
    assert!(turns.iter().filter(|tenant| *tenant == "b").count() >= 4, "{turns:?}");
    invariant::check(&env).await;
}

#[tokio::test]
async fn a_tenants_concurrency_holds_for_jobs_in_one_lane() {
    let env = open_shared(json!({})).await;
    env.push_for(&[("a", 300), ("b", 2)]).await;
    put(&env, "/v1/admin/tenants/a/limits", json!({"max_concurrency": 1})).await;
    let mut got = Vec::new();
    for _ in 0..4 {
        got.extend(env.fetch(from(&["q"], 20)).await);
        invariant::check(&env).await;
    }
    assert_eq!(got.iter().map(tenant_of).collect::<Vec<_>>(), ["a", "b", "b"]);
    env.ack(&got[0]).await;
    assert_eq!(env.turns(20).await, ["a"]);
    put(&env, "/v1/admin/tenants/a/limits", json!({"max_concurrency": null})).await;
    assert_eq!(fetch_all(&env, 100).await.len(), 298);
    env.assert_consistent().await;
}

#[tokio::test]
async fn a_tenants_concurrency_holds_for_promoted_jobs() {
    let rule = Rule::new("r", &["planned.*"]);
    let (redis, file) = (Arc::new(TestRedis::start()), rule.clone());
    let env = DispatchEnv::open_with(&redis, Clock::manual(NOON), json!({}), |config| config.plan = vec![file]).await;
    let mut planned = job("q", Some("a"), 0);
    planned["type"] = "planned.job".into();
    env.enqueue_all(vec![planned; 20]).await;
    let store = env.store();
    let Begun::Round(round) = store.begin_round(&rule, "test", Why::Run, None).await.unwrap() else {
        panic!("no round");
    };
    store.promote("r", &round.token, "q", 30).await.unwrap();
    put(&env, "/v1/admin/tenants/a/limits", json!({"max_concurrency": 1})).await;
    let got = env.fetch(from(&["q"], 20)).await;
    assert_eq!(got.len(), 1);
    assert_eq!(env.fetch(from(&["q"], 20)).await.len(), 0);
    invariant::check(&env).await;
    env.ack(&got[0]).await;
    let asks_alone = || fairgate::store::Fetch { tenant: Some("a".to_owned()), ..from(&["q"], 20) };
    assert_eq!(env.fetch(asks_alone()).await.len(), 1);
    assert_eq!(env.fetch(asks_alone()).await.len(), 0);
    env.assert_consistent().await;
}

/// A worker that fetches for one tenant gets no more jobs than that tenant's limit allows.
#[tokio::test]
async fn a_tenants_concurrency_holds_for_fetches_of_only_its_jobs() {
    let env = open_shared(json!({})).await;
    env.push_for(&[("b", 2), ("a", 20)]).await;
    put(&env, "/v1/admin/tenants/a/limits", json!({"max_concurrency": 1})).await;
    let alone = || fairgate::store::Fetch { tenant: Some("a".to_owned()), ..from(&["q"], 20) };
    let got = env.fetch(alone()).await;
    assert_eq!(got.iter().map(tenant_of).collect::<Vec<_>>(), ["a"]);
    invariant::check(&env).await;
    assert_eq!(env.fetch(alone()).await.len(), 0);
    assert_eq!(env.turns(20).await, ["b", "b"]);
    env.assert_consistent().await;
}

#[tokio::test]
async fn a_limit_on_a_type_holds_for_jobs_from_before_it_was_set() {
    let limit = json!({"limit": [{"type": "slow.*", "concurrency": 1}]});
    for isolation in [Isolation::Shared, Isolation::Sharded] {
        let (redis, clock) = (Arc::new(TestRedis::start()), Clock::manual(NOON));
        let with_isolation = |config: &mut fairgate::config::Config| config.tenancy.isolation = isolation;
        let before = DispatchEnv::open_with(&redis, clock.clone(), json!({}), with_isolation).await;
        let slow = |tenant: Option<&str>| {
            let mut slow = job("q", tenant, 0);
            slow["type"] = "slow.job".into();
            slow
        };
        before
            .enqueue_all(vec![slow(Some("a")), slow(Some("a")), slow(None), slow(None), job("q", Some("a"), 0)])
            .await;
        let mut later = slow(Some("a"));
        later["scheduled_at"] = "+PT10S".into();
        before.enqueue_all(vec![later]).await;
        drop(before);

        let env = DispatchEnv::open_with(&redis, clock.clone(), limit.clone(), with_isolation).await;
        let is_slow = |record: &Record| record.kind == "slow.job";
        let mut running = Vec::new();
        let mut done = 0;
        for step in 0..8 {
            running.extend(env.fetch(from(&["q"], 20)).await);
            invariant::check(&env).await;
            env.assert_consistent().await;
            assert!(running.iter().filter(|record| is_slow(record)).count() <= 1, "step {step}: {running:?}");
            for record in running.drain(..) {
                env.ack(&record).await;
                done += 1;
            }
            if step == 4 {
                clock.advance(20 * SECOND);
                env.tick().await;
            }
        }
        assert_eq!(done, 6, "{isolation:?}");
        env.enqueue_all(vec![slow(None), slow(Some("a")), slow(None)]).await;
        drop(env);

        let after = DispatchEnv::open_with(&redis, clock, json!({}), with_isolation).await;
        assert_eq!(after.fetch(from(&["q"], 20)).await.len(), 3, "and no more once it is gone");
        invariant::check(&after).await;
        after.app.assert_consistent().await;
    }
}

#[tokio::test]
async fn a_limit_on_a_queue_holds_for_jobs_from_before_it_was_set() {
    let env = DispatchEnv::open(json!({})).await;
    env.push("q", 10).await;
    env.push_for(&[("a", 10)]).await;
    put(&env, "/v1/admin/queues/q/rate-limit", json!({"limit": 3, "period": "minute"})).await;
    assert_eq!(env.turns(20).await.len(), 3);
    env.clock.advance(61 * SECOND);
    assert_eq!(env.turns(20).await.len(), 3);
    invariant::check(&env).await;
}

/// With random changes while jobs arrive, wait, run and are cancelled, each job is in one lane and leaves it once.
#[tokio::test]
async fn changes_in_any_order_lose_nothing() {
    for seed in 0..2 {
        let mut random = Random(seed);
        let env = if seed % 2 == 0 { open_shared(json!({})).await } else { DispatchEnv::open(json!({})).await };
        let strict = json!({"tenant_fairness": {"enabled": true, "strategy": "strict", "default_weight": 3}});
        let own = json!({"queues": {"q": {"tenant_fairness": {"enabled": true, "weights": {"a": 4}}}}});
        let changes = [
            on(),
            off(),
            strict,
            own,
            json!({"queues": {"q": {"tenant_fairness": null}}}),
            json!({"tenant_fairness": {"enabled": null}}),
        ];
        let tenants = [Some("a"), Some("b"), Some("c"), None];
        let (mut waiting, mut running, mut done) = (Vec::new(), Vec::new(), 0);
        let mut pushed = 0;
        for _ in 0..120 {
            match random.below(10) {
                0..=2 => {
                    let mut one = job("q", tenants[random.below(4)], random.below(2) as i64);
                    if random.below(3) == 0 {
                        one["rate_limit"] = json!({"key": format!("k{}", random.below(2)), "concurrency": 2});
                    }
                    let jobs = 1 + random.below(40);
                    waiting.extend(env.enqueue_all(vec![one; jobs]).await);
                    pushed += jobs;
                }
                3 => env.put_scheduling(changes[random.below(changes.len())].clone()).await,
                4 => {
                    let limits = [json!(null), json!(0), json!(1), json!(5)][random.below(4)].clone();
                    let tenant = ["a", "b"][random.below(2)];
                    let path = format!("/v1/admin/tenants/{tenant}/limits");
                    put(&env, &path, json!({"max_concurrency": limits})).await;
                }
                5 => {
                    if let Some(place) = random.below(1000).checked_rem(waiting.len()) {
                        let id = waiting.swap_remove(place);
                        env.client.delete(&format!("/v1/jobs/{id}")).await.expect(200);
                        done += 1;
                    }
                }
                6 => {
                    if let Some(place) = random.below(1000).checked_rem(running.len()) {
                        let record: Record = running.swap_remove(place);
                        let back = json!({"job_id": record.id, "requeue": true});
                        env.client.post("/v1/workers/nack", back).await.expect(200);
                        waiting.push(record.id);
                    }
                }
                _ => {
                    for record in running.drain(..running.len() / 2) {
                        env.ack(&record).await;
                        done += 1;
                    }
                    let tenant = (random.below(4) == 0).then(|| "b".to_owned());
                    let fetch = fairgate::store::Fetch { tenant, ..from(&["q"], 1 + random.below(20)) };
                    for record in env.fetch(fetch).await {
                        let place = waiting.iter().position(|id| *id == record.id).expect("one that waits");
                        waiting.swap_remove(place);
                        running.push(record);
                    }
                }
            }
            invariant::check(&env).await;
        }
        env.assert_consistent().await;
        for tenant in ["a", "b"] {
            put(&env, &format!("/v1/admin/tenants/{tenant}/limits"), json!({"max_concurrency": null})).await;
        }
        while done < pushed {
            for record in running.drain(..) {
                env.ack(&record).await;
                done += 1;
            }
            running = env.fetch(from(&["q"], 64)).await;
            assert!(!running.is_empty() || done == pushed, "{} of {pushed} are stuck", pushed - done);
        }
        invariant::check(&env).await;
        env.assert_consistent().await;
        assert!(env.redis.keys_with("level:").await.is_empty());
    }
}
