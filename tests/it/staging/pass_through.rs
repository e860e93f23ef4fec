//! Jobs that need not wait: staging is empty and the main queue has room.

use super::{SECOND, StagingEnv, planned};
use crate::support::json;
use fairgate::domain::plan::Batch;
use fairgate::domain::tenant::Weight;
use fairgate::store::{Begun, Why};
use serde_json::Value;

#[tokio::test]
async fn a_single_job_passes_through_and_the_second_waits_for_a_round() {
    let env = StagingEnv::open().await;
    let created = env.client.post("/v1/jobs", planned("a")).await.expect(201);
    assert_eq!((created.text_at("/job/state"), created.at("/job").get("x_staged")), ("available", None));
    let second = env.push("a").await;
    assert!(env.is_staged(&second).await);
    // Workers are fast, but a waiting tenant is not overtaken.
    env.client.fetch("default", 1).await;
    let third = env.push("b").await;
    assert!(env.is_staged(&third).await);
    assert_eq!(env.round(1).await, 1);
    assert_eq!(env.state(&second).await, "available");
    assert!(env.is_staged(&third).await);
}

/// Enqueues jobs of tenants in one request; returns for each if it is staged.
async fn push_together(env: &StagingEnv, jobs: &[Value]) -> Vec<bool> {
    let answer = env.client.post("/v1/jobs/batch", json!({"jobs": jobs})).await.expect(201);
    (0..jobs.len()).map(|place| answer.text_at(&format!("/jobs/{place}/state")) == "pending").collect()
}

#[tokio::test]
async fn a_batch_passes_only_if_all_of_it_fits() {
    let env = StagingEnv::with(|rule| rule.batch = Batch::Jobs(3)).await;
    let [a, b] = [planned("a"), planned("b")];
    assert_eq!(push_together(&env, &[a.clone(), b.clone(), a.clone(), b.clone()]).await, [true; 4]);
    assert_eq!((env.staged().await, env.round(9).await), (4, 4));
    env.client.fetch("default", 9).await;
    env.clock.advance(SECOND);
    assert_eq!(push_together(&env, &[a.clone(), b.clone(), a.clone()]).await, [false; 3]);
    assert_eq!(push_together(&env, &[a.clone(), b.clone()]).await, [true; 2], "nothing is left of the interval");
}

/// Jobs of a request for other queues, without a rule or for later do not count.
#[tokio::test]
async fn jobs_for_other_queues_or_later_need_no_room() {
    let env = StagingEnv::with(|rule| rule.max_depth = 1).await;
    let in_queue = |queue: &str| json!({"type": "test.job", "args": [], "queue": queue, "meta": {"tenant_id": "a"}});
    let mut later = in_queue("x");
    later["scheduled_at"] = json!("+PT1H");
    let other = json!({"type": "other.job", "args": [], "queue": "x"});
    let jobs = [in_queue("x"), later, in_queue("y"), other, in_queue("y")];
    assert_eq!(push_together(&env, &jobs).await, [false, false, true, false, true]);
}

#[tokio::test]
async fn a_strict_interval_is_woken_for_the_rest_of_its_batch() {
    let env = StagingEnv::with(|rule| (rule.batch, rule.strict_interval) = (Batch::Jobs(3), true)).await;
    env.push("a").await;
    assert_eq!(push_together(&env, &vec![planned("a"); 3]).await, [true; 3], "one too many");
    let Begun::Round(round) = env.begin(Why::Wake).await else { panic!("two more can be promoted") };
    assert_eq!((round.scheduled, round.room), (false, 2));
    assert_eq!(env.finish_round(round, 9).await, 2);
    assert!(matches!(env.begin(Why::Wake).await, Begun::Early { .. }));
}

#[tokio::test]
async fn nothing_passes_through_with_a_held_tenant_or_a_paused_rule() {
    let env = StagingEnv::with(|rule| _ = rule.weights.fixed.insert("held".to_owned(), Weight::HELD)).await;
    let held = env.push("held").await;
    assert!(env.is_staged(&held).await);
    let other = env.push("other").await;
    assert!(!env.is_staged(&other).await, "others do not wait for a tenant that is held");
    env.client.fetch("default", 1).await;

    env.store().pause_rule("plan", true, "test").await.unwrap();
    let paused = env.push("other").await;
    assert!(env.is_staged(&paused).await);
    assert_eq!(env.begin(Why::Tick).await, Begun::Paused);
    assert_eq!(env.begin(Why::Run).await, Begun::Paused);
    env.store().pause_rule("plan", false, "test").await.unwrap();
    assert_eq!((env.round(9).await, env.staged().await), (1, 1));
    assert!(env.is_staged(&held).await);
}

