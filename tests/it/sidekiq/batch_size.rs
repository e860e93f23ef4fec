//! `enqueue_jobs = "auto"` with a real Sidekiq: its queue holds as many jobs as its threads can use and not more.

use super::ruby::{Worker, WorkerOptions};
use super::*;
use crate::support::Flood;

/// Four threads with jobs of 200 ms start at most 14 jobs in any 500 ms, on any machine.
const MOST: u64 = 16;
const SLOW: WorkerOptions<'_> =
    WorkerOptions { queues: &["heavy"], threads: 4, takes: 0.2, database: 0, fails: false, retries: "true" };

async fn depth(redis: &TestRedis) -> u64 {
    redis.command(&["LLEN", "queue:heavy"]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_after_sparse_jobs_does_not_flood_the_queue() {
    let app = beside(&[rule(|_| {})], legacy(|_| {})).await;
    let worker = Worker::start(&app.redis, &SLOW);
    let push = async |tenant: &str, jobs| _ = push(&app.client, tenant, jobs).await;
    let taken = || worker.ran().iter().map(|ran| ran.tenant()).collect();
    let flood = Flood::run(300, push, async || depth(&app.redis).await, taken).await;
    assert!(flood.deepest <= MOST, "{} jobs in the main queue", flood.deepest);
    assert!(flood.overtaking <= 24, "{} jobs were taken before the quiet tenant's", flood.overtaking);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_queue_grows_for_fast_workers_and_shrinks_again_for_slow_ones() {
    let app = beside(&[rule(|_| {})], legacy(|_| {})).await;
    push(&app.client, "noisy", 1000).await;
    push(&app.client, "noisy", 1000).await;
    let fast = Worker::start(&app.redis, &WorkerOptions { takes: 0.02, ..SLOW });
    let mut deepest = 0;
    eventually("fast workers have completed some jobs", async || {
        deepest = deepest.max(depth(&app.redis).await);
        fast.ran().len() >= 200
    })
    .await;
    // Four threads with jobs of 20 ms start at most 104 jobs in any 500 ms.
    assert!(deepest <= 108, "{deepest} jobs in the main queue");
    drop(fast);
    let slow = Worker::start(&app.redis, &SLOW);
    eventually("the backlog for fast workers is gone", async || depth(&app.redis).await <= MOST).await;
    let (done, mut deepest) = (slow.ran().len(), 0);
    eventually("slow workers have completed some jobs", async || {
        deepest = deepest.max(depth(&app.redis).await);
        slow.ran().len() >= done + 30
    })
    .await;
    // A killed process stays listed for another minute, with its four threads.
    assert!(deepest <= MOST + 4, "{deepest} jobs in the main queue");
}

/// Writes a process record like the given version of Sidekiq.
async fn report(redis: &TestRedis, info: &str, more: &[&str]) {
    let record = [&["HSET", "host:1:a", "info", info, "busy", "0", "quiet", "false"], more].concat();
    redis.command::<i64>(&record).await;
    redis.command::<i64>(&["SADD", "processes", "host:1:a"]).await;
}

/// A cold start fills the threads that serve the queue, not those of other capsules.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cold_start_goes_by_the_threads_of_the_capsule() {
    let eight = |concurrency: &str| {
        format!(
            r#"{{{concurrency}"capsules":{{"default":{{"concurrency":20,"mode":"strict","weights":{{"light":0}}}},
            "heavy":{{"concurrency":3,"mode":"strict","weights":{{"heavy":0}}}}}},"queues":["light","heavy"],
            "weights":[{{"light":0}},{{"heavy":0}}],"version":"8.1.1"}}"#
        )
    };
    let seven =
        r#"{"concurrency":23,"queues":["light","heavy"],"weights":[{"light":0},{"heavy":0}],"version":"7.3.10"}"#;
    let six = r#"{"concurrency":3,"queues":["light","heavy"]}"#;
    for (info, more, threads) in [
        (six, &[][..], 3),
        (seven, &[], 1), // it does not report how many of the 23 serve the queue
        (&eight(r#""concurrency":23,"#), &[], 3),
        (&eight(""), &["concurrency", "23"], 3),
    ] {
        let app = beside(&[rule(|_| {})], legacy(|_| {})).await;
        report(&app.redis, info, more).await;
        push(&app.client, "noisy", 100).await;
        let rounds = async || app.client.get("/v1/admin/planner/r").await.expect(200).at("/rounds/total").as_u64();
        eventually("rounds were run", async || rounds().await >= Some(2)).await;
        assert_eq!(depth(&app.redis).await, threads, "{info}");
    }
}
