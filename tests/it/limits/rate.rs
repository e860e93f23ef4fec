//! Rate windows: in any window, as many starts as the limit allows and not more.

use super::{LimitsEnv, NOON, SECOND, concurrency, rate};
use crate::support::json;
use fairgate::store::LimitLayer;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};

/// L4-RL-001: one start per second for the whole queue,
#[tokio::test]
async fn one_a_second_gives_one_then_none_then_the_next() {
    let env = LimitsEnv::open().await;
    let jobs = env.push_many(3, "q", json!({"max_per_second": 1})).await;
    assert_eq!(env.fetch("q", 1).await, jobs[..1]);
    assert!(env.fetch("q", 1).await.is_empty());
    env.advance(999).await;
    assert!(env.fetch("q", 1).await.is_empty());
    env.advance(1).await;
    assert_eq!(env.fetch("q", 3).await, jobs[1..2]);
    env.advance(1500).await;
    assert_eq!(env.fetch("q", 3).await, jobs[2..]);
    assert_eq!(env.limit("queue:q").await.started, 1);
    env.audit().await;
}

#[tokio::test]
async fn a_window_slides_and_does_not_jump() {
    let env = LimitsEnv::open().await;
    let jobs = env.push_many(8, "q", json!({"key": "k", "rate": {"limit": 3, "period": "PT10S"}})).await;
    assert_eq!(env.fetch("q", 2).await, jobs[..2]);
    env.advance(9 * SECOND).await;
    assert_eq!(env.fetch("q", 5).await, jobs[2..3]);
    let limit = env.limit("k").await;
    assert_eq!((limit.started, limit.waiting(), limit.room), (3, 5, Some(0)));
    assert_eq!(limit.resets_at, Some(NOON + 19 * SECOND), "when all of them are out");
    env.audit().await;
    env.advance(SECOND).await;
    assert_eq!(env.fetch("q", 5).await, jobs[3..5], "the first two are out, the third is not");
    env.advance(8999).await;
    assert!(env.fetch("q", 5).await.is_empty());
    env.advance(1).await;
    assert_eq!(env.fetch("q", 5).await, jobs[5..6]);
    env.audit().await;
}

/// An idle limit is forgotten after an hour, but not while a start still counts.
#[tokio::test]
async fn a_start_counts_for_its_whole_period_even_if_the_limit_is_idle() {
    let env = LimitsEnv::open().await;
    let a_day = json!({"key": "k", "rate": {"limit": 1, "period": "P1D"}});
    let first = env.push("q", a_day.clone()).await;
    assert_eq!(env.fetch("q", 1).await, [&*first]);
    env.ack(&first).await;
    env.advance(7200 * SECOND).await;
    while env.store().retain().await.unwrap() {}
    let second = env.push("q", a_day).await;
    assert!(env.fetch("q", 1).await.is_empty(), "one a day");
    env.advance((86_400 - 7200) * SECOND).await;
    assert_eq!(env.fetch("q", 1).await, [second]);
}

/// Slots that become free without fetches are available to all waiting jobs later.
#[tokio::test]
async fn slots_freed_by_time_wake_as_many_lanes() {
    let env = LimitsEnv::open().await;
    let mut jobs = Vec::new();
    for priority in (0..6).rev() {
        jobs.push(env.push_at("q", priority, json!({"key": "k", "rate": {"limit": 3, "period": "PT1S"}})).await);
    }
    for n in 0..3 {
        assert_eq!(env.fetch("q", 1).await, jobs[n..=n]);
        env.advance(10).await;
    }
    assert!(env.fetch("q", 9).await.is_empty());
    env.advance(970).await; // the first has left the window,
    env.advance(500).await; // and then all
    env.audit().await;
    assert_eq!(env.fetch("q", 9).await, jobs[3..]);
    env.audit().await;
}

/// A start counts, no matter how the job ends.
#[tokio::test]
async fn a_finished_job_still_counts_as_started() {
    let env = LimitsEnv::open().await;
    let jobs = env.push_many(3, "q", json!({"key": "k", "rate": {"limit": 2, "period": "PT1M"}})).await;
    let started = env.fetch("q", 5).await;
    env.ack_all(&started).await;
    assert!(env.fetch("q", 5).await.is_empty());
    env.advance(60 * SECOND).await;
    assert_eq!(env.fetch("q", 5).await, jobs[2..]);
}

