//! `enqueue_jobs = "auto"` end to end: the main queue stays short at any speed of the workers and hardly ever empty.
//! `src/domain/plan/batch_size.rs` tests the same with simulated time and tight bounds; here the machine may be slow.

use super::{depth, planning, push, rule, stage, status, work};
use crate::support::{Flood, TestApp, Workers};
use fairgate::domain::plan::Pace;
use std::time::{Duration, Instant};

const LATENCY: u64 = 200;

/// Works at a steady rate for a while; returns the final depth and the number of completed jobs.
async fn at_rate(app: &TestApp, per_second: f64, lasting: Duration) -> (i64, usize) {
    let (started, mut done) = (Instant::now(), 0);
    while started.elapsed() < lasting {
        let owed = (started.elapsed().as_secs_f64() * per_second) as usize;
        match owed.saturating_sub(done) {
            0 => tokio::time::sleep(Duration::from_millis(2)).await,
            // Delays are not caught up.
            some => {
                work(&app.client, some.min(10)).await;
                done = owed;
            }
        }
    }
    (depth(app).await, done)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_main_queue_follows_its_workers() {
    let app = planning(&[rule(|rule| {
        rule.pace = Pace::Every(100);
        rule.target_latency = LATENCY;
    })])
    .await;
    stage(&app, &[("a", 1000), ("b", 1000), ("c", 1000)]).await;
    let started = Instant::now();
    // The last phase is longer than the period over which rates are measured.
    for (rate, seconds) in [(20.0, 2), (200.0, 2), (20.0, 5)] {
        let (depth, done) = at_rate(&app, rate, Duration::from_secs(seconds)).await;
        let most = (rate * LATENCY as f64 / 1000.0 * 3.0) as i64 + 4;
        assert!(depth <= most, "at {rate}/s {depth} jobs wait, more than {most}");
        assert!(done as f64 >= rate * seconds as f64 * 0.5, "at {rate}/s {done} in {seconds} s");
    }
    let (wasted, took) = (status(app.store()).await.wasted_ms, started.elapsed().as_millis() as u64);
    assert!(wasted * 10 <= took, "workers waited {wasted} of {took} ms although jobs were staged");
}

/// Four workers with jobs of 500 ms start at most 8 jobs in any 500 ms, on any machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_after_sparse_jobs_does_not_flood_the_main_queue() {
    let app = planning(&[rule(|_| {})]).await;
    let workers = Workers::start(&app.client, "q", 4, Duration::from_millis(500));
    let push = async |tenant: &str, jobs| _ = push(&app.client, tenant, jobs).await;
    let depth = async || depth(&app).await as u64;
    let flood = Flood::run(300, push, depth, || workers.taken()).await;
    assert!(flood.deepest <= 9, "{} jobs in the main queue", flood.deepest);
    assert!(flood.overtaking <= 16, "{} jobs were taken before the quiet tenant's", flood.overtaking);
}