#[tokio::test]
async fn nothing_passes_a_closed_gate() {
    let old = StagingEnv::with(|rule| (rule.batch, rule.latency_threshold) = (Batch::Jobs(100), 5000)).await;
    old.push("a").await;
    old.app.clock.advance(5 * SECOND);
    let young = old.push("a").await;
    old.app.clock.advance(1);
    let late = old.push("a").await;
    assert_eq!((old.is_staged(&young).await, old.is_staged(&late).await), (false, true));
    let deep = StagingEnv::with(|rule| (rule.batch, rule.max_depth) = (Batch::Jobs(100), 2)).await;
    let ids = [deep.push("a").await, deep.push("a").await, deep.push("a").await];
    assert_eq!((deep.is_staged(&ids[1]).await, deep.is_staged(&ids[2]).await), (false, true));
}

#[tokio::test]
async fn a_strict_interval_is_never_exceeded() {
    let env = StagingEnv::with(|rule| (rule.batch, rule.strict_interval) = (Batch::Jobs(3), true)).await;
    let client = &env.client;
    let mut staged = Vec::new();
    for _ in 0..5 {
        staged.push(env.is_staged(&env.push("a").await).await);
    }
    assert_eq!(staged, [false, false, false, true, true]);
    // An empty main queue changes nothing.
    assert_eq!(client.fetch("default", 9).await.job_ids().len(), 3);
    for why in [Why::Tick, Why::Wake] {
        assert_eq!(env.begin(why).await, Begun::Early { due: super::NOON + SECOND, now: super::NOON });
    }
    env.clock.advance(SECOND);
    let Begun::Round(round) = env.begin(Why::Tick).await else { panic!("it is due") };
    assert_eq!((round.scheduled, round.room), (true, 3));
    assert_eq!(env.finish_round(round, 9).await, 2);
    // The rest of the interval's batch may pass through.
    let (third, fourth) = (env.push("a").await, env.push("a").await);
    assert_eq!((env.is_staged(&third).await, env.is_staged(&fourth).await), (false, true));
    assert_eq!(client.fetch("default", 9).await.job_ids().len(), 3);
    assert_eq!(env.begin(Why::Wake).await, Begun::Early { due: super::NOON + 2 * SECOND, now: super::NOON + SECOND });
}

/// With any mix of jobs, workers and rounds, workers get at most one batch per interval.
#[tokio::test]
async fn strict_intervals_bound_what_workers_get() {
    let env = StagingEnv::with(|rule| (rule.batch, rule.strict_interval) = (Batch::Jobs(4), true)).await;
    let mut got = Vec::new();
    for step in 0..40 {
        for _ in 0..[0, 3, 1, 0, 2][step % 5] {
            env.push(["a", "b"][step % 2]).await;
        }
        for why in [Why::Tick, Why::Wake] {
            if let Begun::Round(round) = env.begin(why).await {
                env.finish_round(round, 100).await;
            }
        }
        let fetched = env.client.fetch("default", 50).await.job_ids().len();
        got.extend(std::iter::repeat_n(env.clock.now_ms(), fetched));
        env.clock.advance(250);
    }
    assert!(got.len() >= 30, "{} in ten seconds", got.len());
    // Nine consecutive jobs belong to at least three intervals, so they span a whole one.
    for nine in got.windows(9) {
        assert!(nine[8] - nine[0] >= SECOND, "{got:?}");
    }
}

#[tokio::test]
async fn without_a_strict_interval_a_dry_queue_lets_one_pass() {
    let env = StagingEnv::with(|rule| rule.batch = Batch::Jobs(2)).await;
    let ids = [env.push("a").await, env.push("a").await];
    assert!(!env.is_staged(&ids[0]).await && !env.is_staged(&ids[1]).await);
    env.client.fetch("default", 2).await;
    let (third, fourth) = (env.push("a").await, env.push("a").await);
    assert_eq!((env.is_staged(&third).await, env.is_staged(&fourth).await), (false, true));
    assert!(matches!(env.begin(Why::Wake).await, Begun::Round(_)), "and wakes the planner");
}