#[derive(Clone, Debug)]
struct Run {
    limit: u32,
    period: u64,
    /// Pauses without fetches, and the numbers of jobs fetched after them.
    asks: Vec<(i64, usize)>,
}

fn run() -> impl Strategy<Value = Run> {
    let limits = prop_oneof![Just(1u32), 2u32..8, Just(20), Just(64), 65u32..120];
    let periods = prop_oneof![1u64..5, Just(100), Just(1000), Just(60_000)];
    (limits, periods).prop_flat_map(|(limit, period)| {
        let pause = prop_oneof![3 => 0..=period as i64 / 20 + 1, 2 => 0..=period as i64, 1 => Just(period as i64)];
        let most = (limit as usize + 2).min(48);
        let asks = prop::collection::vec((pause, 1usize..most), 1..25);
        asks.prop_map(move |asks| Run { limit, period, asks })
    })
}

/// Compares the starts with an exact log of all starts.
async fn check(env: &LimitsEnv, name: &str, run: &Run) {
    let jobs: usize = run.asks.iter().map(|(_, count)| count).sum();
    env.push_many(jobs, name, json!({"key": name})).await;
    env.set(name, LimitLayer::Override, rate(run.limit, run.period), None).await;
    let mut starts: Vec<i64> = Vec::new();
    for (pause, count) in &run.asks {
        env.clock.advance(*pause);
        let now = env.clock.now_ms();
        let within = |period: i64| starts.iter().filter(|start| **start > now - period).count();
        let left = |counted: usize| (run.limit as usize).saturating_sub(counted).min(*count);
        let most = left(within(run.period as i64));
        let got = env.fetch(name, *count).await;
        assert!(got.len() <= most, "{} in one window", within(run.period as i64) + got.len());
        // Up to 64 starts are exact; with more, a start counts for up to 1/64 of the period too long.
        let is_exact = starts.len() + got.len() <= 64;
        let longer = if is_exact { 0 } else { run.period as i64 / 64 + 1 };
        assert!(got.len() >= left(within(run.period as i64 + longer)), "not less than allowed");
        starts.extend(got.iter().map(|_| now));
        env.ack_all(&got).await;
    }
}

#[test]
fn no_window_ever_holds_more_than_the_limit() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let env = runtime.block_on(LimitsEnv::open());
    let config =
        ProptestConfig { cases: 40, rng_seed: RngSeed::Fixed(6), failure_persistence: None, ..Default::default() };
    let names = std::sync::atomic::AtomicUsize::new(0);
    let outcome = TestRunner::new(config).run(&run(), |run| {
        let name = format!("k{}", names.fetch_add(1, std::sync::atomic::Ordering::SeqCst));
        runtime.block_on(check(&env, &name, &run));
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    runtime.block_on(env.audit());
}

/// A queue's own window, independent of others.
#[tokio::test]
async fn a_queue_has_its_own_window() {
    let env = LimitsEnv::open().await;
    let quota = fairgate::domain::limit::Quota { concurrency: Some(3), ..rate(4, 1000) };
    env.set("queue:q", LimitLayer::Admin, quota, None).await;
    let jobs = env.push_many(9, "q", json!(null)).await;
    let first = env.fetch("q", 9).await;
    assert_eq!(first, jobs[..3]);
    env.ack_all(&first).await;
    assert_eq!(env.fetch("q", 9).await, jobs[3..4], "four a second");
    env.set("queue:q", LimitLayer::Override, concurrency(0), None).await;
    env.advance(SECOND).await;
    assert!(env.fetch("q", 9).await.is_empty());
    assert!(env.unset("queue:q", LimitLayer::Override).await);
    assert_eq!(env.fetch("q", 9).await, jobs[4..6], "one still runs");
    assert!(env.unset("queue:q", LimitLayer::Admin).await);
    assert_eq!(env.fetch("q", 9).await, jobs[6..]);
    env.audit().await;
}
