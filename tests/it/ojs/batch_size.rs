//! `enqueue_jobs = "auto"` in front of another server, which does not report how many workers it has.

use super::*;
use crate::support::{Flood, Workers};
use fairgate::domain::job::State;
use std::time::Duration;

/// Two workers with jobs of 1 s start at most 8 jobs in any 3 s, which is the smallest target latency here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_after_sparse_jobs_does_not_flood_the_server() {
    let remote = TestApp::start().await;
    let app = before(&[rule(|_| {})], Ojs::at(&url_of(&remote))).await;
    let workers = Workers::start(&remote.client, "heavy", 2, Duration::from_secs(1));
    let push = async |tenant: &str, jobs| _ = push(&app.client, tenant, jobs).await;
    let depth = async || remote.app.store.queue_counts("heavy").await.unwrap()[&State::Available] as u64;
    let flood = Flood::run(300, push, depth, || workers.taken()).await;
    assert!(flood.deepest <= 9, "{} jobs in the main queue", flood.deepest);
    assert!(flood.overtaking <= 16, "{} jobs were taken before the quiet tenant's", flood.overtaking);
}
