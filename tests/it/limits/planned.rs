//! Limits and planned types: a paused key blocks its own jobs, not the gate for all others.

use super::{LimitsEnv, job};
use crate::support::json;
use fairgate::domain::plan::Rule;
use fairgate::store::{Begun, Ended, Promoted, Round, Why};
use serde_json::Value;

fn rule() -> Rule {
    Rule::new("plan", &["test.*"])
}

async fn env() -> LimitsEnv {
    LimitsEnv::with(|config| config.plan = vec![rule()]).await
}

fn of(tenant: &str, rate_limit: Value) -> Value {
    let mut job = job("q", 0, rate_limit);
    job["meta"] = json!({"tenant_id": tenant});
    job
}

async fn begin(env: &LimitsEnv) -> Round {
    match env.store().begin_round(&rule(), "test", Why::Run, None).await.unwrap() {
        Begun::Round(round) => round,
        other => panic!("no round: {other:?}"),
    }
}

/// Runs a round that promotes up to `jobs` jobs.
async fn promote(env: &LimitsEnv, jobs: u64) -> u64 {
    let round = begin(env).await;
    let mut total = 0;
    for queue in &round.queues {
        match env.store().promote("plan", &round.token, &queue.queue, jobs).await.unwrap() {
            Promoted::Jobs { promoted, .. } => total += promoted,
            other => panic!("not promoted: {other:?}"),
        }
    }
    let ended = Ended { document: "{}".to_owned(), promoted: total, ..Ended::default() };
    assert!(env.store().end_round("plan", &round.token, round.number, &ended).await.unwrap());
    total
}

#[tokio::test]
async fn a_tenant_whose_key_is_paused_blocks_no_other_tenant() {
    let env = env().await;
    env.push("q", json!(null)).await; // passes; from here on they are staged
    let paused = of("a", json!({"key": "tenant:a", "concurrency": 0}));
    let free = of("b", json!({"key": "tenant:b", "concurrency": 9}));
    let jobs = env.enqueue_all(vec![paused.clone(), free.clone(), paused, free]).await;
    assert_eq!(env.event_data("job.staged").await.len(), 4);
    assert_eq!(promote(&env, 50).await, 4);
    env.audit().await;
    let got = env.fetch("q", 9).await;
    assert_eq!(got[1..], [jobs[1].clone(), jobs[3].clone()], "those of b, behind the first");
    assert_eq!(env.limit("tenant:a").await.waiting(), 2);
    env.audit().await;
}

/// Blocked jobs count neither as depth nor as latency:
#[tokio::test]
async fn blocked_jobs_neither_fill_a_queue_nor_make_it_late() {
    let env = env().await;
    env.push("q", json!(null)).await;
    let blocked = (0..30).map(|_| of("a", json!({"key": "tenant:a", "concurrency": 0})));
    env.enqueue_all(blocked.collect()).await;
    assert_eq!(promote(&env, 50).await, 30);
    let first = env.fetch("q", 9).await;
    assert_eq!(first.len(), 1);
    env.advance(3_600_000).await;
    env.ack_all(&first).await;
    env.audit().await;
    for _ in 0..2 {
        env.enqueue_all(vec![of("b", json!(null))]).await; // the first passes
    }
    let round = begin(&env).await;
    let seen = &round.queues[0];
    assert_eq!((seen.depth, seen.oldest), (1, Some(env.clock.now_ms())), "the one that passed");
    assert_eq!(env.fetch("q", 9).await.len(), 1, "which runs");
    env.audit().await;
}

/// The limits in a staged job apply from its enqueue, not from its promotion.
#[tokio::test]
async fn limits_of_staged_jobs_apply_as_well() {
    let env = env().await;
    env.push("q", json!(null)).await;
    for most in [1, 2] {
        env.enqueue_all(vec![of("a", json!({"key": "tenant:a", "concurrency": most})); 3]).await;
    }
    promote(&env, 50).await;
    assert_eq!(env.fetch("q", 9).await.len(), 1 + 2);
    assert_eq!(env.limit("tenant:a").await.quota, super::concurrency(2));
    env.audit().await;
}
